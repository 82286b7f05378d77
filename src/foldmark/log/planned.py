"""The planning conversations of agents, past and open, as recorded events tell where they lie [SPEC 4.2].

Recall never finds them: what was said about forgetting a topic is not what was said about the topic.
"""

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter

from foldmark.core.codec import operation_of
from foldmark.core.errors import DamagedError
from foldmark.core.events import Filter, Operation, PlanningEnded
from foldmark.core.ports import Snapshot
from foldmark.core.segments import END, Segment
from foldmark.request.planning import ends

_Span = tuple[int, int]


class Planned:
    """Tells which messages belong to a planning conversation; reads the operations of an agent when first asked."""

    def __init__(self, moment: Snapshot) -> None:
        self._moment = moment
        self._spans: dict[str, tuple[_Span, ...]] = {}

    def __call__(self, agent_id: str, event_id: int) -> bool:
        """Return True if this message of this agent belongs to a planning conversation."""
        if agent_id not in self._spans:
            try:
                self._spans[agent_id] = spans(self._moment, agent_id)
            except DamagedError:
                self._spans[agent_id] = ()  # a damaged conversation must not end the search of all others
        mine = self._spans[agent_id]
        at = bisect_right(mine, event_id, key=itemgetter(0))
        return at > 0 and event_id <= mine[at - 1][1]


def spans(moment: Snapshot, agent_id: str) -> tuple[_Span, ...]:
    """Return the planning conversations of an agent in order as (first, last) event ids; an open one reaches `END`."""
    if not moment.has_planned(agent_id):
        return ()
    recorded: list[tuple[int, Operation | int]] = list(_beginnings(moment, agent_id))
    recorded += [(event.id, operation_of(event)) for event in moment.operations(agent_id)]
    found: dict[int, int] = {}
    goes_on: int | None = None
    for at, each in sorted(recorded, key=itemgetter(0)):
        if isinstance(each, int):
            if each not in found:
                if goes_on is not None:
                    found[goes_on] = each - 1
                found[each], goes_on = END, each
        elif isinstance(each, Filter) and each.planning is not None:
            first, last = each.planning
            found[first] = END if last is None else last
            goes_on = first if last is None else None
        elif goes_on is not None and (isinstance(each, PlanningEnded) or ends(each, agent_id, goes_on)):
            found[goes_on], goes_on = at, None
    return tuple(sorted(found.items()))


def _beginnings(moment: Snapshot, agent_id: str) -> Iterator[tuple[int, int]]:
    """The events that record where a planning conversation begins or goes on, each with the id of its first message."""
    for id in moment.of_kind("command", (Segment(agent_id, 1, END),)):
        event = moment.event(id)
        if event is not None and (began := (event.data or {}).get("planning")):
            yield id, began["first"]
