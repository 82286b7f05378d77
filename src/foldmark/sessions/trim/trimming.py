"""Trim a session: write a new file next to the old one, archive the unchanged old one and report [SPEC 8, S4].

The file is read line by line, with bounded memory. Later appends are ignored, so two passes see the same lines. The new
file has as many lines as the old one, so each line has the same number in both.
"""

import codecs
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core import codec
from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import count, listing, one_line
from foldmark.log import Log
from foldmark.sessions import lineage, spans
from foldmark.sessions.archive.storing import archive_folder, put
from foldmark.sessions.archive.syncing import passes_over
from foldmark.sessions.formats import ResumeCommand, SessionPath, format_named, refusal, resume_command
from foldmark.sessions.hook.tail import Share, share
from foldmark.sessions.new_file import mode_beside, new_file
from foldmark.sessions.places import session_path
from foldmark.sessions.session_file import MAX_LINE, Piece, SessionFile, as_utf8
from foldmark.sessions.trim.job import LineTrimmer, ToolTally, TrimError, TrimOptions
from foldmark.sessions.trim.stale import LONG, SPARED, STEPS

LONGEST = MAX_LINE
"""Maximum bytes of a line that is cut, the same as for an import. Longer lines are copied in pieces."""

BUFFER = 1 << 20

_SHORT = 64
"""A line that holds only `null` has fewer bytes than this."""

_WIDTH = 15
"""Characters reserved in `trim_metadata` for a number that is not known yet."""

_COUNT = b'"trimmed_count":'
_SAVED = b',"tokens_saved":'
_ROOM = b"0".ljust(_WIDTH)

_SPARED = "newest results, left whole"

Begin = Callable[..., LineTrimmer]
"""Begins a new pass over the lines, given the tools of the calls that an earlier pass found."""


class _NothingCutError(Exception):
    """The new file would be a copy of the old one."""


class TrimResult(Struct, frozen=True):
    """The result of trimming a session.

    `session` is the new session, or the original if nothing was cut. `tally` maps each tool to its counts, `steps` each
    reason for a cut to the tokens saved. `in_context` counts the tokens saved in the current context, and
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


def kind_of(session: SessionPath) -> type[LineTrimmer]:
    """Return the `LineTrimmer` of a session's format."""
    kind: type[LineTrimmer] = format_named(session.kind).trim_kind
    return kind


def trim(session: SessionPath, options: TrimOptions, new_id: str, moment: datetime) -> TrimResult:
    """Write the trimmed session `new_id` as a new file; write nothing if nothing is cut.

    Raises TrimError, SessionFileError, WriteError.
    """
    pieces = _pieces(session)
    path = format_named(session.kind).new_path(session.path, new_id, moment.astimezone())
    try:
        with new_file(path, mode_beside(session.path)) as out:
            begin = trimmer(session, pieces, options, new_id)
            done = write(pieces, out, begin, session_path(path, session.kind), moment)
            if not done.trimmed_count:
                raise _NothingCutError  # noqa: TRY301 - it removes the new file
    except _NothingCutError:
        return replace(done, session=session)
    return done


def preview(session: SessionPath, options: TrimOptions, moment: datetime) -> TrimResult:
    """Return the result of a trim without writing it. Raises TrimError, SessionFileError."""
    pieces = _pieces(session)
    return write(pieces, None, trimmer(session, pieces, options, session.id), session, moment)


def further(session: SessionPath, options: TrimOptions, done: TrimResult, moment: datetime) -> dict[str, int]:
    """Return the tokens that each step of the profile `deep` would save beyond the trim `done`.

    The newest results, which that profile leaves whole, count as negative. The result is empty if no step would save
    anything. Raises the same errors as `preview`.
    """
    deep = preview(session, replace(options, deep=True, spare=options.spare or SPARED), moment).steps
    more = {step: deep.get(step, 0) - done.steps.get(step, 0) for step in (*deep, *done.steps)}
    more = {_SPARED if step == LONG else step: tokens for step, tokens in more.items() if tokens}
    return more if any(tokens > 0 for tokens in more.values()) else {}


def trimmer(session: SessionPath, pieces: Sequence[Piece], options: TrimOptions, new_id: str) -> Begin:
    """Return a function that begins a pass over a session's lines. Raises SessionFileError."""
    kind = kind_of(session)
    return partial(kind, options, session.path, new_id, kind.plan_of(pieces, options))


def write(
    pieces: Sequence[Piece], out: IO[bytes] | None, begin: Begin, session: SessionPath, moment: datetime
) -> TrimResult:
    """Write the trimmed `session` to the empty file `out`; if `out` is None, only count."""
    with ExitStack() as stack:
        opened = [Opened(each, stack) for each in pieces]
        done = _TrimPass(opened, out, lines := begin(), moment)
        if lines.late:  # a result came before its call; the second pass knows all calls
            if out:
                out.seek(0)
                out.truncate()
            done = _TrimPass(opened, out, lines := begin(lines.names), moment)
    if done.counts_at is None:
        raise TrimError(f"{one_line(str(pieces[-1].path))} is no session: no line of it is a JSON object")
    ratio = lines.bytes_per_token
    tally = dict(sorted(lines.tools.items(), key=lambda each: (-each[1].bytes, each[0])))
    result = TrimResult(
        session=session,
        tally=tally,
        steps={step: round(lines.steps[step] / ratio) for step in STEPS if step in lines.steps},
        lines=done.count,
        tokens_saved=round(sum(each.bytes for each in tally.values()) / ratio),
        in_context=round(lines.in_context / ratio),
        reminders=lines.reminders,
        sizes=(sum(each.end - each.piece.start for each in opened), done.size),
        tools=tuple(sorted(set(lines.names.values()))),
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
    """An open piece of a session, read as UTF-8 whatever the encoding of its file. Later appends are ignored."""

    def __init__(self, piece: Piece, stack: ExitStack) -> None:
        self.piece = piece
        self.file = stack.enter_context(as_utf8(piece.path.open("rb", buffering=BUFFER)))
        size = os.fstat(self.file.fileno()).st_size
        self.end = size if piece.end is None else min(piece.end, size)

    def lines(self) -> Iterator[bytes]:
        """Yield every line. Of a line that is too long, yield only the beginning; the file is then right after it."""
        self.file.seek(self.piece.start)
        read, left = self.file.readline, self.end - self.piece.start
        while left > 0 and (raw := read(LONGEST + 1)):
            left -= len(raw)
            yield raw if left >= 0 else raw[:left]
            if len(raw) > LONGEST:
                left = self.end - self.file.tell()


class _TrimPass:
    """One pass over the files. The first record gets the metadata of the trim.

    `size` counts the bytes written, `count` the lines, `long` the lines above `LONGEST`, and `nulls` the lines that
    hold only `null`. `counts_at` is the offset of the counts in the new file, None if there was no record.
    """

    def __init__(self, files: Sequence[Opened], out: IO[bytes] | None, lines: LineTrimmer, moment: datetime) -> None:
        self._lines = lines
        self._metadata = {
            "parent_file": codec.well_formed(str(lines.source)),
            "trimmed_at": codec.timestamp(moment, "seconds"),
            "threshold": lines.options.threshold,
        }
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
        """Change a line as usual. If it is an object, also add the metadata of the trim."""
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

    def _copy_giant(self, opened: Opened, piece: bytes) -> None:
        """Copy a line that is too long for memory; `piece` is its beginning."""
        while piece:
            self._write(piece)
            self.size += len(piece)
            piece = b"" if piece.endswith(b"\n") else opened.file.readline(min(BUFFER, opened.end - opened.file.tell()))


def _pieces(session: SessionPath) -> list[Piece]:
    """Return the pieces of a session. Raises SessionFileError, TrimError."""
    if refused := refusal(session):
        raise TrimError(refused)
    with SessionFile(session.path):  # raises the reason if the file cannot be read
        return kind_of(session).pieces(session)


_LITTLE = 10
"""Percent of the context. A trim that saves less does not help for long."""

_HALF = 50
"""Percent of the window. A context below it needs no help yet."""

_LISTED = 20
"""Maximum number of tools to list."""


class TrimReport(NamedTuple):
    """The result of a trim, or with `preview` the expected one.

    `share` is the fill level of the context before the trim (None: unknown), `archived` the path of the session in the
    archive (None: not archived), `resume` the command that resumes the new session. `further` maps each step of the
    profile `deep` to the tokens that it would save in addition. `warnings` explain unexpected outcomes.
    """

    parent: SessionPath
    trimmed: TrimResult
    share: Share | None
    archived: Path | None
    resume: ResumeCommand | None
    preview: bool
    further: dict[str, int]
    warnings: tuple[str, ...]

    @property
    def written(self) -> bool:
        """Return True if a new session was written."""
        return not self.preview and self.trimmed.trimmed_count > 0

    @property
    def after(self) -> int | None:
        """The share of the window that remains in use after the trim, in percent; None if unknown."""
        if self.share is None:
            return None
        left = max(self.share.tokens - self.trimmed.in_context, 0)
        return left * 100 // self.share.window

    @property
    def little(self) -> bool:
        """Return True if the trim saved too little: a rollover helps more."""
        saved, share = self.trimmed.in_context, self.share
        if share is None:
            return not saved
        return share.percent >= _HALF and saved * 100 < share.tokens * _LITTLE


def trim_session(
    session: SessionPath,
    options: TrimOptions,
    new_id: str,
    opened: Callable[[], AbstractContextManager[Log]],
    environment: Mapping[str, str],
    exclude: Sequence[str],
    *,
    dry_run: bool,
) -> TrimReport:
    """Trim a session into the new session `new_id`, archive it, and record both in the log that `opened` opens.

    With `dry_run`, nothing is written. Sessions in the folders `exclude` are not archived. After the new file is
    written, a failure is only a warning, because the session itself stays where it is. Raises the errors of `trim`.
    """
    moment, before = datetime.now(UTC), share(session.path)
    done = preview(session, options, moment) if dry_run else trim(session, options, new_id, moment)
    archived = resume = None
    warnings: list[str] = []
    if not dry_run and done.trimmed_count:
        try:
            if not passes_over(session.path, exclude, environment):
                put_away = put(session.path, archive_folder(environment), session.kind)
                archived = None if put_away.state == "excluded" else put_away.path
        except FoldmarkError as error:
            warnings.append(f"the session was not archived, but stays where it is: {error}")
        try:
            with opened() as log:
                work = lineage.find_work(environment)
                lineage.record_handover(log, session, done.session, "trim", before.percent if before else None, work)
        except (FoldmarkError, OSError) as error:
            warnings.append(f"the new session was not recorded in the database: {error}")
        resume = resume_command(done.session, environment)
    more = {} if options.deep else further(session, options, done, moment)
    all_warnings = (*warnings, *_surprises(done, options))
    return TrimReport(session, done, before, archived, resume, dry_run, more, all_warnings)


def _surprises(trimmed: TrimResult, options: TrimOptions) -> Iterator[str]:
    if trimmed.tools and not trimmed.tally:
        tools, own = (listing(map(one_line, names), _LISTED) for names in (options.tools, trimmed.tools))
        yield f"there is no result of {tools} in this session; its tools are {own}"
    if trimmed.long:
        were = "was left as it is" if trimmed.long == 1 else "were left as they are"
        yield f"{count(trimmed.long, 'line')} longer than {LONGEST >> 20} MB {were}"
    agent = format_named(trimmed.session.kind)
    if trimmed.nulls and agent.null_stops:
        file = shlex.quote(str(trimmed.session.path))
        yield (
            f"{count(trimmed.nulls, 'line')} of the session {'is' if trimmed.nulls == 1 else 'are'} `null`, with which "
            f"{agent.title} cannot resume it: foldmark doctor --session {file} --repair"
        )
