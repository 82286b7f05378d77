"""The planning conversations of agents, past and open, as recorded events tell where they lie [SPEC 4.2].

Recall never finds them: what was said about forgetting a topic is not what was said about the topic.
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

from foldmark.core.codec import operation_of
from foldmark.core.events import Event, Filter, PlanningEnded
from foldmark.core.segments import END
from foldmark.request.planning import ends

Spans = tuple[tuple[int, int], ...]
"""Planning conversations of one agent in order, as (first, last) event ids."""


def holds(spans: Spans, event_id: int) -> bool:
    """Return True if an event lies in one of these planning conversations."""
    at = bisect_right(spans, event_id, key=itemgetter(0))
    return at > 0 and event_id <= spans[at - 1][1]


def spans(agent_id: str, planning: Sequence[Event]) -> Spans:
    """Return the planning conversations of an agent, of which `planning` tells (`ports.Outline`); an open one reaches
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
    """The first message of the planning conversation that begins or goes on with an event."""
    began = (event.data or {}).get("planning")
    return began["first"] if began else None
