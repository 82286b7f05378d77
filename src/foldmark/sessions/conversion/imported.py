"""Read and write the records of imports, so that a later import of a session adds only new messages [SPEC 8].

Each import records a `command` event after the events that it appended. Its data names the session and the part of the
file that was read. Its content lists every line with its events (`IMPORTED_LINE`, in base64). Events that no import
appended are the person's own.
"""

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import Struct, ValidationError, convert, to_builtins

from foldmark.core import selections
from foldmark.core.agents import is_uuid
from foldmark.core.events import Event
from foldmark.core.records import IMPORTED_LINE
from foldmark.core.segments import END, Segment, Segments, normal
from foldmark.formats.messages import RecordEntry
from foldmark.formats.places import session_path
from foldmark.formats.session_file import SessionFile
from foldmark.formats.session_format import SessionFormat
from foldmark.log import Agent, Log
from foldmark.sessions.conversion.measured import Measured


class ImportedLine(NamedTuple):
    """The messages of a line: their first event and their number.

    `group` is the first of the events that leave the context together with them. All fields are zero for a line
    without a message. If its results were only kept as data, `first` is the event with the record.
    """

    first: int
    length: int
    group: int

    @property
    def waits(self) -> bool:
        """True if its results were kept as data, and may belong to the context later."""
        return self.first > 0 and not self.length

    @property
    def events(self) -> range:
        """The ids of the messages."""
        return range(self.first, self.first + self.length)


class ImportRecord(Struct, frozen=True, kw_only=True):
    """The record of an import.

    `session` is the session's identity (`identity`). `size`, `lines` and `digest` describe the part of the file that
    was read: its number of bytes, its number of lines, and a digest of the bytes. `begin` is the first event that the
    import may have appended. `hidden` are inactive groups that left the context, each with the operation that removed
    it (0: it was not in the context). `back` are groups that returned. `evicted` are the results that imports evicted,
    because the client sends a placeholder, each with the operation. `file` is the absolute path of the file, "" in
    older records. `measured` is what the reported usage has told so far, None in older records.
    """

    source: str
    session: str
    size: int
    lines: int
    digest: str
    begin: int
    hidden: tuple[tuple[int, int], ...] = ()
    back: tuple[int, ...] = ()
    evicted: tuple[tuple[int, int], ...] = ()
    file: str = ""
    measured: Measured | None = None


class ImportedSession:
    """The records of all imports into one conversation."""

    def __init__(self, agent: Agent) -> None:
        self.notes: list[tuple[int, ImportRecord]] = []
        self._agent, self._lists = agent, []
        with agent.log.store.read() as moment:
            commands = list(moment.select((Segment(agent.id, 1, END),), "command", expected=END))
        for event in commands:
            if (note := import_record(event.data)) is not None:
                self.notes.append((event.id, note))
                self._lists.append(event.content)

    @property
    def newest(self) -> ImportRecord | None:
        """The record of the newest import."""
        return self.notes[-1][1] if self.notes else None

    @cached_property
    def lines(self) -> dict[bytes, list[ImportedLine]]:
        """The imported lines by key; lines with the same key are in order."""
        found: dict[bytes, list[ImportedLine]] = {}
        for each in self._lists:
            for key, first, length, before in IMPORTED_LINE.iter_unpack(a2b_base64(each)):
                line, own = ImportedLine(first, length, first - before), found.setdefault(key, [])
                at = next((at for at, other in enumerate(own) if first and (other.first == first or other.waits)), None)
                if at is None:
                    own.append(line)
                else:
                    own[at] = line  # changed by a later import
        return found

    @cached_property
    def hidden(self) -> dict[int, int]:
        """Inactive groups that left the context, mapped to the operations that removed them."""
        found: dict[int, int] = {}
        for _, note in self.notes:
            found.update(note.hidden)
            for group in note.back:
                found.pop(group, None)
        return found

    def segments(self, begin: int) -> Segments:
        """Return the ranges that imports appended, including the current import, which begins at event `begin`."""
        own = [Segment(self._agent.id, note.begin, event_id) for event_id, note in self.notes]
        return normal([*own, Segment(self._agent.id, begin, END)])

    def missing(self, entries: Iterable[RecordEntry]) -> int:
        """Return the number of imported lines with active messages that are not among these entries."""
        there = {entry.key for entry in entries}
        return sum(
            line.length > 0 and line.group not in self.hidden
            for key, lines in self.lines.items()
            if key not in there
            for line in lines
        )


def import_record(data: dict[str, Any] | None) -> ImportRecord | None:
    """Return the record of an import in the data of an event, or None."""
    try:
        return convert((data or {}).get("import"), ImportRecord)
    except ValidationError:
        return None


def newest_import(agent: Agent) -> tuple[Event, ImportRecord] | None:
    """Return the event and the record of the newest import into a conversation, or None."""
    return next(_imports(agent.log, [agent]), None)


def _imports(log: Log, agents: Iterable[Agent]) -> Iterator[tuple[Event, ImportRecord]]:
    """Yield the events and records of imports into these conversations, the newest first."""
    with log.store.read() as moment:
        for event_id in reversed(
            selections.ids(moment, "command", tuple(Segment(agent.id, 1, END) for agent in agents))
        ):
            event = selections.event(moment, event_id)
            if event is not None and (note := import_record(event.data)) is not None:
                yield event, note


def packed(key: bytes, line: ImportedLine) -> bytes:
    """Return a line as an import records it."""
    return IMPORTED_LINE.pack(key, line.first, line.length, line.first - line.group)


def record_import(agent: Agent, note: ImportRecord, lines: bytes | bytearray, time: datetime | None) -> None:
    """Record an import. `lines` are all of its lines, `packed`."""
    listed = b2a_base64(lines, newline=False).decode()
    agent.record("command", listed, data={"import": to_builtins(note)}, created_at=time)


def conversation_of(log: Log, session: str) -> Agent | None:
    """Return the conversation of the last import of a session, or None."""
    imports = _imports(log, [agent for agent in log.agents() if agent.name is not None])
    newest = next((event for event, note in imports if note.session == session), None)
    return None if newest is None else log.agent(newest.agent_id)


def identity(session: SessionFile, kept: SessionFormat) -> str:
    """Return the identity that a session shares with its copies.

    This is the uuid that the format finds in a record, otherwise the session's id in the file's name, otherwise the
    file's path.
    """
    for found in session.records():
        own = kept.identity(found.value) if isinstance(found.value, dict) else None
        if isinstance(own, str) and is_uuid(own):
            return own.lower()
        if own is not None or found.line > _HEAD:
            break
    named = session_path(session.path, kept.name).id
    return named.lower() if is_uuid(named) else str(session.path.resolve())


_HEAD = 1000
"""Maximum number of lines to search for an identity."""
