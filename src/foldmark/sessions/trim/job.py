"""The options and the counts of a trim, and its interface to a session format [SPEC 8, S4].

`trimming` does the work that is the same for every format: it reads with bounded memory, writes the new file whole or
not at all, and adds `trim_metadata`. A format supplies a `LineTrimmer`, which changes one line at a time.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec
from msgspec import Struct

from foldmark.core.assembly.superseded import Exchange
from foldmark.core.errors import FoldmarkError
from foldmark.formats.cut import Origin, Replacement
from foldmark.formats.session_file import Piece, SessionFile
from foldmark.formats.session_format import SessionPath
from foldmark.sessions.trim.stale import LONG, OTHERS, TrimPlan

UNKNOWN = "(unknown)"
"""The tool name of a result whose call is not in the file."""


Shorten = Callable[[bytes, int, Origin], Replacement | None]
"""Shortens a result to a number of characters; None if it stays."""


class TrimError(FoldmarkError):
    """A session cannot be trimmed."""


class TrimOptions(Struct, frozen=True):
    """Options of a trim: cut the results of `tools` (names or patterns, ignoring case) above `threshold` characters.

    `keep_display_copy` keeps the copy that is only displayed. `deep` also cuts the results of all other tools,
    and the texts that `stale` finds. The newest `spare` results stay whole.
    """

    threshold: int
    tools: tuple[str, ...]
    keep_display_copy: bool = False
    deep: bool = False
    spare: int = 0


class ToolTally(Struct):
    """The counts of one tool in the whole file: its results, the results that were cut, and the calls whose arguments
    were cut; and of what the model is sent, the characters that it no longer reads, and their bytes of JSON."""

    results: int = 0
    cut: int = 0
    arguments: int = 0
    characters: int = 0
    bytes: int = 0


class Cut(Struct, frozen=True):
    """The cut of a result: its tool, and its new content (None: it stays).

    `step` is the reason, or None if the reason is its length. For its length alone, `by_length` bytes would be cut.
    """

    tool: str
    new: Replacement | None
    step: str | None
    by_length: int = 0


class Counted(NamedTuple):
    """A cut of a result or an argument: the position of its line, its tool, the characters and bytes that the model no
    longer reads, and those bytes by step."""

    at: int
    tool: str
    characters: int
    bytes: int
    steps: tuple[tuple[str, int], ...]


class LineTrimmer:
    """Trims the lines of a session in one pass and counts the cuts. Each format has a subclass.

    `source` is the original, which pointers name, and `at` the position of the current line among all lines of the
    pass: `trimming` sets both. `new_id` is the session id of the new lines. `plan` has the cuts that are made for
    reasons other than length. Without one, the pass only notes the calls (`notes`), from which a plan is made.

    `names` maps the calls of this pass to their tools. `late` becomes True when a call follows its own result and that
    result should have been cut. Then `trimming` makes a second pass, which gets these names as `earlier`.

    `tools` has the counts by tool, and `cuts` every cut. `left` are the results that would be cut if their tool were
    among those to cut: the position of the line of each, and the bytes that the model would no longer read.
    """

    bytes_per_token: ClassVar[float]
    """Bytes of the model's JSON for one token [SPEC 7]."""

    equivalents: ClassVar[Mapping[str, str]] = {}
    """Second names for some tools, which also select them."""

    finds_stale: ClassVar[bool] = False
    """True if `calls` says enough of each call to tell which others it made stale."""

    def __init__(
        self,
        options: TrimOptions,
        source: Path,
        new_id: str,
        plan: TrimPlan | None = None,
        earlier: Mapping[str, str] = {},
    ) -> None:
        self.options, self.source = options, source
        self.plan, self.notes = plan or TrimPlan(), plan is None
        self.new_id = msgspec.json.encode(new_id)
        self.at = 0
        self.names: dict[str, str] = {}
        self.late = False
        self.tools: dict[str, ToolTally] = {}
        self.cuts: list[Counted] = []
        self.left: list[tuple[int, int]] = []
        self.reminders = 0
        self._is_default = matching(options.tools, self.equivalents)
        self.is_cut = matching(("*",), {}) if options.deep else self._is_default
        self._earlier = earlier
        self._missed: set[str] = set()

    # Defined by each format

    @staticmethod
    def pieces(file: SessionFile, session: SessionPath) -> list[Piece]:
        """Return the pieces of the new session, since the history of a fork may be in other files than the session's
        own `file`. Raises SessionFileError."""
        return [Piece(session.path)]

    def line(self, number: int, raw: bytes) -> bytes:
        """Return line `number` (from 1) for the new file, with its line end if it has one.

        A line that is not understood is returned unchanged. Must not raise.
        """
        raise NotImplementedError

    def calls(self) -> list[Exchange]:
        """Return the calls with their results, as the model is sent them, in that order. Call this after a pass that
        `notes` them."""
        return []

    def sent(self) -> Container[int]:
        """Return the positions of the lines that the model is sent when it resumes the session; all by default. Call
        this after the pass."""
        return range(self.at + 1)

    # Common to all formats

    def call(self, call_id: str, name: str) -> None:
        """Record a call."""
        self.names[call_id] = name
        self.late |= call_id in self._missed and self.is_cut(name)

    def tool_of(self, call_id: str) -> str | None:
        """Return the tool of a call, or None."""
        return self.names.get(call_id) or self._earlier.get(call_id)

    def cut(self, call_id: str, raw: bytes, place: Origin, shorten: Shorten) -> Cut | None:
        """Return the cut of the result `raw` of a call; None if the results of its tool are not cut."""
        if self.notes or call_id in self.plan.whole:
            return None
        is_long = len(raw) - 2 > self.options.threshold or b'image"' in raw
        usual = new = shorten(raw, self.options.threshold, place) if is_long else None
        tool, cuts = self.tool_of(call_id), self._is_default if call_id in self.plan.spoken else self.is_cut
        if tool is None and is_long and call_id:
            self._missed.add(call_id)
        if not cuts(tool or UNKNOWN):
            if usual:
                self.left.append((self.at, usual.bytes))
            return None
        step = self.plan.results.get(call_id)
        if step and (bare := shorten(raw, 0, place)) is not None and (usual is None or bare.bytes >= usual.bytes):
            new = bare
        return Cut(tool or UNKNOWN, new, step, usual.bytes if usual else 0)

    def count(self, cut: Cut, *, arguments: bool = False) -> None:
        """Count a result, or with `arguments` the arguments of a call."""
        tool = self.tools.get(cut.tool)
        if tool is None:
            tool = self.tools[cut.tool] = ToolTally()
        if arguments:
            tool.arguments += 1
        else:
            tool.results += 1
            tool.cut += cut.new is not None
        if cut.new is None:
            return
        usual = LONG if self._is_default(cut.tool) else OTHERS
        by_length = min(cut.by_length, cut.new.bytes)
        steps = ((usual, by_length), (cut.step or usual, cut.new.bytes - by_length))
        self.cuts.append(Counted(self.at, cut.tool, cut.new.characters, cut.new.bytes, steps))


def matching(patterns: Iterable[str], equivalents: Mapping[str, str]) -> Callable[[str], bool]:
    """Return a function that tests whether a tool has one of these names or matches a pattern such as `mcp__*`,
    ignoring case. `equivalents` maps a tool to a second name, which also selects it."""
    folded = tuple(pattern.casefold() for pattern in patterns)

    @cache
    def matches(name: str) -> bool:
        names = {name.casefold(), equivalents.get(name, name).casefold()}
        return any(fnmatchcase(each, pattern) or each == pattern for each in names for pattern in folded)

    return matches
