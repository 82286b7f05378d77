"""Trimming a session: a new file beside the old one, or in its place [SPEC 8, S4].

The old file is only read. A large one is read in two halves at a time, where the machine has two processors.
"""

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
from foldmark.sessions.session_file import SessionFile
from foldmark.sessions.subagents import refusal
from foldmark.sessions.trim.halves import in_halves
from foldmark.sessions.trim.kind import Job, Kind, Piece, ToolTally, TrimError, Wish
from foldmark.sessions.trim.one_pass import BUFFER, Nowhere, Opened, Out, Pass, fill


class _NoSessionError(TrimError):
    def __init__(self, path: Path) -> None:
        super().__init__(f"{one_line(str(path))} is no session: no line of it is a JSON object")


class NothingCutError(Exception):
    """The new file would hold what the old one holds."""


class Trimmed(Struct, frozen=True):
    """What became of a session. `session` is the new one, or the same one if nothing was cut; `source` the
    file that holds what was cut. `tally` is tool -> its results; `in_context` the tokens saved of what the model reads
    now, `tokens_saved` those of the whole file. `tools` are all that were called; `long` counts the lines that are
    longer than `LONGEST` and so were left as they are, `nulls` those that hold `null` and nothing else."""

    session: SessionPath
    source: Path
    tally: dict[str, ToolTally]
    lines: int
    tokens_saved: int
    in_context: int
    tools: tuple[str, ...]
    long: int
    nulls: int

    @property
    def trimmed_count(self) -> int:
        """How many results were cut."""
        return sum(each.cut for each in self.tally.values())


def kind_of(session: SessionPath) -> Kind:
    """What is known of this kind of session."""
    if session.kind == "codex":
        from foldmark.sessions.trim import codex as trim_codex

        return trim_codex.KIND
    from foldmark.sessions.trim import claude

    return claude.KIND


def trim(session: SessionPath, wish: Wish, new_id: str, moment: datetime) -> Trimmed:
    """Write the trimmed session `new_id` as a new file; nothing is written where nothing is cut.

    Raises TrimError, SessionFileError, WriteError.
    """
    pieces = _pieces(session)
    kind = kind_of(session)
    path = kind.place(session, new_id)
    try:
        with new_file(path, mode_beside(session.path)) as out:
            job = Job(wish, session.path, new_id)
            done = write(pieces, out, kind, job, session_path(path, session.kind), moment)
            if not done.trimmed_count:
                raise NothingCutError  # noqa: TRY301 - it takes the new file away
    except NothingCutError:
        return replace(done, session=session)
    return done


def preview(session: SessionPath, wish: Wish, moment: datetime) -> Trimmed:
    """What a trim would do; nothing is written. Raises TrimError, SessionFileError."""
    job = Job(wish, session.path, session.id)
    return write(_pieces(session), Nowhere(), kind_of(session), job, session, moment)


def write(pieces: Sequence[Piece], out: Out, kind: Kind, job: Job, session: SessionPath, moment: datetime) -> Trimmed:
    """Write a trimmed session to `out`, from its beginning; `session` is what it becomes."""
    metadata = {
        "parent_file": codec.well_formed(str(job.source)),
        "trimmed_at": codec.timestamp(moment, "seconds"),
        "threshold": job.wish.threshold,
    }
    with ExitStack() as stack:
        opened = [Opened(each, stack.enter_context(each.path.open("rb", buffering=BUFFER))) for each in pieces]
        done = in_halves(opened, out, kind, job, metadata) or Pass(opened, out, kind.lines(job), metadata).run()
        if done.late:  # some result stood in front of its call: now all calls are known
            out.seek(0)
            out.truncate()
            done = Pass(opened, out, kind.lines(replace(job, names=done.names)), metadata).run()
    if done.place is None:
        raise _NoSessionError(pieces[-1].path)
    tally = dict(sorted(done.tally.items(), key=lambda each: (-each[1].bytes, each[0])))
    saved = round(sum(each.bytes for each in tally.values()) / kind.bytes_per_token)
    fill(out, done.place, sum(each.cut for each in tally.values()), saved)
    in_context = round(done.in_context / kind.bytes_per_token)
    tools = tuple(sorted(set(done.names.values())))
    return Trimmed(session, job.source, tally, done.count, saved, in_context, tools, done.long, done.nulls)


def check_not_subagent(session: SessionPath) -> None:
    """Raise TrimError for the session of a subagent."""
    if refused := refusal(session):
        raise TrimError(refused)


def _pieces(session: SessionPath) -> list[Piece]:
    """What a session is made of. Raises SessionFileError if its file cannot be read, TrimError."""
    check_not_subagent(session)
    with SessionFile(session.path):
        return kind_of(session).pieces(session)
