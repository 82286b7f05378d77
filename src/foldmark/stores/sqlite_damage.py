"""Reading texts that are damaged, and finding what is damaged, in SQLite: a part of `SqliteStore`.

SQLite takes any bytes for text, and a bit that flips on the disk can make bytes that are not UTF-8. They are read as
U+FFFD, so that one wrong byte stops nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import apsw

from foldmark.core.checksum import checksum_of
from foldmark.core.errors import DamagedError, StoreError
from foldmark.core.events import OPERATION_KINDS
from foldmark.core.ports import AgentRecord
from foldmark.core.wording import one_line
from foldmark.stores.queries import listed
from foldmark.stores.sqlite_file import explain, rescue

Row = tuple[Any, ...]

_PAGE = 256


def fetch(db: apsw.Connection, sql: str, bindings: Any = ()) -> list[Row]:
    """Return all rows of a statement, with U+FFFD for what is not UTF-8. Raises apsw.Error."""
    try:
        return db.execute(sql, bindings).fetchall()
    except UnicodeDecodeError:
        return [row for row, _ in mended(db, sql, bindings)]


def mended(db: apsw.Connection, sql: str, bindings: Any = ()) -> Iterator[tuple[Row, bool]]:
    """Yield the rows of a query, each with whether U+FFFD stands in it for what is not UTF-8. Raises apsw.Error."""
    try:
        columns = len(db.execute(f"SELECT * FROM ({sql})", bindings).get_description())
    except apsw.ExecutionCompleteError:  # somebody has erased the rows meanwhile
        return
    names = [f"c{number}" for number in range(columns)]
    # Two columns of each: texts as their bytes, and everything else as it is.
    each = ", ".join(
        f"CASE typeof({n}) WHEN 'text' THEN CAST({n} AS BLOB) END, iif(typeof({n}) = 'text', NULL, {n})" for n in names
    )
    for values in db.execute(f"WITH found ({', '.join(names)}) AS ({sql}) SELECT {each} FROM found", bindings):
        texts = [None if raw is None else raw.decode(errors="replace") for raw in values[::2]]
        row = tuple(other if text is None else text for text, other in zip(texts, values[1::2], strict=True))
        yield row, any(text is not None and text.encode() != raw for text, raw in zip(texts, values[::2], strict=True))


_TEXTS = frozenset({"kind", "content", "actor", "created_at"})
_EVENT = (
    *("id", "agent", "turn", "kind", "content", "data", "dialect"),
    *("actor", "tokens", "created_at", "interrupted", "answers"),
)
_TYPES = {
    "turn": (int, type(None)),
    "data": (str, type(None)),
    "dialect": (str, type(None)),
    "answers": (int, type(None)),
}
_SHAPES = frozenset(product(*(_TYPES.get(name, (str,) if name in _TEXTS else (int,)) for name in _EVENT)))
"""The types that the columns of an event may have."""


def well_typed(row: Sequence[Any]) -> tuple[Sequence[Any], bool]:
    """Return an event's columns with the types that they should have, and whether one had another: a bit that flips can
    make a null or a number of a text."""
    if tuple(map(type, row)) in _SHAPES:
        return row, False
    return [_typed(name, value) for name, value in zip(_EVENT, row, strict=True)], True


def _typed(name: str, value: Any) -> Any:
    types = _TYPES.get(name, (str,) if name in _TEXTS else (int,))
    if isinstance(value, types):
        return value
    return None if len(types) > 1 else types[0]()


def unknown_agent(agent_id: str) -> DamagedError:
    """The error for an agent that the log names and the database does not have."""
    return DamagedError(f"an event names agent {agent_id[:8]}, which the database does not have; run `foldmark doctor`")


class SqliteDamage:
    """What is wrong with the database of the store that this is a part of."""

    path: str
    _db: apsw.Connection
    _sql: dict[str, str]

    def _all(self, sql: str, bindings: Any = ()) -> list[Row]:
        raise NotImplementedError

    def _run(self, name: str, *bindings: Any) -> list[Row]:
        raise NotImplementedError

    def _agent(self, row: Sequence[Any]) -> AgentRecord:
        raise NotImplementedError

    def _damaged_towards(self) -> Iterator[str]:
        raise NotImplementedError

    def _damaged_sent(self) -> Iterator[str]:
        raise NotImplementedError

    def _damaged_memos(self) -> Iterator[str]:
        raise NotImplementedError

    def _damaged_lineage(self) -> Iterator[str]:
        raise NotImplementedError

    def damage(self) -> Iterator[str]:
        checks: tuple[Callable[[], Iterator[str]], ...] = (
            self._damaged_pages,
            self._damaged_events,
            self._damaged_tables,
            self._damaged_index,
            self._damaged_references,
            self._damaged_sums,
            self._damaged_operations,
            self._damaged_towards,
            self._damaged_sent,
            self._damaged_texts,
            self._damaged_memos,
            self._damaged_lineage,
            self._damaged_rows,
        )
        failed = set()
        for check in checks:
            try:
                yield from check()
            except StoreError as error:  # the other checks go on
                if str(error) not in failed:
                    failed.add(str(error))
                    yield f"database: {error}"

    def unchecked(self) -> int:
        ((number,),) = self._run("wrong_unchecked")
        return int(number)

    def _damaged_pages(self) -> Iterator[str]:
        wrong = [line for (line,) in self._all("PRAGMA integrity_check(20)") if line != "ok"]
        yield from (f"database: {line}" for line in wrong)
        if wrong:
            yield f"{self.path} is damaged. {rescue(self.path)}"

    def _damaged_events(self) -> Iterator[str]:
        last, rows = 0, self._run("checksums", 0, _PAGE)
        while rows:
            for last, head, content, data, stored in rows:
                what = _wrong(head, content, data, stored)
                if what:
                    yield f"event {last}: {what}; its turn can be read, and erased with `/message remove`"
            rows = self._run("checksums", last, _PAGE)

    def _damaged_tables(self) -> Iterator[str]:
        """Texts beside the log, which have no checksum: are they UTF-8?"""
        for (table,) in self._run("wrong_tables"):
            try:
                for _ in self._db.execute(f'SELECT * FROM "{table}"'):
                    pass
            except UnicodeDecodeError as error:
                text = error.object[:40].decode(errors="replace")
                yield f"{table}: a text is not UTF-8 any more, which begins with {one_line(text)}"
            except apsw.Error as error:
                raise explain(error, self.path) from error

    def _damaged_index(self) -> Iterator[str]:
        from foldmark.stores.sqlite_search import damage

        index = partial(self._run, "wrong_index_rows"), partial(self._run, "wrong_index")
        yield from damage(*index, writable=not self._db.readonly("main"))

    def _damaged_references(self) -> Iterator[str]:
        for table, row, parent, _ in self._all("PRAGMA foreign_key_check"):
            yield f"database: row {row} of {table} names a row of {parent} that is not there"

    def _damaged_sums(self) -> Iterator[str]:
        for (agent_id, *_), key in [(row, row[-1]) for row in self._run("agents")]:
            for (event_id,) in self._run("wrong_sums", key):
                yield f"agent {agent_id[:8]}: the sums stored with event {event_id} are not what its events give"
            for (event_id,) in self._all(self._sql["wrong_weights"], {"agent": key}):
                yield f"agent {agent_id[:8]}: the weight stored with event {event_id} is not what its events give"
            for (wrong,) in self._all(self._sql["wrong_waiting"], {"key": key}):
                if wrong:
                    yield f"agent {agent_id[:8]}: {wrong} calls of its open turn are wrongly said to wait, or not to"

    def _damaged_operations(self) -> Iterator[str]:
        for event_id, marked in self._run("wrong_replayed", listed(OPERATION_KINDS)):
            marks = "is" if marked else "is not"
            yield f"event {event_id}: it {marks} marked as an operation, and its kind says otherwise"

    def _damaged_texts(self) -> Iterator[str]:
        from hashlib import sha256

        for hash, text in self._run("wrong_texts"):
            if sha256(text).hexdigest() != hash:
                yield f"requests: the text stored under the hash {hash[:12]} is another one"
        for agent_id, sent_id in self._run("wrong_sent_data"):
            yield f"agent {agent_id[:8]}: what request {sent_id} was made of is not readable"

    def _damaged_rows(self) -> Iterator[str]:
        for agent_id, *row in self._run("wrong_rows"):
            names, said, given = ("newest event", "messages", "tokens", "open turn"), row[:4], row[4:]
            for name, says, gives in zip(names, said, given, strict=True):
                if says != gives:
                    yield f"agent {agent_id[:8]}: its row says {name} {says}, its events say {gives}"


def is_damaged(head: bytes | None, content: bytes | None, data: bytes | None, stored: int | None) -> bool:
    """Return True if bytes of an event have changed since it was recorded, as far as that can be told."""
    return _wrong(head, content, data, stored) is not None


def _wrong(head: bytes | None, content: bytes | None, data: bytes | None, stored: int | None) -> str | None:
    """Say what is wrong with an event; one that has no checksum is only looked at for UTF-8."""
    if head is None or content is None:
        return "a column that it must have is lost"
    for name, raw in (("row", head), ("content", content), ("data", data or b"")):
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            return f"its {name} holds what is not UTF-8, at byte {error.start + 1}"
    if stored is not None and checksum_of(head, content, data) != stored:
        return "it is not what its checksum was made of: bytes have changed on the disk"
    return None
