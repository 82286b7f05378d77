"""`foldmark doctor --session --repair`: write what an import of a damaged session shows as a new session [SPEC 8].

The damaged file is only read, and the log of the import is thrown away.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from foldmark.core import codec
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.segments import END, Segment
from foldmark.core.wording import count, one_line
from foldmark.formats.claude.members import SAID
from foldmark.formats.places import session_path
from foldmark.formats.session_format import DEFAULT, SessionPath, format_named
from foldmark.log import Agent, Log
from foldmark.sessions.conversion.exporting import Export, export
from foldmark.sessions.conversion.importing import import_session
from foldmark.sessions.conversion.writer import ImportReport
from foldmark.sessions.doctor import Diagnosis, diagnose, types_listed
from foldmark.sessions.new_file import mode_beside, new_file

UNSENT = "other branches, before a compaction, cut off by the damage, or subagents'"
"""Why a message is not sent on resuming."""


class RepairError(FoldmarkError):
    """A session cannot be repaired. Nothing was written."""


class Repaired(Struct, frozen=True):
    """A repaired copy with the session id `id`, what it lacks of the damaged session, and its diagnosis `now`."""

    session: SessionPath
    id: str
    left_out: list[str]
    now: Diagnosis


def repair(
    log: Log, found: Diagnosis, session_id: str, moment: datetime, version: str, out: Path | None = None
) -> Repaired | None:
    """Write what a damaged session sends on resuming as the session `session_id`, next to it or as `out`.

    `log` is empty, and of no use afterwards. `version` is Foldmark's. Return None if nothing is wrong. Raises
    RepairError if nothing is sent, and SessionFileError or WriteError.
    """
    session, kept = found.session, format_named(found.session.kind)
    if kept.why_not_repaired:
        raise RepairError(kept.why_not_repaired)
    if not found.wrong:
        return None
    report = import_session(log, session.path)
    agent, cwd = log.agent(report.agent_id), kept.surroundings(session).cwd or Path.cwd()
    mark = {"parent_file": codec.well_formed(str(session.path)), "repaired_at": codec.timestamp(moment, "seconds")}
    try:
        made = export(agent, cwd, version, session_id, {"repair_metadata": mark})
    except CommandError:
        raise RepairError(
            f"{one_line(str(session.path))} cannot be repaired: nothing of it is sent on resuming; `foldmark import` "
            "reads what it holds"
        ) from None
    left_out = list(_left_out(agent, report, made))
    path = out or session.path.with_name(f"{session_id}.jsonl")
    with new_file(path, mode_beside(session.path)) as file:
        file.writelines(made.content())
    new = session_path(path, DEFAULT)
    return Repaired(new, session_id, left_out, diagnose(new))


def _left_out(agent: Agent, report: ImportReport, made: Export) -> Iterator[str]:
    """Yield what the copy lacks, in a sentence each."""
    with agent.reading() as (moment, at):
        everything = moment.size((Segment(agent.id, 1, END),)).messages
        unsent = everything - moment.size(at.visible).messages
    if unsent:
        keeps = "it" if unsent == 1 else "them"
        yield f"{count(unsent, 'message')} that Claude Code does not send: {UNSENT}; `foldmark import` keeps {keeps}"
    for why, number in Counter(why for _, why in made.left_out).items():
        yield f"{count(number, 'message')}: {why}"
    if beside := {kind: number for kind, number in report.records.items() if kind not in (*SAID, "attachment")}:
        yield f"{count(sum(beside.values()), 'record')} beside the messages: {types_listed(beside)}"
    yield "the usage of the answers, and the copies of results that only the display reads"
