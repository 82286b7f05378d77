"""Operations in a transcript: a line for each, and the messages that each keeps out of the context."""

from foldmark.core.codec import operation_of
from foldmark.core.events import (
    OPERATION_KINDS,
    Clear,
    Drop,
    Evict,
    Filter,
    Mark,
    Operation,
    Pin,
    Redact,
    Restore,
    Rewind,
    Summary,
    Undo,
    Unpin,
)
from foldmark.core.wording import count, title
from foldmark.operations.history import OperationEntry, ids_named
from foldmark.operations.receipts import Receipt

WHO = {"human": "you", "model": "the model", "system": "Foldmark"}
"""Names of the actors, for a person at the terminal."""

_REASON = 60


def brief(tokens: int) -> str:
    """Abbreviate a number of tokens: `842`, `3.1K`, `21K`, `1.2M`."""
    if tokens < 1000:
        return str(tokens)
    if tokens < 9_950:
        return f"{tokens / 1000:.1f}K"
    return f"{(tokens + 500) // 1000}K" if tokens < 999_500 else f"{tokens / 1_000_000:.1f}M"


CHANGED = "≡"
"""The sign of a change of settings or of the scratchpad."""


def line(entry: OperationEntry, *, back: bool = True) -> str:
    """Return an operation in one line: `✂ turns 33–41 dropped by you: "led nowhere" · 9 turns, 21K recorded · /restore
    412`. Without `back`, the last part is left out."""
    event = entry.event
    operation = operation_of(event) if event.kind in OPERATION_KINDS else None
    sign, what = (CHANGED, entry.words) if operation is None else told(operation, entry.words)
    reason = f': "{title(event.reason, _REASON)}"' if event.reason else ""
    parts = [f"{sign} {what} by {WHO.get(event.actor, event.actor)}{reason}"]
    if entry.left.messages:
        number = count(entry.left.messages, "message")
        if isinstance(operation, Drop | Undo):
            number = count(len(operation.turns), "turn")
        parts.append(f"{number}, {brief(entry.left.tokens)} recorded")
    if entry.returned.messages:
        parts.append(f"{count(entry.returned.messages, 'message')}, {brief(entry.returned.tokens)} recorded, came back")
    if entry.by is not None:
        parts.append(f"taken back by {entry.by}")
    elif back and entry.back is not None:
        parts.append(entry.back)
    return " · ".join(parts)


def receipt_line(done: Receipt) -> str:
    """Return a receipt in one line: `✂ 9 turns left the context: 37 messages, ~21K recorded · /restore 412 brings them
    back`."""
    change, outcome, operation = done.change, done.outcome, done.operation
    recorded = " recorded" if outcome.recorded else ""
    parts = []
    if change.left.messages:
        left = f"{count(change.left.messages, 'message')}, ~{brief(change.left.tokens)}{recorded}"
        turns = f"{count(len(operation.turns), 'turn')} " if isinstance(operation, Drop | Undo) else ""
        parts.append(f"✂ {turns}left the context: {left}")
    if change.returned.messages:
        came = f"{count(change.returned.messages, 'message')}, ~{brief(change.returned.tokens)}{recorded}"
        parts.append(f"↶ came back into the context: {came}")
    for size, words in ((outcome.evicted, "✂ {} evicted"), (outcome.whole_again, "↶ {} sent as before")):
        if size.messages:
            what = words.format(count(size.messages, "result"))
            parts.append(f"{what}: ~{brief(size.tokens)}{recorded}")
    parts += done.notes()
    if done.back is not None:
        takes = "brings them back" if change.left.messages else "takes that back"
        parts.append(f"{done.back} {takes}")
    return " · ".join(parts)


def told(operation: Operation, words: str) -> tuple[str, str]:
    """Return the sign of an operation, and its description."""
    match operation:
        case Mark():
            return "⚑", words
        case Drop(turns=turns) if len(turns) > 2:
            return "✂", f"turns {min(turns)}–{max(turns)} dropped"
        case Drop(turns=turns):
            return "✂", f"{ids_named('turn', turns)} dropped"
        case Undo(turn=turn):
            return "✂", f"turn {turn} undone"
        case Clear():
            return "✂", "context cleared"
        case Evict(results=results):
            return "✂", f"{count(len(results), 'result')} evicted"
        case Filter() | Redact() | Rewind() | Summary():
            return "✂", words
        case Restore(target=target):
            return "↶", f"operation {target} taken back"
        case Pin(turn=turn):
            return "●", f"turn {turn} pinned"
        case Unpin(turn=turn):
            return "○", f"turn {turn} unpinned"
        case _:
            return "↳", words
