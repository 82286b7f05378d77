"""PostgreSQL's store beyond the contract: concurrent transactions, lost connections, messages, query plans."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from postgres_harness import PostgresHarness

import foldmark
import forked
from foldmark.app import open_over
from foldmark.core.agents import archived, mailed
from foldmark.core.errors import ConflictError, StoreError
from foldmark.installation import installs
from foldmark.stores.postgres.address import Address
from foldmark.stores.postgres.connection import STATEMENTS, Pipeline, Pool, escaped, unescaped
from foldmark.stores.postgres.store import PostgresStore
from foldmark.testing.suite import NOW, append, call, draft, fork, read, root


@pytest.fixture
def harness(on_postgres: PostgresHarness) -> PostgresHarness:
    return on_postgres


@pytest.fixture
def store(harness: PostgresHarness) -> PostgresStore:
    """A store over an empty database."""
    return harness.fresh()


# Texts


@given(st.text(alphabet=st.sampled_from("\0\x100a\\")))
def test_each_text_has_exactly_one_stored_form(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert "\0" not in escaped(text)


def test_a_stored_form_that_was_cut_is_read_up_to_the_cut() -> None:
    assert unescaped(escaped("a\0b\x10c")[:2]) == "a"


# Threads


def test_threads_that_share_an_agent_have_batches_of_their_own(store: PostgresStore) -> None:
    """A thread that appends while the batch of another one is open is not part of it."""
    told: list[str] = []

    def tell() -> None:
        with suppress(ConflictError):
            with agent.batch():
                agent.append("user", "of the other thread")
            told.append("of the other thread")

    def fail() -> None:
        with agent.batch():
            agent.append("user", "of a batch that fails")
            thread.start()
            thread.join(0.5)  # it waits for the end of this batch
            raise ZeroDivisionError

    with open_over(store) as log:
        agent, thread = log.agent("default"), Thread(target=tell)
        with pytest.raises(ZeroDivisionError):
            fail()
        thread.join()
        assert [message.content for message in agent.context().messages] == told


@pytest.mark.parametrize("during", ["a statement", "the rollback"])
def test_an_interrupted_block_gives_its_connection_back_closed(
    store: PostgresStore, during: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results may be left in it that belong to no statement."""
    agent = root(store)
    sent, execute = Pipeline._sent, psycopg.Connection.execute

    def interrupted(*arguments: Any) -> Any:
        sent(*arguments)
        raise KeyboardInterrupt

    def rolling_back(connection: Any, query: Any, *rest: Any, **more: Any) -> Any:
        if query == "ROLLBACK":
            raise KeyboardInterrupt
        return execute(connection, query, *rest, **more)

    def fail() -> None:
        with store.write() as transaction:
            transaction.append(agent, None, [draft()])
            if during == "a statement":
                monkeypatch.setattr(Pipeline, "_sent", interrupted)
            monkeypatch.setattr(psycopg.Connection, "execute", rolling_back)
            transaction.head(agent)
            raise ZeroDivisionError

    with pytest.raises(KeyboardInterrupt):
        fail()
    monkeypatch.undo()
    pool = store.connector.pool
    assert (pool._used, pool._idle) == (0, [])
    append(store, agent, draft())


# Changes


def changes(store: PostgresStore, after: str | None = None) -> tuple[list[str], str]:
    """Return the texts of the changes after a cursor, and the next cursor."""
    with store.read() as moment:
        page = moment.changes(after, 100)
        ids = [each.event_id for each in page.changes if each.event_id is not None]
        texts = {event.id: event.content for event in moment.events(ids)}
    return [texts[each.event_id] for each in page.changes if each.event_id is not None], page.cursor


def test_late_commits_are_reported_in_order(store: PostgresStore, harness: PostgresHarness) -> None:
    """Later commits wait for an earlier open transaction. Within a conversation, ids are reported in order."""
    slow, quick = root(store), root(store)
    other = harness.open(store.address)
    _, cursor = changes(store)
    with store.write() as writing:
        writing.append(slow, None, [draft(content="slow")])
        writing.lease(slow)  # this read sends the append to the server
        append(other, quick, draft(content="quick"))
        assert changes(other, cursor) == ([], cursor)
        # This transaction began first, but is the last one to append to `quick`.
        writing.append(quick, None, [draft(content="last")])
    told, cursor = changes(other, cursor)
    assert sorted(told) == ["last", "quick", "slow"]
    assert told.index("quick") < told.index("last")
    assert changes(other, cursor)[0] == []


def test_a_new_listener_gets_no_earlier_changes(store: PostgresStore, harness: PostgresHarness) -> None:
    """This also holds if an open transaction holds back earlier commits."""
    slow, quick, third = root(store), root(store), root(store)
    other = harness.open(store.address)
    with store.write() as writing:
        writing.append(slow, None, [draft(content="slow")])
        writing.lease(slow)
        append(other, quick, draft(content="before"))
        with other.write() as mailing:
            mailing.append(third, None, [mailed(slow, "before", "human", NOW)])
        _, cursor = changes(other)
        append(other, quick, draft(content="after"))
        with other.write() as mailing:
            mailing.append(third, None, [mailed(slow, "after", "human", NOW)])
        assert changes(other, cursor)[0] == []
    told, cursor = changes(other, cursor)
    assert sorted(told) == ["after", "after", "slow"]
    append(other, quick, draft(content="later"))
    told, cursor = changes(other, cursor)
    assert told == ["later"]
    assert ":" not in cursor, "what was seen before goes once nothing of then can come any more"


# Locks


def test_conversations_are_written_side_by_side(store: PostgresStore, harness: PostgresHarness) -> None:
    one, two = root(store), root(store)
    other = harness.open(store.address)
    with store.write() as writing:
        writing.append(one, None, [draft(content="one")])
        writing.lease(one)
        append(other, two, draft(content="two"))
    with store.read() as moment:
        assert [moment.head(each).record.messages for each in (one, two)] == [1, 1]


def test_a_conversation_and_its_forks_are_written_one_after_the_other(
    store: PostgresStore, harness: PostgresHarness
) -> None:
    parent = root(store)
    child = fork(store, parent)
    other = harness.open(store.address)
    begun, order = Event(), list[str]()

    def second() -> None:
        begun.set()
        append(other, child, draft(content="second"))
        order.append("second")

    thread = Thread(target=second)
    with store.write() as writing:
        assert writing.head(parent).record.messages == 0  # the transaction has only read so far
        thread.start()
        begun.wait()
        thread.join(0.2)
        (first,) = writing.append(parent, None, [draft(content="first")])
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    with store.read() as moment:
        assert moment.head(child).record.head > first


def test_a_deadlock_is_an_error_and_records_nothing(store: PostgresStore, harness: PostgresHarness) -> None:
    one, two = root(store), root(store)
    other, reached, errors = harness.open(store.address), Event(), list[str]()

    def crossed(each: PostgresStore, first: str, second: str, mine: Event, theirs: Event) -> None:
        try:
            with each.write() as writing:
                writing.append(first, None, [draft()])
                mine.set()
                theirs.wait()
                writing.append(second, None, [draft()])
        except StoreError as error:
            errors.append(str(error))

    here = Event()
    thread = Thread(target=crossed, args=(other, two, one, reached, here))
    thread.start()
    crossed(store, one, two, here, reached)
    thread.join()
    assert len(errors) == 1
    assert "Nothing was recorded; repeat it" in errors[0]
    with store.read() as moment:
        assert [moment.head(each).record.messages for each in (one, two)] == [1, 1]


# Connections


def cut(store: PostgresStore) -> None:
    """End all connections of a store on the server's side."""
    with psycopg.connect(store.address, autocommit=True) as db:
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'foldmark' AND datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_a_connection_lost_between_blocks_is_replaced(store: PostgresStore) -> None:
    agent = root(store)
    cut(store)
    (one,) = append(store, agent, draft(content="one"))
    cut(store)
    assert [event.content for event in read(store, [one])] == ["one"]
    with closing(store.watch()) as watch:
        cut(store)
        append(store, agent, draft())
        assert watch.wait(10)


def test_a_connection_lost_inside_a_transaction_records_nothing(store: PostgresStore) -> None:
    agent = root(store)
    lost = r"the connection to .* was lost \(.*\)\. Nothing was recorded; repeat it\.$"
    with pytest.raises(StoreError, match=lost), store.write() as writing:  # noqa: PT012
        writing.append(agent, None, [draft(content="lost")])
        assert writing.lease(agent) is None
        cut(store)
        writing.lease(agent)
    with store.read() as moment:
        assert moment.head(agent).record.messages == 0


def test_the_error_of_a_read_makes_no_claim_about_recording(store: PostgresStore) -> None:
    """A command may also read after it has committed."""
    agent = root(store)
    with pytest.raises(StoreError, match=r"the connection to .* was lost \([^)]*\)\.$"), store.read() as moment:  # noqa: PT012
        moment.head(agent)
        cut(store)
        moment.head(agent)


def test_a_lost_connection_prints_nothing_but_the_error(harness: PostgresHarness) -> None:
    """The driver's own warnings do not reach the terminal."""
    losing = """
        import sys, psycopg, foldmark
        with foldmark.open(sys.argv[1]) as log:
            agent = log.agent("default")
            try:
                with agent.batch():
                    agent.append("user", "lost")
                    other = psycopg.connect(sys.argv[1], autocommit=True)
                    other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                  "WHERE datname = current_database() AND pid <> pg_backend_pid()")
            except foldmark.StoreError as error:
                print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(losing), harness.fresh().address]
    done = forked.run(command, capture_output=True, text=True)
    assert "the connection to " in done.stdout
    assert done.stderr == ""


def test_a_commit_on_a_lost_connection_is_not_sent_again(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """This also holds for a transaction with one or two statements, which are sent together."""
    agent, sent = root(store), Pipeline._sent
    sender = root(store)
    with store.write() as writing:
        writing.append(agent, None, [mailed(sender, "mail", "human", NOW)])

    def losing(session: Pipeline, connection: Any, queue: Any) -> Any:
        found = sent(session, connection, queue)
        if any(sql == "COMMIT" for sql, *_ in queue):
            connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return found

    _, cursor = changes(store)
    monkeypatch.setattr(Pipeline, "_sent", losing)
    with store.write() as writing:
        writing.append(agent, None, [archived("human", NOW)])
    with store.write() as writing:
        writing.save_memo("a memo", (), None, "human", NOW)
    monkeypatch.undo()
    with store.read() as moment:
        assert [each.kind for each in moment.changes(cursor, 10).changes] == ["archived"]
        record = moment.agent(agent)
        assert record is not None
        assert moment.events([record.archived])[0].created_at == NOW
        assert len(moment.memos(10)) == 1


@pytest.mark.parametrize("committed", [True, False])
def test_the_outcome_of_a_commit_on_a_lost_connection_is_looked_up(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """The store asks the server whether the transaction was committed."""
    agent, sent = root(store), Pipeline._sent

    def losing(session: Pipeline, connection: Any, queue: Any) -> Any:
        if all(sql != "COMMIT" for sql, *_ in queue):
            return sent(session, connection, queue)
        if committed:
            sent(session, connection, queue)
        connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(Pipeline, "_sent", losing)
    with nullcontext() if committed else pytest.raises(StoreError, match="Nothing was recorded; repeat it"):
        append(store, agent, draft(content="text"))
    monkeypatch.undo()
    with store.read() as moment:
        assert moment.head(agent).record.messages == committed


def test_an_append_with_an_unknown_outcome_is_repeated_with_its_key(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, sent, beside = root(store), Pipeline._sent, Pool.run_alone

    def losing(session: Pipeline, connection: Any, queue: Any) -> Any:
        found = sent(session, connection, queue)
        if any(sql == "COMMIT" for sql, *_ in queue):
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return found

    def silent(pool: Pool, name: str, /, **bindings: Any) -> Any:
        return [(None,)] if name == "fate" else beside(pool, name, **bindings)

    def repeated() -> list[int]:
        with store.write() as writing:
            return writing.append(agent, 0, [draft(content="text")], key="mine")

    monkeypatch.setattr(Pipeline, "_sent", losing)
    monkeypatch.setattr("foldmark.stores.postgres.store.FATE_SECONDS", 0)
    monkeypatch.setattr(Pool, "run_alone", silent)
    with pytest.raises(StoreError, match="it may have been recorded"):
        repeated()
    monkeypatch.undo()
    (id,) = repeated()
    with store.read() as moment:
        assert (moment.head(agent).record.head, moment.head(agent).record.messages) == (id, 1)


# Messages


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:s3cret@127.0.0.1:1/db",
        "postgresql://me@127.0.0.1:1/db?password=s3cret",
        "postgresql://me:s3cret@127.0.0.1:port/db",
        "postgresql://me:s3cret%@127.0.0.1/db",
    ],
)
def test_no_error_contains_the_password(address: str) -> None:
    with pytest.raises(StoreError) as caught:
        PostgresStore(address)
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_address_is_shown_without_its_password() -> None:
    assert Address("postgresql://me:s3cret@db.example:5433/log").shown == "postgresql://me@db.example:5433/log"
    assert Address("postgresql:///log?host=/run/pg").shown == "postgresql:///log"


def test_only_the_entry_point_names_the_package() -> None:
    """The import contract sees no names in texts."""
    source = Path(foldmark.__file__).parent
    own = source / "stores" / "postgres"
    naming = [path for path in source.rglob("*.py") if "stores.postgres" in path.read_text(encoding="utf-8")]
    assert [path for path in naming if own not in path.parents] == []


def test_the_driver_is_only_needed_for_a_postgresql_address() -> None:
    script = textwrap.dedent("""
        import sys
        import foldmark
        foldmark.open(":memory:").close()
        print([name for name in sys.modules if name.startswith(("psycopg", "foldmark.stores.postgres"))])
        sys.modules["psycopg"] = None
        try:
            foldmark.open("postgres://me:s3cret@db.example/log")
        except foldmark.StoreError as error:
            print(error)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded, said = done.stdout.splitlines()
    assert loaded == "[]"
    assert said.startswith("a postgresql:// address needs PostgreSQL's driver")
    assert said.endswith(installs("postgres"))


def test_a_password_in_a_text_is_not_recorded(store: PostgresStore) -> None:
    """A model's tool may print the environment."""
    address = store.address.replace("postgres:@", "postgres:s3cret%40pw@")
    assert "s3cret" in address
    with foldmark.open(address, settings={}) as log:
        agent = log.agent("default")
        agent.append("user", f"FOLDMARK_DB={address}, the password is s3cret@pw")
        (message,) = agent.context().messages
    assert "s3cret" not in message.content


@pytest.mark.parametrize(
    ("number", "says"), [(2, "written by an older Foldmark"), (999, "written by a newer Foldmark")]
)
def test_a_database_of_another_schema_is_refused(store: PostgresStore, number: int, says: str) -> None:
    with psycopg.connect(store.address, autocommit=True) as db:
        ((own,),) = db.execute("SELECT number FROM foldmark.migrations").fetchall()
        db.execute("UPDATE foldmark.migrations SET number = %s", (number,))
        try:
            with pytest.raises(StoreError, match=says):
                PostgresStore(store.address)
        finally:
            db.execute("UPDATE foldmark.migrations SET number = %s", (own,))


def test_tables_are_only_created_on_request(store: PostgresStore) -> None:
    with psycopg.connect(store.address, autocommit=True) as db:
        db.execute("ALTER SCHEMA foldmark RENAME TO elsewhere")
        try:
            with pytest.raises(StoreError, match="there is no Foldmark database"):
                PostgresStore(store.address, create=False)
        finally:
            db.execute("ALTER SCHEMA elsewhere RENAME TO foldmark")


def test_changes_continue_after_a_move_to_another_server(store: PostgresStore) -> None:
    """Another server numbers its transactions from a different start."""
    agent = root(store)
    append(store, agent, draft(content="old"))
    _, cursor = changes(store)
    with psycopg.connect(store.address, autocommit=True) as db:
        db.execute("UPDATE foldmark.home SET server = 'another'")
        for table in ("events", "agents"):
            db.execute(f"UPDATE foldmark.{table} SET stamp = stamp + 1000000")
    moved = PostgresStore(store.address)
    append(moved, agent, draft(content="new"))
    told, _ = changes(moved, cursor.replace(cursor.split(".")[0], str(int(cursor.split(".")[0]) + 1000000)))
    assert told == ["new"]
    moved.close()
    with psycopg.connect(store.address, autocommit=True) as db:
        db.execute("UPDATE foldmark.home SET base = 0")


# Statements


def test_no_query_reads_all_events(store: PostgresStore) -> None:
    """Every query finds its rows by an index; a scan of `events` would cost the whole history. The queries of doctor
    read everything on purpose."""
    on_purpose = re.compile("wrong_|all_|coverage|counted")
    scanning = []
    with psycopg.connect(store.address, autocommit=True) as db:
        db.execute("SET search_path = foldmark, public")
        db.execute("SET enable_seqscan = off")
        for name, wanted in STATEMENTS.items():
            if on_purpose.match(name) or wanted.sql.startswith("LOCK"):
                continue
            cursor = psycopg.ClientCursor(db)
            plan = cursor.execute(f"EXPLAIN (GENERIC_PLAN) {wanted.sql}".encode()).fetchall()
            if any("Seq Scan on events" in line for (line,) in plan):
                scanning.append(name)
    assert scanning == []


def test_a_head_takes_two_round_trips_and_an_append_two(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, sent, trips = root(store), Pipeline._sent, list[int]()
    append(store, agent, draft())

    def counted(session: Pipeline, *queue: Any) -> Any:
        trips.append(1)
        return sent(session, *queue)

    monkeypatch.setattr(Pipeline, "_sent", counted)
    with store.read() as moment:
        moment.head(agent)
    assert len(trips) == 2
    # The agent's row says whether a call begins a run of calls or continues one.
    for each in (draft(), call("c1"), call("c2")):
        trips.clear()
        append(store, agent, each)
        assert len(trips) == 2, each.kind
