"""Diagnose a rollout of Codex, and compare it with Codex's databases, which are read and never written [SPEC 8].

The consequences were observed by resuming such rollouts with Codex 0.169 and recording its requests, and by changing,
moving or archiving sessions, then resuming and listing them. The databases are in the folder that holds `sessions`:

- `state_5.sqlite`, table `threads`: a row for each session with the path of its rollout, title, model and tokens. Codex
  opens a session at that path.
- `thread_history_1.sqlite`: the turns and items that Codex shows, copied from the rollout. For each session,
  `thread_history_projection_state` has the byte and the ordinal up to which the rollout was read. Codex continues there
  and never rereads earlier bytes. Sessions in the older format (`history_mode` other than `paginated`) have no rows.
"""

import codecs
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import apsw

from foldmark.core.wording import count, one_line
from foldmark.formats.codex import rollouts as codex_rollouts
from foldmark.formats.codex.records import TYPES, history_of
from foldmark.formats.codex.rollouts import LONGEST_HEAD, store_folder
from foldmark.formats.session_file import Broken, SessionFile, SessionFileError, SessionRecord
from foldmark.formats.session_format import SessionPath
from foldmark.sessions.doctor import Diagnosis, Finding, sorted_findings, unknown_types
from foldmark.wires.lenient_json import NotJsonError, decode, filled_text, member
from foldmark.wires.responses import CALLS, RESULTS, is_paired

_KNOWN = {*TYPES, "token_usage_record", "inter_agent_communication_metadata"}

_COMPACTS_AT = 0.9
"""Codex compacts a resumed session whose context fills at least this share of the model's window."""


def diagnose(session: SessionPath) -> Diagnosis:
    """Return the diagnosis of a rollout. Raises SessionFileError."""
    with SessionFile(session.path) as file:
        reader = _RolloutReader()
        found = [finding for line in file.lines() for finding in reader.take(line)]
        is_marked = file.wide or file.raw(0).startswith(codecs.BOM_UTF8)
        findings = [
            *_beginning(file, session, reader, is_marked=is_marked),
            *found,
            *reader.left(),
            *compare_databases(session),
        ]
        if not file.ended:
            findings.append(Finding("note", None, "no line end at the end; Codex adds one"))
    return Diagnosis(session, file.line_count, reader.items, sorted_findings(findings))


def _beginning(
    file: SessionFile, session: SessionPath, reader: "_RolloutReader", *, is_marked: bool
) -> Iterator[Finding]:
    """Report faults of the first record and of the file's name."""
    if is_marked:
        yield Finding("stops", 1, "a byte order mark at the beginning: Codex cannot resume the session")
    elif not reader.begun:
        why = "it does not begin with a session_meta record: Codex cannot resume the session"
        yield Finding("stops", reader.first, why)
    else:
        try:
            codex_rollouts.pieces(file, session)
        except SessionFileError as error:
            yield Finding("stops", reader.first, str(error))
    if session.path.stem[:8] != "rollout-" or session.id == session.path.stem:
        why = "the file's name is not rollout-<time>-<session id>.jsonl"
        yield Finding("note", None, f"{why}: Codex finds it only under such a name")
    elif reader.begun and reader.id != session.id:
        why = f"the session id in it is {one_line(str(reader.id))[:100]}, not that of the file's name"
        yield Finding("loses", reader.first, f"{why}: the next messages go to that session")


class _RolloutReader:
    """Collects findings line by line in one pass. Memory grows with the number of calls."""

    def __init__(self) -> None:
        self.begun = False
        self.first: int | None = None
        self.id: Any = None
        self.items = 0
        self._paginated = False
        self._last: tuple[int, bool] | None = None
        self._calls: dict[str, int] = {}
        self._outputs: dict[str, int] = {}
        self._unknown: Counter[str] = Counter()
        self._full: tuple[int, int, int] | None = None

    def take(self, line: SessionRecord | Broken) -> Iterator[Finding]:
        """Read one line and yield its findings."""
        is_first = self.first is None
        self.first = self.first or line.line
        if isinstance(line, Broken):
            yield Finding("loses", line.line, f"{line.reason}: Codex skips the line")
            return
        value, kind = line.value, line.type
        if not isinstance(value, dict):
            yield Finding("note", line.line, "JSON, but not an object; Codex skips the line")
            return
        payload = value.get("payload")
        if is_first and kind == "session_meta" and isinstance(payload, dict):
            self.begun, self.id = True, payload.get("id")
            self._paginated = payload.get("history_mode") == "paginated"
        self._last = (line.line, type(value.get("ordinal")) is int)
        if kind not in _KNOWN:
            self._unknown[kind] += 1
        elif not isinstance(payload, dict):
            yield Finding("loses", line.line, "no payload: Codex skips the line")
        elif kind == "response_item":
            yield from self._item(line.line, payload)
        elif kind == "compacted":
            yield from self._compacted(line.line, payload)
        elif kind == "event_msg" and payload.get("type") == "token_count":
            info = payload.get("info")
            tokens, window = member(info, "last_token_usage", "total_tokens"), member(info, "model_context_window")
            if type(tokens) is int and type(window) is int and window > 0:
                self._full = (line.line, tokens, window)

    def left(self) -> Iterator[Finding]:
        """Yield the findings that follow from all lines together."""
        for call, line in self._calls.items():
            if call not in self._outputs:
                yield Finding(
                    "note", line, f'the call {one_line(call)[:60]} has no output; Codex sends "aborted" for it'
                )
        if self._paginated and self._last and not self._last[1]:
            yield Finding("stops", self._last[0], "the last record has no ordinal: Codex cannot resume the session")
        yield from unknown_types(self._unknown)
        if self._full and self._full[1] > _COMPACTS_AT * self._full[2]:
            line, tokens, window = self._full
            share = f"the context holds {tokens:,} of {window:,} tokens"
            yield Finding("note", line, f"{share}: Codex compacts it first; `foldmark trim` makes room")

    def _item(self, line: int, item: dict[str, Any]) -> Iterator[Finding]:
        self.items += 1
        kind, call = item.get("type"), filled_text(item.get("call_id"))
        if not isinstance(kind, str) or not is_paired(kind):
            return
        if call is None:
            yield Finding("loses", line, "a call or an output without call_id: Codex skips the line")
            return
        shown = one_line(call)[:60]
        if kind in CALLS:
            if call in self._calls:
                yield Finding("loses", line, f"a second call with the id {shown}: the provider refuses the request")
            elif call in self._outputs:
                why = f"the call {shown} comes after its output in line {self._outputs[call]}"
                yield Finding("loses", line, f"{why}: the provider refuses the request")
            self._calls.setdefault(call, line)
            return
        if not isinstance(item.get(CALLS[RESULTS[kind]].answer), str | list | dict):
            why = f"the output of {shown} is neither text nor a list"
            yield Finding("loses", line, f'{why}: Codex skips the line and sends "aborted"')
        if call in self._outputs:
            yield Finding("loses", line, f"a second output of the call {shown}: the provider refuses the request")
        elif call not in self._calls:
            yield Finding("loses", line, f"an output without a call before it ({shown}): it is left out, or refused")
        self._outputs.setdefault(call, line)

    def _compacted(self, line: int, payload: dict[str, Any]) -> Iterator[Finding]:
        """Replace what precedes a compaction with its history, and report a faulty history."""
        history, beside = payload.get("replacement_history"), payload.get("replacement_history_metadata")
        if isinstance(history, list) and isinstance(beside, list) and len(history) != len(beside):
            why = f"the compaction's history has {len(history)} items, and its metadata {len(beside)}"
            yield Finding("loses", line, f"{why}: Codex skips it and sends all that was before")
            return
        if isinstance(history, list):
            self.items = len(history_of(payload))
        self._calls.clear()
        self._outputs.clear()
        for item in history if isinstance(history, list) else ():
            call = member(item, "call_id")
            if isinstance(call, str) and item.get("type") in CALLS:
                self._calls[call] = line
            elif isinstance(call, str) and item.get("type") in RESULTS:
                self._outputs[call] = line


_THREAD = "SELECT CAST(rollout_path AS TEXT), archived FROM threads WHERE id = ?"
_COPIED = (
    "SELECT CAST(next_rollout_byte_offset AS INTEGER), CAST(next_rollout_ordinal AS INTEGER) "
    "FROM thread_history_projection_state WHERE thread_id = ?"
)
_TURNS = "SELECT CAST(turn_id AS TEXT), CAST(rollout_byte_offset AS INTEGER) FROM thread_turns WHERE thread_id = ?"


class _UnreadableError(Exception):
    """A database differs from those of Codex 0.169, or cannot be read without writing to it."""

    def __init__(self, database: Path, why: object) -> None:
        super().__init__(f"Codex's {database.name} cannot be read, so the session was not compared with it: {why}")


def compare_databases(session: SessionPath) -> Iterator[Finding]:
    """Yield the differences between Codex's databases and the rollout, or nothing if they do not contain it."""
    listed = _or_note(_listed, session)
    yield from listed
    if not any(each.matters for each in listed):  # otherwise Codex shows another file
        yield from _or_note(_shown, session)


def _or_note(compare: Callable[[SessionPath], Iterable[Finding]], session: SessionPath) -> list[Finding]:
    try:
        return list(compare(session))
    except _UnreadableError as error:
        return [Finding("note", None, str(error))]


def _listed(session: SessionPath) -> Iterator[Finding]:
    """Report differences from Codex's list of sessions. Codex reads only the file that the list names."""
    database = _database(session, "state_*.sqlite")
    rows = _rows(database, _THREAD, session.id) if database else []
    if database is None or not rows:
        return
    name, path = database.name, Path(str(rows[0][0]).replace("\0", ""))
    shown = one_line(str(path))
    if os.path.realpath(path) != os.path.realpath(session.path):
        if path.exists():
            why = f"Codex's {name} names another file for this session, {shown}: Codex goes on with that one"
            yield Finding("loses", None, why)
        else:
            why = f"Codex's {name} says that the session is in {shown}, where it is not: Codex cannot resume it"
            yield Finding("stops", None, f"{why}; put the file back there")
    elif rows[0][1]:
        why = f"the session is archived in Codex's {name}"
        yield Finding("note", None, f"{why}; `codex unarchive {session.id}` before resuming it")


def _shown(session: SessionPath) -> Iterator[Finding]:
    """Report turns that Codex shows wrongly: it copied the rollout up to some byte, and misses changes before it."""
    database = _database(session, "thread_history_*.sqlite")
    try:
        copied = _rows(database, _COPIED, session.id) if database else []
        turns = dict(_rows(database, _TURNS, session.id)) if database and copied else {}
    except _UnreadableError as error:
        if "no such table" in str(error):  # a new database, before the first session in the present format
            return
        raise
    if database is None or not copied:
        return
    end, next_ordinal = (number or 0 for number in copied[0])
    name, size = database.name, session.path.stat().st_size
    remedy = f"close Codex and move {name} away: Codex rebuilds it from the rollouts"
    if end > size:
        why = f"Codex's {name} was read from this file up to byte {end:,}, and the file has {size:,}"
        ending = "the next messages reach the model, but Codex does not show them"
        yield Finding("loses", None, f"{why}: {ending}; {remedy}")
        return
    with session.path.open("rb") as file:
        wrong = sum(
            at is not None and (at >= size or turn.encode() not in _line_at(file, at)) for turn, at in turns.items()
        )
        file.seek(max(0, end - 1))
        at_end = not end or file.read(1) == b"\n"
        ordinal = _ordinal(_line_at(file, end)) if at_end and end < size else next_ordinal
    if wrong or not at_end or ordinal not in (None, next_ordinal):
        why = f"the file was changed after Codex's {name} was made from it"
        if wrong:
            why += f" ({count(wrong, 'turn')} of {len(turns)} stand elsewhere now, or nowhere)"
        yield Finding("loses", None, f"{why}: Codex shows other turns than those that the model gets; {remedy}")
    elif end < size:
        why = f"Codex's {name} lacks the last {size - end:,} bytes of the file"
        yield Finding("note", None, f"{why}: Codex reads them when it opens the session")


def _line_at(file: IO[bytes], at: int) -> bytes:
    """Return the line that begins at byte `at`; b"" if no line begins there."""
    file.seek(max(0, at - 1))
    if at and file.read(1) != b"\n":
        return b""
    return file.readline(LONGEST_HEAD)


def _ordinal(line: bytes) -> int | None:
    try:
        ordinal = member(decode(line), "ordinal")
    except NotJsonError:
        return None
    return ordinal if type(ordinal) is int else None


def _database(session: SessionPath, pattern: str) -> Path | None:
    """Return the newest database of a kind. The number in its name grows with its schema."""
    store = store_folder(session.path)
    found = store.parent.glob(pattern) if store else ()
    return max(found, key=lambda path: (len(path.name), path.name), default=None)


def _rows(database: Path, query: str, id: str) -> list[tuple[Any, ...]]:
    try:
        with _opened(database) as connection:
            return list(connection.execute(query, (id,)))
    except (apsw.Error, OSError, ValueError) as error:  # ValueError: invalid UTF-8
        raise _UnreadableError(database, error) from None


@contextmanager
def _opened(database: Path) -> Iterator[apsw.Connection]:
    """Open a database without creating or changing any file next to it.

    SQLite would create a missing index of a write-ahead log even for reading. So a database without a log is opened as
    immutable, and one with a log and an index is opened with the index read-only. A log without its index, which Codex
    sometimes leaves, is read from a copy.
    """
    log, index = (database.with_name(f"{database.name}-{ending}") for ending in ("wal", "shm"))
    if log.exists() and not index.exists():
        with tempfile.TemporaryDirectory() as folder:
            for path in (database, log):
                shutil.copyfile(path, Path(folder, path.name))
            with closing(apsw.Connection(str(Path(folder, database.name)))) as connection:
                yield connection
        return
    uri = f"{database.absolute().as_uri()}?mode=ro&{'readonly_shm' if log.exists() else 'immutable'}=1"
    with closing(apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)) as connection:
        connection.set_busy_timeout(1000)
        yield connection
