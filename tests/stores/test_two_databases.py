"""Random histories over SQLite and over PostgreSQL are equal in every step, to the byte (SPEC 3, L7).

Both logs have the same clock and the same uuids, and the first conversation of a database has the same ids in both.
Nothing has to be renamed, and the requests are the same to the byte.
"""

from __future__ import annotations

import itertools
from contextlib import closing
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from postgres_harness import PostgresHarness

from deeds import DEEDS, do, family, shown
from foldmark import Agent, CommandError, Log
from foldmark.app import open_over
from foldmark.core import selections
from foldmark.core.ports import Store
from foldmark.log import Result
from foldmark.log.doctor import examine
from foldmark.stores.sqlite.store import SqliteStore
from sampled import DEEP
from stored import stored

MODELS = (("openai", "gpt-5"), ("anthropic", "claude-sonnet-4-5"), ("gemini", "gemini-2.5-pro"))
Deed = tuple[str, int, int]

BESIDE = (
    *("/memo add deploy {0} #ops", "/memo add file-{0} is large"),
    *("/config set context_policy=eager", "/context explain 1"),
    *("/send {to} Report {0}", "/check-mail", "/send {to} Done with {0}.", "/kill {to}"),
)


def alike(store: Store) -> Log:
    """Return a log whose times and uuids depend only on earlier actions."""
    log = open_over(store)
    seconds, numbers = itertools.count(), itertools.count(1)
    log.clock = lambda: f"2026-03-01T12:{next(seconds) // 60 % 60:02}:00.000000Z"
    log.program.tools = {}  # type: ignore[misc]  # the description of query_db names the SQL dialect
    log.new_id = lambda: str(UUID(int=next(numbers) << 64))
    return log


def asked(agent: Agent, number: int) -> tuple[bytes, bytes]:
    """Return the bytes and the manifest of the request to one of the models."""
    request = agent.request(*MODELS[number % len(MODELS)])
    return request.bytes, msgspec.json.encode(request.manifest, enc_hook=repr)


def everything(log: Log) -> Any:
    """Return all that a database shows of its conversation and its forks."""
    agents = family(log.agent("root"))
    moment = stored(log)
    return [
        (
            moment.head(agent.id),
            shown(agent.context()),
            [asked(agent, number) for number in range(len(MODELS))],
            selections.events_after(moment, agent.id, 0, 10_000),
            agent.do("/context show").text,
        )
        for agent in agents
    ]


def done(log: Log, deed: str, number: int, who: int) -> Any:
    """Do something in a log. Return the answer with its receipt, and the agent's context and request after it."""
    agents = family(log.agent("root"))
    agent = agents[who % len(agents)]
    try:
        if deed == "beside":
            line = BESIDE[number % len(BESIDE)].format(number, to=agents[number % len(agents)].id)
            result: Result | str = agent.do(line)
        else:
            result = do(agent, deed, number)
    except CommandError as error:
        result = str(error)
    return msgspec.to_builtins(result, enc_hook=repr), shown(agent.context()), asked(agent, number)


@pytest.fixture
def harness(on_postgres: PostgresHarness) -> PostgresHarness:
    return on_postgres


BESIDE_THEM = st.lists(st.tuples(st.just("beside"), st.integers(0, 60), st.integers(0, 2)), max_size=6)


@settings(
    settings(),
    max_examples=settings().max_examples // (2 if DEEP else 3),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@example([("say", 0, 0), ("summarize", 0, 0), ("say", 1, 0)], [], Random(1))
@given(DEEDS, BESIDE_THEM, st.randoms(use_true_random=False))
def test_both_databases_agree_in_every_step_of_random_histories(
    harness: PostgresHarness, deeds: list[Deed], beside: list[Deed], chance: Random
) -> None:
    for each in beside:
        deeds.insert(chance.randrange(len(deeds) + 1), each)
    with closing(alike(SqliteStore(":memory:"))) as one, closing(alike(harness.fresh())) as two:
        for log in (one, two):
            log.agent("root")
        for deed in deeds:
            assert done(one, *deed) == done(two, *deed)
        assert everything(one) == everything(two)
        assert list(examine(two)) == []
    harness.release()
