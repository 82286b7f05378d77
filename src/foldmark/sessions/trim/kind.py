"""What `foldmark trim` knows of a kind of session: a session is copied line by line, long results cut [SPEC 8, S4].

What is the same for every kind is in `trimming`: reading with bounded memory, the new file that is there
whole or not at all, `trim_metadata`. What differs is a `TrimKind`: where the new file belongs, and a `LineTrimmer`,
which changes one line at a time. `claude.KIND` and `codex.KIND` are the two; both cut with `cut` and edit
lines by `spans`.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.sessions.formats import SessionPath
from foldmark.sessions.session_file import Piece
from foldmark.sessions.trim.stale import LONG, OTHERS, TrimPlan

_REMEMBERED = 100_000
"""Calls that are remembered; of more, as only sessions of many hundred MB have them, the newer half."""

UNKNOWN = "(unknown)"
"""The tool of a result whose call is nowhere in the file."""


class TrimOptions(Struct, frozen=True):
    """What a person asks for: results of `tools` (names or patterns, compared without case) that have more characters
    than `threshold` are cut; with `keep_display_copy` only where the model reads them. `deep` takes all tools' results
    and what `stale` finds, `spare` of the newest results stay whole."""

    threshold: int
    tools: tuple[str, ...]
    keep_display_copy: bool = False
    deep: bool = False
    spare: int = 0

    @property
    def all_tools(self) -> tuple[str, ...]:
        """The tools whose results are cut."""
        return ("*",) if self.deep else self.tools


class Job(Struct, frozen=True):
    """The settings of a `LineTrimmer`: `source` is the original, which pointers name; `new_id` the session id
    that lines get; `names` is call id -> tool as an earlier pass
    over the same file has found it, empty in the first; `plan` is what is cut otherwise than by length."""

    options: TrimOptions
    source: Path
    new_id: str
    names: Mapping[str, str] = {}
    plan: TrimPlan = TrimPlan()


class ToolTally(Struct):
    """What became of one tool's results: how many there were, how many were cut, of how many calls the arguments were,
    how many characters the model no longer reads, and how many bytes of the line's JSON those were (in
    `message.content`, not in a display copy)."""

    results: int = 0
    cut: int = 0
    arguments: int = 0
    characters: int = 0
    bytes: int = 0

    def add(self, characters: int, bytes: int) -> None:
        """Something was cut."""
        self.characters += characters
        self.bytes += bytes


class Targets:
    """The tools whose results are to be cut: names or patterns such as `mcp__*`, compared without case."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(pattern.casefold() for pattern in patterns)
        self._known: dict[str, bool] = {}

    @property
    def everything(self) -> bool:
        """Return True if results of unknown tools are included."""
        return "*" in self._patterns

    def __contains__(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            if len(self._known) > 1000:
                self._known.clear()
            folded = name.casefold()
            known = self._known[name] = any(
                fnmatchcase(folded, pattern) or folded == pattern for pattern in self._patterns
            )
        return known


class CallNames:
    """The calls found so far in the file.

    `found` is call id -> tool; `missed` are the ids of results that might have been cut, had their calls stood before
    them; `late` is whether the call of one of these came then. `earlier` is what an earlier pass has found.
    """

    def __init__(self, targets: Targets, earlier: Mapping[str, str]) -> None:
        self.found: dict[str, str] = {}
        self.late = False
        self.missed: dict[str, None] = {}
        self._targets, self._earlier = targets, earlier

    def add(self, call_id: str, name: str) -> None:
        """A call was read."""
        self.found[call_id] = name
        if call_id in self.missed and name in self._targets:
            self.late = True
        if len(self.found) > _REMEMBERED:
            _halve(self.found)

    def known(self, call_id: str) -> str | None:
        """The tool of a call that was met in this pass or in an earlier one."""
        return self.found.get(call_id) or self._earlier.get(call_id)

    def tool(self, call_id: str, *, long: bool) -> str | None:
        """The tool of a result, if it is one whose results are to be cut. `long`: whether it would be cut."""
        name = self.known(call_id)
        if name is not None:
            return name if name in self._targets else None
        if long and call_id:
            self.missed[call_id] = None
            if len(self.missed) > _REMEMBERED:
                _halve(self.missed)
        return UNKNOWN if self._targets.everything else None


def _halve(held: dict[str, str] | dict[str, None]) -> None:
    for key in list(held)[: len(held) // 2]:
        del held[key]


class Tally:
    """What became of everything: by tool, by step as `stale` names them, and how much of it the model still read.

    `default` are the tools that the default profile cuts; `in_context` is begun anew with each compaction.
    """

    def __init__(self, default: Targets) -> None:
        self.tools: dict[str, ToolTally] = {}
        self.steps: dict[str, int] = {}
        self.in_context = 0
        self.reminders = 0
        self._default = default

    def result(self, tool: str, *, cut: bool) -> ToolTally:
        """Count a result of a tool that is meant."""
        found = self.tools.setdefault(tool, ToolTally())
        found.results += 1
        found.cut += cut
        return found

    def step(self, tool: str, step: str | None, bytes: int, by_length: int) -> None:
        """Count the bytes of a result; `by_length` is what its length alone would have taken, as far as known."""
        usual = LONG if tool in self._default else OTHERS
        if by_length:
            self.steps[usual] = self.steps.get(usual, 0) + by_length
        if bytes > by_length:
            self.steps[step or usual] = self.steps.get(step or usual, 0) + bytes - by_length


class TrimError(FoldmarkError):
    """A session cannot be trimmed."""


class LineTrimmer(Protocol):
    """The lines of one kind of session in one pass.

    `source` is the file that pointers name, at first that of the job: it is set anew before each `Piece`.
    `tally` counts; its `in_context` is how many bytes of JSON were saved of what the model still reads: not of what
    lies before the last compaction, and not of side chains. `names` knows the calls that were met; if `names.late`, the
    engine makes a second pass, with what they have found in its job.
    """

    source: Path
    tally: Tally
    names: CallNames

    def line(self, number: int, raw: bytes) -> bytes:
        """Line `number` (from 1) of the file as it goes into the new one. `raw` has its line end, as far as there is
        one, and so must what is returned. Whatever is not understood is returned as it is; never raises."""

    def giant(self, start: bytes, end: bytes) -> tuple[bytes, bytes]:
        """The first and the last MB of a line that is too long to be held, with the session id replaced where it can
        be found; what lies between them is passed on as it is."""


class TrimKind(Protocol):
    """A kind of session."""

    bytes_per_token: float
    """Of the model's JSON, to tell tokens from bytes [SPEC 7]."""

    def plan(self, pieces: Sequence[Piece], options: TrimOptions) -> TrimPlan:
        """What is cut otherwise than by length. Raises SessionFileError."""

    def lines(self, job: Job) -> LineTrimmer:
        """For one pass over a session."""

    def place(self, session: SessionPath, new_id: str) -> Path:
        """Where the new session's file belongs: in the folder of the old one."""

    def pieces(self, session: SessionPath) -> list[Piece]:
        """What a new session is made of: the whole file as a rule, but the history of a fork may stand in another's.
        Raises SessionFileError if a part of it is not there."""
