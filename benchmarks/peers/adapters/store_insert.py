"""The floor: one table, one INSERT a message, by the driver alone."""

import sqlite3
from typing import Any

from store_peer import Store, postgres_settings, role, serve_store, sqlite_settings, text

TABLE = "CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, conversation TEXT, role TEXT, content TEXT)"
INSERT = "INSERT INTO messages (conversation, role, content) VALUES (?, ?, ?)"
SELECT = "SELECT role, content FROM messages WHERE conversation = ? ORDER BY id"
NAME = "bench"


class Bare(Store):
    """A table of messages. The variant says by which driver."""

    db: Any

    def connect(self) -> Any:
        """Return a connection on which each statement is a transaction."""
        driver = self.variant["driver"]
        if driver == "psycopg":
            import psycopg

            return psycopg.connect(self.variant["address"], autocommit=True, prepare_threshold=0)
        if driver == "apsw":
            import apsw

            db: Any = apsw.Connection(self.path)
        else:
            db = sqlite3.connect(self.path, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        return db

    def open(self) -> None:
        """Create the table."""
        self.db = self.connect()
        self.insert, self.select = INSERT, SELECT
        if self.variant["driver"] == "psycopg":
            self.db.execute(TABLE.replace("INTEGER", "BIGSERIAL"))
            self.insert, self.select = INSERT.replace("?", "%s"), SELECT.replace("?", "%s")
        else:
            self.db.execute(TABLE)

    def close(self) -> None:
        """Close the connection."""
        self.db.close()

    def settings(self) -> str:
        """Return what the server or the connection says."""
        if self.variant["driver"] == "psycopg":
            return postgres_settings(self.db.execute)
        return sqlite_settings(self.db.execute)

    def append(self, number: int) -> None:
        """Insert a row."""
        self.db.execute(self.insert, (NAME, role(number), text(number)))

    def fill(self, numbers: range) -> None:
        """Insert all in one transaction."""
        rows = ((NAME, role(number), text(number)) for number in numbers)
        if self.variant["driver"] == "psycopg":
            with self.db.cursor().copy("COPY messages (conversation, role, content) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            return
        self.db.execute("BEGIN")
        self.db.executemany(self.insert, rows)
        self.db.execute("COMMIT")

    def request(self) -> int:
        """Read all rows."""
        db = self.connect()
        messages = [{"role": who, "content": what} for who, what in db.execute(self.select, (NAME,))]
        db.close()
        return len(messages)

    def size(self) -> int:
        """Return the bytes of the table and its indices."""
        return int(self.db.execute("SELECT pg_total_relation_size('messages')").fetchone()[0])


serve_store(Bare)
