"""Compare a session's file with the conversation that an import made of it [SPEC 8]."""

from collections.abc import Iterator

from foldmark.core.segments import contains
from foldmark.core.wording import count, one_line
from foldmark.formats.chain import plan
from foldmark.formats.messages import RecordEntry
from foldmark.formats.places import recognize
from foldmark.formats.session_file import SessionFile
from foldmark.formats.session_format import SessionPath
from foldmark.log import Log
from foldmark.sessions.conversion.imported import ImportedSession, conversation_of, identity
from foldmark.sessions.conversion.importing import indexed, known_lines
from foldmark.sessions.conversion.writer import is_sent
from foldmark.sessions.doctor import Finding


def compare(log: Log, session: SessionPath) -> Iterator[Finding]:
    """Yield notes on where the conversation of a session and its file differ; none if it was never imported.

    The conversation may lack messages of the file, have such as the file no longer has, and leave out what the client
    sends on resuming. Raises SessionFileError.
    """
    with SessionFile(session.path) as file:
        kept = recognize(file)
        agent = conversation_of(log, identity(file, kept))
        if agent is None:
            return
        entries = indexed(file, kept, file.records())
    imported, shown = ImportedSession(agent), agent.context().segments
    known = known_lines(entries, imported)
    planned = plan(entries, kept.active(entries))
    sent: list[RecordEntry] = []
    for turn in (each for each in planned.turns if each.shown):
        if turn.keeps is not None:  # a compaction: it is sent instead of what precedes it
            sent = [entry for entry in sent if entry.line in turn.keeps]
        sent += [step.entry for step in turn.steps if step.entry.role and is_sent(step)]
    new = sum(entry.line not in known for entry in sent)
    out = sum(
        not any(contains(shown, agent.id, event) for event in line.events)
        for entry in sent
        if (line := known.get(entry.line)) is not None and line.length
    )
    name = f"conversation '{one_line(agent.name or agent.id)}'"
    if new:
        yield Finding("note", None, f"{name} lacks {count(new, 'message')} of it: `foldmark import` brings them")
    if gone := imported.missing(entries):
        yield Finding("note", None, f"{name} has {count(gone, 'record')} that the file no longer has")
    if out:
        where = "`foldmark export` writes a session without"
        yield Finding("note", None, f"{name} leaves out {count(out, 'message')} that resuming sends: {where}")
    if not (new or gone or out):
        yield Finding("note", None, f"{name} shows what is sent on resuming")
