"""Trim a session: write a new file beside the old one, which is only read [SPEC 8, S4].

The file is read line by line, with bounded memory. Later appends are ignored, so two passes see the same lines. The new
file has as many lines as the old one, so a line has the same number in both.
"""

import codecs
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from typing import IO, Any

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
from foldmark.sessions.trim.job import Job, LineTrimmer, ToolTally, TrimError, TrimKind, TrimOptions
from foldmark.sessions.trim.stale import LONG, SPARED, STEPS

LONGEST = MAX_LINE
"""Maximum bytes of a line that is cut, the same as for an import. Longer lines are copied in pieces."""

BUFFER = 1 << 20

_SHORT = 64
"""A line that holds `null` has fewer bytes."""

_WIDTH = 15
"""Characters reserved in `trim_metadata` for a number that is not known yet."""

_COUNT = b'"trimmed_count":'
_SAVED = b',"tokens_saved":'
_ROOM = b"0".ljust(_WIDTH)

_SPARED = "newest results, left whole"


class _NothingCutError(Exception):
    """The new file would be a copy of the old one."""


class TrimResult(Struct, frozen=True):
    """The result of trimming a session.

    `session` is the new session, or the original if nothing was cut. `tally` maps each tool to its results, `steps`
    each reason for a cut to the tokens saved. `in_context` counts the tokens saved in the current context, and
    `tokens_saved` those in the whole file. `reminders` is the number of reminders removed. `sizes` are the bytes of the
    file before and after. `tools` are all tools that were called. `long` counts the lines above `LONGEST`, which stay
    unchanged, and `nulls` the lines that hold only `null`.
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
        """The number of results and arguments that were cut."""
        return sum(each.cut + each.arguments for each in self.tally.values())


def kind_of(session: SessionPath) -> TrimKind:
    """Return the `TrimKind` of a session's format."""
    kind: TrimKind = format_named(session.kind).trim_kind
    return kind


def trim(session: SessionPath, options: TrimOptions, new_id: str, moment: datetime) -> TrimResult:
    """Write the trimmed session `new_id` as a new file; write nothing if nothing is cut.

    Raises TrimError, SessionFileError, WriteError.
    """
    pieces, kind = _pieces(session), kind_of(session)
    path = format_named(session.kind).new_path(session.path, new_id, moment.astimezone())
    try:
        with new_file(path, mode_beside(session.path)) as out:
            job = Job(options, session.path, new_id)
            done = write(pieces, out, kind, job, session_path(path, session.kind), moment)
            if not done.trimmed_count:
                raise _NothingCutError  # noqa: TRY301 - it removes the new file
    except _NothingCutError:
        return replace(done, session=session)
    return done


def preview(session: SessionPath, options: TrimOptions, moment: datetime) -> TrimResult:
    """Return the result of a trim without writing it. Raises TrimError, SessionFileError."""
    job = Job(options, session.path, session.id)
    return write(_pieces(session), None, kind_of(session), job, session, moment)


def further(session: SessionPath, options: TrimOptions, done: TrimResult, moment: datetime) -> dict[str, int]:
    """Return the tokens that each step of the profile `deep` would save beyond the trim `done`.

    The newest results, which that profile leaves whole, count as negative. The result is empty if no step would save
    anything. Raises as `preview`.
    """
    deep = preview(session, replace(options, deep=True, spare=options.spare or SPARED), moment).steps
    more = {step: deep.get(step, 0) - done.steps.get(step, 0) for step in (*deep, *done.steps)}
    more = {_SPARED if step == LONG else step: tokens for step, tokens in more.items() if tokens}
    return more if any(tokens > 0 for tokens in more.values()) else {}


def write(
    pieces: Sequence[Piece], out: IO[bytes] | None, kind: TrimKind, job: Job, session: SessionPath, moment: datetime
) -> TrimResult:
    """Write the trimmed `session` to the empty file `out`; only count if that is None."""
    metadata = {
        "parent_file": codec.well_formed(str(job.source)),
        "trimmed_at": codec.timestamp(moment, "seconds"),
        "threshold": job.options.threshold,
    }
    job = replace(job, plan=kind.plan(pieces, job.options))
    with ExitStack() as stack:
        opened = [Opened(each, stack) for each in pieces]
        lines = kind.lines(job)
        done = _TrimPass(opened, out, lines, metadata)
        if lines.names.late:  # a result came before its call; the second pass knows all calls
            if out:
                out.seek(0)
                out.truncate()
            lines = kind.lines(replace(job, names=lines.names.found))
            done = _TrimPass(opened, out, lines, metadata)
    if done.counts_at is None:
        raise TrimError(f"{one_line(str(pieces[-1].path))} is no session: no line of it is a JSON object")
    counted, ratio = lines.tally, kind.bytes_per_token
    tally = dict(sorted(counted.tools.items(), key=lambda each: (-each[1].bytes, each[0])))
    result = TrimResult(
        session=session,
        tally=tally,
        steps={step: round(counted.steps[step] / ratio) for step in STEPS if step in counted.steps},
        lines=done.count,
        tokens_saved=round(sum(each.bytes for each in tally.values()) / ratio),
        in_context=round(counted.in_context / ratio),
        reminders=counted.reminders,
        sizes=(sum(each.end - each.piece.start for each in opened), done.size),
        tools=tuple(sorted(set(lines.names.found.values()))),
        long=done.long,
        nulls=done.nulls,
    )
    if out:
        for at, number in ((0, result.trimmed_count), (_WIDTH + len(_SAVED), result.tokens_saved)):
            out.seek(done.counts_at + at)
            out.write(str(number).encode())
        out.seek(0, os.SEEK_END)
    return result


class Opened:
    """An open piece of a session, in UTF-8 whatever the encoding of its file. Later appends are not part of it."""

    def __init__(self, piece: Piece, stack: ExitStack) -> None:
        self.piece = piece
        self.file = stack.enter_context(as_utf8(piece.path.open("rb", buffering=BUFFER)))
        size = os.fstat(self.file.fileno()).st_size
        self.end = size if piece.end is None else min(piece.end, size)

    def lines(self) -> Iterator[bytes]:
        """Yield every line. Of a line that is too long yield only the beginning, and leave the file behind that."""
        self.file.seek(self.piece.start)
        read, left = self.file.readline, self.end - self.piece.start
        while left > 0 and (raw := read(LONGEST + 1)):
            left -= len(raw)
            yield raw if left >= 0 else raw[:left]
            if len(raw) > LONGEST:
                left = self.end - self.file.tell()


class _TrimPass:
    """One pass over the files. The first record gets `metadata`.

    `size` counts the bytes written, `count` the lines, `long` the lines above `LONGEST`, and `nulls` the lines that
    hold only `null`. `counts_at` is the offset of the counts in the new file, None if there was no record.
    """

    def __init__(
        self, files: Sequence[Opened], out: IO[bytes] | None, lines: LineTrimmer, metadata: dict[str, Any]
    ) -> None:
        self._lines, self._metadata = lines, metadata
        self._write = out.write if out else len
        self.size = self.count = self.long = self.nulls = 0
        self.counts_at: int | None = None
        for opened in files:
            if len(files) > 1:
                lines.source = opened.piece.path
            self._run(opened)

    def _run(self, opened: Opened) -> None:
        write, change = self._write, self._lines.line
        number = opened.piece.number - 1
        for raw in opened.lines():
            number += 1
            if len(raw) < _SHORT and raw.removeprefix(codecs.BOM_UTF8).strip() == b"null":
                self.nulls += 1
            if len(raw) > LONGEST:
                self.long += 1
                self._copy_giant(opened, raw)
                continue
            new = self._first(number, raw) if self.counts_at is None else change(number, raw)
            write(new)
            self.size += len(new)
        self.count += number + 1 - opened.piece.number

    def _first(self, number: int, raw: bytes) -> bytes:
        """Change a line like any other. If it is an object, also set its metadata."""
        line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        mark = raw[: len(raw) - len(line)]
        line = self._lines.line(number, line)
        counts = b"%b%b%b%b}" % (_COUNT, _ROOM, _SAVED, _ROOM)
        with suppress(ValueError):  # the line is not an object
            if spans.is_json(line):
                value = b"%b,%b" % (msgspec.json.encode(self._metadata)[:-1], counts)
                line = spans.with_member(line, "trim_metadata", value)
                _, end = spans.last(line, "trim_metadata") or (0, 0)
                self.counts_at = self.size + len(mark) + end - len(counts) + len(_COUNT)
        return mark + line

    def _copy_giant(self, opened: Opened, beginning: bytes) -> None:
        """Copy a line that is too long for memory. Only its first and its last MB can change."""
        file = opened.file
        end = file.tell()
        begin, piece = end - len(beginning), beginning
        while not piece.endswith(b"\n") and (piece := file.readline(min(BUFFER, opened.end - end))):
            end += len(piece)
        file.seek(end - BUFFER)
        first, last = self._lines.giant(beginning[:BUFFER], file.read(BUFFER))
        self._write(first)
        file.seek(begin + BUFFER)
        for at in range(begin + BUFFER, end - BUFFER, BUFFER):
            self._write(file.read(min(BUFFER, end - BUFFER - at)))
        self._write(last)
        self.size += len(first) + len(last) + max(0, end - begin - 2 * BUFFER)
        file.seek(end)


def _pieces(session: SessionPath) -> list[Piece]:
    """Return the pieces of a session. Raises SessionFileError, TrimError."""
    if refused := refusal(session):
        raise TrimError(refused)
    with SessionFile(session.path):  # raises the reason if the file cannot be read
        return kind_of(session).pieces(session)
