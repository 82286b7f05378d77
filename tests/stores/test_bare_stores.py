"""A store without an SQL sandbox and without vectors: features that need them say so, all others work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from foldmark import CommandError, Log
from foldmark.app import open_over
from foldmark.log.outlines import NoVectorsError
from foldmark.stores.sqlite.store import SqliteStore


class BareStore(SqliteStore):
    sandbox = vectors = property(lambda store: None, lambda store, value: None)

    def close(self) -> None:
        self.connector.close()


@pytest.fixture
def log() -> Iterator[Log]:
    with open_over(BareStore(":memory:"), settings={}) as log:
        yield log


def test_a_store_without_a_sandbox_refuses_a_models_sql(log: Log) -> None:
    agent = log.agent("default")
    agent.append("user", "Where are the parsers?")
    with pytest.raises(CommandError, match="does not answer SQL; `recall` searches what was said"):
        agent.call_tool("query_db", {"sql": "SELECT 1"})


def test_a_store_without_vectors_searches_by_words(log: Log) -> None:
    event = log.agent("default").append("user", "Where are the parsers?")
    assert [hit.event_id for hit in log.search("parsers")] == [event]
    with pytest.raises(NoVectorsError):
        log.search("parsers", mode="vector")
