"""What a model is told when the result of its call finds the call gone from the context [SPEC 3]."""

from foldmark.conversation.decide import recorded
from foldmark.conversation.standing import Standing
from foldmark.core.events import Clear, Drop, Filter, Operation, Rewind, Summary, Undo
from foldmark.core.turns import Message
from foldmark.core.wording import one_line

QUOTED = 1000
"""Characters of a result that is quoted, each line behind a `>`: it must not pass for words of Foldmark's."""

_ASKED = {"model": "at your request", "human": "by the user", "system": "by the system"}


def notice(at: Standing, call: Message, call_id: str, result: str) -> str:
    """The text of the user message that stands in for a result: what happened since the call, and the result."""
    happened = "The call has left the context."
    for event in reversed(at.store.operations(at.record.id, after=call.id)):
        ((_, operation),) = recorded([event])
        if words := _words(operation):
            happened = f"{words} {_ASKED[event.actor]}."
            break
    quoted = "\n".join(f"> {line}" for line in result[:QUOTED].splitlines())
    return f"[Foldmark: {happened} The result of call {one_line(call_id)}, which stood before that, begins:]\n{quoted}"


def _words(operation: Operation) -> str | None:
    match operation:
        case Rewind(mark=mark):
            return f"Rewound to '{mark}'"
        case Clear():
            return "Context cleared"
        case Drop(turn=turn) | Undo(turn=turn):
            return f"Turn {turn} was taken out of the context"
        case Filter(mode=mode):
            return f"A part of the context was removed (/{mode})"
        case Summary():
            return "A part of the context was replaced by a summary"
        case _:
            return None
