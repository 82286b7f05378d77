"""Compare a conversation with its copy, whose events have other ids."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import foldmark
from foldmark.copying import AddedConversation
from foldmark.core.agents import AgentRecord
from foldmark.core.records import CopiedEvent
from foldmark.operations.history import operations

FAR = 7_000_000_000
"""An id that no other number reaches."""


def begin_far(log: foldmark.Log) -> None:
    """Give all further events ids above `FAR`, so that no other number equals one."""
    with log.store.write() as writing:
        record = AgentRecord(log.new_id(), "before", None, 0, "2026-01-01T00:00:00.000000Z")
        writing.create_agent(record, at=1)
        before = (FAR, record.id, FAR, "user", None, "human", record.created_at, False, None, None)
        writing.take_events([CopiedEvent(*before, False, None, "x", None)])


def new_id(added: AddedConversation) -> Callable[[int], int]:
    """Return the function that gives the id of an event in the copy."""
    firsts = [first for first, _, _ in added.ids]

    def found(id: int) -> int:
        first, last, new = added.ids[bisect_right(firsts, id) - 1]
        assert first <= id <= last
        return new + id - first

    return found


def compare(ours: foldmark.Log, theirs: foldmark.Log, added: AddedConversation, agents: dict[str, str]) -> None:
    """Assert that each agent has the same context, operations and marks in both. `agents` are the uuids in both."""
    new = new_id(added)
    for old, own in agents.items():
        mine, other = ours.agent(old), theirs.agent(own)
        assert [new(event.id) for event in mine.events(0, 1000)] == [event.id for event in other.events(0, 1000)]
        before, after = mine.context(), other.context()
        assert [_message(each, new) for each in before.messages] == [_message(each, int) for each in after.messages]
        assert {name: new(id) for name, id in before.marks.items()} == dict(after.marks)
        assert (before.state, before.scratchpad) == (after.state, after.scratchpad)
        assert before.size.messages == after.size.messages
        mine_now, other_now = mine.standing(), other.standing()
        assert {new(each) for each in mine_now.fold.evicted} == set(other_now.fold.evicted)
        assert {new(each) for each in mine_now.fold.pins} == set(other_now.fold.pins)
        assert mine_now.settings == other_now.settings
        assert _operations(mine, new) == _operations(other, int)


def _message(message: Any, new: Callable[[int], int]) -> tuple[Any, ...]:
    turn = None if message.turn_id is None else new(message.turn_id)
    return new(message.id), turn, message.kind, message.role, message.content, message.created_at


def _operations(agent: foldmark.Agent, new: Callable[[int], int]) -> list[tuple[Any, ...]]:
    with agent.reading() as (moment, at):
        return [
            (new(each.event.id), each.event.kind, each.event.reason, each.left, each.returned, each.by and new(each.by))
            for each in operations(moment, at)
        ]
