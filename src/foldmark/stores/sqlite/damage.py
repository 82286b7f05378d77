"""The checks of an SQLite database: its pages, its events, its stored sums, its index and the tables beside the log."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import apsw

from foldmark.core.errors import StoreError
from foldmark.core.events import OPERATION_KINDS
from foldmark.core.wording import one_line
from foldmark.stores.beside import inbox, lineage, sent
from foldmark.stores.damage import found_by
from foldmark.stores.queries import listed
from foldmark.stores.rows import fault
from foldmark.stores.sqlite import search
from foldmark.stores.sqlite.beside import memos
from foldmark.stores.sqlite.file import explain, rescue
from foldmark.stores.sqlite.reader import SqliteReader

_PAGE = 256


class SqliteChecks(SqliteReader):
    """The checks of one database."""

    def found(self) -> Iterator[str]:
        """Yield a line for each fault; an unreadable part is one of these, and the other checks go on."""
        checks: tuple[Callable[[], Iterator[str]], ...] = (
            self._damaged_pages,
            self._damaged_events,
            self._damaged_tables,
            self._damaged_index,
            self._damaged_references,
            self._damaged_sums,
            self._damaged_operations,
            partial(inbox.damage, self._run),
            partial(sent.damage, self._run),
            self._damaged_texts,
            partial(memos.damage, self._run, writable=not self._db.readonly("main")),
            partial(lineage.damage, self._run),
            self._damaged_rows,
        )
        return found_by(checks)

    def _damaged_pages(self) -> Iterator[str]:
        # FTS5 caches parts of an index in memory. After another connection's commit it drops them when it reads rows,
        # but not when it only checks: it would report the newer rest as damage.
        for index in ("search", "memo_words"):
            with suppress(StoreError):
                self._all(f"SELECT rowid FROM {index} LIMIT 1")
        wrong = [line for (line,) in self._all("PRAGMA integrity_check(20)") if line != "ok"]
        yield from (f"database: {line}" for line in wrong)
        if wrong:
            yield f"{self._path} is damaged. {rescue(self._path)}"

    def _damaged_events(self) -> Iterator[str]:
        last, rows = 0, self._run("checksums", 0, _PAGE)
        while rows:
            for last, head, content, data, stored in rows:
                what = fault(head, content, data, stored)
                if what:
                    yield f"event {last}: {what}; its turn can be read, and erased with `/message remove`"
            rows = self._run("checksums", last, _PAGE)

    def _damaged_tables(self) -> Iterator[str]:
        """Check texts beside the log, which have no checksum, for valid UTF-8."""
        for (table,) in self._run("wrong_tables"):
            try:
                for _ in self._db.execute(f'SELECT * FROM "{table}"'):
                    pass
            except UnicodeDecodeError as error:
                text = error.object[:40].decode(errors="replace")
                yield f"{table}: a text is not UTF-8 any more, which begins with {one_line(text)}"
            except apsw.Error as error:
                raise explain(error, self._path) from error

    def _damaged_index(self) -> Iterator[str]:
        index = partial(self._run, "wrong_index_rows"), partial(self._run, "wrong_index")
        yield from search.damage(*index, writable=not self._db.readonly("main"))

    def _damaged_references(self) -> Iterator[str]:
        for table, row, parent, _ in self._all("PRAGMA foreign_key_check"):
            yield f"database: row {row} of {table} names a row of {parent} that is not there"

    def _damaged_sums(self) -> Iterator[str]:
        for agent_id, *_, key, _ in self._run("agents"):
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
