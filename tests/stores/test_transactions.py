"""`Store.read` and `Store.write` of the SQLite store: blocks in blocks, failures, several agents in one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from logs import NOW, born, call, draft, everything

from foldmark.core.errors import CommandError, ConflictError, DamagedError, StoreError
from foldmark.core.ports import AgentRecord, Size
from foldmark.core.reading import Limits
from foldmark.core.reading import Scope as SandboxScope
from foldmark.core.recall import Phrase, Scope, Term, Wanted
from foldmark.core.replay import birth
from foldmark.core.segments import END, Segment
from foldmark.stores.sqlite import SqliteStore

A, B, C = "uuid-a", "uuid-b", "uuid-c"


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(":memory:" if request.param == "memory" else str(tmp_path / "log.db"))
    born(store, "a", "b")
    yield store
    store.close()


def found(moment: Any, word: str) -> list[int]:
    """The messages that hold a word."""
    ids: list[int] = moment.index(Scope()).best([Wanted("all", [Term((Phrase((word,)),))])], 9)
    return sorted(ids)


def contents(store: SqliteStore) -> list[str]:
    return [event.content for event in everything(store)]


# Blocks in blocks


def test_a_block_inside_another_is_a_part_of_it(store: SqliteStore) -> None:
    with store.read() as moment:
        with store.read() as inner:
            assert inner is moment
        assert moment.agent(A) is not None, "the inner block has not ended the moment"
    with store.write() as transaction:
        with store.write() as inner, store.read() as reading:
            assert inner is transaction is reading
            inner.append(A, 0, [draft()])
        assert transaction.head(A).record.head == 1
    assert contents(store) == ["hello"]


def test_nothing_is_written_inside_a_moment(store: SqliteStore) -> None:
    with store.read() as moment:
        with pytest.raises(StoreError, match="a moment is for reading; write outside of its block"), store.write():
            pytest.fail("the block must not run")
        assert moment.agent(A) is not None
        assert moment.committed
    with store.write() as transaction:
        assert not transaction.committed


def test_neither_is_used_behind_its_block(store: SqliteStore) -> None:
    with store.write() as transaction:
        transaction.append(A, None, [draft() for _ in range(20)])
    with store.read() as moment:
        messages = moment.messages((Segment(A, 1, END),))
        assert next(messages).id == 1
    with store.read():
        for late in (
            lambda: moment.agent(A),
            lambda: list(messages),
            lambda: transaction.append(A, None, [draft()]),
            lambda: transaction.next_id(A),
            lambda: transaction.rename(A, "z"),
        ):
            with pytest.raises(StoreError, match="this moment has ended"):
                late()
    assert len(everything(store)) == 20


def test_a_store_that_is_closed_inside_a_block(store: SqliteStore) -> None:
    with store.read() as moment:
        store.close()
        with pytest.raises(StoreError, match="was closed by this program"):
            moment.agent(A)
    for block in (store.read, store.write):
        with pytest.raises(StoreError, match="was closed by this program"), block():
            pytest.fail("the block must not run")


def test_a_moment_stays_the_same_while_others_write(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    store, other = SqliteStore(path), SqliteStore(path)
    born(store, "a")
    with store.read() as moment:
        before = moment.head(A)
        with other.write() as transaction:
            transaction.append(A, 0, [draft()])
        assert moment.head(A) == before
        assert moment.event(1) is None
    with store.read() as moment:
        assert moment.head(A).record.head == 1
    store.close()
    other.close()


def test_another_thread_waits_for_the_end_of_a_block(store: SqliteStore) -> None:
    seen: list[int] = []
    inside, begun = threading.Event(), threading.Event()

    def look() -> None:
        inside.wait()
        begun.set()
        with store.read() as moment:
            seen.append(moment.head(A).record.head)

    thread = threading.Thread(target=look)
    thread.start()
    with store.write() as transaction:
        inside.set()
        begun.wait()
        transaction.append(A, 0, [draft()])
        transaction.append(A, 1, [draft()])
        assert not seen
    thread.join()
    assert seen == [2]


# Failures


@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt(), ConflictError("a", 1, 2)])
def test_a_block_that_raises_leaves_nothing(store: SqliteStore, error: BaseException) -> None:
    def fail() -> None:
        with store.write() as transaction:
            transaction.append(A, 0, [draft()])
            transaction.append(B, 0, [draft()])
            transaction.save_memo("memo", ["tag"], A, "human", NOW)
            transaction.create_agent(AgentRecord(C, "c", None, 0, NOW), birth(C), Size(0, 0))
            raise error

    with store.read() as moment:
        before = moment.agents()
    with pytest.raises(type(error)):
        fail()
    with store.read() as moment:
        assert (moment.agents(), moment.event(1), moment.memos(9)) == (before, None, [])
    # An agent made later must not be taken for the one that never was.
    born(store, "d")
    with store.write() as transaction:
        transaction.append("uuid-d", 0, [draft()])
    assert [event.agent_id for event in everything(store)] == ["uuid-d"]
    with store.read() as moment, pytest.raises(DamagedError):
        moment.head(C)
    assert list(store.damage()) == []


def test_a_part_that_failed_before_it_wrote_anything_harms_nothing(store: SqliteStore) -> None:
    with store.write() as transaction:
        transaction.append(A, 0, [draft(content="one")])
        with pytest.raises(ConflictError), store.write() as inner:
            inner.append(A, 0, [draft(content="two")])
        with pytest.raises(ValueError, match="not JSON"), store.write() as inner:
            inner.append(A, 1, [draft(data={"x": object()})])
        with pytest.raises(StoreError), store.write() as inner:
            inner.rename(B, "a")
        with suppress(RuntimeError), store.write() as inner:  # a search brings the index up to date
            found(inner, "one")
            raise RuntimeError
        transaction.append(A, 1, [draft(content="three")])
    assert contents(store) == ["one", "three"]
    assert list(store.damage()) == []


def parts() -> list[Callable[[Any], object]]:
    return [
        lambda t: (t.append(A, 1, [draft(content="half")]), 1 / 0),
        lambda t: (t.lend, t.rename(B, "other"), 1 / 0),
        lambda t: t.append(A, 1, [draft(content="half"), draft(data={"x": object()})]),
        lambda t: t.create_agent(AgentRecord(C, "c", None, 0, NOW), birth("nobody"), Size(0, 0)),
        lambda t: t.save_memo("half", ["\ud800"], None, "human", NOW),
    ]


@pytest.mark.parametrize("part", parts())
def test_a_part_that_failed_when_it_had_written_something_fails_the_whole(
    store: SqliteStore, part: Callable[[Any], object]
) -> None:
    """Whoever catches its error cannot commit the rest, nor go on writing or reading in the transaction."""

    def go_on() -> None:
        with store.write() as transaction:
            transaction.append(A, 0, [draft(content="one")])
            with suppress(Exception), store.write() as inner:
                part(inner)
            for late in (
                lambda: transaction.append(A, None, [draft()]),
                lambda: transaction.head(A),
                lambda: transaction.save_fold(birth(A), Size(0, 0)),
                lambda: store.write().__enter__(),
            ):
                with pytest.raises(StoreError, match="has failed and was rolled back"):
                    late()

    with pytest.raises(StoreError, match="has failed and was rolled back"):
        go_on()
    assert contents(store) == []
    with store.read() as moment:
        assert [each.name for each in moment.agents()] == ["a", "b"]
        assert moment.memos(9) == []
    with store.write() as transaction:
        assert transaction.append(A, 0, [draft(content="again")]) == [1]
    assert list(store.damage()) == []


def test_sqlite_that_rolled_back_by_itself_fails_the_whole(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "log.db"))
    born(store, "a")
    store._db.pragma("max_page_count", store._db.pragma("page_count") + 1)

    def go_on() -> None:
        with store.write() as transaction:
            with suppress(StoreError):
                transaction.save_memo("x" * 100_000, [], None, "human", NOW)
            store._db.pragma("max_page_count", 1_000_000)
            with suppress(StoreError):
                transaction.append(A, None, [draft()])
            transaction.rename(A, "z")

    with suppress(StoreError):
        go_on()
    with store.read() as moment:
        assert (moment.event(1) is None) == (moment.named("a") is not None), "all or nothing"
    store.close()


# Several agents in one transaction


def test_several_agents_in_one_transaction(store: SqliteStore) -> None:
    with store.write() as transaction:
        assert transaction.append(A, 0, [draft(content="a1"), draft(content="a2")]) == [1, 2]
        assert transaction.append(B, 0, [draft(content="b1")]) == [3]
        assert transaction.append(A, 2, [draft("turn_ended", "")]) == [4]
        at = transaction.next_id(B)
        transaction.create_agent(AgentRecord(C, None, B, at, NOW), birth(C, at), Size(0, 0))
        assert transaction.append(B, 3, [draft("fork", "", data={"child": C, "start": []})]) == [at]
        assert transaction.append(C, 0, [draft(content="c1")]) == [6]
        with pytest.raises(ConflictError, match="newest event is 5, expected 3"):
            transaction.append(B, 3, [draft()])
        inside = transaction.agents()
        assert [(each.head, each.open_turn, each.messages) for each in inside] == [(4, None, 2), (5, 3, 1), (6, 6, 1)]
        assert [transaction.agent(each.id) for each in inside] == inside
        assert [transaction.head(each.id).record for each in inside] == inside
        assert list(store.damage()) == []
        assert transaction.children(B) == inside[2:]
        assert (transaction.named("a"), transaction.root_of(C)) == (inside[0], B)
        assert transaction.size((Segment(A, 1, END),)) == inside[0].own
    with store.read() as moment:
        assert moment.agents() == inside
    assert list(store.damage()) == []


def test_what_is_written_late_is_there_when_it_is_read(store: SqliteStore) -> None:
    with store.write() as transaction:
        transaction.create_agent(AgentRecord(C, None, A, 1, NOW), birth(C, 1), Size(0, 0))
    later = "2026-03-02T12:00:00.000000Z"
    with store.write() as transaction:
        assert [each.id for each in transaction.unstarted()] == [C]
        transaction.append(C, 0, [msgspec.structs.replace(draft(), created_at=later)])
        assert transaction.unstarted() == []
        transaction.append(A, 0, [msgspec.structs.replace(draft(), created_at=later)])
        assert [(each.record.head, each.last_used) for each in transaction.overview()] == [
            (2, later),
            (0, NOW),
            (1, later),
        ]


def test_an_id_that_was_reserved_is_nobody_elses(store: SqliteStore) -> None:
    """Also where others are appended, and searched, before it is used."""
    with store.write() as transaction:
        reserved = transaction.next_id(A)
        assert transaction.next_id(A) == reserved
        assert transaction.append(B, 0, [draft(content="pear")]) == [reserved + 1]
        assert found(transaction, "pear") == [reserved + 1]
        transaction.append(B, None, [draft(content="plum")])
        assert transaction.append(A, 0, [draft(content="apple")]) == [reserved]
        assert found(transaction, "plum") == [reserved + 2]
        transaction.append(A, reserved, [draft(content="apple")])
        assert found(transaction, "apple") == [reserved, reserved + 3]
    assert list(store.damage()) == []


def test_a_result_stands_apart_in_the_transaction_as_later(store: SqliteStore) -> None:
    with store.write() as transaction:
        first, second = transaction.append(A, 0, [draft(), call("c1")])
        assert not transaction.stands_apart(A, second)
        transaction.append(A, None, [draft("assistant")])
        assert transaction.stands_apart(A, second)
        assert [each.id for each in transaction.waiting(A)] == [second]
        assert not transaction.stands_apart(A, transaction.append(A, None, [call("c2")])[0])
    with store.write() as transaction:
        assert transaction.stands_apart(A, second)
        assert first == 1


def test_who_ends_in_a_transaction_takes_nothing_more_in_it(store: SqliteStore) -> None:
    with store.write() as transaction:
        transaction.append(A, 0, [draft()])
        transaction.append(B, 0, [draft()])
        transaction.kill(A, B, "human", NOW)
        transaction.delete(B, "human", NOW)
        with pytest.raises(CommandError, match="dead: killed"):
            transaction.append(A, None, [draft("mark", "M")])
        with pytest.raises(CommandError, match="deleted"):
            transaction.append(B, None, [draft()])
        transaction.append(A, 1, [draft("turn_ended", "")])
    assert len(everything(store)) == 3


def test_what_is_erased_in_the_transaction_that_recorded_it_leaves_nothing(store: SqliteStore) -> None:
    with store.write() as transaction:
        first, *_, by = transaction.append(
            A, 0, [draft(content="pear"), call("c1"), draft("redact", "", data={"turn": 1})]
        )
        transaction.erase(A, first, first + 1, by)
        assert transaction.head(A).record.own == Size(0, 0)
        (again,) = transaction.append(A, None, [call("c2")])
        assert transaction.stands_apart(A, first + 1), "the run of calls begins anew"
        assert [each.id for each in transaction.waiting(A)] == [again]
    with store.read() as moment:
        assert found(moment, "pear") == []
        assert moment.size((Segment(A, 1, END),)) == moment.head(A).record.own
    assert list(store.damage()) == []


@pytest.mark.parametrize("appended", [False, True])
def test_erasing_with_and_without_appends_to_the_owner(store: SqliteStore, appended: bool) -> None:
    with store.write() as transaction:
        transaction.append(A, 0, [draft(content="pear"), draft("turn_ended", ""), draft(content="apple"), call("c1")])
    with store.write() as transaction:
        if appended:
            transaction.append(A, 4, [draft("assistant", "plum")])
        by = transaction.append(B, 0, [draft("redact", "", data={"turn": 1})])[0]
        transaction.erase(A, 1, 2, by)
        record = transaction.head(A).record
        assert record.own == transaction.size((Segment(A, 1, END),))
        assert record.messages == 2 + appended
        assert found(transaction, "pear") == []
        transaction.append(A, None, [draft("assistant", "cherry")])
    with store.read() as moment:
        assert moment.head(A).record.messages == 3 + appended
    assert contents(store)[0] == ""
    assert list(store.damage()) == []


# What it costs


@pytest.mark.parametrize("number", [1, 100])
def test_the_statements_of_appends(store: SqliteStore, number: int) -> None:
    """Two for each message, and three for the transaction, whoever and how many it appends to."""
    with store.write() as transaction:
        transaction.append(A, 0, [draft()])
    ran: list[str] = []
    store._db.set_exec_trace(lambda _, sql, __: ran.append(sql) or True)  # type: ignore[func-returns-value]
    with store.write() as transaction:
        transaction.append(A, 1, [draft() for _ in range(number)])
    store._db.set_exec_trace(None)
    assert [each for each in ran if each not in ("BEGIN IMMEDIATE", "COMMIT")] == [
        store._sql["position"],
        *[store._sql["append"], store._sql["weigh"]] * number,
        store._sql["index"],
        store._sql["advance"],
    ]


def test_a_moment_costs_no_more_than_what_is_read(tmp_path: Path) -> None:
    """Also for somebody who has just opened the store, and knows nothing of the agent."""
    with closing(SqliteStore(str(tmp_path / "log.db"))) as first:
        born(first, "a")
    store = SqliteStore(str(tmp_path / "log.db"))
    ran: list[str] = []
    store._db.set_exec_trace(lambda _, sql, __: ran.append(sql) or True)  # type: ignore[func-returns-value]
    with store.read() as moment:
        moment.head(A)
    with store.write() as transaction:
        transaction.head(A)
        transaction.next_id(A)
    store._db.set_exec_trace(None)
    head, position = store._sql["head"], store._sql["position"]
    assert ran == ["BEGIN", head, "ROLLBACK", "BEGIN IMMEDIATE", head, position, "COMMIT"]
    store.close()


def test_a_model_s_sql_runs_inside_a_moment_and_in_memory_not_inside_a_transaction(store: SqliteStore) -> None:
    def ask() -> list[tuple[Any, ...]]:
        segments = (Segment(A, 1, END),)
        return store.query(SandboxScope(A, segments, segments), "SELECT content FROM messages", Limits(5, 9, 99)).rows

    with store.write() as transaction:
        transaction.append(A, 0, [draft()])
    with store.read() as moment:
        assert moment.event(1) is not None
        assert ask() == [("hello",)]
    with store.write() as transaction:
        transaction.append(A, 1, [draft()])
        if store.path == ":memory:":
            with pytest.raises(StoreError, match="cannot be queried inside"):
                ask()
        else:
            assert ask() == [("hello",)], "only what is committed"


# The clock and the address


def test_the_clock_of_leases_is_the_database_s(tmp_path: Path) -> None:
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


# The older face beside the new one


def test_old_and_new_blocks_in_each_other(store: SqliteStore) -> None:
    with store.write() as transaction:
        transaction.append(A, 0, [draft(content="new")])
        with store.appending(A, 1) as appender:
            assert appender.next_id == transaction.next_id(A) == 2
            assert appender.add(draft(content="old")) == 2
            assert (appender.head, transaction.head(A).record.head, store.head(A).record.head) == (2, 2, 2)
            with store.write() as inner:
                assert inner is transaction
                inner.append(B, 0, [draft(content="new")])
                inner.append(A, 2, [draft(content="new")])
            assert (appender.head, appender.own.messages) == (4, 3)
        assert not store.committed
        assert store.agent(A) == transaction.agent(A)
        store.save_memo("memo", [], A, "human", NOW)
    with store.writing():
        with store.appending(B, 3) as appender:
            appender.add(draft(content="old"))
        with store.write() as transaction:
            assert transaction.append(B, 5, [draft(content="new")]) == [6]
        with store.read() as moment:
            assert moment.memos(9)[0].content == "memo"
    assert store.committed
    assert contents(store) == ["new", "old", "new", "new", "old", "new"]
    assert list(store.damage()) == []


def test_an_old_block_inside_a_moment_is_refused(store: SqliteStore) -> None:
    with store.read():
        for block in (store.writing, lambda: store.appending(A, 0)):
            with pytest.raises(StoreError, match="a moment is for reading"), block():
                pytest.fail("the block must not run")
        with pytest.raises(StoreError, match="a moment is for reading"):
            store.rename(A, "z")
    with store.read() as moment:
        assert moment.named("a") is not None
