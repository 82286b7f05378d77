"""Two conversations with forks, and helpers for the tests of mail and sessions."""

from collections.abc import Callable

import pytest

from foldmark import Agent, CommandError, Log
from stored import connection

NOW = "2026-03-01T12:00:00.000000Z"

Open = Callable[[], Log]


def uuid(number: int) -> str:
    return f"{number}0000000-0000-4000-8000-000000000000"


def agent(log: Log, number: int) -> Agent:
    return log.agent(uuid(number))


def said(agent: Agent, text: str, answer: str | None = None) -> None:
    agent.append("user", text)
    if answer is not None:
        agent.append("assistant", answer)
    agent.end_turn()


def fork(agent: Agent, mark: str = "") -> Agent:
    return agent.log.agent(agent.do(f"/fork {mark}").data["child"])


def contents(agent: Agent) -> list[str]:
    return [message.content for message in agent.context().messages]


def rows(log: Log) -> int:
    """Return a number that grows with each write to the database, even with a transaction that changes nothing."""
    return int(connection(log).pragma("data_version") + connection(log).total_changes())


def refused(agent: Agent, line: str, actor: str = "human") -> str:
    """Assert that a command is refused and writes nothing; return the message."""
    before = rows(agent.log)
    with pytest.raises(CommandError) as caught:
        agent.do(line, actor=actor)
    assert rows(agent.log) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)
