"""`Store.read` and `Store.write` of the SQLite store, beyond the contract: rollbacks, statements, clock, address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from logs import NOW, born, draft, everything

from foldmark.core import selections
from foldmark.core.agents import renamed
from foldmark.core.errors import StoreError
from foldmark.core.ports import Limits
from foldmark.core.ports import QueryScope as SandboxScope
from foldmark.core.segments import END, Segment
from foldmark.stores.sqlite.known import KnownAgents
from foldmark.stores.sqlite.store import SqliteStore
from foldmark.stores.sqlite.writing import SqliteWriting

A, B = "uuid-a", "uuid-b"


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(":memory:" if request.param == "memory" else str(tmp_path / "log.db"))
    born(store, "a", "b")
    yield store
    store.close()


def contents(store: SqliteStore) -> list[str]:
    return [event.content for event in everything(store)]


def test_a_rollback_by_sqlite_itself_fails_the_whole_transaction(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "log.db"))
    born(store, "a")
    store.connector.db.pragma("max_page_count", store.connector.db.pragma("page_count") + 1)

    def go_on() -> None:
        with store.write() as transaction:
            with suppress(StoreError):
                transaction.save_memo("x" * 100_000, [], None, "human", NOW)
            store.connector.db.pragma("max_page_count", 1_000_000)
            with suppress(StoreError):
                transaction.append(A, None, [draft()])
            transaction.append(A, None, [renamed("z", "human", NOW)])

    with suppress(StoreError):
        go_on()
    with store.read() as moment:
        assert (selections.event(moment, 1) is None) == bool(moment.agents(name="a")), "all or nothing"
    store.close()


def test_a_full_disk_is_explained_when_the_eraser_of_events_is_recorded(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "log.db"))
    born(store, "a")
    with store.write() as transaction:
        ids = transaction.append(A, None, [draft()] * 3000)
    store.connector.db.pragma("max_page_count", store.connector.db.pragma("page_count"))
    with pytest.raises(StoreError, match="the disk is full"), store.write() as transaction:
        transaction.take_erased(A, ids, ids[-1])
    with store.read() as moment:
        assert list(selections.erased(moment, [A])) == []
    store.close()


# Costs


@pytest.mark.parametrize("number", [1, 100])
def test_appends_take_a_fixed_number_of_statements(store: SqliteStore, number: int) -> None:
    """One per message, two per transaction besides BEGIN and COMMIT, one more if an agent's position is not cached."""
    with store.write() as transaction:
        transaction.append(A, 0, [draft()])
    ran: list[str] = []
    store.connector.db.set_exec_trace(lambda _, sql, __: ran.append(sql) or True)  # type: ignore[func-returns-value]
    with store.write() as transaction:
        transaction.append(A, 1, [draft() for _ in range(number)])
    store.connector.known.forget()
    with store.write() as transaction:
        transaction.append(A, number + 1, [draft() for _ in range(number)])
    store.connector.db.set_exec_trace(None)
    written = [*[store.connector.sql["append"]] * number, store.connector.sql["index"], store.connector.sql["advance"]]
    assert ran == [
        *("BEGIN IMMEDIATE", *written, "COMMIT"),
        *("BEGIN IMMEDIATE", store.connector.sql["position"], *written, "COMMIT"),
    ]


def test_a_moment_runs_only_the_statements_of_its_reads(tmp_path: Path) -> None:
    """This also holds for a store that was just opened and has cached nothing."""
    with closing(SqliteStore(str(tmp_path / "log.db"))) as first:
        born(first, "a")
    store = SqliteStore(str(tmp_path / "log.db"))
    ran: list[str] = []
    store.connector.db.set_exec_trace(lambda _, sql, __: ran.append(sql) or True)  # type: ignore[func-returns-value]
    with store.read() as moment:
        moment.head(A)
    with store.write() as transaction:
        transaction.head(A)
        transaction.append(A, None, [])
    store.connector.db.set_exec_trace(None)
    head, position = store.connector.sql["head"], store.connector.sql["position"]
    assert ran == ["BEGIN", head, "ROLLBACK", "BEGIN IMMEDIATE", position, "COMMIT"], "the head is kept"
    store.close()


def test_a_models_sql_runs_inside_a_moment_but_in_memory_not_inside_a_transaction(store: SqliteStore) -> None:
    def ask() -> list[tuple[Any, ...]]:
        segments = (Segment(A, 1, END),)
        scope = SandboxScope(A, segments, segments)
        return store.sandbox.query(scope, "SELECT content FROM messages", Limits(5, 9, 99)).rows

    with store.write() as transaction:
        transaction.append(A, 0, [draft()])
    with store.read() as moment:
        assert selections.event(moment, 1) is not None
        assert ask() == [("hello",)]
    with store.write() as transaction:
        transaction.append(A, 1, [draft()])
        if store.path == ":memory:":
            with pytest.raises(StoreError, match="cannot be queried inside"):
                ask()
        else:
            assert ask() == [("hello",)], "only what is committed"


# The clock and the address


def test_leases_use_the_databases_clock(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "log.db"))
    with store.write() as transaction:
        now = transaction.now()
    assert len(now) == len(NOW)
    assert now[:2] == "20"
    assert now[10] == "T"
    assert now.endswith("000Z")
    store.close()
    moved = SqliteStore(str(tmp_path / "log.db"), clock=lambda: NOW)
    with moved.write() as transaction:
        assert transaction.now() == NOW
    moved.close()


def test_the_address_opens_the_same_store_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("log.db")
    born(store, "a")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    other = SqliteStore(store.address, create=False)
    with other.read() as there, store.read() as here:
        assert there.agents() == here.agents()
    store.close()
    other.close()


# Interruptions


def _interrupt(of: Any, *_: Any) -> None:
    if isinstance(of, KnownAgents):
        of._version = of._db.data_version()  # as `committed` begins
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (KnownAgents, "check"),  # after the transaction began
        (KnownAgents, "committed"),  # after it was committed
        (SqliteWriting, "expire"),
        (SqliteWriting, "undo"),
        (SqliteWriting, "roll_back"),
    ],
)
def test_an_interrupted_block_leaves_a_store_that_can_be_used(
    store: SqliteStore, owner: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may arrive anywhere, also while a block begins or ends."""
    with store.write() as transaction:
        transaction.append(A, None, [draft()])

    def interrupted() -> None:
        with store.write() as transaction:
            transaction.on_rollback(lambda: None)
            transaction.append(A, None, [draft()])
            if name != "committed":
                raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, _interrupt)
        with pytest.raises(KeyboardInterrupt):
            interrupted()

    def go_on() -> None:
        with store.write() as transaction:
            transaction.append(A, None, [draft(content="later")])

    thread = Thread(target=go_on, daemon=True)  # the lock belongs to the thread that was interrupted
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert contents(store) == ["hello"] * (2 if name == "committed" else 1) + ["later"]
