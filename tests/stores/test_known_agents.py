"""The agents that an SQLite store caches between transactions always match the moment that uses them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from logs import NOW, born, draft

import foldmark
from foldmark.core import selections
from foldmark.core.agents import killed, renamed
from foldmark.core.errors import CommandError
from foldmark.core.ports import NEWEST_KINDS, Head, Snapshot, Store
from foldmark.core.records import CopiedEvent
from foldmark.stores.snapshot import SqlSnapshot
from foldmark.stores.sqlite.store import SqliteStore
from sampled import sampled

A, B = "uuid-a", "uuid-b"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "log.db"))
    born(store, "a", "b")
    yield store
    store.close()


@pytest.fixture
def other(store: SqliteStore) -> Iterator[SqliteStore]:
    other = SqliteStore(store.address, create=False)
    yield other
    other.close()


def newest(store: SqliteStore, agent: str = A) -> int:
    with store.read() as moment:
        return moment.head(agent).record.head


def last(store: SqliteStore, agent: str = A) -> int:
    with store.read() as moment:
        return moment.head(agent).record.last


def head_in_database(moment: Snapshot, agent: str) -> Head:
    """Return the head of an agent as it is read from the database, whatever was kept."""
    assert isinstance(moment, SqlSnapshot)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(moment.block, "kept_head", lambda _: None)
        patched.setattr(moment.block, "keep_head", lambda *_: None)
        return moment.head(agent)


def append(store: SqliteStore, agent: str = A) -> int:
    with store.write() as transaction:
        return transaction.append(agent, None, [draft()])[0]


def test_a_head_is_read_once_while_nothing_is_committed(store: SqliteStore) -> None:
    append(store)
    assert newest(store) == newest(store)
    ran: list[str] = []
    store.connector.db.set_exec_trace(lambda _, sql, __: ran.append(sql) or True)  # type: ignore[func-returns-value]
    newest(store)
    with store.read() as moment:
        assert moment.head(A) is moment.head(A)
    store.connector.db.set_exec_trace(None)
    assert store.connector.sql["head"] not in ran


def test_every_commit_of_this_store_is_seen(store: SqliteStore) -> None:
    for _ in range(3):
        assert newest(store) < append(store) == newest(store)


def test_every_commit_of_another_connection_is_seen(store: SqliteStore, other: SqliteStore) -> None:
    for _ in range(3):
        assert newest(store) < append(other) == newest(store)
        assert newest(store) < append(store) == newest(other)
    with other.write() as transaction:
        transaction.append(A, None, [renamed("z", "human", NOW)])
    with store.read() as moment:
        assert moment.head(A).record.name == "z"


def test_a_moment_shows_no_commit_after_it_began(store: SqliteStore, other: SqliteStore) -> None:
    before = newest(store), newest(store, B)
    with store.read() as moment:
        assert moment.head(A).record.head == before[0]
        append(other), append(other, B)
        assert (moment.head(A).record.head, moment.head(B).record.head) == before
        assert not list(selections.events_after(moment, A, 0, 10))
    assert newest(store) > before[0]
    assert newest(store, B) > before[1]


def test_a_transaction_shows_its_own_writes_and_a_rollback_leaves_nothing(
    store: SqliteStore, other: SqliteStore
) -> None:
    before = newest(store)

    def write() -> None:
        with store.write() as transaction:
            assert transaction.head(A).record.head == before
            (written,) = transaction.append(A, None, [draft()])
            assert transaction.head(A).record.head == written
            transaction.save_memo("x", [], None, "human", NOW)
            assert "memos" in transaction.head(A).beside
            assert newest(other) == before, "not committed"
            raise KeyError

    with pytest.raises(KeyError):
        write()
    assert newest(store) == newest(other) == before
    with store.read() as moment:
        assert "memos" not in moment.head(A).beside


def test_a_transaction_sees_the_writes_of_one_that_committed_first(store: SqliteStore, other: SqliteStore) -> None:
    newest(store)
    written = append(other)
    with store.write() as transaction:
        assert transaction.head(A).record.head == written
    assert newest(store) == written


def test_the_number_of_cached_heads_is_limited(store: SqliteStore) -> None:
    for number in range(200):
        born(store, f"c{number}")
    with store.read() as moment:
        for record in moment.agents():
            assert moment.head(record.id).record == record
    assert len(store.connector.known.heads) <= 64


def test_the_position_of_an_agent_is_that_of_the_newest_commit(store: SqliteStore, other: SqliteStore) -> None:
    """Two writers take turns, with a rolled-back append after each step."""
    ids: list[int] = []
    for number in range(12):
        writer = (store, other)[number % 3 == 2]
        ids.append(append(writer, (A, B)[number % 2]))

        def fail(writer: SqliteStore = writer) -> None:
            with writer.write() as transaction:
                transaction.append(A, None, [draft()])
                raise KeyError

        with pytest.raises(KeyError):
            fail()
    assert ids == sorted(set(ids))
    for each in (store, other):
        with each.read() as moment:
            records = moment.head(A).record, moment.head(B).record
            assert [(record.messages, record.head) for record in records] == [(6, ids[-2]), (6, ids[-1])]
            assert records == (moment.agent(A), moment.agent(B))
    assert not list(store.damage())


@pytest.mark.parametrize("kind", NEWEST_KINDS)
def test_a_head_shows_the_newest_event_of_each_kind(store: SqliteStore, kind: str) -> None:
    newest(store)
    append(store)
    with store.write() as transaction:
        (id,) = transaction.append(A, None, [draft(kind)])
        assert transaction.head(A).newest[kind].id == id
    append(store)
    with store.read() as moment:
        assert moment.head(A).newest[kind].id == id
        assert moment.head(A).record.head == id + 1


def test_a_head_is_not_kept_when_the_transaction_that_moved_it_is_rolled_back(store: SqliteStore) -> None:
    before = newest(store)

    def fail() -> None:
        with store.write() as transaction:
            transaction.append(A, None, [draft()])
            assert transaction.head(A).record.head == before + 1
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert newest(store) == before
    with store.write() as transaction:
        assert transaction.head(A).record.head == before
        assert transaction.append(A, None, [draft()]) == [before + 1]


def test_a_death_is_seen_by_the_next_append(store: SqliteStore) -> None:
    append(store)
    with store.write() as transaction:
        transaction.append(A, None, [killed(B, "human", NOW)])
    with pytest.raises(CommandError, match="killed"):
        append(store)


def test_an_ended_agent_is_read_anew_after_each_append(store: SqliteStore) -> None:
    append(store)
    with store.write() as transaction:
        transaction.append(A, None, [draft("turn_ended", "")])
        transaction.append(A, None, [killed(B, "human", NOW)])
    for _ in range(2):
        expected = newest(store)
        with store.write() as transaction:
            (id,) = transaction.append(A, expected, [draft("usage", "")])
        assert (newest(store), last(store)) == (expected, id)
        append(store, B)


STEPS = (
    *("message", "message", "call", "result", "answer", "end", "end", "rolled back"),
    *("/mark here", "/clear", "/undo", "/clear here", "/fork", "/memo add x", "/context window 9", "/rename z"),
    *("remove", "scratchpad"),
)


def take(agent: foldmark.Agent, step: str, number: int) -> None:
    """Do one thing with an agent that another program may have changed."""
    agent.context()
    match step:
        case "message":
            agent.append("user", f"question {number}")
        case "call":
            agent.append_tool_call("probe", {}, call_id=f"c{number // 4}")
        case "result":
            agent.append_tool_result(f"c{number // 4}", "found")
        case "answer":
            agent.append("assistant", f"answer\n### STATE\nGoal: {number}\n" if number % 3 == 0 else "answer")
        case "end":
            agent.end_turn()
        case "rolled back":
            with agent.batch():
                agent.append("user", "lost")
                raise KeyError
        case "scratchpad":
            agent.record("scratchpad", f"plan {number}")
        case "remove":
            for turn in agent.context().turns(3)[:1]:
                agent.do(f"/message remove {turn.id} --yes")
        case command:
            agent.do(command)


@pytest.mark.parametrize("seed", sampled(range(12), 4))
def test_cached_heads_equal_the_database_while_another_program_writes(tmp_path: Path, seed: int) -> None:
    def heads(store: Store) -> list[Head]:
        with store.read() as moment:
            return [moment.head(each.id) for each in moment.agents()]

    chance, path = Random(seed), str(tmp_path / "log.db")
    with foldmark.open(path) as one, foldmark.open(path) as two:
        done = 0
        for number in range(60):
            agent = chance.choice((one, two)).agent(chance.choice("ab"))
            with suppress(CommandError, KeyError):
                take(agent, chance.choice(STEPS), number)
                done += 1
            for store in (one.store, two.store):
                assert isinstance(store, SqliteStore)
                kept = heads(store)
                store.connector.known.forget()
                assert kept == heads(store)
        assert done > 30
        assert not list(one.store.damage())


@pytest.mark.parametrize("seed", sampled(range(12), 4))
def test_heads_inside_a_transaction_equal_the_database(tmp_path: Path, seed: int) -> None:
    def check(moment: Snapshot) -> None:
        for each in moment.agents():
            assert moment.head(each.id) == head_in_database(moment, each.id)

    chance, done = Random(seed), 0
    with foldmark.open(str(tmp_path / "log.db")) as log:
        for number in range(15):
            agent = log.agent(chance.choice("ab"))
            with suppress(CommandError, KeyError), agent.batch() as transaction:
                for step in chance.choices(STEPS, k=chance.randint(1, 6)):
                    with suppress(CommandError):
                        take(agent, step, number)
                    check(transaction)
                    done += 1
            with log.store.read() as moment:
                check(moment)
        assert done > 20
        assert not list(log.store.damage())


def test_an_append_after_a_copy_of_older_events_is_the_newest(store: SqliteStore, other: SqliteStore) -> None:
    for connection, agent, id in ((other, A, 100), (store, B, 50)):
        event = CopiedEvent(id, agent, id, "user", None, "human", NOW, False, None, None, False, None, "hello", None)
        with connection.write() as transaction:
            transaction.take_events([event])
    assert append(store, B) == 101
