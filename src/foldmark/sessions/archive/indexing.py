"""Bring the index up to date with one session file, reading only its new lines [SPEC 8].

A complete last line without a line end is indexed, and read again once the file has grown. Each step of a few megabytes
is one transaction, which also records the position in the file.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, json
from msgspec.structs import asdict

from foldmark.core.codec import utc
from foldmark.core.wording import title
from foldmark.formats.messages import SearchedMessage
from foldmark.formats.places import session_path
from foldmark.formats.session_file import SessionFile, SessionRecord
from foldmark.formats.session_format import SessionPath, format_named
from foldmark.sessions.archive.index import IndexFile, remove_messages, statement, transaction
from foldmark.sessions.archive.marker import record_is_marked
from foldmark.sessions.archive.reading import indexed_text, key, messages_in
from foldmark.text.tokens import parts_of
from foldmark.wires.lenient_json import filled_text, member

STEP = 8 << 20
"""Bytes of a session file that are indexed in one transaction."""

_TEXTS = 1 << 20
_ALIKE = 8
"""Maximum number of messages of the same time to compare a message with."""

_OPEN_CALLS = 1000
_FIRST_LINES = 20
_CONTINUED = {
    "trim": ("trim_metadata", "parent_file", "trimmed_at"),
    "repair": ("repair_metadata", "parent_file", "repaired_at"),
    "rollover": ("continue_metadata", "parent_session_file", "continued_at"),
}
"""How a session continues another -> its metadata in the first line, with the members for the parent's file and the
time."""

_VERSION = re.compile(r"(.+)\.\d+\Z", re.DOTALL)

Excluded = Callable[[str | None, str], bool]
"""Takes a working folder (None: unknown) and a project's folder. Returns True if their sessions are excluded."""


def session_of(path: Path, kind: str) -> SessionPath:
    """Return the session in a file of an archive. `<session>.2.jsonl` also holds `<session>`."""
    version = _VERSION.fullmatch(path.stem)
    first = path.with_name(version[1] + path.suffix) if version else path
    return session_path(first if first.is_file() else path, kind)


class _File(Struct):
    """A file in the index, and the known facts about its session."""

    id: int
    line: int
    offset: int
    cwd: str | None
    title: str | None
    parent: str | None
    why: str | None
    first: int | None
    last: int | None
    calls: str
    project: str
    session: str
    state: str = "indexed"


class FileIndexing:
    """Indexes the new lines of the file `path`, named `name` in the index. Each step begins where the index says, so
    other processes may index the same file at the same time."""

    def __init__(self, db: IndexFile, path: Path, name: bytes, kind: str, excluded: Excluded) -> None:
        self._db, self._path, self._name, self._kind, self._excluded = db, path, name, kind, excluded
        self._added = 0
        self._format = format_named(kind)
        self._places: dict[int, dict[int, int]] | None = None

    def run(self, moved: Callable[[int], None]) -> int:
        """Return the number of new messages. `moved` is called with the number of bytes read. Raises
        SessionFileError."""
        stat, ended = self._path.stat(), False
        with SessionFile(self._path) as file:
            while not ended:
                with transaction(self._db):
                    self._begin()
                    begin = self._file.offset
                    ended = self._read(file, begin + STEP)
                    end = stat.st_size if ended else file.whole[1]
                    self._save(file.whole, end, stat.st_mtime_ns)
                moved(max(0, end - begin))
        return self._added

    def _read(self, file: SessionFile, until: int) -> bool:
        """Index lines up to an offset. Return True at the end of the file."""
        remove_messages(self._db, self._file.id, self._file.offset)
        for found in file.lines(self._file.line, self._file.offset):
            if file.whole[1] >= until:
                return False
            if isinstance(found, SessionRecord) and not self._take(file, found):
                break
        if self._file.cwd is None and self._excluded(None, self._file.project):
            self._file.state = "folder"
        if file.whole[1] < file.size:
            self._calls |= self._answered  # the last line will be read again
        return True

    def _begin(self) -> None:
        """Read the position in the file. An unknown file gets a row."""
        db = self._db
        if not (found := db.run("file", path=self._name)):
            session, project = session_of(self._path, self._kind).id, format_named(self._kind).project(self._path)
            db.run("add_file", path=self._name, kind=self._kind, session=_text(session), project=_text(project))
            found = db.run("file", path=self._name)
        self._file = _File(*found[0])
        self._calls: dict[str, str] = json.decode(self._file.calls)
        ((self._next,),) = db.run("next_message")
        self._answered: dict[str, str] = {}
        self._held = 0
        self._messages: list[tuple[Any, ...]] = []
        self._words: list[tuple[int, str, str]] = []

    def _take(self, session: SessionFile, record: SessionRecord) -> bool:
        """Index one record. Return False if the record excludes the whole file."""
        value = record.value if isinstance(record.value, dict) else {}
        file = self._file
        if file.cwd is None and (cwd := working_folder(value)) is not None:
            file.cwd = cwd
            if self._excluded(cwd, file.project):
                file.state = "folder"
        self._learn(value, record.line)
        if file.state == "indexed" and record_is_marked(value):
            file.state = "marked"
        if file.state != "indexed":
            return False
        self._answered = {}
        moment = _moment(value.get("timestamp"))
        if self._is_again(session, record, value, moment):
            return True
        if moment is not None:
            file.first, file.last = file.first or moment, moment
        for part, message in enumerate(messages_in(value, self._kind)):
            self._add(record, value, part, message)
        return True

    def _is_again(self, file: SessionFile, record: SessionRecord, value: dict[str, Any], moment: int | None) -> bool:
        """Return True for a message that is written again, with its old time and another id: it is indexed already."""
        if self._places is None and self._format.rewrites(value):
            self._write()
            self._places = {}
            for time, line, offset in self._db.run("times", file=self._file.id):
                if time is not None:
                    self._places.setdefault(time, {})[line] = offset
        places = self._places.get(moment) if self._places is not None and moment is not None else None
        if not places:
            return False
        messages = messages_in(value, self._kind)
        for line, offset in list(places.items())[:_ALIKE]:
            known = file.reread(line, offset).value  # it is an object, because it has messages
            is_other = line < record.line and known.get("uuid") != value.get("uuid")
            if is_other and messages_in(known, self._kind) == messages:
                return True
        return False

    def _learn(self, value: dict[str, Any], line: int) -> None:
        """Learn from one of the first records which session this one continues."""
        file = self._file
        if file.parent is None and line <= _FIRST_LINES:
            file.parent, file.why = _continued(value, file.session)
            if file.parent is None and self._path.stem.startswith("agent-"):
                file.parent, file.why = filled_text(value.get("sessionId")), "subagent"

    def _add(self, record: SessionRecord, value: dict[str, Any], part: int, message: SearchedMessage) -> None:
        tool = message.tool
        if message.role == "tool_call" and message.call and tool:
            self._calls[message.call] = tool
        elif message.role == "tool_result":
            tool = self._calls.pop(message.call or "", None)
            self._answered |= {message.call: tool} if message.call and tool else {}
        if not self._file.title and message.role == "user" and not message.text.startswith("<"):
            self._file.title = title(message.text)
        if self._places is not None and self._file.last is not None:
            self._places.setdefault(self._file.last, {})[record.line] = record.offset
        where = (self._file.id, record.line, record.offset, part)
        self._messages.append((self._next, *where, message.role, tool, self._file.last, key(value, part, message)))
        text = indexed_text(message)
        self._words.append((self._next, text, parts_of(text)))
        self._next += 1
        self._held += len(text)
        if self._held >= _TEXTS:
            self._write()

    def _write(self) -> None:
        self._db.executemany(statement("add_message"), self._messages)
        self._db.executemany(statement("add_words"), self._words)
        self._added += len(self._messages)
        self._messages, self._words, self._held = [], [], 0

    def _save(self, whole: tuple[int, int], size: int, modified: int) -> None:
        """Record the position in the file, or that the file is excluded."""
        self._write()
        file = self._file
        if file.state != "indexed":
            remove_messages(self._db, file.id)
            self._added = 0
            whole = (0, 0)
        file.line, file.offset = whole
        file.calls = json.encode(dict(list(self._calls.items())[-_OPEN_CALLS:])).decode()
        self._db.run("save_file", size=size, modified=modified, **asdict(file))


def start_again(db: IndexFile, file: int) -> None:
    """Remove the messages of a file and its position."""
    with transaction(db):
        remove_messages(db, file)
        db.run("reset_file", id=file)


def working_folder(record: Any) -> str | None:
    """Return the working folder that a record names, or None."""
    return filled_text(member(record, "cwd")) or filled_text(member(record, "payload", "cwd"))


def _continued(record: Mapping[str, Any], own: str) -> tuple[str | None, str | None]:
    """Return the session that session `own` continues, and how, from Foldmark's metadata in the first line [S4].

    A copy keeps the metadata of its original, so the newest metadata counts.
    """
    newest: tuple[int, str | None, str | None] = (-1, None, None)
    for holder in (record, record.get("payload")):
        for why, (name, file, time) in _CONTINUED.items():
            parent = filled_text(member(holder, name, file))
            if parent and (id := _text(session_path(Path(parent)).id)) != own:
                moment = max(0, _moment(member(holder, name, time)) or 0)
                newest = max(newest, (moment, id, why), key=lambda each: each[0])
    return newest[1:]


def _moment(text: Any) -> int | None:
    """Return a time in milliseconds, or None if the text is not a time."""
    try:
        return round(utc(text).timestamp() * 1000) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _text(name: str) -> str:
    """Return a file name as text that SQLite can store."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
