"""What `foldmark.core.lineage.Lineage` promises, of the SQLite store (SPEC 8, S4)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from foldmark.core.errors import StoreError
from foldmark.core.lineage import CodingSession
from foldmark.stores.sqlite import SqliteStore

WHOLE = CodingSession(
    kind="claude",
    session_id="b",
    file="/s/é\n😀.jsonl",
    parent="a",
    session_number=2,
    worker_id=42,
    issue="#7",
    started_at="2026-03-01T12:00:00.000000Z",
    ended_at="2026-03-01T13:00:00.000000Z",
    end_reason="rollover",
    context_at_end=76,
    summary="a\0b\r\nc",
)


def save(store: SqliteStore, *sessions: CodingSession) -> list[int]:
    with store.write() as transaction:
        return [transaction.save_coding_session(each) for each in sessions]


def every(store: SqliteStore) -> list[CodingSession]:
    with store.read() as moment:
        return moment.coding_sessions()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(path))
    yield store
    store.close()


def test_a_session_comes_back_as_it_was_given(store: SqliteStore, path: Path) -> None:
    plain = CodingSession("codex", "b", "/c")
    ids = save(store, WHOLE, plain)
    assert len(set(ids)) == 2
    whole, plain = replace(WHOLE, id=ids[0]), replace(plain, id=ids[1])
    with store.read() as moment:
        assert moment.coding_session("claude", "b") == whole
        assert moment.coding_session("codex", "b") == plain
        assert moment.coding_session("codex", "B") is moment.coding_session("", "b") is None
    other = SqliteStore(str(path), create=False)
    assert every(other) == [whole, plain]
    other.close()


@pytest.mark.parametrize("worker", [0, 42, -1, 2**62, "42", "w 1", "", None])
def test_a_worker_is_a_number_or_a_text(worker: int | str | None, store: SqliteStore) -> None:
    save(store, replace(WHOLE, worker_id=worker))
    (found,) = every(store)
    assert found.worker_id == worker
    assert type(found.worker_id) is type(worker)


def test_what_is_saved_again_is_replaced(store: SqliteStore) -> None:
    (first,) = save(store, replace(WHOLE, session_id="a", parent=None, session_number=1))
    (id,) = save(store, WHOLE)
    changed = CodingSession("claude", "b", "/elsewhere", session_number=1)
    assert save(store, changed) == [id]
    assert every(store)[1] == replace(changed, id=id)
    assert [each.id for each in every(store)] == [first, id]


def test_what_fails_leaves_nothing(store: SqliteStore) -> None:
    def fails() -> None:
        with store.write():
            save(store, WHOLE)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert every(store) == []


def test_several_threads_save(store: SqliteStore) -> None:
    def work(number: int) -> int:
        return save(store, replace(WHOLE, session_id=str(number % 10), context_at_end=number))[0]

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(work, range(40)))
    assert ids[:10] == ids[10:20] == ids[30:]
    assert len(every(store)) == 10


def test_the_doctor_finds_a_number_that_does_not_follow(store: SqliteStore) -> None:
    save(store, replace(WHOLE, session_id="a", parent=None, session_number=1))
    save(store, WHOLE)
    save(store, replace(WHOLE, session_id="c", parent="somebody", session_number=5))
    save(store, replace(WHOLE, kind="codex", session_id="d", parent="a", session_number=5))
    assert list(store.damage()) == []
    save(store, replace(WHOLE, session_number=3))
    assert list(store.damage()) == ["claude session b: its number 3 does not follow its parent's"]


@pytest.mark.parametrize("column", ["kind", "session_id", "file", "session_number"])
def test_what_has_to_be_there(column: str, store: SqliteStore) -> None:
    with pytest.raises(StoreError):
        save(store, replace(WHOLE, **{column: None}))
    assert every(store) == []


def test_the_columns_of_s4(store: SqliteStore) -> None:
    rows = store._db.execute("PRAGMA table_info(sessions)").fetchall()
    s4 = {"id", "worker_id", "session_number", "session_id", "started_at", "ended_at", "end_reason"}
    assert s4 | {"context_at_end", "summary"} <= {row[1] for row in rows}
    with pytest.raises(apsw.ConstraintError):
        store._db.execute("INSERT INTO sessions (kind, session_id, file, session_number) VALUES ('c', 'x', 'f', 'one')")
