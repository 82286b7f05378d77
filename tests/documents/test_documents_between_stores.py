"""A document carries a conversation between SQLite and PostgreSQL, whose ids have other gaps (SPEC 9)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import foldmark
from documents import exported, fill, imported
from foldmark.app import open_over
from foldmark.log.doctor import examine

sys.path.append(str(Path(__file__).parents[1] / "stores"))

from postgres_harness import PostgresHarness


@pytest.fixture
def server(on_postgres: PostgresHarness) -> foldmark.Log:
    return open_over(on_postgres.fresh())


def shown(agent: foldmark.Agent) -> list[Any]:
    """Return a context and the list of operations, without ids."""
    context = agent.context()
    rows = agent.do("/operations 1000").data["operations"]
    return [
        [(each.kind, each.content, each.created_at, each.dialect) for each in context.messages],
        [list(context.marks), len(context.pins), len(context.evicted), context.state, context.scratchpad],
        [(row["operation"], row["left"], row["returned"], row["in_force"], row["created_at"]) for row in rows],
    ]


def test_a_conversation_goes_there_and_back(server: foldmark.Log, tmp_path: Path) -> None:
    with foldmark.open(":memory:", settings={}) as here:
        fill(here)
        agent = here.agent("work")
        server.agent("another").append("user", "Its ids are taken.")
        there = server.agent(imported(server, tmp_path / "d.json", exported(agent)).agent_id)
        assert shown(there) == shown(agent)
        assert list(examine(server)) == []
        back = here.agent(imported(here, tmp_path / "e.json", exported(there), "back").agent_id)
        assert shown(back) == shown(agent)
        assert list(examine(here)) == []


def test_a_document_longer_than_a_block_of_ids_is_imported(server: foldmark.Log, tmp_path: Path) -> None:
    with foldmark.open(":memory:", settings={}) as here:
        agent = here.agent("long")
        with agent.batch():
            for number in range(1500):
                agent.append("user", f"Question {number}")
                agent.append("assistant", "Answer")
                agent.end_turn()
        agent.do("/context drop 1-90")
        there = server.agent(imported(server, tmp_path / "d.json", exported(agent)).agent_id)
        assert shown(there) == shown(agent)
        assert list(examine(server)) == []
