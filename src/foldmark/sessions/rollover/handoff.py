"""Prepare the handoff summary of a rollover, and the prompt with which the new session begins [S4].

The summary is a model's text. It goes into the prompt unchanged, except for parts that could be mistaken for the
prompt's structure or could control a terminal. Every change is reported.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import count, listing, one_line
from foldmark.sessions.archive.marker import OURS

HEADINGS = ("Current Task", "Key Decisions", "Modified Files", "Immediate Next Steps", "Critical Context")
"""The level 3 headings of [S4]'s template."""

WORDS = 500
"""A longer summary gets a warning [S4]."""

LONGEST = 1 << 20
"""Maximum number of characters in a summary."""

PROMPT_HEADINGS = frozenset({"session continuation", "handoff summary", "retrieving details", "lineage"})
"""The prompt's own headings, in lower case."""

GO_ON = "Continue from the handoff summary."
"""The message that starts the new session."""

QUERY = "what you need to find"

_PRIVATE = "A person asked that the previous session be kept out of archives; so is this one:"
_LINE_END = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|\Z)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNDERLINE = re.compile(r" {0,3}=+[ \t]*\Z")


class SummaryError(FoldmarkError):
    """There is no summary to hand over. Nothing was written."""

    exit_code = 2


class Handoff(Struct, frozen=True):
    """A summary for the prompt, the names of its headings in lower case, and warnings about it."""

    text: str
    headings: frozenset[str]
    warnings: tuple[str, ...]


class SearchHint(NamedTuple):
    """How the model searches old sessions: `where` they are, as in "The full previous session is archived by
    Foldmark.", and `how`, a command or an instruction in one line."""

    where: str
    how: str


class Continuation(Struct, frozen=True):
    """The contents of the prompt. Values that are None are left out.

    `number` counts the sessions that continue each other, including the new one. `percent` is the share of the window
    in use when the parent ended. Without `search`, the prompt names only the parent's file. If the parent is `private`,
    a person keeps it out of archives, and the prompt marks the new session as private, too.
    """

    number: int
    parent_file: str
    handoff: Handoff
    issue: str | None = None
    percent: int | None = None
    worker: int | str | None = None
    search: SearchHint | None = None
    private: bool = False


def handoff(text: str) -> Handoff:
    """Return a summary for the prompt. Raises SummaryError if it has no words or is longer than `LONGEST`."""
    if len(text) > LONGEST:
        raise SummaryError(
            f"the summary has {len(text):,} characters; a handoff summary has some {WORDS} words; shorten it"
        )
    text = _LINE_END.sub("\n", text.removeprefix("\ufeff"))
    text, controls = _CONTROL.subn("", text)
    if not any(char.isalnum() for char in text):
        raise SummaryError(
            f"the summary is empty; nothing was written. Write one of some {WORDS} words under the headings "
            f"{listing(f'### {name}' for name in HEADINGS)}"
        )
    confined = _confined(text.strip("\n"))
    text = "\n".join(confined.lines).strip()
    return Handoff(text, confined.headings, tuple(_warnings(text, controls, confined)))


def prompt(given: Continuation) -> str:
    """Return [S4]'s continuation prompt, without a final line feed."""
    issue = f" for {one_line(given.issue)}" if given.issue else ""
    percent = "" if given.percent is None else f" at {given.percent}% context"
    lineage = [f"Parent session: {one_line(given.parent_file)}"]
    if given.worker is not None:
        lineage.append(f"Worker ID: {one_line(str(given.worker))}")
    last = [GO_ON]
    if "immediate next steps" in given.handoff.headings:
        last.append('Your next step is in "Immediate Next Steps" above.')
    parts = [
        "## Session Continuation",
        f"This is session #{given.number}{issue}.\nPrevious session rolled over{percent} to preserve quality.",
        "### Handoff Summary",
        given.handoff.text,
        "### Retrieving Details",
        *_retrieving(given.search),
        *([f"{_PRIVATE}\n{OURS}"] if given.private else []),
        "### Lineage",
        "\n".join(lineage),
        "---",
        " ".join(last),
    ]
    return "\n\n".join(parts)


def _retrieving(search: SearchHint | None) -> list[str]:
    if search is None:
        where = "The full previous session is in the file that is named below."
        return [f"{where} For details not in\nthe summary above, look there."]
    examples = '- "decision about [topic]"\n- "error in [component]"\n- "changes to [filename]"'
    return [
        f"The full previous session is {search.where}. For details not in\nthe summary above, search with:",
        f"```\n{search.how}\n```",
        f"Example queries:\n{examples}",
    ]


class _Confined(NamedTuple):
    """The lines of a summary, changed outside code blocks.

    No heading is above level 3, or above level 4 if it has the name of one of the prompt's headings. No line looks like
    the end of the prompt. Every code block ends.
    """

    lines: list[str]
    headings: frozenset[str]
    lowered: list[str]
    rules: int
    unclosed: bool


def _confined(text: str) -> _Confined:
    lines: list[str] = []
    headings: set[str] = set()
    lowered: list[str] = []
    rules, fence = 0, ""
    for line in text.split("\n"):
        found, level, title = _FENCE.match(line), 0, ""
        if fence:
            if found and found[1].startswith(fence) and not line[found.end() :].strip():
                fence = ""
        elif found and not (found[1][0] == "`" and "`" in line[found.end() :]):
            fence = found[1]
        elif heading := _HEADING.match(line):
            level, title = len(heading[1]), line[heading.end() :]
        elif _UNDERLINE.match(line) and lines and lines[-1].strip():
            line = title = lines.pop()
            level = 1
        elif set(bare := "".join(line.split())) == {"-"} and len(bare) >= 2 and len(line) - len(line.lstrip()) <= 3:
            line = "* * *"
            rules += 1
        if level:
            title = _without_marks(title.strip())
            name = " ".join(title.lower().split()).strip(" *_:`")
            headings.add(name)
            needed = 4 if name in PROMPT_HEADINGS else 3
            if level < needed:
                lowered.append(title)
                line = f"{'#' * needed} {title}"
        lines.append(line)
    return _Confined([*lines, fence] if fence else lines, frozenset(headings), lowered, rules, bool(fence))


def _without_marks(title: str) -> str:
    """Return a heading's text without trailing `#` marks."""
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare.endswith((" ", "\t")) else title


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
