"""`foldmark import`: import a coding agent's session as a conversation [SPEC 8, 9].

An import makes two passes. The first reads ids and flags of every record (`SessionFormat.index`), from which turns and
branches are planned (`formats.chain`). The second rereads each record at its place in the file and appends it
(`writer`). Everything is one transaction, so an interrupted import leaves nothing behind.

All lines become part of the conversation except broken ones, which the report lists. A record that is not a message, or
not entirely usable as one, is kept whole as a `record` event. Inactive branches become turns that are dropped from the
context as by `/context drop`, so `/restore` brings them back. A compaction is recorded as a `summary` operation, as by
`/summarize`, and can be restored, too.

A session that was imported before continues in its conversation (`imported`):

- All records are indexed and compared by uuid or, without one, by their whole content. New records are appended, and
  only these are reread. Inactive ones leave the context by an operation that can be restored, and return with another
  one.
- If the file lacks an imported active message, the two have diverged, and nothing is written.

The person's own changes stay: an import changes nothing already imported, and new turns follow the person's own.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from foldmark.core.agents import is_uuid
from foldmark.core.errors import CommandError
from foldmark.core.ports import Progress
from foldmark.core.wording import count, one_line
from foldmark.formats.chain import PlannedTurn, plan
from foldmark.formats.messages import RecordEntry
from foldmark.formats.places import recognize, session_path
from foldmark.formats.session_file import Broken, SessionFile, SessionFileError, SessionRecord
from foldmark.formats.session_format import SessionFormat
from foldmark.log import Agent, Log
from foldmark.log.family import running
from foldmark.request.planning import not_while_planning, planning
from foldmark.sending.status import learn
from foldmark.sessions.conversion import imported as imports
from foldmark.sessions.conversion.imported import ImportedLine, ImportedSession, ImportRecord
from foldmark.sessions.conversion.measured import Measured
from foldmark.sessions.conversion.writer import ContextMeter, ImportReport, ImportWriter, is_sent
from foldmark.tokens.counting import BytesRuler, ruler


def import_session(
    log: Log, path: str | os.PathLike[str], name: str | None = None, progress: Progress | None = None
) -> ImportReport:
    """Import a session as conversation `name`, or add its new messages to the conversation.

    Without a name, the session continues in the conversation of its last import, or becomes a new one named by
    `default_name`. `progress` gets the number of bytes done and the size of the file; the first pass counts for a
    quarter. Raises SessionFileError for a file that cannot be read as a session or has no message, and CommandError if
    a conversation of that name has other content or if the file lacks imported records.
    """
    with SessionFile(path) as session:
        kept = recognize(session)
        # One transaction from here on, so that the second of two simultaneous imports finds the first.
        with log.store.write():
            identity = imports.identity(session, kept)
            wanted = default_name(path, kept.name) if name is None else name
            into = partial(_Import, session, kept, identity, progress)
            if (agent := _wanted(log, wanted, None if name else identity)) is not None:
                return into(agent).go_on()
            if name is None and (agent := imports.conversation_of(log, identity)) is not None:
                with suppress(_DivergedError):  # a diverged copy becomes a separate conversation
                    return into(agent).go_on()
            with log.creating(wanted) as agent:
                return into(agent).begin()


class _DivergedError(CommandError):
    """The file lacks records that were imported from its session."""


def _wanted(log: Log, name: str, identity: str | None) -> Agent | None:
    """Return the conversation of this name if the last session imported into it has this identity (None: any)."""
    agent = log.agent(name) if log.exists(name) else None
    newest = ImportedSession(agent).newest if agent is not None else None
    return agent if newest is not None and identity in (None, newest.session) else None


class _Import:
    """One import of one file into one conversation."""

    def __init__(
        self, session: SessionFile, kept: SessionFormat, identity: str, progress: Progress | None, agent: Agent
    ) -> None:
        agent.context()  # includes events that others have appended since
        self._session, self._format, self._identity, self._agent = session, kept, identity, agent
        self._meter = ContextMeter(session.size, progress)
        self._imported = ImportedSession(agent)
        self._report = ImportReport(agent.name or agent.id, agent.id, again=self._imported.newest is not None)
        self._digests: dict[int, str] = {}

    def begin(self) -> ImportReport:
        """Import into a new conversation."""
        entries = self._index()
        self._write(entries, {})
        if not any(entry.role for entry in entries):
            raise SessionFileError(f"{self._session.label} holds no message to import; nothing was written")
        return self._report

    def go_on(self) -> ImportReport:
        """Import new records into the session's conversation."""
        imported, session = self._imported, self._session
        newest = imported.newest
        assert newest is not None
        ends = sorted({min(newest.size, session.size), session.size})
        self._digests = dict(zip(ends, session.digests(*ends), strict=True))  # the file is read once for both
        whole = self._digest(session.size)
        if any((note.size, note.digest) == (session.size, whole) for _, note in imported.notes):
            self._meter.finish()
            self._report.lines = newest.lines
            return self._report
        entries = self._index()
        if missing := imported.missing(entries):
            raise _DivergedError(
                f"{session.label} does not continue the import in '{one_line(self._agent.name or '')}': "
                f"{count(missing, 'record')} of its active chain {'is' if missing == 1 else 'are'} not in this "
                "file. Nothing was written; `--as NAME` imports it as a conversation of its own"
            )
        _ready(self._agent)
        with self._agent.batch():
            self._write(entries, known_lines(entries, imported))
        return self._report

    def _digest(self, end: int) -> str:
        if end not in self._digests:
            (self._digests[end],) = self._session.digests(end)
        return self._digests[end]

    def _index(self) -> list[RecordEntry]:
        """Index the lines of the file."""
        records: Counter[str] = Counter()
        entries = indexed(self._session, self._format, self._first_pass(records))
        self._report.records = dict(sorted(records.items(), key=lambda item: (-item[1], item[0])))
        self._report.lines = self._session.line_count
        return entries

    def _first_pass(self, records: Counter[str]) -> Iterator[SessionRecord]:
        for line in self._session.lines():
            if isinstance(line, Broken):
                self._report.broken.append((line.line, line.reason))
            else:
                records[line.type] += 1
                self._meter.reach(line.offset // 4)
                yield line

    def _write(self, entries: list[RecordEntry], known: Mapping[int, ImportedLine]) -> None:
        """Append the planned turns without the `known` lines, and record the import."""
        session, report = self._session, self._report
        number, size = session.whole
        if size < session.size and not (report.broken and report.broken[-1][0] == session.line_count):
            number, size = session.line_count, session.size  # complete without its line end
        models = (entry.usage.model for entry in reversed(entries) if entry.usage and entry.side is None)
        model = next(models, None)
        planned = plan(entries, self._format.active(entries))
        copies = {entry.line for entry in entries if entry.copies is not None}
        own = {line: each for line, each in known.items() if line not in copies}
        turns = list(planned.turns)
        measured = self._measured_before(turns, own)
        edited = planned.active.edited
        writer = ImportWriter(
            self._agent, session, self._format, self._meter, self._imported, report, model, measured, edited
        )
        for turn in turns:
            writer.write(turn, own)
        writer.drop()
        evicted = writer.evict(planned.active.evicted)
        writer.note_copies(entries, known)
        self._meter.finish()
        self._learn(writer.measured)
        note = ImportRecord(
            source=self._format.name,
            session=self._identity,
            size=size,
            lines=number,
            digest=self._digest(size),
            begin=writer.begin,
            hidden=tuple(writer.hidden.items()),
            back=tuple(writer.back),
            evicted=evicted,
            file=os.path.abspath(session.path),  # noqa: PTH100 - a link stays what it is
            measured=writer.measured,
        )
        imports.record_import(self._agent, note, writer.lines, entries[-1].moment if entries else None)

    def _measured_before(self, turns: list[PlannedTurn], known: Mapping[int, ImportedLine]) -> Measured | None:
        """Return what this import goes on measuring; None if it begins anew. If the file has not only grown, or if
        anything but a call leaves or returns, the size of what is sent is unknown."""
        newest = self._imported.newest
        if newest is None:
            return None
        before = newest.measured or Measured(is_whole=False)
        hidden, steps = self._imported.hidden, [(turn, step) for turn in turns for step in turn.steps]
        stays = all(
            (line.group not in hidden) == (turn.shown and is_sent(step)) or (line.group in hidden and step.entry.calls)
            for turn, step in steps
            if (line := known.get(step.entry.line)) is not None and line.length
        )
        if stays and self._digest(min(newest.size, self._session.size)) == newest.digest:
            return before
        return Measured(model=before.model, bytes=before.bytes, tokens=before.tokens, is_whole=False)

    def _learn(self, measured: Measured) -> None:
        """Calibrate the estimates of the session's model with the bytes of a token in this session."""
        provider = self._format.provider
        if provider is None:
            return
        self._report.tokens = measured.estimate(provider)
        config = self._agent.standing().config
        if measured.has_ratio and isinstance(ruler(provider, measured.model, config), BytesRuler):
            learn(self._agent, provider, measured.model, measured.bytes, measured.tokens)


def indexed(session: SessionFile, kept: SessionFormat, records: Iterable[SessionRecord]) -> list[RecordEntry]:
    """Return the entries of a session with its edits recognized. `records` are all of its records."""
    return list(kept.edited(kept.index(records), lambda each: session.reread(each.line, each.offset).value))


def _ready(agent: Agent) -> None:
    """End the turn that a dead process left open. Raises CommandError if the conversation is busy."""
    if running(agent) is not None:
        raise CommandError(f"'{one_line(agent.name or '')}' is in the middle of a turn; import again when it has ended")
    with agent.reading() as (moment, at):
        if planning(moment, at) is not None:
            not_while_planning(moment, at, "an import would end it")
    if at.record.open_turn is not None:
        agent.end_turn(interrupted=True)


def known_lines(entries: list[RecordEntry], imported: ImportedSession) -> dict[int, ImportedLine]:
    """Return what earlier imports noted of each line, by its number in this file.

    Several lines may have one key, in another order than before. Those with messages belong to entries with messages.
    """
    left = {key: list(lines) for key, lines in imported.lines.items()}
    found = {}
    for entry in entries:
        if lines := left.get(entry.key):
            alike = (line for line in lines if (line.first > 0) == (entry.role is not None))
            found[entry.line] = line = next(alike, lines[0])
            lines.remove(line)
    return found


def imported_event(agent: Agent, path: str | os.PathLike[str], line: int) -> int | None:
    """Return the first event imported from a line of a session's file, or None. Raises SessionFileError."""
    imported = ImportedSession(agent)
    if imported.newest is None:
        return None
    with SessionFile(path) as session:
        entries = recognize(session).index(session.records())
    found = known_lines(entries, imported).get(line)
    return found.first if found is not None and found.length else None


def format_in(path: str | os.PathLike[str]) -> SessionFormat:
    """Return the format of the session in a file. Raises SessionFileError if the format is unknown."""
    with SessionFile(path) as session:
        return recognize(session)


def default_name(path: str | os.PathLike[str], kind: str | None = None) -> str:
    """Return the file's name without its ending and unprintable characters.

    If the name contains the session's id, return the format's name and eight characters of the id.
    """
    found = session_path(Path(path), kind)
    if is_uuid(found.id):
        return f"{found.kind}-{found.id[:8]}"
    return "".join(char for char in found.path.stem if char.isprintable()).strip()[:200] or "claude-session"
