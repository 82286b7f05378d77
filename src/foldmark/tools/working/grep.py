"""`grep`: lines that match a regular expression, in a file or in all files below a folder [SPEC 4.1]."""

from collections.abc import Iterator
from threading import Event
from typing import Annotated

from msgspec import Meta, Struct, structs

from foldmark.core.errors import CommandError
from foldmark.core.request import ToolSpec
from foldmark.core.wording import count, remarks
from foldmark.log import Agent
from foldmark.operations.effects import Asking
from foldmark.tools.tool import Tool
from foldmark.tools.working.matcher_process import MOST_FILE, MatcherInput, MatcherOutput, search
from foldmark.tools.working.path_errors import explained
from foldmark.tools.working.paths import agreed, working
from foldmark.tools.working.walking import Pattern, Walk

SECONDS = 10.0
"""Maximum seconds of a search."""
MOST_CHARACTERS = 256 * 1024
"""Maximum characters of one answer."""


class GrepArguments(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(min_length=1, max_length=10_000)]
    path: str = "."
    glob: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    ignore_case: bool = False
    context: Annotated[int, Meta(ge=0, le=20)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


def _run(agent: Agent, arguments: GrepArguments, asking: Asking) -> str:
    glob = Pattern(arguments.glob, anywhere=True) if arguments.glob else None
    real, folder = agreed(agent, "grep", "search", arguments.path, asking), working(agent.log)
    cut, late, found = Event(), Event(), MatcherOutput([], [], [])
    walk = Walk(real, lambda: cut.is_set() or late.is_set(), glob.deepest if glob else None)
    files, asked = MatcherInput(real, folder, glob, walk), {**structs.asdict(arguments), "most": MOST_CHARACTERS}
    with explained(real, folder):
        failed = search(files, asked, found, SECONDS, cut, late)
    if cut.is_set():
        raise CommandError("the turn was interrupted")
    if found.wrong:
        raise CommandError(f"the pattern is no regular expression that can be searched for: {found.wrong[0][:200]}")
    if failed and not late.is_set():
        raise CommandError("the search broke down, perhaps for want of memory; try a simpler pattern, or fewer files")
    return "\n".join([*_shown(found.lines, arguments.context), *_told(files, found, late.is_set())])


def _shown(lines: list[tuple[str, int, bool, str]], context: int) -> Iterator[str]:
    """Yield lines in grep's format: `path:12:text`, context lines `path-11-text`, `--` between groups."""
    before: tuple[str, int] | None = None
    for name, number, fits, text in lines:
        if context and before not in (None, (name, number - 1)):
            yield "--"
        mark = ":" if fits else "-"
        yield f"{name}{mark}{number}{mark}{text}".replace("\0", "\ufffd")
        before = name, number


def _told(files: MatcherInput, found: MatcherOutput, late: bool) -> list[str]:
    """Return remarks about what was not shown or not searched."""
    told = [] if found.lines else [f"no match in {count(files.searched, 'file')}"]
    if found.full:
        told.append("there may be more; a narrower pattern, path or glob, or a higher limit")
    elif not late and not files.walk.complete:
        told.append("not everything was searched, there is too much; a narrower path or glob")
    elif late:
        told.append(f"the search was ended after {SECONDS:g} seconds; a simpler pattern, a narrower path or glob")
    if files.secret:
        told.append(f"{count(files.secret, 'file')} that may hold secrets not searched")
    if files.large:
        told.append(f"{count(files.large, 'file')} of more than {MOST_FILE >> 20} MB not searched")
    if files.walk.skipped and not found.lines:
        told.append(f"not looked into: {', '.join(sorted(files.walk.skipped))}")
    return remarks(told)


GREP = Tool(
    ToolSpec(
        "grep",
        "Search files for a regular expression (Python's), line by line. Answers path:line:text. Passes over binary "
        "files, .git, node_modules and the like. Outside of the working folder the person is asked first.",
        {
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "The regular expression"},
                "path": {"type": "string", "description": "A file or folder, the working folder if left out"},
                "glob": {"type": "string", "description": "Which files: *.py, src/**/*.{ts,tsx}"},
                "ignore_case": {"type": "boolean"},
                "context": {"type": "integer", "description": "Lines to show around each match, 0 to 20"},
                "limit": {"type": "integer", "description": "Matches shown, 100 if left out"},
            },
            "required": ["pattern"],
        },
    ),
    GrepArguments,
    _run,
    together=True,
)
