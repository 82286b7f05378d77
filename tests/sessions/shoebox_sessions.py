"""Shoebox's sessions for Foldmark. Shoebox keeps them in one SQLite database, `~/.shoebox/sessions.sqlite`."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from foldmark.formats.messages import NOTHING, RecordMessages
from foldmark.formats.session_format import SessionFormat
from foldmark.wires.parts import CallMessage, Part, ResultMessage, TextMessage

DATABASE = "sessions.sqlite"
"""Its tables are `sessions (id, cwd)` and `messages (id, session, at, role, text, tool, arguments, call)`."""


class ShoeboxFormat(SessionFormat):
    """The format of Shoebox. The path of a session is that of the database, followed by the session's id."""

    name, title, running = "shoebox", "Shoebox", "SHOEBOX_SESSION"

    def folder(self, environment: Mapping[str, str]) -> Path:
        return Path(environment.get("SHOEBOX_HOME") or Path.home() / ".shoebox")

    def sessions(self, environment: Mapping[str, str]) -> Iterator[Path]:
        database = self.folder(environment) / DATABASE
        if database.is_file():
            for (id,) in rows(database, "SELECT id FROM sessions ORDER BY id"):
                yield database / id

    def session_id(self, path: Path) -> str | None:
        return path.name if path.parent.name == DATABASE else None

    def transcript(self, path: Path) -> Iterator[bytes]:
        found = rows(path.parent, "SELECT cwd FROM sessions WHERE id = ?", path.name)
        if not found:
            raise ValueError(f"there is no session {path.name} in the database")
        yield line(type="session", cwd=found[0][0])
        of_session = "SELECT at, role, text, tool, arguments, call FROM messages WHERE session = ? ORDER BY id"
        for at, role, text, tool, arguments, call in rows(path.parent, of_session, path.name):
            given = json.loads(arguments) if arguments else None
            yield line(type=role, timestamp=at, text=text, tool=tool, arguments=given, call=call)

    def is_record(self, value: Any) -> bool:
        return isinstance(value, dict) and value.get("program") == self.name

    def messages(self, record: Any) -> RecordMessages:
        part: Part
        match record:
            case {"type": "user" | "assistant" as role, "text": str(text)}:
                part = TextMessage(role, text)
            case {"type": "call", "call": str(call), "tool": str(tool), "arguments": arguments}:
                part = CallMessage(call, tool, arguments)
            case {"type": "result", "call": str(call), "text": str(text)}:
                part = ResultMessage(call, text)
            case _:
                return NOTHING
        return RecordMessages((part,), complete=True)


def line(**values: Any) -> bytes:
    """Return a record as a line of JSON."""
    return json.dumps({"program": ShoeboxFormat.name, **values}).encode()


def rows(database: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query. Raises OSError if the database cannot be read."""
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute(query, values).fetchall()
    except sqlite3.Error as error:
        raise OSError(f"{database}: {error}") from error
