"""From SQLite to PostgreSQL and back: the last database equals the first."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest

import foldmark
from foldmark.app import open_over
from foldmark.copying import copy
from foldmark.core.ports import Store
from foldmark.log.doctor import examine, repair
from foldmark.stores.sqlite.store import SqliteStore

sys.path.append(str(Path(__file__).parents[1] / "stores"))

import copies
from copied_tables import tables
from postgres_harness import PostgresHarness

from every_kind import fill, shown
from foldmark.testing.suite import NOW, append, draft, root


@pytest.fixture
def server(on_postgres: PostgresHarness) -> Store:
    """An empty PostgreSQL database."""
    return on_postgres.fresh()


def made(path: Path) -> SqliteStore:
    """Return a store with ordinary use of the log and some of everything outside the log; nothing in it is erased."""
    store = SqliteStore(str(path))
    copies.fill(store)
    log = open_over(store)
    fill(log)
    return store


def test_a_copy_there_and_back_is_the_same(server: Store, tmp_path: Path) -> None:
    with closing(made(tmp_path / "first.db")) as first, closing(SqliteStore(str(tmp_path / "middle.db"))) as middle:
        copy(first, middle)
        there = copy(middle, server)
        copies.same(middle, server)
        assert list(examine(open_over(server))) == []
        with closing(SqliteStore(str(tmp_path / "last.db"))) as last:
            back = copy(server, last)
            copies.same(middle, last)
            assert there.hash == back.hash
            before, after = open_over(middle), open_over(last)
            assert [shown(agent) for agent in after.agents()] == [shown(agent) for agent in before.agents()]
    # The stores count the ids that are never reused differently.
    ours, theirs = (tables(tmp_path / name, ("leases", "sqlite_sequence")) for name in ("middle.db", "last.db"))
    assert {name for name in ours if ours[name] != theirs[name]} == set()
    assert all(ours[name] for name in ("events", "text_owners", "unread", "memos", "memo_tags", "texts"))


def test_both_databases_continue_and_exchange_their_news(server: Store, tmp_path: Path) -> None:
    """New records of each database are copied to the other, in turns."""
    with closing(SqliteStore(str(tmp_path / "log.db"))) as here:
        agents = copies.fill(here)
        copy(here, server)
        copies.change(server, agents)
        log = open_over(server)
        for finding in list(examine(log)):  # `copies.change` ignores segments
            assert repair(log, finding)
        copy(server, here)
        copies.same(server, here)
        with foldmark.open(tmp_path / "log.db", settings={}) as log:
            log.agent("gone").append("user", "a new turn")
            log.agent("late").append("user", "in a new conversation")
            log.agent("late").do("/memo add something #x")
        copy(here, server)
        copies.same(here, server)
        agent = open_over(server).agent("late")
        assert [message.content for message in agent.context().messages] == ["in a new conversation"]
        agent.append("user", "and on")
        copy(server, here)
        copies.same(server, here)


def test_memos_keep_their_place_among_the_events(server: Store, tmp_path: Path) -> None:
    """A turn gets only memos saved before it was opened, in any conversation."""
    with closing(SqliteStore(str(tmp_path / "log.db"))) as here:
        first, second = root(here, "first"), root(here, "second")
        asked = []
        for number in range(6):
            with here.write() as writing:
                writing.save_memo(f"quartz {number}", (), None, "human", NOW)
            asked += append(here, (first, second)[number % 2], draft(), draft())
        copy(here, server)
        with here.read() as ours, server.read() as theirs:
            questions = [(["quartz"], id) for id in asked]
            assert theirs.memos_with(questions, 10) == ours.memos_with(questions, 10)
            assert [len(found) for found in theirs.memos_with(questions, 10)] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
