"""One turn on a terminal or in a pipe: whatever is not part of the answer's text begins a line of its own."""

import sys
from collections.abc import Callable
from functools import partial

from foldmark.core.request import Piece, Stopped, ToolCall, Usage, Waiting
from foldmark.core.wording import count
from foldmark.log import Result
from foldmark.rendering import Wrapping, columns, fitted, harmless, json_line, result_text
from foldmark.request.usage import left_out
from foldmark.runtime.loop import Shown

CALL_CHARACTERS = 100
"""How much of a tool call's arguments is shown."""
RESULT_LINES, RESULT_CHARACTERS = 3, 300
"""How much of a tool's result is shown."""
STOPPED = {"length": "the answer was cut off, it reached the most that the model says", "refused": "the model refused"}
"""Ends of an answer that a person is told of."""

Put = Callable[[Callable[[], object]], None]
"""Has something printed in the thread of the terminal."""


class Screen:
    """Shows a turn as it runs."""

    def __init__(self) -> None:
        self._mid_line = self._receipted = False
        self._wrapping = Wrapping(0)
        self.blank = True

    def shown(self, put: Put) -> Shown:
        """What the turn is given; it runs in another thread, and `put` has things printed in this one."""
        return Shown(
            lambda text: put(partial(self._text, text)),
            lambda call: put(partial(self._call, call)),
            lambda piece: put(partial(self._other, piece)),
            returned=lambda _, text: put(partial(self._returned, text)),
            result=lambda result: put(partial(self._result, result)),
        )

    def operated(self, put: Put) -> Callable[[Result], None]:
        """What prints the receipt of an operation that the model carries out, in place of the call's result."""
        return lambda result: put(partial(self._receipt, result))

    def end_line(self) -> None:
        """Begin a new line unless one has just begun."""
        if held := self._wrapping.flush():
            print(held, end="")
        if self._mid_line:
            print(flush=True)
        self._mid_line, self._wrapping = False, Wrapping(0)

    def line(self, text: str) -> None:
        """Print a line of its own."""
        self.end_line()
        print(fitted(text), flush=True)

    def interrupted(self, *, kept: bool = True) -> None:
        """Say that the turn was cut short; the terminal has just echoed ^C. Not `kept` is what was never sent."""
        if held := self._wrapping.flush():
            print(held, end="")
        print(f"\n(interrupted; {'what had been said is kept' if kept else 'nothing was sent'})", flush=True)
        self._mid_line, self._wrapping = False, Wrapping(0)

    def _text(self, piece: str) -> None:
        if piece:
            if not self._mid_line:
                self._wrapping = Wrapping(columns(sys.stdout))
            print(self._wrapping.feed(harmless(piece)), end="", flush=True)
            self._mid_line, self.blank = not piece.endswith("\n"), False

    def _call(self, call: ToolCall) -> None:
        self.blank = self._receipted = False
        self.line(call_line(call.name, json_line(call.args)))

    def _returned(self, text: str) -> None:
        if not self._receipted:
            self.line(result_lines(text))
        self._receipted = False

    def _receipt(self, result: Result) -> None:
        self._receipted = True
        self.line(result_text(result))

    def _result(self, result: Result) -> None:
        self.blank = False
        self.line(result_text(result))

    def _other(self, piece: Piece) -> None:
        match piece:
            case Waiting():
                self.end_line()
                reason = harmless(piece.reason).rstrip(".")
                when = f" in {piece.seconds:.0f} s" if piece.seconds else ""
                told = f"({reason}; asking again{when})"
                print(fitted(told, sys.stderr), file=sys.stderr, flush=True)
            case Stopped() if piece.why in STOPPED:
                self.blank = False
                self.line(f"({STOPPED[piece.why]}: {harmless(piece.said)})")
            case Usage() if told := left_out(piece.altered):
                self.line(f"({told})")
            case _:
                pass


def call_line(name: str, arguments: str) -> str:
    """A tool call with the beginning of its arguments, in one line."""
    shown = arguments if len(arguments) <= CALL_CHARACTERS else f"{arguments[:CALL_CHARACTERS]}…"
    return f"[{harmless(name)} {shown}]"


def result_lines(text: str) -> str:
    """The first lines of a tool's result, indented, and how much more there is."""
    lines = text.strip("\n").splitlines() or ["(empty)"]
    shown = lines[:RESULT_LINES]
    kept = "\n".join(shown)[:RESULT_CHARACTERS]
    more = count(len(lines) - len(shown), "more line") if len(lines) > len(shown) else ""
    if len(kept) < len("\n".join(shown)):
        more = f"{len(text):,} characters in all"
    told = [f"… ({more})"] if more else []
    return "\n".join(f"  {harmless(line)}" for line in [*kept.split("\n"), *told])
