"""A compacted copy of a session's items: one `summary`, which holds them all [SPEC 3, 5.7].

Copy and originals are never given together. `/restore` of the copy brings the originals back and takes the copy away in
one step. What the copies before it stand for, a copy stands for as well: taking one of those back changes nothing while
a later copy holds.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from foldmark.conversation import Agent, decide
from foldmark.conversation.standing import Standing
from foldmark.core.events import Event, Restore, Summary
from foldmark.core.replay import taken_back
from foldmark.core.segments import END, Segment, Segments, contains, intersect, normal
from foldmark.integrations.openai_agents.giving import newest_first
from foldmark.integrations.openai_agents.keeping import exact, native
from foldmark.integrations.openai_agents.reading import read
from foldmark.integrations.openai_agents.recording import append, end_turn, entries

OPAQUE = "compaction"
"""The item in which the API puts what only it can read."""

_OPAQUE_TOLD = "[A compaction by the provider, which only its own models can read; /restore brings the messages back.]"


class Tail(NamedTuple):
    """The newest items, oldest first; `places` are the event and the number in it of each. `complete` says whether
    there are no older ones."""

    items: list[Any]
    places: list[tuple[int, int]]
    complete: bool


def tail(at: Standing, limit: int) -> Tail:
    """The newest `limit` items of the context, whatever window it has."""
    items: list[Any] = []
    places: list[tuple[int, int]] = []
    complete = True
    for each in newest_first(at, at.visible):
        if len(items) >= limit:
            complete = False
            break
        items += reversed(each.items)
        places += ((each.event.id, number) for number in reversed(range(len(each.items))))
    return Tail(items[:limit][::-1], places[:limit][::-1], complete and len(items) <= limit)


def replace_tail(agent: Agent, found: Tail, start: int, copy: Sequence[Any]) -> bool:
    """Put a copy in the place of `found.items[start:]`, in the batch under way; False if they are not the newest any
    more."""
    if start >= len(found.places):
        return False
    at, (first, kept) = agent.standing(), found.places[start]
    there = list(takewhile(lambda each: each.event.id >= first, newest_first(at, at.visible)))[::-1]
    if [(each.event.id, number) for each in there for number in range(len(each.items))][kept:] != found.places[start:]:
        return False
    # Of one event that stands for several items, an earlier copy, the first may stay.
    replace(agent, [*there[0].items[:kept], *copy], first)
    return True


def replace(agent: Agent, copy: Sequence[Any], first: int = 1) -> None:
    """Put a copy in the place of everything visible from event `first` on, in the batch under way."""
    items = [exact(item) for item in copy]
    end_turn(agent)
    if not agent.standing().size.messages:
        append(agent, entries(items))
        return

    def decision(at: Standing) -> Summary:
        every = decide.summary(at, None)
        return _standing_for(at, every, [Segment(each.agent, first, END) for each in every.ranges], items)

    agent.operate(decision, actor="system", content=_text(items))


def without_last(agent: Agent, copy: Event, rest: Sequence[Any]) -> None:
    """Put the items of a copy but the last in the place of that copy."""

    def decision(at: Standing) -> Summary:
        return _standing_for(at, decide.summary(at, None), [Segment(copy.agent_id, copy.id, copy.id)], rest)

    agent.operate(decision, actor="system", content=_text(rest))


def instead_of_cleared(agent: Agent, items: Sequence[Any]) -> bool:
    """Put a copy in the place of what was cleared just before it, if it is one: so wrappers replace a history that know
    only the methods of every session. The clear is taken back, and what it hid is what the copy stands for."""
    if not any(isinstance(item, dict) and item.get("type") == OPAQUE for item in items):
        return False
    operations = agent.log.store.operations(agent.id)
    cleared = operations[-1] if operations else None
    if cleared is None or (cleared.kind, cleared.actor) != ("clear", "system") or agent.standing().size.messages:
        return False
    target = cleared.id
    agent.operate(lambda _: Restore(target), actor="system")
    replace(agent, items)
    return True


def _standing_for(at: Standing, every: Summary, within: Sequence[Segment], items: Sequence[Any]) -> Summary:
    ranges: Segments = intersect(every.ranges, normal(within))
    operations = decide.recorded(at.store.operations(at.record.id))
    back = taken_back(operations)
    for id, operation in reversed(operations):
        if isinstance(operation, Summary) and id not in back and contains(ranges, at.record.id, id):
            ranges = normal((*ranges, *operation.ranges))
    return Summary(ranges, None, every.state, native(items))


def _text(items: Sequence[Any]) -> str:
    """What a copy says, for whoever reads the conversation elsewhere."""
    said = []
    for item in items:
        if isinstance(item, dict) and item.get("type") == OPAQUE:
            said.append(_OPAQUE_TOLD)
        elif (reading := read(item)).text.strip():
            said.append(f"{reading.kind}: {reading.text}")
    return "\n\n".join(said)
