"""Bytes that changed on the disk stop no command, and `foldmark doctor` finds them (SPEC 2)."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

import foldmark
from foldmark.core.codec import checksum
from foldmark.core.errors import FoldmarkError
from foldmark.log.doctor import examine
from foldmark.stores.sqlite.reading import SqliteReading
from foldmark.stores.sqlite.store import SqliteStore
from foldmark.testing.suite import NOW
from sampled import DEEP, sampled
from stored import connection

SHOWN = ("/context show", "/message list 50", "/message show 1", "/recall parser", "/session list", "/state", "/agents")
SQL = ("SELECT * FROM messages", "SELECT id FROM messages WHERE content LIKE '%parser%'", "SELECT * FROM operations")

NUMBERS = ("agent", "turn", "tokens", "answers", "nth", "sum", "replayed", "checksum")
WRONG = [(column, value) for column in NUMBERS for value in ("NULL", "'x' || CAST(X'96' AS TEXT)")]
"""Columns of `events` that hold numbers, and values of another type."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two conversations, one of which calls tools and forks."""
    path = tmp_path_factory.mktemp("sound") / "log.db"
    with foldmark.open(path, settings={}) as log:
        agent, other = log.agent("work"), log.agent("other")
        for number in range(4):
            agent.append("user", f"question {number} about the parser and the café")
            agent.append_tool_call("read_file", {"path": "src/x.py"}, call_id=f"c{number}", dialect="openai")
            agent.append_tool_result(f"c{number}", "line of the parser\n" * 9, dialect="openai")
            agent.append("assistant", "the parser reads lines")
            agent.end_turn()
            other.append("user", f"another question {number}, of a parser")
            other.end_turn()
            if number == 1:
                agent.do("/mark M")
        agent.do("/memo add the café is red #place")
        agent.do("/undo")
        child = agent.do("/fork M").data["child"]
        agent.do(f"/send {child} look at the parser")
    return path


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sound, tmp_path / "log.db"))


def plant(path: Path, sql: str) -> None:
    """Change a database as a failing disk does."""
    db = apsw.Connection(str(path))
    db.execute(sql)
    db.close()


def wrong(column: str) -> str:
    """Return the SQL of a column's text with an invalid third byte."""
    raw = f"CAST({column} AS BLOB)"
    return f"CAST(substr({raw}, 1, 2) || X'FF' || substr({raw}, 4) AS TEXT)"


def found(path: Path) -> list[str]:
    with foldmark.open(path, create=False, settings={}) as log:
        return [finding.text for finding in examine(log)]


def walk(path: Path) -> None:
    """Read, search, query and erase everything; only errors of Foldmark may be raised."""
    with suppress(FoldmarkError), foldmark.open(path, create=False, settings={}) as log:
        for name in ("work", "other"):
            with suppress(FoldmarkError):
                for ask in asked(log.find(name)):
                    with suppress(FoldmarkError):
                        ask()
        with suppress(FoldmarkError):
            log.search("parser", limit=10)
        list(examine(log))


def asked(agent: Any) -> list[Callable[[], Any]]:
    return [
        *(partial(agent.do, line) for line in SHOWN),
        *(partial(agent.call_tool, "query_db", {"sql": sql}) for sql in SQL),
        partial(agent.request, provider="anthropic", model="m"),
        partial(agent.do, "/message remove 1 --yes"),
    ]


def columns() -> Iterator[tuple[str, str]]:
    with foldmark.open(":memory:", settings={}) as log:
        assert isinstance(log.store, SqliteStore)
        tables = (
            connection(log).execute("SELECT name FROM pragma_table_list WHERE schema = 'main' AND strict").fetchall()
        )
        for (table,) in tables:
            for column, kind in (
                connection(log).execute(f"SELECT name, type FROM pragma_table_info('{table}')").fetchall()
            ):
                if kind == "TEXT":
                    yield str(table), str(column)


@pytest.mark.parametrize(("table", "column"), sampled(list(columns()), 9))
def test_a_text_that_is_not_utf8_stops_no_command(path: Path, table: str, column: str) -> None:
    """This holds for every text column."""
    plant(path, f"UPDATE {table} SET {column} = {wrong(column)} WHERE octet_length({column}) > 2")
    with foldmark.open(path, settings={}) as log:
        assert isinstance(log.store, SqliteStore)
        changed = connection(log).execute(f"SELECT count(*) FROM {table} WHERE octet_length({column}) > 2").fetchall()
    assert bool(found(path)) == (changed != [(0,)])
    walk(path)


def test_a_damaged_message_can_be_read_marked_and_erased(path: Path) -> None:
    plant(path, f"UPDATE events SET content = {wrong('content')} WHERE id = 1")
    with foldmark.open(path, settings={}) as log:
        agent, other = log.agent("work"), log.agent("other")
        first = agent.context().messages[0]
        assert first.content == "qu\ufffdstion 0 about the parser and the café"
        assert first.damaged
        assert [message.damaged for message in agent.context().messages[1:]] == [False] * (
            len(agent.context().messages) - 1
        )
        assert "user (damaged on the disk, see `foldmark doctor`): qu\ufffdstion 0" in agent.do("/context show").text
        shown = agent.do("/message show 1").text
        assert "user (damaged) · " in shown
        assert ": qu\ufffdstion 0" in shown
        assert "damaged · qu\ufffdstion 0" in agent.do("/message list").text
        assert agent.do("/message show 1").data["messages"][0]["damaged"]
        assert "qu\ufffdstion 0" in agent.call_tool("query_db", {"sql": "SELECT content FROM messages WHERE id = 1"})
        found_ids = agent.call_tool("query_db", {"sql": "SELECT id FROM messages WHERE content LIKE '%stion 0%'"})
        assert '{"id":1}' in found_ids
        assert "another question" in other.do("/recall question").text
        assert any(hit.event_id == 1 for hit in log.search("café"))
        assert next(each.text for each in examine(log)).startswith("event 1: its content is not valid UTF-8 at byte 3")
        assert "erased" in agent.do("/message remove 1 --yes").text
        assert list(examine(log)) == []
        assert not [hit for hit in log.search("café question") if hit.event_id == 1]


def test_erasing_a_damaged_message_removes_the_words_it_was_indexed_with(path: Path) -> None:
    """The indexed words differ from the present ones, so the index is rebuilt."""
    plant(path, "UPDATE events SET content = replace(content, 'question', 'quesdion') WHERE id = 1")
    with foldmark.open(path, settings={}) as log:
        log.agent("work").do("/message remove 1 --yes")
        assert list(examine(log)) == []
        assert {hit.event_id for hit in log.search("question", limit=50)}.isdisjoint({1})


@pytest.mark.parametrize("kind", ["user", "tool_call", "tool_result", "assistant"])
def test_data_that_is_no_longer_json_is_read_as_none(path: Path, kind: str) -> None:
    plant(path, f"UPDATE events SET data = '{{' || coalesce(data, '') WHERE kind = '{kind}'")
    with foldmark.open(path, settings={}) as log:
        agent = log.agent("work")
        damaged = [message for message in agent.context().messages if message.damaged]
        assert {(message.kind, message.data) for message in damaged} == {(kind, None)}
        for line in SHOWN:
            agent.do(line)
        assert log.search("parser", limit=50)
    assert found(path)


def test_the_error_names_an_operation_that_cannot_be_read(path: Path) -> None:
    plant(path, "UPDATE events SET data = '{' WHERE kind = 'undo'")
    lines = found(path)
    assert any("is not a valid undo operation: its stored data cannot be read" in line for line in lines)
    with foldmark.open(path, settings={}) as log:
        assert len(log.agent("work").context().messages) == 12  # from the stored segments
        for name in ("work", "other"):
            log.agent(name).do("/context show")
            log.agent(name).do("/message list")


def test_each_flipped_bit_of_an_event_is_found(path: Path) -> None:
    """The test locates the rows on the disk by their content."""
    data = path.read_bytes()
    places = [
        data.index(b"the parser and the caf"),
        data.index(b"line of the parser"),
        data.index(b'"name":"read_file"'),
    ]
    for place in places:
        for bit in range(8):
            raw = bytearray(data)
            raw[place + 1] ^= 1 << bit
            path.write_bytes(raw)
            assert any(line.startswith("event ") for line in found(path)), (place, bit)


def test_no_flipped_bit_of_a_row_ends_with_a_traceback(path: Path) -> None:
    """This includes the header of the row, which holds the types and lengths of the columns."""
    data = path.read_bytes()
    place = data.index(b"question 0 about")
    for at in sampled(range(place - 75, place), 11):
        raw = bytearray(data)
        raw[at] ^= 1 << at % 8
        path.write_bytes(raw)
        walk(path)


@pytest.mark.parametrize(("column", "value"), WRONG if DEEP else WRONG[::4] + WRONG[3::4])
def test_no_column_of_a_wrong_type_ends_with_a_traceback(path: Path, column: str, value: str) -> None:
    """A flipped bit can turn a column into any type, even one that its table forbids."""
    db = apsw.Connection(str(path))
    db.execute("PRAGMA writable_schema = ON")
    ((strict,),) = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'events'").fetchall()
    for sql in (str(strict).replace(") STRICT", ")").replace(" NOT NULL", ""), strict):
        db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'events'", (sql,))
        db.close()
        db = apsw.Connection(str(path))
        if sql is not strict:
            db.execute("PRAGMA writable_schema = ON")
            db.execute(f"UPDATE events SET {column} = {value} WHERE id IN (1, 3)")
    db.close()
    walk(path)


def test_the_checksum_is_stored_and_erased_with_its_content(path: Path) -> None:
    db = apsw.Connection(str(path))
    rows = db.execute(
        "SELECT id, agent, turn, kind, dialect, actor, created_at, interrupted, call_id, answers, "
        "content, data, checksum FROM events"
    ).fetchall()
    stored_rows: list[tuple[Any, ...]] = rows
    for *fixed, content, data, stored in stored_rows:
        assert stored == checksum(fixed, content, data or None)
    db.close()
    with foldmark.open(path, settings={}) as log:
        log.agent("work").do("/message remove 1 --yes")
    db = apsw.Connection(str(path))
    assert db.execute("SELECT DISTINCT checksum FROM events WHERE turn = 1 AND redacted IS NOT NULL").fetchall() == [
        (None,)
    ]
    db.close()


def malformed(path: Path) -> None:
    """Overwrite the header of the page that holds the memos."""
    db = apsw.Connection(str(path))
    root = int(str(db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'memos'").get))
    db.close()
    raw = bytearray(path.read_bytes())
    page = int.from_bytes(raw[16:18], "big")
    raw[(root - 1) * page : (root - 1) * page + 8] = b"\x55" * 8
    path.write_bytes(raw)


def test_the_doctor_of_a_malformed_database_shows_how_to_rescue_it(path: Path) -> None:
    """The doctor does not recommend running the doctor on the same file."""
    malformed(path)
    lines = found(path)
    assert any("is damaged" in line and "`foldmark --db rescued.db doctor` then says" in line for line in lines)
    assert not any("run `foldmark doctor`" in line for line in lines)
    with foldmark.open(path, settings={}) as log, pytest.raises(foldmark.StoreError, match=r"rescued\.db"):
        log.agent("work").do("/memo list")


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="the way out is SQLite's own shell")
def test_the_rescue_command_saves_everything_readable(path: Path, tmp_path: Path) -> None:
    malformed(path)
    line = next(line for line in found(path) if "is damaged" in line)
    subprocess.run(line.split("`")[1], shell=True, cwd=tmp_path, check=True, capture_output=True)
    with foldmark.open(path, settings={}) as log, foldmark.open(tmp_path / "rescued.db", settings={}) as rescued:
        texts = [[each.content for each in one.agent("work").context().messages] for one in (log, rescued)]
        assert texts[0] == texts[1] != []
        assert not any(each.text.startswith("event") for each in examine(rescued))


def test_writes_of_another_program_are_not_damage(path: Path) -> None:
    """The index of memos is checked by a connection that has cached its earlier state."""
    with foldmark.open(path, settings={}) as log, foldmark.open(path, settings={}) as other:
        assert list(other.store.damage()) == []
        for number in range(3):
            log.agent("work").do(f"/memo add {number} #place")
            assert list(other.store.damage()) == []
        log.agent("work").do("/memo remove 1 --yes")
        assert list(other.store.damage()) == []


def test_a_memo_that_another_program_saves_meanwhile_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = SqliteReading.fetched

    def save(store: SqliteStore) -> None:
        with store.write() as transaction:
            transaction.save_memo("a memo", ["tag"], None, "human", NOW)

    def meanwhile(block: SqliteReading, sql: str, *rest: Any) -> Any:
        if sql.startswith("PRAGMA integrity_check"):
            save(other)
        return fetched(block, sql, *rest)

    with (
        closing(SqliteStore(str(tmp_path / "log.db"))) as store,
        closing(SqliteStore(str(tmp_path / "log.db"))) as other,
    ):
        save(store)
        assert list(store.damage()) == []
        monkeypatch.setattr(SqliteReading, "fetched", meanwhile)
        assert list(store.damage()) == []
