"""`google-adk`: SqliteSessionService, and the Runner's rewind.

https://google.github.io/adk-docs/sessions/session/
"""

import asyncio
import json
import sqlite3
import time
import uuid
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from store_peer import Store, role, serve_store, sqlite_settings, text

PLACE: Any = {"app_name": "bench", "user_id": "person"}
NAME = "talk"


def event(number: int) -> Event:
    """Return a message as an event; question and answer are one invocation."""
    who = "model" if number % 2 else "user"
    content = types.Content(role=who, parts=[types.Part(text=text(number))])
    return Event(author="bench" if number % 2 else "user", invocation_id=f"i{number // 2}", content=content)


class Service(Store):
    """A session of the service."""

    def open(self) -> None:
        """Create the session."""
        self.loop = asyncio.new_event_loop()
        if self.variant.get("wal"):
            db = sqlite3.connect(self.path)
            db.execute("PRAGMA journal_mode = WAL")
            db.close()
        self.service = SqliteSessionService(self.path)
        self.session: Any = self.run(self.service.create_session(**PLACE, session_id=NAME))

    def run(self, coroutine: Any) -> Any:
        """Await something."""
        return self.loop.run_until_complete(coroutine)

    def settings(self) -> str:
        """Ask a connection of the service."""

        async def asked() -> str:
            async with self.service._get_db_connection() as db:
                rows = {name: await db.execute_fetchall(name) for name in ("PRAGMA journal_mode", "PRAGMA synchronous")}
            return sqlite_settings(rows.__getitem__)

        return self.run(asked())

    def append(self, number: int) -> None:
        """Append one event."""
        self.number = number
        self.run(self.service.append_event(self.session, event(number)))

    def fill(self, numbers: range) -> None:
        """Insert rows as the service writes them."""
        patterns = [json.loads(event(each).model_dump_json(exclude_none=True)) for each in (0, 1)]

        def rows() -> Any:
            began = time.time() - 10_000_000
            for number in numbers:
                made, at = patterns[number % 2], began + number
                made |= {"id": str(uuid.UUID(int=number + 1)), "invocation_id": f"i{number // 2}", "timestamp": at}
                made["content"]["parts"][0]["text"] = text(number)
                assert made["content"]["role"][0] == ("m" if role(number) == "assistant" else "u")
                yield made["id"], "bench", "person", NAME, made["invocation_id"], at, json.dumps(made)

        with sqlite3.connect(self.path) as db:
            db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", rows())
        db.close()
        self.session = self.run(self.service.get_session(**PLACE, session_id=NAME, config=self.newest(1)))

    @staticmethod
    def newest(number: int | None) -> GetSessionConfig | None:
        """Return the documented limit."""
        return None if number is None else GetSessionConfig(num_recent_events=number)

    def request(self) -> int:
        """Get the session and the contents of its events."""
        service = SqliteSessionService(self.path)
        limit = self.newest(self.variant.get("limit"))
        session = self.run(service.get_session(**PLACE, session_id=NAME, config=limit))
        return len([each.content for each in session.events if each.content])

    def remember(self) -> None:
        """Know the invocation before which to go."""
        self.place = f"i{(self.number + 1) // 2}"

    def rewind(self, back: int) -> None:
        """Rewind by the Runner."""
        runner = Runner(agent=LlmAgent(name="bench", model="none"), app_name="bench", session_service=self.service)
        self.run(runner.rewind_async(user_id="person", session_id=NAME, rewind_before_invocation_id=self.place))
        self.session = self.run(self.service.get_session(**PLACE, session_id=NAME, config=self.newest(1)))

    def fork(self) -> None:
        """There is none."""
        raise NotImplementedError("has none")


serve_store(Service)
