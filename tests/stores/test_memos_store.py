"""What `foldmark.core.memos.Memos` promises, of the SQLite store (SPEC 7)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import NOW, append, born, draft

from foldmark.core.keywords import keywords, named, standing_in
from foldmark.core.memos import Memo
from foldmark.core.segments import END
from foldmark.stores.sqlite import SqliteStore


def save(store: SqliteStore, content: str, *tags: str) -> int:
    with store.write() as transaction:
        return transaction.save_memo(content, tags, None, "human", NOW)


def remove(store: SqliteStore, *memos: int) -> None:
    with store.write() as transaction:
        for memo in memos:
            transaction.remove_memo(memo)


def said(store: SqliteStore) -> int:
    """The id of a new event."""
    return append(store, "uuid-a", draft())[0]


def newest(store: SqliteStore, limit: int) -> list[Memo]:
    with store.read() as moment:
        return moment.memos(limit)


def tagged(store: SqliteStore, *tags: str, limit: int = 10) -> list[Memo]:
    with store.read() as moment:
        return moment.memos_tagged(tags, limit)


def holding(store: SqliteStore, *words: str, before: int = END, limit: int = 5) -> list[Memo]:
    with store.read() as moment:
        return moment.memos_with([(words, before)], limit)[0]


def opened(path: str) -> SqliteStore:
    store = SqliteStore(path)
    with store.read() as moment:
        there = moment.agent("uuid-a") is not None
    if not there:
        born(store, "a")
    return store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = opened(str(path))
    yield store
    assert list(store.damage()) == []
    store.close()


def ids(memos: list[Memo]) -> list[int]:
    return [memo.id for memo in memos]


def test_a_memo_comes_back_as_it_was_given(store: SqliteStore) -> None:
    said(store)
    event = said(store)
    with store.write() as transaction:
        memo_id = transaction.save_memo("a\0b é 😀\r\nc", ["b", "a", "b"], "uuid-a", "model", NOW)
    with store.read() as moment:
        assert moment.memo(memo_id) == Memo(memo_id, "a\0b é 😀\r\nc", ("a", "b"), event, "uuid-a", "model", NOW)
        assert moment.memo(memo_id + 1) is None


def test_memos_are_there_in_another_connection(store: SqliteStore, path: Path) -> None:
    save(store, "We deploy with Fly.", "infra")
    save(store, "Tabs.")
    second = SqliteStore(str(path), create=False)
    assert newest(second, 10) == newest(store, 10)
    assert holding(second, "fly") == tagged(store, "infra", limit=5) == newest(store, 2)[1:]
    second.close()


def test_the_newest_come_first_and_no_more_than_asked_for(store: SqliteStore) -> None:
    for number in range(5):
        save(store, f"memo {number}")
    assert ids(newest(store, 3)) == [5, 4, 3]


def test_those_with_most_of_the_tags_come_first(store: SqliteStore) -> None:
    save(store, "one", "a", "b")
    save(store, "two", "a")
    save(store, "three", "c")
    save(store, "four", "b")
    assert ids(tagged(store, "a", "b", "a")) == [1, 4, 2]
    assert ids(tagged(store, "a", "b", limit=1)) == [1]
    assert tagged(store, "A", "nothing", "a'") == tagged(store) == []
    with store.read() as moment:
        assert moment.memo_tags(2) == [("a", 2), ("b", 2)]


def test_words_are_looked_for_in_content_and_tags(store: SqliteStore) -> None:
    save(store, "Die Größe der Datenbank")
    save(store, "nothing of it", "api-design", "größe")
    save(store, "user_session holds tokens")
    assert ids(holding(store, "große")) == [2, 1]
    assert ids(holding(store, "design")) == [2]
    assert ids(holding(store, "user_session")) == [3]
    assert ids(holding(store, "session_user")) == []


def test_rare_words_count_for_more_and_all_words_for_most(store: SqliteStore) -> None:
    for text in ("deploy alpha", "deploy beta", "deploy gamma", "deploy gamma delta"):
        save(store, text)
    assert ids(holding(store, "deploy", "alpha", limit=3)) == [1, 4, 3]
    assert ids(holding(store, "deploy", "gamma")) == [4, 3, 2, 1]


@pytest.mark.parametrize(
    "word",
    ['"', "a OR b", "NOT x", "content : secret", "tags:x", "secret*", "^secret", "NEAR(a b)", "(", "a\0b", "", "++"],
)
def test_nothing_that_is_looked_for_is_syntax(store: SqliteStore, word: str) -> None:
    save(store, "a secret b content")
    found = holding(store, word)
    assert ids(found) == ([1] if word in ("secret*", "^secret") else [])


def test_only_memos_from_before_an_event(store: SqliteStore) -> None:
    """And what comes later does not change the order of those from before."""
    said(store)
    save(store, "deploy alpha")
    save(store, "deploy beta")
    opener = said(store)
    before = holding(store, "deploy", "beta", before=opener)
    assert ids(before) == [2, 1]
    for _ in range(5):
        save(store, "deploy beta")
    assert holding(store, "deploy", "beta", before=opener) == before
    assert len(holding(store, "deploy", before=said(store), limit=10)) == 7
    assert holding(store, "deploy", before=1, limit=10) == []


def test_ids_are_never_used_again(store: SqliteStore, path: Path) -> None:
    for _ in range(2):
        save(store, "one")
    remove(store, 2, 1, 1)
    assert save(store, "two") == 3
    remove(store, 3)
    second = SqliteStore(str(path))
    assert save(second, "three") == 4
    second.close()


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


def test_what_fails_leaves_nothing(store: SqliteStore) -> None:
    def fails() -> None:
        with store.write():
            save(store, "one", "a")
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    with store.read() as moment:
        assert (newest(store, 5), holding(store, "one"), moment.memo_tags(5)) == ([], [], [])


def test_several_threads_save_and_look(store: SqliteStore) -> None:
    def work(number: int) -> tuple[int, list[int]]:
        memo_id = save(store, f"thread{number} says hello", f"tag{number % 3}")
        return memo_id, ids(holding(store, f"thread{number}"))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(40)))
    assert [seen for _, seen in found] == [[memo_id] for memo_id, _ in found]
    assert sorted(memo_id for memo_id, _ in found) == list(range(1, 41))
    with store.read() as moment:
        assert [number for _, number in moment.memo_tags(5)] == [14, 13, 13]


SOME = ("deploy", "deploys", "Deployment", "fly", "flies", "größe", "Grosse", "user_session", "user", "session")
WORDS = st.sampled_from((*SOME, "api", "APIs", "класс", "数据", "x.y"))
TEXTS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)


@given(st.lists(TEXTS, min_size=1, max_size=8), TEXTS)
def test_the_words_that_find_a_memo_stand_in_it(memos: list[str], prompt: str) -> None:
    """What the manifest names as the keywords that picked a memo is what did."""
    store = opened(":memory:")
    for text in memos:
        save(store, text)
    for words in (keywords(prompt), named(prompt)):
        found = ids(holding(store, *words, limit=100))
        assert sorted(found) == [id for id, text in enumerate(memos, start=1) if standing_in(words, text)]
        assert found == ids(holding(store, *words, limit=100))
    store.close()


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("UPDATE memos SET content = 'other' WHERE id = 1", "memo 1: its words in the index are not those"),
        ("DELETE FROM memo_words WHERE rowid = 1", "memo 1: its words in the index are not those"),
        ("DELETE FROM memo_tags WHERE tag = 'b'", "memo 1: its words in the index are not those"),
        ("INSERT INTO memo_words (rowid, content, tags) VALUES (7, 'x', '')", "memo 7: its words in the index are not"),
        ("UPDATE memo_tags SET tag = 'B c' WHERE tag = 'b'", "memo 1: its tag 'B c' is not one that a memo can have"),
        ("UPDATE memo_words_content SET c0 = 'fake words' WHERE id = 1", "memos: the index holds other words"),
    ],
)
def test_the_doctor_finds_damage(path: Path, sql: str, says: str) -> None:
    store = opened(str(path))
    save(store, "some content", "a", "b")
    assert list(store.damage()) == []
    store._db.execute("PRAGMA foreign_keys = OFF")
    store._db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    store._db.execute(sql)
    assert any(line.startswith(says) for line in store.damage())
    store.close()
