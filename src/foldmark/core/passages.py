"""A passage: a message and its neighbours, for reading [SPEC 7]."""

from collections.abc import Iterator

from msgspec import Struct

from foldmark.core.inbox import minute
from foldmark.core.wording import count, one_line


class PassageMessage(Struct, frozen=True):
    """A message of a passage.

    `place` is its place for a person; `named` is the name that reads it by itself; `asked` is True for the message that
    was asked for, `note` is a further remark.
    """

    place: str
    named: str
    role: str
    tool: str | None
    at: str | None
    text: str
    asked: bool = False
    note: str = ""

    @property
    def who(self) -> str:
        """Who said it, on one line."""
        return one_line(f"{self.role} {self.tool}" if self.tool else self.role)


class Excerpt(Struct, frozen=True):
    """A passage of a conversation or a session, in order; `head` names its source."""

    head: str
    lines: tuple[PassageMessage, ...]


def excerpt_text(excerpt: Excerpt, whole: int | None, beside: int, read_on: str) -> str:
    """Return the messages with their texts: `whole` characters of the one that was asked for (None: all), `beside`
    characters of its neighbours. `read_on` precedes the name of a neighbour that was cut."""
    any_asked = any(line.asked for line in excerpt.lines)
    lines = [one_line(excerpt.head)]
    for line in excerpt.lines:
        lines += passage_lines(line, beside if any_asked and not line.asked else whole, read_on)
    return "\n".join(lines)


def passage_lines(line: PassageMessage, most: int | None = None, read_on: str = "") -> Iterator[str]:
    """Yield a message as lines of text after an empty line; see `excerpt_text`."""
    about = [each for each in (line.place, line.who, one_line(minute(line.at)) if line.at else "", line.note) if each]
    yield ""
    yield f"{'>' if line.asked else '-'} {', '.join(about)}:"
    if line.text:
        yield line.text[:most]
    if most is not None and len(line.text) > most:
        whole = "" if line.asked else f": {read_on}{one_line(line.named)}"
        yield f"[{count(len(line.text) - most, 'more character')}{whole}]"
