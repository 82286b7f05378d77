"""A compacted copy of a session's items: one `summary`, which holds them all [SPEC 3, 5.7].

Copy and originals are never given together. `/restore` of the copy brings the originals back and takes the copy away in
one step. What the copies before it stand for, a copy stands for as well: taking one of those back changes nothing while
a later copy holds.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from foldmark.core.assembly.eviction import OPAQUE as OPAQUE_TOLD
from foldmark.core.events import Event, Restore, Summary
from foldmark.core.ports import Snapshot
from foldmark.core.segments import END, Segment
from foldmark.integrations.openai_agents.giving import newest_first
from foldmark.integrations.openai_agents.keeping import exact, is_inline, native
from foldmark.integrations.openai_agents.reading import read
from foldmark.integrations.openai_agents.recording import append, end_turn, entries
from foldmark.log import Agent
from foldmark.operations.summaries import provider_summary
from foldmark.request.standing import Standing

OPAQUE = "compaction"
"""The item in which the API puts what only it can read."""


class Tail(NamedTuple):
    """The newest items, oldest first; `places` are the event and the number in it of each. `complete` says whether
    there are no older ones."""

    items: list[Any]
    places: list[tuple[int, int]]
    complete: bool


def tail(moment: Snapshot, at: Standing, limit: int) -> Tail:
    """The newest `limit` items of the context, whatever window it has."""
    items: list[Any] = []
    places: list[tuple[int, int]] = []
    complete = True
    for each in newest_first(moment, at, at.visible):
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
    first, kept = found.places[start]
    with agent.reading() as (moment, at):
        there = list(takewhile(lambda each: each.event.id >= first, newest_first(moment, at, at.visible)))[::-1]
    if [(each.event.id, number) for each in there for number in range(len(each.items))][kept:] != found.places[start:]:
        return False
    # Of one event that stands for several items, an earlier copy, the first may stay.
    replace(agent, [*there[0].items[:kept], *copy], first)
    return True


def replace(agent: Agent, copy: Sequence[Any], first: int = 1) -> None:
    """Put a copy in the place of everything visible from event `first` on, in the batch under way."""
    items = [exact(item) for item in copy]
    end_turn(agent)
    if not agent.standing().size.messages and not any(map(_is_opaque, items)):
        append(agent, entries(items))
        return
    _summed_up(agent, native(items), items, first)


def without_last(agent: Agent, copy: Event, rest: Sequence[Any]) -> None:
    """Put the items of a copy but the last in the place of that copy."""
    within = [Segment(copy.agent_id, copy.id, copy.id)]
    agent.operate(
        lambda moment, at: provider_summary(moment, at, native(rest), within), actor="system", content=_text(rest)
    )


def add(agent: Agent, items: Sequence[Any]) -> None:
    """Append items, in the batch under way. A compaction among them, which the API made in the midst of a run, takes
    the place of all that stands in front of it; persons' items that came directly before it stay with it, as they do
    in what the API's own endpoint makes."""
    last = max((index for index, item in enumerate(items) if _is_opaque(item)), default=-1)
    if last >= 0:
        before, made = list(items[:last]), [items[last]]
        if all(read(item).kind == "user" for item in before):
            made = [*before, *made]
        else:
            append(agent, entries(before))
        made = [exact(item) for item in made]
        _summed_up(agent, native(made, inline=len(made) == 1), made)
    append(agent, entries(items[last + 1 :]))


def take_back(agent: Agent, event: Event) -> bool:
    """Restore what a compaction replaced if it was added as a single item. Return False for any other event."""
    if not is_inline(event) or event.agent_id != agent.id:
        return False
    agent.operate(lambda *_: Restore(event.id), actor="system")
    return True


def _summed_up(agent: Agent, form: dict[str, Any], items: Sequence[Any], first: int = 1) -> None:
    def decision(moment: Snapshot, at: Standing) -> Summary:
        return provider_summary(moment, at, form, [Segment(each.agent, first, END) for each in at.visible])

    agent.operate(decision, actor="system", content=_text(items))


def _is_opaque(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == OPAQUE


def instead_of_cleared(agent: Agent, items: Sequence[Any]) -> bool:
    """Put a copy in the place of what was cleared just before it, if it is one: so wrappers replace a history that know
    only the methods of every session. The clear is taken back, and what it hid is what the copy stands for."""
    if not any(map(_is_opaque, items)):
        return False
    with agent.reading() as (moment, at):
        operations = [] if at.size.messages else moment.operations(agent.id)
    if not operations or (operations[-1].kind, operations[-1].actor) != ("clear", "system"):
        return False
    target = operations[-1].id
    agent.operate(lambda *_: Restore(target), actor="system")
    replace(agent, items)
    return True


def _text(items: Sequence[Any]) -> str:
    """What a copy says, for whoever reads the conversation elsewhere."""
    said = []
    for item in items:
        if _is_opaque(item):
            said.append(OPAQUE_TOLD)
        elif (reading := read(item)).text.strip():
            said.append(f"{reading.kind}: {reading.text}")
    return "\n\n".join(said)
