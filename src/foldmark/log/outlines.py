"""Facts about conversations that a search needs, read for many at once [SPEC 7]: their visible segments, the ranges of
their planning conversations [SPEC 4.2], the neighbours of a message, and the similarity by vectors, if there are any.

Recall never finds planning conversations: talk about forgetting a topic is not talk about the topic. Without
vectors, this module imports no optional package.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from operator import itemgetter

from msgspec import Struct

from foldmark.core import selections
from foldmark.core.agents import AgentRecord
from foldmark.core.codec import operation_of
from foldmark.core.errors import CommandError, DamagedError
from foldmark.core.events import ROLES, Event, Filter, PlanningEnded
from foldmark.core.ports import Snapshot
from foldmark.core.search import Filters, Mode, Similarity, VectorSource
from foldmark.core.segments import END, Segment, Segments, contains
from foldmark.recall.embeddings import EmbeddingError
from foldmark.request.planning import ends

Spans = tuple[tuple[int, int], ...]
"""Planning conversations of one agent in order, as (first, last) event ids."""


class Outlines:
    """A `core.search.Judge` of one moment. A conversation that cannot be read shows nothing and has no planning
    conversations, so that the search of all others continues."""

    def __init__(self, moment: Snapshot, replayed: Callable[[str], Segments]) -> None:
        """`replayed` returns the segments of an agent that has none stored; it may raise DamagedError."""
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
        """Return the visible segments of an agent, including those of its future messages."""
        self.meet([agent_id])
        return self._visible.get(agent_id, ())


def spans(agent_id: str, planning: Sequence[Event]) -> Spans:
    """Return the planning conversations of an agent, from the events `planning` (`ports.Outline`); an open one ends
    with `END`. Raises DamagedError."""
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


MOST = 1000
"""Maximum number of neighbours on each side."""

_FAR = 10_000
"""Range of ids on each side to search for erased messages: only live ones have an index."""


class Neighbour(Struct, frozen=True):
    """A message near another, or that one itself. `visible` is True if it is in the context of the agent that wrote it;
    an `erased` message has no content."""

    event: Event
    visible: bool
    erased: bool = False


def around(moment: Snapshot, visible: Callable[[str], Segments], event_id: int, reach: int) -> list[Neighbour]:
    """Return a message and up to `reach` messages of the same agent on each side of it, in log order.

    Raises CommandError if there is no such message, or for a reach outside 0 to 1000.
    """
    if not isinstance(reach, int) or not 0 <= reach <= MOST:
        raise CommandError(f"the number of neighbours must be from 0 to {MOST}, not {str(reach)[:40]}")
    event = message(moment, event_id)
    agent = event.agent_id
    before = list(islice(moment.select((Segment(agent, 1, event_id - 1),), newest_first=True), reach))
    behind = list(islice(moment.select((Segment(agent, event_id + 1, END),)), reach))
    first = [event_id, *(each.id for each in before)][-1] if len(before) == reach else 1
    last = [event_id, *(each.id for each in behind)][-1] if len(behind) == reach else END
    near = Segment(agent, max(first, event_id - _FAR), min(last, event_id + _FAR))
    gone = {each.id: each for each in selections.tombstones(moment, (near,))}
    found = sorted({event_id: event, **{each.id: each for each in (*before, *behind)}, **gone}.items())
    at = next(place for place, (id, _) in enumerate(found) if id == event_id)
    record = moment.agent(agent)
    shown = visible(agent) if record and not record.deleted else ()
    return [
        Neighbour(each, id not in gone and contains(shown, agent, id), id in gone)
        for id, each in found[max(0, at - reach) : at + reach + 1]
    ]


def message(moment: Snapshot, event_id: int) -> Event:
    """Return the message with this id. Raises CommandError."""
    event = selections.event(moment, event_id) if isinstance(event_id, int) and 0 < event_id < END else None
    if event is None:
        raise CommandError(f"there is no message {str(event_id)[:40]}; a search gives the ids of messages")
    if event.kind not in ROLES:
        raise CommandError(f"event {event_id} is of kind '{event.kind.replace('_', ' ')}', not a message")
    return event


class NoVectorsError(CommandError):
    """A search by vectors alone finds no vectors."""


def similarities(query: str, mode: Mode, sources: Sequence[VectorSource | None]) -> list[Similarity | None]:
    """Return the similarity of each source's messages to a query; None for a search by words, and for a source without
    vectors by the configured model.

    In the modes vector and both, at least one source must have vectors: raises NoVectorsError otherwise, or
    EmbeddingError if the model cannot be used.
    """
    needed = mode in ("vector", "both")
    known: list[Similarity | None] = []
    for source in sources:
        if mode == "text" or source is None or source.vectors is None or not source.vectors.embedders():
            known.append(None)
            continue
        try:
            meanings = source.meanings()
            known.append(meanings.similarity_to(query) if meanings.until is not None else None)
        except EmbeddingError:
            if needed:
                raise
            known.append(None)
    if needed and not any(known):
        raise NoVectorsError("there are no vectors by the configured model; `foldmark index` makes them")
    return known


def passing(records: Sequence[AgentRecord], filters: Filters) -> list[str]:
    """Return the uuids of the agents that pass the filters by agent and by project. A conversation's name excludes all
    other agents, even if their uuids begin with it."""
    named = [each for each in records if filters.agent and each.name == filters.agent]
    begin, part = (filters.agent or "").lower(), (filters.project or "").casefold()
    found = named[:1] or [each for each in records if each.id.startswith(begin)]
    return [each.id for each in found if part in (each.name or "").casefold()]
