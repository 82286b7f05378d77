"""Results as text for a terminal or a pipe."""

import os
import re
import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from foldmark.core.wording import count, one_line
from foldmark.log import Result
from foldmark.operations.history import sized
from foldmark.operations.receipts import DeliveredMail, Receipt

# Control characters but tab and line feed, and the marks that turn the direction of writing: text from a model, a file
# or a web page must not steer the terminal.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def harmless(text: str) -> str:
    """Text with what would steer a terminal made visible; CR LF becomes LF."""
    return _STEERING.sub(lambda match: ascii(match[0])[1:-1], text.replace("\r\n", "\n"))


def is_bold() -> bool:
    """Whether standard output shows what stands out: a terminal, unless `NO_COLOR` says otherwise."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def marked(text: str, places: Iterable[tuple[int, int]], *, bold: bool) -> str:
    """Harmless text, in bold from and up to each of these places, which are in order."""
    shown, at = "", 0
    for start, end in places if bold else ():
        shown += f"{harmless(text[at:start])}{_BOLD}{harmless(text[start:end])}{_PLAIN}"
        at = end
    return shown + harmless(text[at:])


def result_text(result: Result) -> str:
    """A result as a person reads it: its text, and for an operation what changed and how to take it back."""
    lines = [marked(result.text, result.marks, bold=is_bold())] if result.text else []
    if result.event_id is not None:
        lines.append(f"  {receipt(result)}")
    return "\n".join(lines)


def receipt(result: Result) -> str:
    """`event 8 · 3 messages (~12 tokens) left · context 5 → 2 messages (~9 tokens) · /restore 8`."""
    done = result.effect
    assert isinstance(done, Receipt | DeliveredMail)
    change, parts = done.change, [f"event {result.event_id}"]
    moved = ((change.left, "left"), (change.returned, "came back"))
    parts += [f"{sized(size)} {word}" for size, word in moved if size.messages]
    if isinstance(done, Receipt):
        outcome = done.outcome
        results = ((outcome.evicted, "evicted"), (outcome.whole_again, "sent as before"))
        parts += [
            f"{count(size.messages, 'result')} (~{count(size.tokens, 'token')}) {word}"
            for size, word in results
            if size.messages
        ]
        if widened := getattr(outcome.operation, "widened", ()):
            parts.append(f"{len(widened)} of them for whole exchanges")
        parts += outcome.thoughts.told()
        if outcome.cached_prefix is not None:
            parts.append(f"{outcome.cached_prefix.percent}% of the cached prompt holds")
    before = "" if change.before == change.after else f"{change.before.messages:,} → "
    parts.append(f"context {before}{sized(change.after)}")
    if isinstance(done, Receipt):
        parts += [f"reason: {one_line(done.reason)}"] if done.reason else []
        parts += [done.back] if done.back else []
    return " · ".join(parts)


def result_json(result: Result) -> str:
    """A result as JSON: text, event_id, data."""
    return json_text({"text": result.text, "event_id": result.event_id, "data": result.data})


def json_text(value: Any) -> str:
    """Indented JSON; what would steer a terminal is escaped, which means the same in JSON."""
    return _escaped(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def json_line(value: Any) -> str:
    """JSON on one line; what would steer a terminal is escaped."""
    return _escaped(msgspec.json.format(msgspec.json.encode(value), indent=0).decode())


def _escaped(text: str) -> str:
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
