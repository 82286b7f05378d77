"""`openai-agents`: SQLiteSession, and AdvancedSQLiteSession with its branches.

https://openai.github.io/openai-agents-python/sessions/
"""

import asyncio
from typing import Any

from agents import SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession
from agents.memory import SessionSettings
from store_peer import Store, role, serve_store, sqlite_settings, text

NAME = "bench"


class Session(Store):
    """A session, used as the Runner uses it."""

    def make(self, limit: int | None = None) -> Any:
        """Return the session object."""
        settings = SessionSettings(limit=limit)
        if self.variant.get("advanced"):
            return AdvancedSQLiteSession(
                session_id=NAME, db_path=self.path, create_tables=True, session_settings=settings
            )
        return SQLiteSession(NAME, self.path, session_settings=settings)

    def open(self) -> None:
        """Open the session, and a loop that stays, as in a running program."""
        self.loop = asyncio.new_event_loop()
        self.session = self.make()
        self.turns = 0

    def close(self) -> None:
        """Close the session."""
        self.session.close()

    def run(self, coroutine: Any) -> Any:
        """Await something."""
        return self.loop.run_until_complete(coroutine)

    def settings(self) -> str:
        """Ask a connection of the session."""
        self.run(self.session.get_items(1))
        return sqlite_settings(next(iter(self.session._connections)).execute)

    def append(self, number: int) -> None:
        """Add one item."""
        self.run(self.session.add_items([{"role": role(number), "content": text(number)}]))
        self.turns += 1 - number % 2

    def fill(self, numbers: range) -> None:
        """Add items, many in a call."""
        for start in range(numbers.start, numbers.stop, 10_000):
            some = range(start, min(start + 10_000, numbers.stop))
            self.run(self.session.add_items([{"role": role(each), "content": text(each)} for each in some]))
        self.turns += len(numbers) // 2

    def request(self) -> int:
        """Get the items that the Runner puts before the new input."""
        session = self.make(self.variant.get("limit"))
        items = self.run(session.get_items())
        session.close()
        return len(items)

    def rewind(self, back: int) -> None:
        """Take the newest items out; the advanced session branches from the turn before them."""
        if self.variant.get("advanced"):
            self.run(self.session.create_branch_from_turn(self.turns - back // 2 + 1))
            return
        for _ in range(back):
            self.run(self.session.pop_item())

    def fork(self) -> None:
        """Branch from the newest turn."""
        if not self.variant.get("advanced"):
            raise NotImplementedError("has none")
        self.run(self.session.create_branch_from_turn(self.turns))

    def settle(self) -> None:
        """Go back to the branch that has all messages."""
        if self.variant.get("advanced"):
            self.run(self.session.switch_to_branch("main"))


serve_store(Session)
