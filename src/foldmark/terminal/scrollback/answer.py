"""An answer while it streams: entries of a transcript that are not in the log yet."""

from collections.abc import Callable
from itertools import count as numbers_from
from time import monotonic

from foldmark.chat.display.transcript import Call, Said, ToolCallGroup, about
from foldmark.chat.lines.screen import remark
from foldmark.core.codec import count_tokens, well_formed
from foldmark.core.request import Piece, Thought, ToolCall, Waiting
from foldmark.core.wording import count
from foldmark.rendering import json_line
from foldmark.terminal.scrollback.drawing import Loose

SETTLED, LONGEST = 2_000, 8_000
"""Characters after which the finished part of a text is no longer rendered again. The split is between paragraphs if
there are any."""

FENCE = "```"

STILL, TURNS = "▍", "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""The sign before the status: without animations, and ten times a second with them."""

_numbers = numbers_from(1)


def number() -> int:
    """Return an id that no event has (it is negative)."""
    return -next(_numbers)


class Answer:
    """The entries that a turn has shown so far, and a line that says what it does, for how many seconds of `clock`, and
    about how many tokens the model has written. After its end, they are replaced by log reading number `replaced_by`,
    except the lines in `beside`, each with whether it then stands above the answer or below it."""

    def __init__(self, after: int = 0, clock: Callable[[], float] = monotonic, *, animated: bool = False) -> None:
        """`after` is the newest event when the answer began."""
        self.after = after
        self.replaced_by: int | None = None
        self.beside: list[tuple[Loose, bool]] = []
        self._clock, self._animated = clock, animated
        self._begun, self._bytes = clock(), 0
        self._since: float | None
        self._done: list[Said | ToolCallGroup | Loose] = []
        self._text, self._text_id = "", number()
        self._status = number()
        self._say("waiting for the model …")

    @property
    def entries(self) -> list[Said | ToolCallGroup | Loose]:
        """The entries to show now."""
        while (end := settled(self._text)) > 0:
            before, after = parted(self._text, end)
            self._done.append(Said(self._text_id, None, "assistant", "model", before.strip("\n")))
            self._text, self._text_id = after, number()
        found = list(self._done)
        if self._text.strip():
            found.append(Said(self._text_id, None, "assistant", "model", self._text.strip("\n")))
        return found if self.replaced_by is not None else [*found, Loose(self._status, self._shown_status())]

    def _shown_status(self) -> str:
        now, tokens = self._clock(), -(-self._bytes // 4)  # as an event is counted
        sign = TURNS[int(10 * now) % len(TURNS)] if self._animated else STILL
        seconds = 0 if self._since is None else int(now - self._since)
        parts = [f"{seconds} s"] if seconds else []
        parts += [f"~{count(tokens, 'token')}"] if tokens and self._since == self._begun else []
        return f"{sign} {self._doing} {' · '.join(parts)}".rstrip()

    def add_text(self, text: str) -> None:
        """Add streamed text."""
        text = well_formed(text)
        self._text += text
        self._write("streaming …", text)

    def add_call(self, call: ToolCall) -> None:
        """Add a tool call, grouped with the calls directly before it."""
        self._end_text()
        arguments = json_line(well_formed(call.args))
        added = Call(number(), call.name, about(arguments), "", count_tokens(arguments, None), None)
        last = self._done[-1] if self._done else None
        if isinstance(last, ToolCallGroup):
            self._done[-1] = ToolCallGroup(last.id, (*last.calls, added))
        else:
            self._done.append(ToolCallGroup(number(), (added,)))
        self._doing, self._since = f"{call.name} is running …", self._clock()

    def add_returned(self, call: ToolCall, text: str) -> None:
        """Add a result to the oldest call of this name without a result."""
        text = well_formed(text)
        for at, entry in enumerate(self._done):
            for each in entry.calls if isinstance(entry, ToolCallGroup) else ():
                if isinstance(entry, ToolCallGroup) and each.result is None and each.name == call.name:
                    tokens = each.tokens + count_tokens(text, None)
                    result = Call(each.id, each.name, each.about, text.strip("\n"), tokens, number())
                    self._done[at] = ToolCallGroup(
                        entry.id, tuple(result if one is each else one for one in entry.calls)
                    )
                    self._say("waiting for the model …")
                    return

    def add_piece(self, piece: Piece) -> None:
        """Add another piece of the answer."""
        match piece:
            case Thought(text=text):
                self._write("thinking …", well_formed(text))
            case Waiting(seconds=seconds, reason=reason):
                when = f" in {seconds:.0f} s" if seconds else ""
                self._doing, self._since = f"{reason.rstrip('.')}; asking again{when}", None
            case _ if text := remark(piece):
                self.add(Loose(number(), text))
            case _:
                pass

    def add(self, line: Loose) -> None:
        """Add a line after everything shown so far."""
        self._end_text()
        self._done.append(line)

    def add_beside(self, line: Loose, *, above: bool) -> None:
        """Add a line that is not part of the answer."""
        self.add(line)
        self.beside.append((line, above))

    def _end_text(self) -> None:
        if self._text.strip():
            self._done.append(Said(self._text_id, None, "assistant", "model", self._text.strip("\n")))
        self._text, self._text_id = "", number()

    def _write(self, doing: str, text: str) -> None:
        """Say what the model does, and count what it writes."""
        self._bytes += len(text.encode())
        self._say(doing)

    def _say(self, doing: str) -> None:
        """Say what the model does now. The seconds and tokens are those of the turn; a tool has its own seconds."""
        self._doing, self._since = doing, self._begun


def settled(text: str) -> int:
    """Return how many leading characters of a text need no further rendering; 0 if the text is short."""
    if len(text) < SETTLED:
        return 0
    end = at = 0
    fence = ""
    for line in text[:LONGEST].split("\n"):
        if not line and not fence and at:
            end = at
        fence, at = _fence(line, fence), at + len(line) + 1
    if end or len(text) < LONGEST:
        return end
    return max(text.rfind("\n", 1, LONGEST), 0) or LONGEST


def parted(text: str, end: int) -> tuple[str, str]:
    """Split a text at a character. A code block that spans the split is closed and reopened."""
    before, after, fence = text[:end], text[end:], ""
    for line in before.split("\n"):
        fence = _fence(line, fence)
    return (f"{before}\n{FENCE}", f"{fence}\n{after.lstrip(chr(10))}") if fence else (before, after)


def _fence(line: str, fence: str) -> str:
    """Return the opening fence of the code block that contains a line, given the one for the previous line."""
    begin = line[:40].strip()
    return ("" if fence else begin) if begin.startswith(FENCE) else fence
