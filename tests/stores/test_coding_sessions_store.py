"""The sessions of coding agents in an SQLite file, beyond the contract: columns, damage (SPEC 8, S4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from foldmark.core.errors import StoreError
from foldmark.core.records import CodingSession
from foldmark.stores.sqlite.store import SqliteStore

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
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "log.db"))
    yield store
    store.close()


def test_the_doctor_finds_a_session_number_that_does_not_follow(store: SqliteStore) -> None:
    save(store, replace(WHOLE, session_id="a", parent=None, session_number=1))
    save(store, WHOLE)
    save(store, replace(WHOLE, session_id="c", parent="somebody", session_number=5))
    save(store, replace(WHOLE, kind="codex", session_id="d", parent="a", session_number=5))
    assert list(store.damage()) == []
    save(store, replace(WHOLE, session_number=3))
    assert list(store.damage()) == ["claude session b: its number 3 does not follow its parent's"]


@pytest.mark.parametrize("column", ["kind", "session_id", "file", "session_number"])
def test_a_session_without_a_required_column_is_refused(column: str, store: SqliteStore) -> None:
    with pytest.raises(StoreError):
        save(store, replace(WHOLE, **{column: None}))
    assert every(store) == []


def test_the_table_of_sessions_has_the_columns_of_s4(store: SqliteStore) -> None:
    rows = store._db.execute("PRAGMA table_info(sessions)").fetchall()
    s4 = {"id", "worker_id", "session_number", "session_id", "started_at", "ended_at", "end_reason"}
    assert s4 | {"context_at_end", "summary"} <= {row[1] for row in rows}
    with pytest.raises(apsw.ConstraintError):
        store._db.execute("INSERT INTO sessions (kind, session_id, file, session_number) VALUES ('c', 'x', 'f', 'one')")
