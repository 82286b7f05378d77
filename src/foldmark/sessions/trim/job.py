"""The options and the counts of a trim, and its interface to a session format [SPEC 8, S4].

`trimming` does what is the same for every format: it reads with bounded memory, writes the new file whole or not at
all, and adds `trim_metadata`. A `TrimKind` knows the rest; its `LineTrimmer` changes one line at a time. `claude.KIND`
and `codex.KIND` are the two.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.sessions.formats import SessionPath
from foldmark.sessions.session_file import Piece
from foldmark.sessions.trim.stale import LONG, OTHERS, CallRecord, TrimPlan, plan

_MAX_CALLS = 100_000
"""Calls that are kept in memory; of more, as in sessions of many hundred MB, only the newer half is kept."""

UNKNOWN = "(unknown)"
"""The tool of a result whose call is nowhere in the file."""


class TrimError(FoldmarkError):
    """A session cannot be trimmed."""


class TrimOptions(Struct, frozen=True):
    """Cut results of `tools` (names or patterns, ignoring case) that have more than `threshold` characters.

    `keep_display_copy` leaves the copy that only the display reads. `deep` takes the results of all tools, and what
    `stale` finds; the newest `spare` results stay whole.
    """

    threshold: int
    tools: tuple[str, ...]
    keep_display_copy: bool = False
    deep: bool = False
    spare: int = 0


class Job(Struct, frozen=True):
    """The settings of a `LineTrimmer`.

    `source` is the original, which pointers name, `new_id` the session id of the new lines. `names` maps call ids to
    tools as an earlier pass over the file found them; `plan` is what is cut for other reasons than its length.
    """

    options: TrimOptions
    source: Path
    new_id: str
    names: Mapping[str, str] = {}
    plan: TrimPlan = TrimPlan()


class Targets:
    """The tools whose results are cut: names or patterns such as `mcp__*`, compared without case."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(pattern.casefold() for pattern in patterns)
        self.everything = "*" in self._patterns
        self._known: dict[str, bool] = {}

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
    """The tools of the calls in a file, by call id.

    `found` are those of this pass, `earlier` those of an earlier one. `late` becomes True when a call comes after its
    result, which would have been cut.
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
        """Return the tool of a result if its results are cut, else None. `long`: this one would be cut."""
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
    """The counts of one tool: its results, those that were cut, the calls whose arguments were cut, the characters that
    the model no longer reads, and their bytes in the JSON of `message.content` (not in a display copy)."""

    results: int = 0
    cut: int = 0
    arguments: int = 0
    characters: int = 0
    bytes: int = 0

    def add(self, characters: int, bytes: int) -> None:
        """Count a cut."""
        self.characters += characters
        self.bytes += bytes


class Tally:
    """All counts of a trim: by tool, and by step (see `stale.STEPS`) in bytes.

    `in_context` counts the bytes that were cut from the current context: after the last compaction, and outside of side
    chains. `default` are the tools of the default profile.
    """

    def __init__(self, default: Targets) -> None:
        self.tools: dict[str, ToolTally] = {}
        self.steps: dict[str, int] = {}
        self.in_context = 0
        self.reminders = 0
        self._default = default

    def result(self, tool: str, *, cut: bool) -> ToolTally:
        """Count a result of a tool whose results are cut."""
        found = self.tools.setdefault(tool, ToolTally())
        found.results += 1
        found.cut += cut
        return found

    def step(self, tool: str, step: str | None, bytes: int, by_length: int) -> None:
        """Count the bytes cut from a result; `by_length` of them its length alone would have taken."""
        usual = LONG if tool in self._default else OTHERS
        if by_length:
            self.steps[usual] = self.steps.get(usual, 0) + by_length
        if bytes > by_length:
            self.steps[step or usual] = self.steps.get(step or usual, 0) + bytes - by_length


class LineTrimmer:
    """Trims the lines of a session in one pass.

    `source` is the file that pointers name; `trimming` sets it for each `Piece`. If `names.late` at the end, there is a
    second pass with the names that were found.
    """

    targets: type[Targets] = Targets

    def __init__(self, job: Job) -> None:
        self.source, self.options, self.plan = job.source, job.options, job.plan
        self.tally = Tally(self.targets(job.options.tools))
        self.cut_tools = self.targets(("*",) if job.options.deep else job.options.tools)
        self.names = CallNames(self.cut_tools, job.names)

    def line(self, number: int, raw: bytes) -> bytes:
        """Return line `number` (from 1), with its line end if it has one, for the new file.

        Whatever is not understood is returned unchanged; never raises.
        """
        raise NotImplementedError

    def giant(self, start: bytes, end: bytes) -> tuple[bytes, bytes]:
        """Return the first and the last MB of a line that is too long for memory, with the new session id if it is
        certain where that belongs. The bytes between them stay."""
        return start, end


class TrimKind(Struct, frozen=True):
    """How the sessions of one format are trimmed.

    `bytes_per_token` converts bytes of the model's JSON into tokens [SPEC 7]. `calls` lists calls with their results in
    the order in which the model reads them. `pieces` lists what the new session is made of: the history of a fork may
    be in other files. Both raise SessionFileError.
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
