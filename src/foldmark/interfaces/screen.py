"""One turn on a terminal or in a pipe: whatever is not part of the answer's text begins a line of its own."""

import sys
from collections.abc import Callable
from functools import partial

from foldmark.conversation import Result
from foldmark.core.answer import Piece, Stopped, Waiting
from foldmark.core.request import ToolCall
from foldmark.interfaces.render import harmless, json_line, result_text
from foldmark.runtime.loop import Shown

CALL_CHARACTERS = 100
"""How much of a tool call's arguments is shown."""
STOPPED = {"length": "the answer was cut off, it reached the most that the model says", "refused": "the model refused"}
"""Ends of an answer that a person is told of."""


class Screen:
    """Shows a turn as it runs."""

    def __init__(self) -> None:
        self._mid_line = False
        self.blank = True

    def shown(self, put: Callable[[Callable[[], object]], None]) -> Shown:
        """What the turn is given; it runs in another thread, and `put` has things printed in this one."""
        return Shown(
            lambda text: put(partial(self._text, text)),
            lambda call: put(partial(self._call, call)),
            lambda piece: put(partial(self._other, piece)),
            lambda result: put(partial(self._result, result)),
        )

    def end_line(self) -> None:
        """Begin a new line unless one has just begun."""
        if self._mid_line:
            print(flush=True)
        self._mid_line = False

    def line(self, text: str) -> None:
        """Print a line of its own."""
        self.end_line()
        print(text, flush=True)

    def interrupted(self, *, kept: bool = True) -> None:
        """Say that the turn was cut short; the terminal has just echoed ^C. Not `kept` is what was never sent."""
        print(f"\n(interrupted; {'what had been said is kept' if kept else 'nothing was sent'})", flush=True)
        self._mid_line = False

    def _text(self, piece: str) -> None:
        if piece:
            print(harmless(piece), end="", flush=True)
            self._mid_line, self.blank = not piece.endswith("\n"), False

    def _call(self, call: ToolCall) -> None:
        self.blank = False
        arguments = json_line(call.args)
        shown = arguments if len(arguments) <= CALL_CHARACTERS else f"{arguments[:CALL_CHARACTERS]}…"
        self.line(f"[{harmless(call.name)} {shown}]")

    def _result(self, result: Result) -> None:
        self.blank = False
        self.line(result_text(result))

    def _other(self, piece: Piece) -> None:
        match piece:
            case Waiting():
                self.end_line()
                reason = harmless(piece.reason).rstrip(".")
                print(f"({reason}; asking again in {piece.seconds:.0f} s)", file=sys.stderr, flush=True)
            case Stopped() if piece.why in STOPPED:
                self.blank = False
                self.line(f"({STOPPED[piece.why]}: {harmless(piece.said)})")
            case _:
                pass
