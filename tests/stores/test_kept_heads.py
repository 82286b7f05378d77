"""The heads that an SQLite store keeps while nobody commits: they are never those of another moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from logs import NOW, born, draft

from foldmark.stores.sqlite import SqliteStore

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


def append(store: SqliteStore, agent: str = A) -> int:
    with store.write() as transaction:
        return transaction.append(agent, None, [draft()])[0]


def test_a_head_is_read_once_while_nothing_is_committed(store: SqliteStore) -> None:
    append(store)
    assert newest(store) == newest(store)
    ran: list[str] = []
    store._db.set_exec_trace(lambda _, sql, __: ran.append(sql) or True)  # type: ignore[func-returns-value]
    newest(store)
    with store.read() as moment:
        assert moment.head(A) is moment.head(A)
    store._db.set_exec_trace(None)
    assert store._sql["head"] not in ran


def test_every_commit_of_this_store_is_seen(store: SqliteStore) -> None:
    for _ in range(3):
        assert newest(store) < append(store) == newest(store)


def test_every_commit_of_another_connection_is_seen(store: SqliteStore, other: SqliteStore) -> None:
    for _ in range(3):
        assert newest(store) < append(other) == newest(store)
        assert newest(store) < append(store) == newest(other)
    with other.write() as transaction:
        transaction.rename(A, "z")
    with store.read() as moment:
        assert moment.head(A).record.name == "z"


def test_a_moment_shows_no_commit_after_it_began(store: SqliteStore, other: SqliteStore) -> None:
    before = newest(store), newest(store, B)
    with store.read() as moment:
        assert moment.head(A).record.head == before[0]
        append(other), append(other, B)
        assert (moment.head(A).record.head, moment.head(B).record.head) == before
        assert not list(moment.events_after(A, 0, 10))
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


def test_a_transaction_that_another_one_overtook_sees_what_that_wrote(store: SqliteStore, other: SqliteStore) -> None:
    newest(store)
    written = append(other)
    with store.write() as transaction:
        assert transaction.head(A).record.head == written
    assert newest(store) == written


def test_only_some_heads_are_kept(store: SqliteStore) -> None:
    for number in range(200):
        born(store, f"c{number}")
    with store.read() as moment:
        for record in moment.agents():
            assert moment.head(record.id).record == record
    assert len(store._connection.heads) <= 64
