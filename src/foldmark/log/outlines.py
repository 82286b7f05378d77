"""Outlines of the agents whose messages a search finds, read for many at once [SPEC 7]: what is in their contexts, and
where their planning conversations lie, past and open [SPEC 4.2].

Recall never finds planning conversations: talk about forgetting a topic is not talk about the topic.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from operator import itemgetter

from foldmark.core.codec import operation_of
from foldmark.core.errors import DamagedError
from foldmark.core.events import Event, Filter, PlanningEnded
from foldmark.core.ports import Snapshot
from foldmark.core.segments import END, Segments, contains
from foldmark.request.planning import ends

Spans = tuple[tuple[int, int], ...]
"""Planning conversations of one agent in order, as (first, last) event ids."""


class Outlines:
    """A `core.search.Judge` of one moment. A conversation that cannot be read shows nothing and has no planning
    conversations: it must not end the search of all others."""

    def __init__(self, moment: Snapshot, replayed: Callable[[str], Segments]) -> None:
        """`replayed` returns the segments of an agent that has none stored. Raises DamagedError."""
        self._moment, self._replayed = moment, replayed
        self._visible: dict[str, Segments] = {}
        self._planned: dict[str, Spans] = {}

    def meet(self, agent_ids: Iterable[str]) -> None:
        new = [agent_id for agent_id in dict.fromkeys(agent_ids) if agent_id not in self._planned]
        if not new:
            return
        self._planned |= dict.fromkeys(new, ())
        for agent_id, (fold, planning) in self._moment.outlines(new).items():
            with suppress(DamagedError):
                self._planned[agent_id] = spans(agent_id, planning)
            with suppress(DamagedError):
                self._visible[agent_id] = self._replayed(agent_id) if fold is None else fold.segments

    def shows(self, agent_id: str, event_id: int) -> bool:
        return contains(self.visible(agent_id), agent_id, event_id)

    def plans(self, agent_id: str, event_id: int) -> bool:
        self.meet([agent_id])
        planned = self._planned[agent_id]
        at = bisect_right(planned, event_id, key=itemgetter(0))
        return at > 0 and event_id <= planned[at - 1][1]

    def visible(self, agent_id: str) -> Segments:
        """Return what an agent shows, including what it will append."""
        self.meet([agent_id])
        return self._visible.get(agent_id, ())


def spans(agent_id: str, planning: Sequence[Event]) -> Spans:
    """Return the planning conversations of an agent, from the events `planning` (`ports.Outline`); an open one reaches
    `END`. Raises DamagedError."""
    found: dict[int, int] = {}
    goes_on: int | None = None
    for event in planning:
        at, each = event.id, _beginning(event) if event.kind == "command" else operation_of(event)
        if each is None:
            continue
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


def _beginning(event: Event) -> int | None:
    """Return the first message of the planning conversation that an event opens or continues."""
    began = (event.data or {}).get("planning")
    return began["first"] if began else None
