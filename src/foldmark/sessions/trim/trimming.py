"""Trimming a session: a new file beside the old one, which is only read [SPEC 8, S4]."""

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core import codec
from foldmark.core.wording import one_line
from foldmark.sessions.new_file import mode_beside, new_file
from foldmark.sessions.places import SessionPath, session_path
from foldmark.sessions.session_file import Piece, SessionFile, as_utf8
from foldmark.sessions.subagents import refusal
from foldmark.sessions.trim.kind import Job, ToolTally, TrimError, TrimKind, TrimOptions
from foldmark.sessions.trim.one_pass import BUFFER, Nowhere, Opened, Out, Pass, fill
from foldmark.sessions.trim.stale import LONG, SPARED, STEPS

_SPARED = "newest results, left whole"


class _NoSessionError(TrimError):
    def __init__(self, path: Path) -> None:
        super().__init__(f"{one_line(str(path))} is no session: no line of it is a JSON object")


class NothingCutError(Exception):
    """The new file would hold what the old one holds."""


class TrimResult(Struct, frozen=True):
    """What became of a session. `session` is the new one, or the same one if nothing was cut. `tally` is tool -> its
    results, `steps` why something was cut -> tokens; `in_context` the tokens saved of what the model reads now,
    `tokens_saved` those of the whole file; `reminders` were taken out of it, `sizes` are the file's bytes before and
    after. `tools` are all that were called; `long` counts the lines that are longer than `LONGEST` and so were left as
    they are, `nulls` those that hold `null` and nothing else."""

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


def kind_of(session: SessionPath) -> TrimKind:
    """What is known of this kind of session."""
    if session.kind == "codex":
        from foldmark.sessions.trim import codex as trim_codex

        return trim_codex.KIND
    from foldmark.sessions.trim import claude

    return claude.KIND


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
                raise NothingCutError  # noqa: TRY301 - it takes the new file away
    except NothingCutError:
        return replace(done, session=session)
    return done


def preview(session: SessionPath, options: TrimOptions, moment: datetime) -> TrimResult:
    """What a trim would do; nothing is written. Raises TrimError, SessionFileError."""
    job = Job(options, session.path, session.id)
    return write(_pieces(session), Nowhere(), kind_of(session), job, session, moment)


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
        done = Pass(opened, out, kind.lines(job), metadata).run()
        if done.late:  # some result stood in front of its call: now all calls are known
            out.seek(0)
            out.truncate()
            done = Pass(opened, out, kind.lines(replace(job, names=done.names)), metadata).run()
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
    fill(out, done.place, trimmed.trimmed_count, trimmed.tokens_saved)
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
