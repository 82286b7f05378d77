"""Records items of the SDK in a conversation: each as a message, in turns, or as a compacted copy of many [SPEC 1, 2,
3, 5.7].

The SDK does not say where a run begins and ends. A person's item or an instruction begins a turn, unless it follows
another one in the same list. An answer ends the turn if no call waits for its result; after a failed run, the next turn
ends it. Thinking is recorded with the item that it led to, so no operation separates the two: the API refuses one
without the other.

A compacted copy is one `summary`, which holds all of its items. The copy and its originals are never given together.
`/restore` of the copy brings the originals back and removes the copy in one step. A copy also replaces the originals of
earlier copies: restoring an earlier copy changes nothing while a later copy is in force.
"""

from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from typing import Any, NamedTuple

from foldmark.core import selections
from foldmark.core.assembly.eviction import OPAQUE
from foldmark.core.events import ANSWER_KINDS, Event, Restore, Summary
from foldmark.core.ports import Snapshot
from foldmark.core.segments import END, Segment
from foldmark.integrations.openai_agents.giving import newest_first
from foldmark.integrations.openai_agents.items import (
    DIALECT,
    KEY,
    NO_MESSAGE,
    data_of,
    is_inline,
    is_thought,
    json_copy,
    read,
    summary_form,
    text_of,
)
from foldmark.log import Agent
from foldmark.operations.summaries import provider_summary
from foldmark.request.standing import Standing
from foldmark.wires.parts import CallMessage, Part, ResultMessage
from foldmark.wires.responses import COMPACTION

_BEGINS = ("user", "system")


class PendingMessage(NamedTuple):
    """A message to append; `thinks` is True if its data holds the model's thinking."""

    message: Part
    data: dict[str, Any]
    thinks: bool = False


def entries(items: Iterable[Any]) -> list[PendingMessage]:
    """Return the entries to append for a list of items. Raises CommandError for an item that is not JSON."""
    found: list[PendingMessage] = []
    thoughts: list[Any] = []
    for each in items:
        item = json_copy(each)
        if is_thought(item):
            thoughts.append(item)
            continue
        message = read(item)
        if thoughts and message.kind not in ANSWER_KINDS:
            found.append(thought(thoughts))
            thoughts = []
        found.append(PendingMessage(message, data_of(thoughts, item, message), bool(thoughts)))
        thoughts = []
    return [*found, thought(thoughts)] if thoughts else found


def thought(items: Sequence[Any], left_by: int | None = None) -> PendingMessage:
    """Return the entry of a model's thinking without the item that it led to; `left_by` is the event that held both and
    has left the context."""
    data = data_of(items)
    if left_by is not None:
        data[KEY]["left"] = left_by
    return PendingMessage(NO_MESSAGE, data, True)


def append(agent: Agent, wanted: Iterable[PendingMessage]) -> None:
    """Append all entries, in the current batch."""
    before, carrier, idle = "", None, False
    for entry in wanted:
        kind = entry.message.kind
        if kind in _BEGINS and before not in _BEGINS:
            end_turn(agent)
        answers = kind in ANSWER_KINDS
        follows = carrier is not None and answers and not entry.thinks
        data = {**entry.data, KEY: {**entry.data[KEY], "with": carrier}} if follows else entry.data
        event_id = _append(agent, entry.message, data)
        carrier = event_id if entry.thinks else carrier if answers else None
        before = kind
        idle = kind == "assistant" and bool(text_of(entry.message).strip())
    if idle and not _waits(agent):
        end_turn(agent)


def end_turn(agent: Agent) -> None:
    """End the open turn if there is one, as interrupted if its last message was not answered."""
    with agent.reading() as (moment, at):
        is_open = at.record.open_turn is not None
        newest = selections.message_before(moment, agent.id, at.newest) if is_open else None
    if is_open:
        agent.end_turn(interrupted=newest is not None and newest.kind in ("user", "tool_call"))


def _waits(agent: Agent) -> bool:
    """Return True if a call of the open turn has no result yet."""
    with agent.log.store.read() as moment:
        return bool(selections.waiting(moment, agent.id))


def _append(agent: Agent, message: Part, data: dict[str, Any]) -> int:
    match message:
        case CallMessage(call_id, name, args):
            return agent.append_tool_call(name, args, call_id=call_id, dialect=DIALECT, data=data)
        case ResultMessage(call_id, text, failed):
            event_id = agent.append_tool_result(call_id, text, dialect=DIALECT, is_error=failed, data=data)
            with agent.log.store.read() as moment:
                event = selections.event(moment, event_id)
            if event is not None and event.kind == "user":
                # Its call has left the context; a notice was appended instead.
                agent.record("record", text, data={"source": KEY, **data})
            return event_id
    dialect = DIALECT if data.get("blocks") and message.kind == "assistant" else None
    # Verbatim: a state block at the end of a text stays in it.
    return agent.append(message.kind, message.text, data=data, dialect=dialect, verbatim=True)


# Compacted copies


class Tail(NamedTuple):
    """The newest items, oldest first; `places` are each item's event and its number in that event. `complete` is True
    if there are no older ones."""

    items: list[Any]
    places: list[tuple[int, int]]
    complete: bool


def tail(moment: Snapshot, at: Standing, limit: int) -> Tail:
    """Return the newest `limit` items of the context, regardless of its window."""
    given = newest_first(moment, at, at.visible)
    found = list(islice(((each, number) for each in given for number in reversed(range(len(each.items)))), limit + 1))
    newest = found[:limit][::-1]
    places = [(each.event.id, number) for each, number in newest]
    return Tail([each.items[number] for each, number in newest], places, complete=len(found) <= limit)


def replace_tail(agent: Agent, found: Tail, start: int, copy: Sequence[Any]) -> bool:
    """Replace `found.items[start:]` with a copy, in the current batch. Return False if they are no longer the
    newest."""
    if start >= len(found.places):
        return False
    first, kept = found.places[start]
    with agent.reading() as (moment, at):
        there = list(takewhile(lambda each: each.event.id >= first, newest_first(moment, at, at.visible)))[::-1]
    if [(each.event.id, number) for each in there for number in range(len(each.items))][kept:] != found.places[start:]:
        return False
    # If an event stands for several items, as an earlier copy does, its first items may stay.
    replace(agent, [*there[0].items[:kept], *copy], first)
    return True


def replace(agent: Agent, copy: Sequence[Any], first: int = 1) -> None:
    """Replace everything visible from event `first` on with a copy, in the current batch."""
    items = [json_copy(item) for item in copy]
    end_turn(agent)
    if not agent.standing().size.messages and not any(map(_is_opaque, items)):
        append(agent, entries(items))
        return
    summed_up(agent, items, first)


def add(agent: Agent, items: Sequence[Any]) -> None:
    """Append items, in the current batch. A compaction among them, which the API made in the middle of a run, replaces
    everything before it. A person's items directly before it stay, as with the API's own endpoint."""
    last = max((index for index, item in enumerate(items) if _is_opaque(item)), default=-1)
    if last >= 0:
        before, made = list(items[:last]), [items[last]]
        if all(read(item).kind == "user" for item in before):
            made = [*before, *made]
        else:
            append(agent, entries(before))
        made = [json_copy(item) for item in made]
        summed_up(agent, made, inline=len(made) == 1)
    append(agent, entries(items[last + 1 :]))


def take_back(agent: Agent, event: Event) -> bool:
    """Restore the messages that a compaction replaced if it was added as a single item. Return False for any other
    event."""
    if not is_inline(event) or event.agent_id != agent.id:
        return False
    agent.operate(lambda *_: Restore(event.id), actor="system")
    return True


def summed_up(agent: Agent, items: Sequence[Any], first: int = 1, last: int = END, *, inline: bool = False) -> None:
    """Replace everything visible from event `first` to `last` with a copy of these items; `inline` if the API has added
    it in a run."""
    form = summary_form(items, inline=inline)

    def decision(moment: Snapshot, at: Standing) -> Summary:
        return provider_summary(moment, at, form, [Segment(each.agent, first, last) for each in at.visible])

    agent.operate(decision, actor="system", content=_text(items))


def _is_opaque(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == COMPACTION


def instead_of_cleared(agent: Agent, items: Sequence[Any]) -> bool:
    """Replace the messages that were just cleared with a copy. Return False if the items are not such a copy.

    Wrappers that know only the methods common to all sessions replace a history in this way. The clear is taken back,
    and the copy replaces what it hid.
    """
    if not any(map(_is_opaque, items)):
        return False
    with agent.reading() as (moment, at):
        operations = [] if at.size.messages else selections.operations(moment, agent.id)
    if not operations or (operations[-1].kind, operations[-1].actor) != ("clear", "system"):
        return False
    target = operations[-1].id
    agent.operate(lambda *_: Restore(target), actor="system")
    replace(agent, items)
    return True


def _text(items: Sequence[Any]) -> str:
    """Return the text of a copy, for other readers of the conversation."""
    said = []
    for item in items:
        if _is_opaque(item):
            said.append(OPAQUE)
        elif (text := text_of(message := read(item))).strip():
            said.append(f"{message.kind}: {text}")
    return "\n\n".join(said)
