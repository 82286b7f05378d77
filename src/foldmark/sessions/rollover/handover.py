"""The summary that a rollover hands over: what it should have, and how it stays inside of its part of the prompt [S4].

It is a model's text, and is put into the prompt as it is, but for what could pass for the prompt's own structure or
steer a terminal. Everything that was changed is told.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import count, listing

HEADINGS = ("Current Task", "Key Decisions", "Modified Files", "Immediate Next Steps", "Critical Context")
"""The headings of [S4]'s template, level 3."""

WORDS = 500
"""A longer summary is warned about [S4]."""

LONGEST = 1 << 20
"""Characters of a text that can be taken for a summary at all."""

OWN = frozenset({"session continuation", "handoff summary", "retrieving details", "lineage"})
"""The prompt's own headings, in lower case."""

_LINE_END = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|\Z)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNDERLINE = re.compile(r" {0,3}=+[ \t]*\Z")


class SummaryError(FoldmarkError):
    """There is no summary to hand over; nothing was written."""

    exit_code = 2


class Handover(Struct, frozen=True):
    """A summary as it goes into the prompt, the names of its headings in lower case, and what to say about it."""

    text: str
    headings: frozenset[str]
    warnings: tuple[str, ...]


def handover(text: str) -> Handover:
    """What becomes of a summary. Raises SummaryError for one without a word in it, or of absurd length."""
    if len(text) > LONGEST:
        raise SummaryError(f"the summary has {len(text):,} characters; a handoff summary has some {WORDS} words")
    text = _LINE_END.sub("\n", text.removeprefix("\ufeff"))
    text, controls = _CONTROL.subn("", text)
    if not any(char.isalnum() for char in text):
        raise SummaryError(
            f"the summary is empty; nothing was written. Write one of some {WORDS} words under the headings "
            f"{listing(f'### {name}' for name in HEADINGS)}"
        )
    confined = _Confined(text.strip("\n").split("\n"))
    text = "\n".join(confined.lines).strip()
    return Handover(text, frozenset(confined.headings), tuple(_warnings(text, controls, confined)))


class _Confined:
    """The lines of a summary in which no heading stands above level 3 or has the name of one of the prompt's, no line
    looks like the one that the prompt ends with, and every code block ends. Inside of code blocks nothing changes."""

    def __init__(self, lines: list[str]) -> None:
        self.lines: list[str] = []
        self.headings: set[str] = set()
        self.lowered: list[str] = []
        self.rules = 0
        fence = ""
        for line in lines:
            found = _FENCE.match(line)
            if fence:
                self.lines.append(line)
                if found and found[1].startswith(fence) and not line[found.end() :].strip():
                    fence = ""
            elif found and not (found[1][0] == "`" and "`" in line[found.end() :]):
                self.lines.append(line)
                fence = found[1]
            else:
                self._add(line)
        self.unclosed = bool(fence)
        if fence:
            self.lines.append(fence)

    def _add(self, line: str) -> None:
        heading = _HEADING.match(line)
        if heading:
            self.lines.append(self._heading(line, len(heading[1]), line[heading.end() :]))
        elif _UNDERLINE.match(line) and self.lines and self.lines[-1].strip():
            above = self.lines.pop()
            self.lines.append(self._heading(above, 1, above))
        elif set(bare := "".join(line.split())) == {"-"} and len(bare) >= 2 and len(line) - len(line.lstrip()) <= 3:
            self.rules += 1
            self.lines.append("* * *")
        else:
            self.lines.append(line)

    def _heading(self, line: str, level: int, text: str) -> str:
        text = text.strip()
        bare = text.rstrip("#")
        text = bare.rstrip() if not bare or bare.endswith((" ", "\t")) else text
        name = " ".join(text.lower().split()).strip(" *_:`")
        self.headings.add(name)
        needed = 4 if name in OWN else 3
        if level >= needed:
            return line
        self.lowered.append(text)
        return f"{'#' * needed} {text}"


def _warnings(text: str, controls: int, confined: _Confined) -> Iterator[str]:
    words = len(text.split())
    if words > WORDS:
        yield f"the summary has {words:,} words, more than {WORDS}; the new session begins with all of them"
    if missing := [f"### {name}" for name in HEADINGS if name.lower() not in confined.headings]:
        yield f"the summary lacks {listing(missing)}"
    if confined.lowered:
        named = listing((repr(each[:40]) for each in confined.lowered), 5)
        yield f"headings of the summary were lowered, so that they do not pass for the prompt's own: {named}"
    if confined.rules:
        yield f"{count(confined.rules, 'line')} of dashes in the summary became '* * *': one like it ends the prompt"
    if confined.unclosed:
        yield "the last code block of the summary had no end; it has one now"
    if controls:
        yield f"{count(controls, 'control character')} in the summary {'was' if controls == 1 else 'were'} left out"
