"""Appending items of the SDK to a conversation: each as the message that it is, in turns [SPEC 1, 2].

The SDK does not say where a run begins and ends. A person's item, or an instruction, begins a turn, unless it follows
another one in the same list; an answer after which no call waits for its result ends it. So does the next turn, for a
run that failed. What a model thought is recorded with the item that it led to, so that no operation parts the two: the
API refuses one without the other.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from foldmark.core.events import ANSWER_KINDS
from foldmark.integrations.openai_agents.keeping import KEY, exact, kept
from foldmark.integrations.openai_agents.reading import Reading, is_thought, read
from foldmark.log import Agent

DIALECT = "openai"

_BEGINS = ("user", "system")


class Entry(NamedTuple):
    """A message to append; `thinks` says that what the model thought is in its data."""

    reading: Reading
    data: dict[str, Any]
    thinks: bool = False


def entries(items: Iterable[Any]) -> list[Entry]:
    """What to append for a list of items. Raises CommandError for what is not JSON."""
    found: list[Entry] = []
    thoughts: list[Any] = []
    for each in items:
        item = exact(each)
        if is_thought(item):
            thoughts.append(item)
            continue
        reading = read(item)
        if thoughts and reading.kind not in ANSWER_KINDS:
            found.append(thought(thoughts))
            thoughts = []
        data = kept(thoughts, item, reading.text, reading.blocks, reading.holes)
        found.append(Entry(reading, data, bool(thoughts)))
        thoughts = []
    return [*found, thought(thoughts)] if thoughts else found


def thought(items: Sequence[Any], left_by: int | None = None) -> Entry:
    """What a model thought and nothing that it led to; `left_by` is the event that held both, out of sight now."""
    data = kept(items)
    return Entry(Reading("assistant"), data if left_by is None else {**data, KEY: {**data[KEY], "left": left_by}}, True)


def append(agent: Agent, wanted: Iterable[Entry]) -> None:
    """Append all of them, in the batch under way."""
    before, carrier, idle = "", None, False
    for entry in wanted:
        kind = entry.reading.kind
        if kind in _BEGINS and before not in _BEGINS:
            end_turn(agent)
        answers = kind in ANSWER_KINDS
        told = carrier is not None and answers and not entry.thinks
        data = {**entry.data, KEY: {**entry.data[KEY], "with": carrier}} if told else entry.data
        event_id = _append(agent, entry.reading, data)
        carrier = event_id if entry.thinks else carrier if answers else None
        before = kind
        idle = kind == "assistant" and bool(entry.reading.text.strip())
    if idle and not _waits(agent):
        end_turn(agent)


def end_turn(agent: Agent) -> None:
    """End the open turn if there is one, as interrupted where nobody has answered what came last."""
    with agent.reading() as (moment, at):
        is_open = at.record.open_turn is not None
        newest = moment.message_before(agent.id, at.newest) if is_open else None
    if is_open:
        agent.end_turn(interrupted=newest is not None and newest.kind in ("user", "tool_call"))


def _waits(agent: Agent) -> bool:
    """Whether a call of the open turn has no result yet."""
    with agent.log.store.read() as moment:
        return bool(moment.waiting(agent.id))


def _append(agent: Agent, reading: Reading, data: dict[str, Any]) -> int:
    match reading.kind:
        case "tool_call":
            args, call_id = reading.args, reading.call_id
            event_id = agent.append_tool_call(reading.name, args, call_id=call_id, dialect=DIALECT, data=data)
            if reading.outcome is not None:
                text, failed = reading.outcome.text, reading.outcome.failed
                # It is a part of the item of the call: nothing of its own.
                beside = {KEY: {"with": event_id}}
                agent.append_tool_result(call_id, text, dialect=DIALECT, is_error=failed, data=beside)
        case "tool_result":
            event_id = agent.append_tool_result(
                reading.call_id, reading.text, dialect=DIALECT, is_error=reading.failed, data=data
            )
            with agent.log.store.read() as moment:
                event = moment.event(event_id)
            if event is not None and event.kind == "user":  # its call has left the context; a notice tells of it
                agent.record("record", reading.text, data={"source": KEY, **data})
        case _:
            dialect = DIALECT if data.get("blocks") and reading.kind == "assistant" else None
            # A block at the end of a text is the agent's own affair: the text comes back as it was.
            event_id = agent.append(reading.kind, reading.text, data=data, dialect=dialect, verbatim=True)
    return event_id
