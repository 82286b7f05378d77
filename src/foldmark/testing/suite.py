"""The fixtures of the suite, and what its tests put into a store."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from foldmark.core.agents import AgentRecord, Size
from foldmark.core.events import Draft, Event
from foldmark.core.ports import Store, Transaction
from foldmark.core.replay import birth
from foldmark.testing.harness import Harness

NOW = "2026-03-01T12:00:00.000000Z"

examples = settings(
    deadline=None,
    # Each example works with agents of its own in one store, and several stores may run the suite.
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
        HealthCheck.data_too_large,
    ],
)
"""The settings of a random test; how many examples it draws is left to the profile in force."""


class Suite:
    """The fixtures that every part of the contract works with."""

    @pytest.fixture
    def harness(self) -> Harness:
        """The store's own; see docs/stores.md."""
        raise NotImplementedError("override the fixture `harness` of StoreContract; docs/stores.md shows one")

    @pytest.fixture
    def store(self, harness: Harness) -> Iterator[Store]:
        """A store over an empty database, in which nothing is wrong when the test has ended."""
        store = harness.fresh()
        yield store
        assert list(store.damage()) == []
        store.close()

    @pytest.fixture
    def other(self, harness: Harness, store: Store) -> Iterator[Store]:
        """A second connection to the database of `store`."""
        other = harness.open(store.address)
        yield other
        other.close()


def draft(kind: str = "user", content: str = "hello", **more: Any) -> Draft:
    """An event to append."""
    return Draft(kind=kind, content=content, created_at=NOW, **more)


def call(call_id: str, name: str = "probe") -> Draft:
    """A tool call to append."""
    return draft("tool_call", "{}", data={"call_id": call_id, "name": name})


def result(call_id: str, answers: int, **more: Any) -> Draft:
    """A tool result to append."""
    return draft("tool_result", "text", data={"call_id": call_id}, answers=answers, **more)


def add_root(writing: Transaction, name: str | None = None) -> str:
    """Add a conversation; returns its uuid, which is its name as well if there is none."""
    agent = str(uuid4())
    record = AgentRecord(agent, agent if name is None else name, None, 0, NOW)
    writing.create_agent(record, birth(agent), Size(0, 0))
    return agent


def add_fork(writing: Transaction, parent: str) -> str:
    """Fork an agent; returns the uuid of the child."""
    child = str(uuid4())
    (at,) = writing.append(parent, None, [draft("fork", "", data={"child": child, "start": []})])
    writing.create_agent(AgentRecord(child, None, parent, at, NOW), birth(child, at), Size(0, 0))
    return child


def root(store: Store, name: str | None = None) -> str:
    """Add a conversation, in a transaction of its own."""
    with store.write() as writing:
        return add_root(writing, name)


def fork(store: Store, parent: str) -> str:
    """Fork an agent, in a transaction of its own."""
    with store.write() as writing:
        return add_fork(writing, parent)


def append(store: Store, agent: str, *drafts: Draft, expected: int | None = None) -> list[int]:
    """Append events, in a transaction of their own; returns their ids."""
    with store.write() as writing:
        return writing.append(agent, expected, drafts)


def roll_back(store: Store, act: Callable[[Transaction], object]) -> None:
    """Do something in a transaction that fails at its end."""
    with suppress(ZeroDivisionError), store.write() as writing:
        act(writing)
        raise ZeroDivisionError


def read(store: Store, event_ids: list[int]) -> list[Event]:
    """The events with these ids, as they are stored now."""
    with store.read() as moment:
        return moment.events(event_ids)
