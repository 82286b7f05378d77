"""Trimming a session: a new file beside the old one, which is only read [SPEC 8, S4].

Line by line, with bounded memory. What is appended to a file meanwhile is not looked at, so that two passes see the
same lines. What is written has as many lines as what was read, so that a line's number means the same in both.
"""

import codecs
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core import codec
from foldmark.core.wording import one_line
from foldmark.sessions import spans
from foldmark.sessions.formats import SessionPath, format_named, refusal
from foldmark.sessions.new_file import mode_beside, new_file
from foldmark.sessions.places import session_path
from foldmark.sessions.session_file import MAX_LINE, Piece, SessionFile, as_utf8
from foldmark.sessions.trim.kind import Job, LineTrimmer, Tally, ToolTally, TrimError, TrimKind, TrimOptions
from foldmark.sessions.trim.stale import LONG, SPARED, STEPS

LONGEST = MAX_LINE
"""The longest line that is cut, in bytes: what an import reads. Longer ones are passed on in pieces."""

BUFFER = 1 << 20

_SHORT = 64
"""Bytes; a line `null` is shorter."""

_WIDTH = 15
"""Digits that a number in `trim_metadata` has room for, before it is known."""

_COUNT = b'"trimmed_count":'
_SAVED = b',"tokens_saved":'
_ROOM = b"0".ljust(_WIDTH)

_SPARED = "newest results, left whole"


class _NoSessionError(TrimError):
    def __init__(self, path: Path) -> None:
        super().__init__(f"{one_line(str(path))} is no session: no line of it is a JSON object")


class _NothingCutError(Exception):
    """The new file would hold what the old one holds."""


class TrimResult(Struct, frozen=True):
    """The result of trimming a session.

    `session` is the new session, or the original if nothing was cut. `tally` maps each tool to its results, `steps`
    each reason for a cut to the tokens saved. `in_context` are the tokens saved in the current context, `tokens_saved`
    those in the whole file; `reminders` is the number of reminders removed, `sizes` the file's bytes before and after.
    `tools` are all tools that were called. `long` counts the lines above `LONGEST`, which stay unchanged, `nulls` the
    lines that hold only `null`.
    """

    session: SessionPath
    tally: dict[str, ToolTally]
    steps: dict[str, int]
    lines: int
    tokens_saved: int
    in_context: int
    reminders: int
    sizes: tuple[int, int]
    tools: tuple[str, ...]
    long: int
    nulls: int

    @property
    def trimmed_count(self) -> int:
        """How many results and arguments were cut."""
        return sum(each.cut + each.arguments for each in self.tally.values())


class Out(Protocol):
    """A file that is written, or nowhere."""

    def write(self, data: bytes, /) -> object: ...
    def tell(self) -> int: ...
    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> object: ...
    def truncate(self) -> object: ...


class _Nowhere:
    """Where a preview is written: only the bytes are counted."""

    size = 0

    def write(self, data: bytes, /) -> None:
        self.size += len(data)

    def tell(self) -> int:
        return self.size

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> None:
        pass

    def truncate(self) -> None:
        self.size = 0


class Opened:
    """A fixed range of a file: later appends are not part of it."""

    def __init__(self, piece: Piece, file: IO[bytes]) -> None:
        self.piece, self.file = piece, file
        size = os.fstat(file.fileno()).st_size
        self.end = size if piece.end is None else min(piece.end, size)

    def lines(self) -> Iterator[bytes]:
        """Every line; of one that is too long its beginning, and the file stands behind that."""
        self.file.seek(self.piece.start)
        read, left = self.file.readline, self.end - self.piece.start
        while left > 0 and (raw := read(LONGEST + 1)):
            left -= len(raw)
            yield raw if left >= 0 else raw[:left]
            if len(raw) > LONGEST:
                left = self.end - self.file.tell()


class _Passed(Struct):
    """The result of one pass; see `LineTrimmer`. `size` is how many bytes were written; `place` is where in these the
    counts belong, None if there was no record; `count` is how many lines there were, `long` how many of them were too
    long to be held, and `nulls` how many hold `null`."""

    tally: Tally
    size: int
    names: dict[str, str]
    late: bool
    count: int
    place: tuple[int, int] | None
    long: int
    nulls: int


class _TrimPass:
    """One pass over files; the first record gets `metadata`."""

    def __init__(self, files: Sequence[Opened], out: Out, lines: LineTrimmer, metadata: dict[str, Any]) -> None:
        self._files, self._out, self._lines, self._metadata = files, out, lines, metadata
        self._place: tuple[int, int] | None = None

    def run(self) -> _Passed:
        """Read all and write all."""
        lines, count, long, nulls = self._lines, 0, 0, 0
        write, change = self._out.write, lines.line
        for opened in self._files:
            if len(self._files) > 1:
                lines.source = opened.piece.path
            number = opened.piece.number - 1
            for raw in opened.lines():
                number += 1
                if len(raw) < _SHORT and _unmarked(raw).strip() == b"null":
                    nulls += 1
                if len(raw) > LONGEST:
                    long += 1
                    self._pass_on(opened, raw)
                elif self._place is None:
                    self._first(number, raw, self._metadata)
                else:
                    write(change(number, raw))
            count += number + 1 - opened.piece.number
        return _Passed(
            lines.tally,
            self._out.tell(),
            dict(lines.names.found),
            lines.names.late,
            count,
            self._place,
            long,
            nulls,
        )

    def _first(self, number: int, raw: bytes, metadata: dict[str, Any]) -> None:
        """As every line, but the first that is an object gets the metadata."""
        line = _unmarked(raw) if number == 1 else raw
        self._out.write(raw[: len(raw) - len(line)])
        line = self._lines.line(number, line)
        found = _with_metadata(line, metadata)
        if found:
            line, at = found
            begin = self._out.tell() + at
            self._place = begin + len(_COUNT), begin + len(_COUNT) + _WIDTH + len(_SAVED)
        self._out.write(line)

    def _pass_on(self, opened: Opened, beginning: bytes) -> None:
        """A line too long to be held: its first and last MB are looked at, what lies between is copied."""
        file = opened.file
        end = file.tell()
        begin, piece = end - len(beginning), beginning
        while not piece.endswith(b"\n") and (piece := file.readline(min(BUFFER, opened.end - end))):
            end += len(piece)
        file.seek(end - BUFFER)
        first, last = self._lines.giant(beginning[:BUFFER], file.read(BUFFER))
        self._out.write(first)
        file.seek(begin + BUFFER)
        for at in range(begin + BUFFER, end - BUFFER, BUFFER):
            self._out.write(file.read(min(BUFFER, end - BUFFER - at)))
        self._out.write(last)
        file.seek(end)


def _fill(out: Out, place: tuple[int, int], count: int, saved: int) -> None:
    """Put the counts where room was left for them."""
    for at, number in zip(place, (count, saved), strict=True):
        out.seek(at)
        out.write(str(number).encode())
    out.seek(0, os.SEEK_END)


def _unmarked(raw: bytes) -> bytes:
    """A line without the byte order mark in front of it."""
    return raw.removeprefix(codecs.BOM_UTF8)


def _with_metadata(line: bytes, metadata: dict[str, Any]) -> tuple[bytes, int] | None:
    """A record with the metadata of a trim, in place of any that it has, and where the counts begin in it; None for
    what is no record."""
    try:
        members = spans.members(line) if spans.is_json(line) else None
    except ValueError:
        members = None
    if members is None:
        return None
    counts = b"%b%b%b%b}" % (_COUNT, _ROOM, _SAVED, _ROOM)
    value = b"%b,%b" % (msgspec.json.encode(metadata)[:-1], counts)
    held = [(begin, end) for key, begin, end in members if key == "trim_metadata"]
    if held:
        begin, end = held[-1]
    else:
        begin = end = line.rindex(b"}")
        value = b'%b"trim_metadata":%b' % (b"," if members else b"", value)
    return spans.edited(line, [(begin, end, value)]), begin + len(value) - len(counts)


def kind_of(session: SessionPath) -> TrimKind:
    """Return the `TrimKind` of a session's format."""
    kind: TrimKind = format_named(session.kind).trim_kind
    return kind


def trim(session: SessionPath, options: TrimOptions, new_id: str, moment: datetime) -> TrimResult:
    """Write the trimmed session `new_id` as a new file; nothing is written where nothing is cut.

    Raises TrimError, SessionFileError, WriteError.
    """
    pieces = _pieces(session)
    kind = kind_of(session)
    path = kind.place(session, new_id)
    try:
        with new_file(path, mode_beside(session.path)) as out:
            job = Job(options, session.path, new_id)
            done = write(pieces, out, kind, job, session_path(path, session.kind), moment)
            if not done.trimmed_count:
                raise _NothingCutError  # noqa: TRY301 - it takes the new file away
    except _NothingCutError:
        return replace(done, session=session)
    return done


def preview(session: SessionPath, options: TrimOptions, moment: datetime) -> TrimResult:
    """What a trim would do; nothing is written. Raises TrimError, SessionFileError."""
    job = Job(options, session.path, session.id)
    return write(_pieces(session), _Nowhere(), kind_of(session), job, session, moment)


def further(session: SessionPath, options: TrimOptions, done: TrimResult, moment: datetime) -> dict[str, int]:
    """Return the tokens that each step of the profile `deep` would save of the session beyond what was `done`.

    What the newest results cost that it leaves whole is negative. Empty if no step would save anything. Raises as
    `preview`.
    """
    deep = preview(session, replace(options, deep=True, spare=options.spare or SPARED), moment).steps
    more = {step: deep.get(step, 0) - done.steps.get(step, 0) for step in (*deep, *done.steps)}
    more = {_SPARED if step == LONG else step: tokens for step, tokens in more.items() if tokens}
    return more if any(tokens > 0 for tokens in more.values()) else {}


def write(
    pieces: Sequence[Piece], out: Out, kind: TrimKind, job: Job, session: SessionPath, moment: datetime
) -> TrimResult:
    """Write a trimmed session to `out`, from its beginning; `session` is what it becomes."""
    metadata = {
        "parent_file": codec.well_formed(str(job.source)),
        "trimmed_at": codec.timestamp(moment, "seconds"),
        "threshold": job.options.threshold,
    }
    job = replace(job, plan=kind.plan(pieces, job.options))
    with ExitStack() as stack:
        opened = [_opened(each, stack) for each in pieces]
        done = _TrimPass(opened, out, kind.lines(job), metadata).run()
        if done.late:  # some result stood in front of its call: now all calls are known
            out.seek(0)
            out.truncate()
            done = _TrimPass(opened, out, kind.lines(replace(job, names=done.names)), metadata).run()
    if done.place is None:
        raise _NoSessionError(pieces[-1].path)
    ratio = kind.bytes_per_token
    tally = dict(sorted(done.tally.tools.items(), key=lambda each: (-each[1].bytes, each[0])))
    trimmed = TrimResult(
        session=session,
        tally=tally,
        steps={step: round(done.tally.steps[step] / ratio) for step in STEPS if step in done.tally.steps},
        lines=done.count,
        tokens_saved=round(sum(each.bytes for each in tally.values()) / ratio),
        in_context=round(done.tally.in_context / ratio),
        reminders=done.tally.reminders,
        sizes=(sum(each.end - each.piece.start for each in opened), done.size),
        tools=tuple(sorted(set(done.names.values()))),
        long=done.long,
        nulls=done.nulls,
    )
    _fill(out, done.place, trimmed.trimmed_count, trimmed.tokens_saved)
    return trimmed


def _opened(piece: Piece, stack: ExitStack) -> Opened:
    """Open a piece, in UTF-8 whatever its file is written in; the lines keep their numbers."""
    return Opened(piece, stack.enter_context(as_utf8(piece.path.open("rb", buffering=BUFFER))))


def _pieces(session: SessionPath) -> list[Piece]:
    """What a session is made of. Raises SessionFileError if its file cannot be read, TrimError."""
    if refused := refusal(session):
        raise TrimError(refused)
    with SessionFile(session.path):
        return kind_of(session).pieces(session)
