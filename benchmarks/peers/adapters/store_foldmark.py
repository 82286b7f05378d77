"""Foldmark, through the library as README shows it."""

from typing import Any

import psycopg
from store_peer import Store, postgres_settings, role, serve_store, sqlite_settings, text

import foldmark

NAME = "bench"
SIZE = """
SELECT sum(pg_total_relation_size(oid)) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'foldmark'::regnamespace
"""


class Log(Store):
    """A conversation in SQLite, or in PostgreSQL if the variant has an `address`."""

    def make(self) -> foldmark.Log:
        """Open the log with the built-in settings, and those of the variant."""
        return foldmark.open(self.variant.get("address") or self.path, settings=self.variant.get("settings", {}))

    def open(self) -> None:
        """Open the conversation."""
        self.log = self.make()
        self.agent = self.log.agent(NAME)
        self.marks = 0

    def close(self) -> None:
        """Close the log."""
        self.log.close()

    def settings(self) -> str:
        """Ask the connection of the store."""
        connector: Any = self.log.store.connector
        if "address" in self.variant:
            return postgres_settings(connector.pool.connect().execute)
        return sqlite_settings(connector.db.execute)

    def append(self, number: int) -> None:
        """Append one message; after an answer the turn ends by the next question."""
        self.agent.append(role(number), text(number))

    def fill(self, numbers: range) -> None:
        """Append in transactions of 10,000 messages."""
        for start in range(numbers.start, numbers.stop, 10_000):
            with self.agent.batch():
                for number in range(start, min(start + 10_000, numbers.stop)):
                    self.agent.append(role(number), text(number))
                    if number % 2:
                        self.agent.end_turn()

    def request(self) -> int:
        """Open the log anew and get the body of the next request."""
        with self.make() as log:
            return len(log.agent(NAME).request("openai", "gpt-5").body["messages"])

    def remember(self) -> None:
        """Set a mark."""
        self.marks += 1
        self.agent.do(f"/mark BENCH{self.marks}")

    def rewind(self, back: int) -> None:
        """Rewind to the mark."""
        self.agent.do(f"/rewind BENCH{self.marks}")

    def fork(self) -> None:
        """Fork the whole context."""
        self.agent.do("/fork")

    def size(self) -> int:
        """Return the bytes of all tables with their indices."""
        with psycopg.connect(self.variant["address"]) as db:
            return int(db.execute(SIZE).fetchone()[0])


serve_store(Log)
