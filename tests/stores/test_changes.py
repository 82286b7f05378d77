"""The cost of reading the events after a given one in SQLite, in steps of its virtual machine."""

from __future__ import annotations

import apsw

import foldmark
from foldmark.stores.sqlite.store import SqliteStore
from stored import connection


def steps_of_a_page(others: int) -> int:
    """Return the steps to read a page of an agent's events of several kinds, with `others` of another in between."""
    taken: list[int] = []
    with foldmark.open(":memory:", settings={}) as log:
        agent, other = log.agent("one"), log.agent("other")
        for _ in range(2):
            agent.append("user", "Go on.")
            agent.record("state", "Goal: go on")
            agent.do("/mark here")
            agent.end_turn()
            with other.batch():
                for _ in range(others):
                    other.append("user", "Something else.")
        agent.append("user", "The last.")
        assert isinstance(log.store, SqliteStore)
        connection(log).trace_v2(
            apsw.SQLITE_TRACE_PROFILE, lambda done: taken.append(done["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])
        )
        kinds = [event.kind for event in agent.events(after=1, limit=7)]
        connection(log).trace_v2(0)
    assert kinds == ["state", "mark", "turn_ended", "user", "state", "mark", "turn_ended"]
    return sum(taken)


def test_a_page_of_an_agents_events_costs_the_same_regardless_of_other_agents() -> None:
    assert steps_of_a_page(500) == steps_of_a_page(5)
