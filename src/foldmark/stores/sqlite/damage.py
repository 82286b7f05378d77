"""The checks that only an SQLite database needs: its pages, its bytes, its indices of words."""

from collections.abc import Iterator
from contextlib import suppress

import apsw

from foldmark.core.errors import StoreError
from foldmark.core.wording import one_line
from foldmark.stores.damage import Check, SqlChecks
from foldmark.stores.rows import fault
from foldmark.stores.sqlite.file import explained, rescue
from foldmark.stores.sqlite.reading import SqliteReading
from foldmark.stores.store import Blocks

_PAGE = 256

_REBUILD = "any SQLite shell rebuilds it: INSERT INTO {0} ({0}) VALUES ('rebuild')"


class SqliteChecks(SqlChecks):
    """The checks of one database."""

    own_faults = {  # noqa: RUF012 - a ClassVar in the base
        "wrong_memo_rows": "memo {0}: its words in the index are not those of its content and tags",
        "wrong_memo_tags": "memo {0}: its tag {1!r} is not a valid tag",
    }

    def __init__(self, block: SqliteReading, read: Blocks) -> None:
        super().__init__(block)
        self._read = read
        self._db, self._path, self._lock = block.db, block.path, block.connection.lock
        self._fetched = block.fetched

    def own_checks(self) -> tuple[Check, ...]:
        return (
            self._damaged_pages,
            self._damaged_events,
            self._damaged_tables,
            self._damaged_index,
            self._damaged_references,
            self._damaged_memo_index,
        )

    def _damaged_pages(self) -> Iterator[str]:
        # FTS5 caches parts of an index in memory. After another connection's commit it drops them when it reads rows,
        # but not when it only checks, and would then report the newer parts as damage. So both are one moment.
        with self._read():
            for index in ("search", "memo_words"):
                with suppress(StoreError):
                    self._fetched(f"SELECT rowid FROM {index} LIMIT 1")
            wrong = [line for (line,) in self._fetched("PRAGMA integrity_check(20)")[0] if line != "ok"]
        yield from (f"database: {line}" for line in wrong)
        if wrong:
            yield f"{self._path} is damaged. {rescue(self._path)}"

    def _damaged_events(self) -> Iterator[str]:
        last = 0
        while rows := self._run("checksums", after=last, limit=_PAGE):
            for last, head, content, data, stored in rows:
                problem = fault(head, content, data, stored)
                if problem:
                    yield f"event {last}: {problem}; its turn can be read, and erased with `/message remove`"

    def _damaged_tables(self) -> Iterator[str]:
        """Check for valid UTF-8 in texts beside the log, which have no checksum."""
        for (table,) in self._run("wrong_tables"):
            try:
                with self._lock, explained(self._path):
                    for _ in self._db.execute(f'SELECT * FROM "{table}"'):
                        pass
            except UnicodeDecodeError as error:
                text = error.object[:40].decode(errors="replace")
                yield f"{table}: a text is no longer valid UTF-8; it begins with {one_line(text)}"

    def _damaged_index(self) -> Iterator[str]:
        ((missing, surplus),) = self._run("wrong_index_rows")
        if missing or surplus:
            rebuild = _REBUILD.format("search")
            rows = f"{missing} messages are not in the index, {surplus} of its rows belong to no message"
            yield f"search: {rows}; {rebuild}"
        elif self._fails("wrong_index"):
            yield f"search: the index holds other words than the messages; {_REBUILD.format('search')}"

    def _fails(self, name: str) -> bool:
        """Return True if SQLite reports its index as wrong. It can only check the index of a writable file."""
        try:
            with self._lock:
                if not self._db.readonly("main"):
                    self._run(name)
        except StoreError as error:
            if not isinstance(error.__cause__, apsw.CorruptError):
                raise
            return True
        return False

    def _damaged_references(self) -> Iterator[str]:
        for table, row, parent, _ in self._fetched("PRAGMA foreign_key_check")[0]:
            yield f"database: row {row} of {table} names a row of {parent} that does not exist"

    def _damaged_memo_index(self) -> Iterator[str]:
        if self._fails("wrong_memo_index"):
            yield f"memos: the index holds other words than the memos; {_REBUILD.format('memo_words')}"
