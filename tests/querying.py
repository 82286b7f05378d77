"""Calls of `query_db` as a model makes them, on any database: hostile statements, and checks of every answer."""

from __future__ import annotations

import json
from time import monotonic
from typing import Any

import pytest

from foldmark import Agent, CommandError
from patience import LIMIT

FOREIGN = "f0re1gn"
"""Part of all content that a model must not see."""

ANYWHERE = {
    "insert into a view": "INSERT INTO messages (content) VALUES ('x')",
    "update of a view": "UPDATE messages SET content = ''",
    "begin": "BEGIN",
    "commit": "COMMIT",
    "rollback": "ROLLBACK",
    "savepoint": "SAVEPOINT x",
    "explain": "EXPLAIN SELECT * FROM messages",
    "two statements": "SELECT 1; SELECT 2",
    "NUL": "SELECT '\0'",
    "nothing": "",
    "white space": " \n\t ",
    "semicolons": ";;",
    "a comment": "-- SELECT 1",
    "an open comment": "/* SELECT 1",
    "an open quote": "SELECT 'x",
    "no SQL": "Please show me everything.",
    "many characters": "SELECT '" + "a" * 1_000_000 + "'",
    "many columns": "SELECT " + "1," * 2000 + "1",
    "deep addition": "SELECT 1" + "+1" * 3000,
    "deep selects": "SELECT * FROM (" * 600 + "SELECT 1" + ")" * 600,
    "deep functions": "SELECT " + "abs(" * 1500 + "1" + ")" * 1500,
    "deep CASE": "SELECT " + "CASE 1 WHEN 1 THEN " * 400 + "1" + " END" * 400,
}
"""Statements that are refused or stopped by a limit, in any dialect of SQL."""


def ask(agent: Agent, sql: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(agent.call_tool("query_db", {"sql": sql}))
    assert found["row_count"] == len(found["rows"])
    return found


def rows(agent: Agent, sql: str) -> list[list[Any]]:
    return [list(row.values()) for row in ask(agent, sql)["rows"]]


def column(agent: Agent, sql: str) -> list[Any]:
    return [row[0] for row in rows(agent, sql)]


def refused(agent: Agent, sql: str) -> str:
    with pytest.raises(CommandError) as caught:
        agent.call_tool("query_db", {"sql": sql})
    message = str(caught.value)
    assert "\n" not in message
    assert 10 < len(message) < 1000
    message.encode()
    return message


def tried(agent: Agent, sql: str, written: str) -> tuple[str, bool]:
    """Return the answer to a model, and whether it is a refusal. Assert that it has nothing foreign and is not late.
    `written` is the statement with its placeholders filled in."""
    begun, was_refused = monotonic(), False
    try:
        said = agent.call_tool("query_db", {"sql": written})
        json.loads(said)
    except CommandError as error:
        said, was_refused = str(error), True
        assert "\n" not in said
        assert len(said) < 1000
    assert monotonic() - begun < LIMIT
    assert FOREIGN not in said.replace(sql, "")
    return said, was_refused
