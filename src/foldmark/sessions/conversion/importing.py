"""`foldmark import`: make a conversation from a coding agent's session [SPEC 8, 9].

Two passes: the first reads ids and flags of every record (`SessionFormat.index`) and from them plans turns
and branches (`sessions.chain`); the second reads each record again where it lies in the file and appends it (`writer`).
Everything is one transaction: an interrupted import leaves nothing of the session behind.

All lines get into the conversation but broken ones, which the report lists. A record that is not a message, or not
entirely usable as one, is kept whole as a `record` event. Branches that are not active become turns that are dropped
from the context as by `/context drop`, so `/restore` brings them back. A compaction is recorded as a `summary`
operation, as by `/summarize`, and can be restored, too.

A session that was imported before continues in its conversation (`imported`):

- If the file still begins with the bytes read before, only later bytes are read, as long as they continue the active
  chain.
- Otherwise (someone went back in the client, a compaction, another file with the same session) all records are indexed
  and compared by uuid or, without one, by their whole content. New ones are appended; what is not active any more
  leaves the context, as an operation that can be restored.
- If the file lacks an active message that was imported, the two have diverged, and nothing is written.

The person's own changes stay: nothing that was imported is changed, and new turns follow the person's own.
"""

import os
from collections import Counter
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from foldmark.core.agents import is_uuid
from foldmark.core.errors import CommandError
from foldmark.core.ports import Progress
from foldmark.core.wording import count, one_line
from foldmark.log import Agent, Log
from foldmark.log.family import running
from foldmark.request.planning import not_while_planning, planning
from foldmark.sessions.chain import plan
from foldmark.sessions.conversion import imported as imports
from foldmark.sessions.conversion.imported import ImportedLine, ImportedSession, ImportRecord
from foldmark.sessions.conversion.writer import ImportWriter, Meter
from foldmark.sessions.formats import SessionFormat
from foldmark.sessions.messages import RecordEntry
from foldmark.sessions.places import recognize, session_path
from foldmark.sessions.session_file import Broken, SessionFile, SessionFileError, SessionRecord


class ImportReport(Struct, frozen=True):
    """The result of an import.

    `lines` counts the lines of the file, with blank ones; `records` maps each type to the number of its lines that were
    read, the most frequent type first, with "(no type)" and "(not an object)" among them; `broken` lists the lines that
    are not JSON, with the reason. `messages` maps kinds to counts, in and out of the context; `turns` counts all turns,
    `dropped` those out of the context; `kept` counts the lines that are kept as `record` events, with or without usable
    messages.

    `again` is True if the session was imported before. Then all counts are of what is new; `left` counts the turns that
    left the context because the session went back behind them, `returned` those that came back with it.
    """

    name: str
    agent_id: str
    lines: int
    records: dict[str, int] = {}
    broken: list[tuple[int, str]] = []
    messages: dict[str, int] = {}
    turns: int = 0
    dropped: int = 0
    kept: int = 0
    again: bool = False
    left: int = 0
    returned: int = 0


def import_session(
    log: Log, path: str | os.PathLike[str], name: str | None = None, progress: Progress | None = None
) -> ImportReport:
    """Import a session as conversation `name`, or bring what is new into it.

    Without a name, the session goes on in the conversation that it was imported into last, or becomes a new one named
    `default_name`. `progress` gets the bytes done, out of the size of the file; the first pass counts for a quarter of
    them. Raises SessionFileError for a file that cannot be read as a session or has no message, CommandError if a
    conversation of that name has other content, or if the file lacks what was imported of it.
    """
    with SessionFile(path) as session:
        kept = recognize(session)
        # One transaction from here on, so that the second of two imports at once finds the first.
        with log.store.write():
            identity = imports.identity(session, kept)
            wanted = default_name(path, kept.name) if name is None else name
            one = _Import(session, kept, identity, progress)
            if (agent := _wanted(log, wanted, None if name else identity)) is not None:
                return one.go_on(agent)
            if name is None and (agent := imports.conversation_of(log, identity)) is not None:
                with suppress(_DivergedError):  # a diverged copy is a conversation of its own
                    return one.go_on(agent)
            with log.creating(wanted) as agent:
                return one.begin(agent)


class _DivergedError(CommandError):
    """The file lacks what was imported of its session."""


def _wanted(log: Log, name: str, identity: str | None) -> Agent | None:
    """Return the conversation of this name if sessions were imported into it, the last of them with this identity."""
    agent = log.agent(name) if log.exists(name) else None
    newest = ImportedSession(agent).newest if agent is not None else None
    return agent if newest is not None and identity in (None, newest.session) else None


class _Import:
    """One import of one file."""

    def __init__(self, session: SessionFile, kept: SessionFormat, identity: str, progress: Progress | None) -> None:
        self._session, self._format, self._identity = session, kept, identity
        self._meter = Meter(session.size, progress)
        self._records: Counter[str] = Counter()
        self._broken: list[tuple[int, str]] = []

    def begin(self, agent: Agent) -> ImportReport:
        """Import into a new conversation."""
        imported, carried = ImportedSession(agent), dict[str, Any]()
        entries = self._index(carried)
        writer = self._write(agent, imported, entries)
        if not writer.messages:
            raise SessionFileError(f"{self._session.label} holds no message to import; nothing was written")
        self._note(agent, writer, entries, carried, None)
        return self._report(agent, writer)

    def go_on(self, agent: Agent) -> ImportReport:
        """Import what is new into the conversation that has the session."""
        agent.context()  # what others appended meanwhile
        imported = ImportedSession(agent)
        newest = imported.newest
        assert newest is not None
        sizes = sorted({note.size for _, note in imported.notes if note.size <= self._session.size})
        digests = dict(zip(sizes, self._session.digests(*sizes), strict=True))
        if any(note.size == self._session.size and note.digest == digests[note.size] for _, note in imported.notes):
            self._meter.finish()
            return ImportReport(agent.name or agent.id, agent.id, newest.lines, again=True)
        carried, known = dict(newest.carried), dict[int, ImportedLine]()
        grown: ImportRecord | None = newest
        if newest.source != self._format.name or digests.get(newest.size) != newest.digest:
            grown = None
        entries = self._index(carried, self._end_of(grown), imported.keys_with_messages) if grown else []
        if grown is None or not imports.only_continues(entries, grown, imported, carried, linked=self._format.linked):
            grown = None
            carried.clear()
            entries = self._index(carried)
            if missing := imported.missing(entries):
                raise _DivergedError(
                    f"{self._session.label} does not continue what was imported into '{one_line(agent.name or '')}': "
                    f"{count(missing, 'record')} of its active chain {'is' if missing == 1 else 'are'} not in this "
                    "file. Nothing was written; `--as NAME` imports it as a conversation of its own"
                )
            known = _known(entries, imported)
        _ready(agent)
        with agent.batch():
            writer = self._write(agent, imported, entries, known)
            self._note(agent, writer, entries, carried, grown)
        return self._report(agent, writer)

    def _index(
        self, carried: dict[str, Any], begin: tuple[int, int] = (0, 0), known: Container[bytes] = ()
    ) -> list[RecordEntry]:
        """Index the lines from `begin` on: the number of lines before, and the offset."""
        self._records.clear()
        self._broken.clear()
        return self._format.index(self._first_pass(*begin), carried, known)

    def _end_of(self, note: ImportRecord) -> tuple[int, int]:
        """Where the unread part of the file begins: the number of lines before it, and its offset in bytes."""
        if note.size and self._session.raw(note.size - 1) != b"\n":
            rest = self._session.raw(note.size)
            if not rest.strip():  # the end of a line that was complete without it
                return note.lines, note.size + len(rest)
        return note.lines, note.size

    def _first_pass(self, number: int, offset: int) -> Iterator[SessionRecord]:
        for line in self._session.lines(number, offset):
            if isinstance(line, Broken):
                self._broken.append((line.line, line.reason))
            else:
                self._records[line.type] += 1
                self._meter.reach(line.offset // 4)
                yield line

    def _write(
        self,
        agent: Agent,
        imported: ImportedSession,
        entries: list[RecordEntry],
        known: dict[int, ImportedLine] | None = None,
    ) -> ImportWriter:
        writer = ImportWriter(agent, self._session, self._format, self._meter, imported)
        for turn in plan(entries):
            writer.write(turn, known or {})
        writer.drop()
        self._meter.finish()
        return writer

    def _note(
        self,
        agent: Agent,
        writer: ImportWriter,
        entries: list[RecordEntry],
        carried: dict[str, Any],
        grown: ImportRecord | None,
    ) -> None:
        session = self._session
        number, size = session.whole
        if size < session.size and not (self._broken and self._broken[-1][0] == session.line_count):
            number, size = session.line_count, session.size  # complete without its line end
        note = ImportRecord(
            source=self._format.name,
            session=self._identity,
            size=size,
            lines=number,
            digest=session.digests(size)[0],
            begin=writer.begin,
            tips=imports.tips(entries, grown.tips if grown else ()) if self._format.linked else (),
            carried=carried,
            hidden=tuple(writer.hidden.items()),
            back=tuple(writer.back),
            file=os.path.abspath(session.path),  # noqa: PTH100 - a link stays what it is
        )
        imports.record_import(agent, note, writer.lines, entries[-1].moment if entries else None)

    def _report(self, agent: Agent, writer: ImportWriter) -> ImportReport:
        return ImportReport(
            name=agent.name or agent.id,
            agent_id=agent.id,
            lines=self._session.line_count,
            records=dict(sorted(self._records.items(), key=lambda item: (-item[1], item[0]))),
            broken=self._broken,
            messages=dict(writer.messages),
            turns=writer.turns,
            dropped=writer.dropped,
            kept=writer.kept,
            again=writer.again,
            left=writer.left,
            returned=writer.returned,
        )


def _ready(agent: Agent) -> None:
    """Raise CommandError if the conversation is busy; end the turn that a dead process left open."""
    if running(agent) is not None:
        raise CommandError(f"'{one_line(agent.name or '')}' is in the middle of a turn; import again when it has ended")
    with agent.reading() as (moment, at):
        if planning(moment, at) is not None:
            not_while_planning(moment, at, "an import would end it")
    if at.record.open_turn is not None:
        agent.end_turn(interrupted=True)


def _known(entries: list[RecordEntry], imported: ImportedSession) -> dict[int, ImportedLine]:
    """Return the lines that were imported before, by their numbers in this file."""
    left = {key: iter(lines) for key, lines in imported.lines.items()}
    found = {}
    for entry in entries:
        if entry.key in left and (line := next(left[entry.key], None)) is not None:
            found[entry.line] = line
    return found


def imported_event(agent: Agent, path: str | os.PathLike[str], line: int) -> int | None:
    """Return the first event imported from a line of a session's file, or None if this conversation has none of it.
    Raises SessionFileError."""
    imported = ImportedSession(agent)
    if imported.newest is None:
        return None
    with SessionFile(path) as session:
        records = (each for each in session.lines() if isinstance(each, SessionRecord))
        entries = recognize(session).index(records, {}, ())
    found = _known(entries, imported).get(line)
    return found.first if found is not None and found.length else None


def format_in(path: str | os.PathLike[str]) -> SessionFormat:
    """Return the format of the session in a file. Raises SessionFileError if it is none that is known."""
    with SessionFile(path) as session:
        return recognize(session)


def default_name(path: str | os.PathLike[str], kind: str | None = None) -> str:
    """Return the file's name without its ending and unprintable characters.

    If it is or ends in a session's id, return the format's name and eight characters of the id.
    """
    found = session_path(Path(path), kind)
    if is_uuid(found.id):
        return f"{found.kind}-{found.id[:8]}"
    return "".join(char for char in found.path.stem if char.isprintable()).strip()[:200] or "claude-session"
