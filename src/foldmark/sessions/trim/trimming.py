"""Trim a session: write a new file next to the old one, archive the unchanged old one and report [SPEC 8, S4].

The file is read line by line, with bounded memory. Later appends are ignored, so two passes see the same lines. The new
file has as many lines as the old one, so each line has the same number in both.
"""

import codecs
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core import codec
from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import count, listing, one_line, percent
from foldmark.formats.places import session_path
from foldmark.formats.session_file import MAX_LINE, Piece, SessionFile
from foldmark.formats.session_format import ResumeCommand, SessionPath, format_named, refusal, resume_command
from foldmark.sessions import lineage
from foldmark.sessions.archive.storing import archive_folder, put
from foldmark.sessions.hook.tail import Share, share_in
from foldmark.sessions.new_file import mode_beside, new_file
from foldmark.sessions.trim.job import Counted, LineTrimmer, ToolTally, TrimError, TrimOptions
from foldmark.sessions.trim.stale import STEPS, TrimPlan, plan
from foldmark.wires import spans

LONGEST = MAX_LINE
"""Maximum bytes of a line that is cut, the same as for an import. Longer lines are copied in pieces."""

_SHORT = 64
"""A line that holds only `null` has fewer bytes than this."""

_WIDTH = 15
"""Characters reserved in `trim_metadata` for a number that is not known yet."""

_COUNT = b'"trimmed_count":'
_SAVED = b',"tokens_saved":'
_ROOM = b"0".ljust(_WIDTH)


class _NothingCutError(Exception):
    """The new file would be a copy of the old one."""


class TrimResult(Struct, frozen=True):
    """The result of trimming a session.

    `session` is the new session, or the original if nothing was cut. `tally` maps each tool to its counts.
    `tokens_saved` are the tokens saved in what the model is sent when it resumes the session, and `steps` the same for
    each reason for a cut. `others` is the number of results of other tools that the profile `deep` would cut too, and
    `others_saved` the tokens that this would save. `reminders` is the number of reminders removed. `sizes` are the
    bytes of the file before and after. `tools` are all tools that were called. `long` counts the lines above `LONGEST`,
    which stay unchanged, and `nulls` the lines that hold only `null`.
    """

    session: SessionPath
    tally: dict[str, ToolTally]
    steps: dict[str, int]
    others: int
    others_saved: int
    lines: int
    tokens_saved: int
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


def trim(session: SessionPath, file: SessionFile, options: TrimOptions, new_id: str, moment: datetime) -> TrimResult:
    """Write the trimmed session `new_id` as a new file; write nothing if nothing is cut. `file` is the session's.

    Raises TrimError, SessionFileError, WriteError.
    """
    kind_of(session)  # raises what the format does not offer, before anything is written
    path = format_named(session.kind).new_path(session.path, new_id, moment.astimezone())
    with suppress(_NothingCutError), new_file(path, mode_beside(session.path)) as out:
        done = write(session, file, out, options, session_path(path, session.kind), moment)
        if not done.trimmed_count:
            raise _NothingCutError  # it removes the new file
        return done
    return replace(done, session=session)


def preview(session: SessionPath, file: SessionFile, options: TrimOptions, moment: datetime) -> TrimResult:
    """Return the result of a trim without writing it. Raises TrimError, SessionFileError."""
    return write(session, file, None, options, session, moment)


def write(
    session: SessionPath,
    file: SessionFile,
    out: IO[bytes] | None,
    options: TrimOptions,
    new: SessionPath,
    moment: datetime,
) -> TrimResult:
    """Write the trimmed `session` as the session `new` to the empty file `out`; if `out` is None, only count.

    Raises TrimError, SessionFileError.
    """
    if refused := refusal(file, session.kind):
        raise TrimError(refused)
    kind = kind_of(session)
    begin, stale = partial(kind, source=session.path, new_id=new.id), options.deep and kind.finds_stale
    with ExitStack() as stack:
        parts = [
            (file if piece.path == session.path else stack.enter_context(SessionFile(piece.path)), piece)
            for piece in kind.pieces(file, session)
        ]
        found, names = TrimPlan(), dict[str, str]()
        if stale or options.spare:  # what is cut depends on the calls that follow
            known = _TrimPass(parts, None, begin(options), moment).lines
            found, names = plan(known.calls(), options.spare, deep=stale), known.names
        done = _TrimPass(parts, out, begin(options, plan=found, earlier=names), moment)
        if done.lines.late:  # a result came before its call; the second pass knows all calls
            if out:
                out.seek(0)
                out.truncate()
            done = _TrimPass(parts, out, begin(options, plan=found, earlier=done.lines.names), moment)
    if done.counts_at is None:
        raise TrimError(f"{file.label} is no session: no line of it is a JSON object; name a session file (*.jsonl)")
    lines, sent, ratio = done.lines, done.lines.sent(), done.lines.bytes_per_token
    cuts = [each for each in lines.cuts if each.at in sent]
    others = [] if options.deep else [size for at, size in lines.left if at in sent]
    for each in cuts:
        tool = lines.tools[each.tool]
        tool.characters += each.characters
        tool.bytes += each.bytes
    tally = dict(sorted(lines.tools.items(), key=lambda each: (-each[1].bytes, each[0])))
    result = TrimResult(
        session=new,
        tally=tally,
        steps=_by_step(cuts, ratio),
        others=len(others),
        others_saved=round(sum(others) / ratio),
        lines=done.count,
        tokens_saved=round(sum(each.bytes for each in cuts) / ratio),
        reminders=lines.reminders,
        sizes=(sum(file.end_of(piece) - piece.start for file, piece in parts), done.size),
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


def _by_step(cuts: Iterable[Counted], ratio: float) -> dict[str, int]:
    """Return the tokens of cuts by step; they add up to the tokens of all cuts."""
    found: dict[str, int] = {}
    for each in cuts:
        for step, size in each.steps:
            found[step] = found.get(step, 0) + size
    steps, whole, shown = {}, 0, 0
    for step in STEPS:
        whole += found.get(step, 0)
        steps[step] = round(whole / ratio) - shown
        shown += steps[step]
    return {step: tokens for step, tokens in steps.items() if found.get(step)}


class _TrimPass:
    """One pass over the files. The first record gets the metadata of the trim.

    `size` counts the bytes written, `count` the lines, `long` the lines above `LONGEST`, and `nulls` the lines that
    hold only `null`. `counts_at` is the offset of the counts in the new file, None if there was no record.
    """

    def __init__(
        self, parts: Iterable[tuple[SessionFile, Piece]], out: IO[bytes] | None, lines: LineTrimmer, moment: datetime
    ) -> None:
        self.lines = lines
        self._metadata = {
            "parent_file": codec.well_formed(str(lines.source)),
            "trimmed_at": codec.timestamp(moment, "seconds"),
            "threshold": lines.options.threshold,
        }
        self._write = out.write if out else len
        self.size = self.count = self.long = self.nulls = 0
        self.counts_at: int | None = None
        for file, piece in parts:
            lines.source = piece.path
            self._run(file, piece)

    def _run(self, file: SessionFile, piece: Piece) -> None:
        write, lines = self._write, self.lines
        at, size, ahead = self.count, self.size, piece.number - self.count
        goes_on = False  # a line that is too long, copied in parts
        for raw in file.raw_lines(piece, LONGEST):
            length = len(raw)
            if goes_on or length > LONGEST:
                self.long += not goes_on
                new, goes_on = raw, not raw.endswith(b"\n")
            else:
                lines.at = at
                if length < _SHORT and b"null" in raw and raw.removeprefix(codecs.BOM_UTF8).strip() == b"null":
                    self.nulls += 1
                new = lines.line(at + ahead, raw) if self.counts_at is not None else self._first(at + ahead, raw, size)
            write(new)
            size += len(new)
            at += not goes_on
        self.count, self.size = at + goes_on, size

    def _first(self, number: int, raw: bytes, size: int) -> bytes:
        """Change a line as usual. If it is an object, also add the metadata of the trim."""
        line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        mark = raw[: len(raw) - len(line)]
        line = self.lines.line(number, line)
        counts = b"%b%b%b%b}" % (_COUNT, _ROOM, _SAVED, _ROOM)
        with suppress(ValueError):  # the line is not an object
            if spans.is_json(line):
                value = b"%b,%b" % (msgspec.json.encode(self._metadata)[:-1], counts)
                line = spans.with_member(line, "trim_metadata", value)
                _, end = spans.last(line, "trim_metadata") or (0, 0)
                self.counts_at = size + len(mark) + end - len(counts) + len(_COUNT)
        return mark + line


_LITTLE = 10
"""Percent of the context. A trim that saves less does not help for long."""

_HALF = 50
"""Percent of the window. A context below it needs no help yet."""

_LISTED = 20
"""Maximum number of tools to list."""


class TrimReport(NamedTuple):
    """The result of a trim, or with `preview` the expected one.

    `share` is the fill level of the context before the trim (None: unknown), `archived` the path of the session in the
    archive (None: not archived), `resume` the command that resumes the new session. `warnings` explain unexpected
    outcomes.
    """

    parent: SessionPath
    trimmed: TrimResult
    share: Share | None
    archived: Path | None
    resume: ResumeCommand | None
    preview: bool
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
        return percent(self.share.tokens - self.trimmed.tokens_saved, self.share.window)

    @property
    def little(self) -> bool:
        """Return True if the trim saved too little: a rollover helps more."""
        saved, share = self.trimmed.tokens_saved, self.share
        if share is None:
            return not saved
        return share.percent >= _HALF and saved * 100 < share.tokens * _LITTLE


def trim_session(
    session: SessionPath,
    file: SessionFile,
    options: TrimOptions,
    new_id: str,
    environment: Mapping[str, str],
    exclude: Sequence[str],
    *,
    dry_run: bool,
) -> TrimReport:
    """Trim a session, whose `file` is open, into the new session `new_id`, archive it, and record both.

    With `dry_run`, nothing is written. Sessions in the folders `exclude` are not archived. After the new file is
    written, a failure is only a warning, because the session itself stays where it is. Raises the errors of `trim`.
    """
    moment, before = datetime.now(UTC), share_in(file.part, file.size, [session.path.stem])
    done = preview(session, file, options, moment) if dry_run else trim(session, file, options, new_id, moment)
    if before is not None and before.tokens < done.tokens_saved:
        before = None  # the newest usage does not count this context: results came after it, or it is made up
    archived = resume = None
    warnings: list[str] = []
    if not dry_run and done.trimmed_count:
        archive = archive_folder(environment)
        try:
            if not exclude or not _passes_over(file, exclude, environment):
                put_away = put(session.path, archive, session.kind)
                archived = None if put_away.state == "excluded" else put_away.path
        except FoldmarkError as error:
            warnings.append(f"the session was not archived, but stays where it is: {error}")
        try:
            work, context = lineage.find_work(environment), before.percent if before else None
            lineage.record_handover(archive, session, done.session, "trim", context, work, codec.timestamp(moment))
        except FoldmarkError as error:
            warnings.append(f"the lineage of the new session was not recorded: {error}")
        resume = resume_command(done.session, environment)
    all_warnings = (*warnings, *_surprises(done, options))
    return TrimReport(session, done, before, archived, resume, dry_run, all_warnings)


def _passes_over(file: SessionFile, exclude: Sequence[str], environment: Mapping[str, str]) -> bool:
    from foldmark.sessions.archive.syncing import passes_over  # 10 ms, and few people exclude folders

    return passes_over(file, exclude, environment)


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
