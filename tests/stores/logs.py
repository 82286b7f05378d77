"""Helpers for small logs in tests of a store: make agents and drafts, append, and read all events."""

from __future__ import annotations

from typing import Any

from foldmark.core.agents import AgentRecord, Size
from foldmark.core.events import Draft, Event
from foldmark.core.ports import Store
from foldmark.core.replay import birth

NOW = "2026-03-01T12:00:00.000000Z"


def draft(kind: str = "user", content: str = "hello", **more: Any) -> Draft:
    return Draft(kind=kind, content=content, created_at=NOW, **more)


def call(call_id: str) -> Draft:
    return draft("tool_call", "{}", data={"call_id": call_id, "name": "probe"})


def born(store: Store, *names: str) -> None:
    """Create conversations; the one named `a` has the uuid `uuid-a`."""
    with store.write() as transaction:
        for name in names:
            record = AgentRecord(f"uuid-{name}", name, None, 0, NOW)
            transaction.create_agent(record, birth(record.id), Size(0, 0))


def append(store: Store, agent: str, *drafts: Draft) -> list[int]:
    with store.write() as transaction:
        return transaction.append(agent, None, drafts)


def everything(store: Store) -> list[Event]:
    """Return all events up to the newest head."""
    with store.read() as moment:
        newest = max((record.head for record in moment.agents()), default=0)
        return moment.events(range(1, newest + 1))
