"""The options and the counts of a trim, and its interface to a session format [SPEC 8, S4].

`trimming` does the work that is the same for every format: it reads with bounded memory, writes the new file whole or
not at all, and adds `trim_metadata`. A format supplies a `TrimKind`, whose `LineTrimmer` changes one line at a time:
`claude.KIND` or `codex.KIND`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.sessions.formats import SessionPath
from foldmark.sessions.session_file import Piece
from foldmark.sessions.trim.cut import Origin, Replacement
from foldmark.sessions.trim.stale import LONG, OTHERS, CallRecord, TrimPlan, plan

_MAX_CALLS = 100_000
"""Maximum number of calls in memory. A session of many hundred MB may have more: then the older half is dropped."""

UNKNOWN = "(unknown)"
"""The tool name of a result whose call is not in the file."""


Shorten = Callable[[bytes, int, Origin], Replacement | None]
"""Shortens a result to a number of characters; None if it stays."""


class TrimError(FoldmarkError):
    """A session cannot be trimmed."""


class TrimOptions(Struct, frozen=True):
    """Cut results of `tools` (names or patterns, ignoring case) that have more than `threshold` characters.

    `keep_display_copy` leaves the copy that only the display reads. `deep` also cuts the results of all other tools,
    and the texts that `stale` finds. The newest `spare` results stay whole.
    """

    threshold: int
    tools: tuple[str, ...]
    keep_display_copy: bool = False
    deep: bool = False
    spare: int = 0


class Job(Struct, frozen=True):
    """The settings of a `LineTrimmer`.

    `source` is the original, which pointers name, and `new_id` the session id of the new lines. `names` maps call ids
    to tools, as an earlier pass over the file found them. `plan` has the cuts that are made for other reasons than
    length.
    """

    options: TrimOptions
    source: Path
    new_id: str
    names: Mapping[str, str] = {}
    plan: TrimPlan = TrimPlan()


class Targets:
    """The tools whose results are cut: names or patterns such as `mcp__*`, compared without case.

    `equivalents` maps a tool to a second name, by which it is selected too.
    """

    def __init__(self, patterns: Iterable[str], equivalents: Mapping[str, str] = {}) -> None:
        self._patterns = tuple(pattern.casefold() for pattern in patterns)
        self._equivalents = equivalents
        self.everything = "*" in self._patterns
        self._known: dict[str, bool] = {}

    def __contains__(self, name: str) -> bool:
        if name not in self._known:
            names = {name.casefold(), self._equivalents.get(name, name).casefold()}
            self._known[name] = any(
                fnmatchcase(each, pattern) or each == pattern for each in names for pattern in self._patterns
            )
        return self._known[name]


class CallNames:
    """The tools of the calls in a file, by call id.

    `found` are the calls of this pass, `earlier` those of an earlier one. `late` becomes True when a call follows its
    own result and that result should have been cut.
    """

    def __init__(self, targets: Targets, earlier: Mapping[str, str]) -> None:
        self.found: dict[str, str] = {}
        self.late = False
        self._targets, self._earlier = targets, earlier
        self._missed: dict[str, None] = {}

    def add(self, call_id: str, name: str) -> None:
        """Record a call."""
        self.found[call_id] = name
        if call_id in self._missed and name in self._targets:
            self.late = True
        if len(self.found) > _MAX_CALLS:
            _halve(self.found)

    def known(self, call_id: str) -> str | None:
        """Return the tool of a call, or None."""
        return self.found.get(call_id) or self._earlier.get(call_id)

    def target(self, call_id: str, *, long: bool) -> str | None:
        """Return the tool of a result if its results are cut, otherwise None. `long` says that this one would be."""
        name = self.known(call_id)
        if name is not None:
            return name if name in self._targets else None
        if long and call_id:
            self._missed[call_id] = None
            if len(self._missed) > _MAX_CALLS:
                _halve(self._missed)
        return UNKNOWN if self._targets.everything else None


def _halve(held: dict[str, str] | dict[str, None]) -> None:
    for key in list(held)[: len(held) // 2]:
        del held[key]


class ToolTally(Struct):
    """The counts of one tool: its results, the results that were cut, the calls whose arguments were cut, the
    characters that the model no longer reads, and their bytes in the JSON of `message.content` (without a display
    copy)."""

    results: int = 0
    cut: int = 0
    arguments: int = 0
    characters: int = 0
    bytes: int = 0


class Cut(NamedTuple):
    """The cut of a result: its tool, and its new content (None: it stays).

    `step` is the reason, None for its length. Its length alone would have cut `by_length` bytes.
    """

    tool: str
    new: Replacement | None
    step: str | None
    by_length: int


class Tally:
    """All counts of a trim: by tool, and by step (see `stale.STEPS`) in bytes.

    `in_context` counts the bytes cut from the current context: after the last compaction, outside of sidechains.
    `default` are the tools of the default profile.
    """

    def __init__(self, default: Targets) -> None:
        self.tools: dict[str, ToolTally] = {}
        self.steps: dict[str, int] = {}
        self.in_context = 0
        self.reminders = 0
        self._default = default

    def add(self, cut: Cut, *, aside: bool = False, arguments: bool = False) -> None:
        """Count a result, or with `arguments` those of a call. `aside`: it is in a sidechain."""
        tool = self.tools.setdefault(cut.tool, ToolTally())
        if arguments:
            tool.arguments += 1
        else:
            tool.results += 1
            tool.cut += cut.new is not None
        if cut.new is None:
            return
        tool.characters += cut.new.characters
        tool.bytes += cut.new.bytes
        self.in_context += 0 if aside else cut.new.bytes
        usual = LONG if cut.tool in self._default else OTHERS
        by_length = min(cut.by_length, cut.new.bytes)
        for step, bytes in ((usual, by_length), (cut.step or usual, cut.new.bytes - by_length)):
            if bytes:
                self.steps[step] = self.steps.get(step, 0) + bytes


class LineTrimmer:
    """Trims the lines of a session in one pass.

    `source` is the file that pointers name; `trimming` sets it for each `Piece`. If `names.late` is True at the end,
    `trimming` makes a second pass with the names that were found.
    """

    equivalents: Mapping[str, str] = {}
    """A second name for some tools (see `Targets`)."""

    def __init__(self, job: Job) -> None:
        self.source, self.options, self.plan = job.source, job.options, job.plan
        self.tally = Tally(Targets(job.options.tools, self.equivalents))
        self.cut_tools = Targets(("*",) if job.options.deep else job.options.tools, self.equivalents)
        self.names = CallNames(self.cut_tools, job.names)

    def cut(self, call_id: str, raw: bytes, place: Origin, shorten: Shorten) -> Cut | None:
        """Return the cut of the result `raw` of a call; None if the results of its tool stay."""
        is_long = len(raw) - 2 > self.options.threshold or b'image"' in raw
        tool = None if call_id in self.plan.whole else self.names.target(call_id, long=is_long)
        if tool is None:
            return None
        usual = new = shorten(raw, self.options.threshold, place) if is_long else None
        if step := self.plan.results.get(call_id):
            new = shorten(raw, 0, place)
        return Cut(tool, new, step, usual.bytes if usual else 0)

    def line(self, number: int, raw: bytes) -> bytes:
        """Return line `number` (from 1) for the new file, with its line end if it has one.

        A line that is not understood is returned unchanged. Must not raise.
        """
        raise NotImplementedError

    def giant(self, start: bytes, end: bytes) -> tuple[bytes, bytes]:
        """Return the first and the last MB of a line that is too long for memory, with the new session id if its place
        is certain. The bytes between them stay."""
        return start, end


class TrimKind(Struct, frozen=True):
    """How the sessions of one format are trimmed.

    `bytes_per_token` converts bytes of the model's JSON into tokens [SPEC 7]. `calls` lists calls with their results in
    the order in which the model reads them. `pieces` lists the pieces of the new session: the history of a fork may be
    in other files. Both raise SessionFileError.
    """

    bytes_per_token: float
    lines: Callable[[Job], LineTrimmer]
    calls: Callable[[Sequence[Piece]], list[CallRecord]]
    pieces: Callable[[SessionPath], list[Piece]] = lambda session: [Piece(session.path)]

    def plan(self, pieces: Sequence[Piece], options: TrimOptions) -> TrimPlan:
        """Return the cuts made for other reasons than length. Raises SessionFileError."""
        if not (options.deep or options.spare):
            return TrimPlan()
        return plan(self.calls(pieces), options.spare, deep=options.deep)
