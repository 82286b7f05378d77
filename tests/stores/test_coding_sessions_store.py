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
    ids = [store.save_coding_session(each) for each in (WHOLE, plain)]
    assert len(set(ids)) == 2
    whole, plain = replace(WHOLE, id=ids[0]), replace(plain, id=ids[1])
    assert store.coding_session("claude", "b") == whole
    assert store.coding_session("codex", "b") == plain
    assert store.coding_session("codex", "B") is store.coding_session("", "b") is None
    other = SqliteStore(str(path), create=False)
    assert other.coding_sessions() == [whole, plain]
    other.close()


@pytest.mark.parametrize("worker", [0, 42, -1, 2**62, "42", "w 1", "", None])
def test_a_worker_is_a_number_or_a_text(worker: int | str | None, store: SqliteStore) -> None:
    store.save_coding_session(replace(WHOLE, worker_id=worker))
    (found,) = store.coding_sessions()
    assert found.worker_id == worker
    assert type(found.worker_id) is type(worker)


def test_what_is_saved_again_is_replaced(store: SqliteStore) -> None:
    first = store.save_coding_session(replace(WHOLE, session_id="a", parent=None, session_number=1))
    id = store.save_coding_session(WHOLE)
    changed = CodingSession("claude", "b", "/elsewhere", session_number=1)
    assert store.save_coding_session(changed) == id
    assert store.coding_sessions()[1] == replace(changed, id=id)
    assert [each.id for each in store.coding_sessions()] == [first, id]


def test_what_fails_leaves_nothing(store: SqliteStore) -> None:
    def fails() -> None:
        with store.writing():
            store.save_coding_session(WHOLE)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert store.coding_sessions() == []


def test_several_threads_save(store: SqliteStore) -> None:
    def save(number: int) -> int:
        return store.save_coding_session(replace(WHOLE, session_id=str(number % 10), context_at_end=number))

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(save, range(40)))
    assert ids[:10] == ids[10:20] == ids[30:]
    assert len(store.coding_sessions()) == 10


def test_the_doctor_finds_a_number_that_does_not_follow(store: SqliteStore) -> None:
    store.save_coding_session(replace(WHOLE, session_id="a", parent=None, session_number=1))
    store.save_coding_session(WHOLE)
    store.save_coding_session(replace(WHOLE, session_id="c", parent="somebody", session_number=5))
    store.save_coding_session(replace(WHOLE, kind="codex", session_id="d", parent="a", session_number=5))
    assert list(store.damage()) == []
    store.save_coding_session(replace(WHOLE, session_number=3))
    assert list(store.damage()) == ["claude session b: its number 3 does not follow its parent's"]


@pytest.mark.parametrize("column", ["kind", "session_id", "file", "session_number"])
def test_what_has_to_be_there(column: str, store: SqliteStore) -> None:
    with pytest.raises(StoreError):
        store.save_coding_session(replace(WHOLE, **{column: None}))
    assert store.coding_sessions() == []


def test_the_columns_of_s4(store: SqliteStore) -> None:
    rows = store._db.execute("PRAGMA table_info(sessions)").fetchall()
    s4 = {"id", "worker_id", "session_number", "session_id", "started_at", "ended_at", "end_reason"}
    assert s4 | {"context_at_end", "summary"} <= {row[1] for row in rows}
    with pytest.raises(apsw.ConstraintError):
        store._db.execute("INSERT INTO sessions (kind, session_id, file, session_number) VALUES ('c', 'x', 'f', 'one')")
