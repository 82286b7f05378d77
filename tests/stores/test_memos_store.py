"""Memos in an SQLite file, beyond the contract: removed memos leave no trace, and damage is found (SPEC 7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from logs import NOW

from foldmark.core.records import Memo
from foldmark.core.segments import END
from foldmark.stores.sqlite.store import SqliteStore


def save(store: SqliteStore, content: str, *tags: str) -> int:
    with store.write() as transaction:
        return transaction.save_memo(content, tags, None, "human", NOW)


def remove(store: SqliteStore, *memos: int) -> None:
    with store.write() as transaction:
        for memo in memos:
            transaction.remove_memo(memo)


def tagged(store: SqliteStore, *tags: str, limit: int = 10) -> list[Memo]:
    with store.read() as moment:
        return moment.memos(limit, tags=tags)


def holding(store: SqliteStore, *words: str, limit: int = 5) -> list[Memo]:
    with store.read() as moment:
        return moment.memos_with([(words, END)], limit)[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(path))
    yield store
    assert list(store.damage()) == []
    store.close()


def ids(memos: list[Memo]) -> list[int]:
    return [memo.id for memo in memos]


def test_a_removed_memo_leaves_no_trace(store: SqliteStore, path: Path) -> None:
    for number in range(30):
        save(store, f"Zanzibar number {number}", f"zanzibar-{number}")
    save(store, "Kilimanjaro", "mountain")
    assert ids(holding(store, "zanzibar", limit=100)) == list(range(30, 0, -1))
    remove(store, *range(1, 31))
    assert store.forget_erased()
    assert b"anzibar" not in path.read_bytes() + path.with_name("log.db-wal").read_bytes()
    assert b"Kilimanjaro" in path.read_bytes()
    assert holding(store, "zanzibar") == tagged(store, "zanzibar-1", limit=5) == []
    assert ids(holding(store, "mountain")) == [31]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("UPDATE memos SET content = 'other' WHERE id = 1", "memo 1: its words in the index are not those"),
        ("DELETE FROM memo_words WHERE rowid = 1", "memo 1: its words in the index are not those"),
        ("DELETE FROM memo_tags WHERE tag = 'b'", "memo 1: its words in the index are not those"),
        ("INSERT INTO memo_words (rowid, content, tags) VALUES (7, 'x', '')", "memo 7: its words in the index are not"),
        ("UPDATE memo_tags SET tag = 'B c' WHERE tag = 'b'", "memo 1: its tag 'B c' is not a valid tag"),
        ("UPDATE memo_words_content SET c0 = 'fake words' WHERE id = 1", "memos: the index holds other words"),
    ],
)
def test_the_doctor_finds_damage(path: Path, sql: str, says: str) -> None:
    store = SqliteStore(str(path))
    save(store, "some content", "a", "b")
    assert list(store.damage()) == []
    store.connector.db.execute("PRAGMA foreign_keys = OFF")
    store.connector.db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    store.connector.db.execute(sql)
    assert any(line.startswith(says) for line in store.damage())
    store.close()
