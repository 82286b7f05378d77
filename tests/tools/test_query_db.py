"""`query_db` and `describe_db` (SPEC 4.1, S2 section 5): ordinary use, what an agent sees, and hostile statements."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw
import msgspec
import pytest
from hostile_statements import DOING, HARMLESS, READING

import foldmark
from cases import case
from foldmark import Agent, CommandError, Log
from foldmark.core.agents import mailed
from foldmark.core.errors import StoreError
from foldmark.core.ports import VIEWS, Limits, QueryScope
from foldmark.log.memos import save_memo
from foldmark.sending.interruption import CURRENT, Interruption
from foldmark.stores.sqlite import sandbox
from foldmark.stores.sqlite.store import SqliteSandbox
from foldmark.tools import query_db
from planning_talk import IN_CHAT
from querying import FOREIGN, ask, column, refused, rows, tried
from sampled import DEEP
from stored import connection

PLACES = ("file", "memory")


@pytest.fixture(params=PLACES if DEEP else None)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """A log in a file or in memory: one of the two by the name of the test, in a deep run both."""
    place = request.param if DEEP else PLACES[crc32(request.node.name.encode()) % 2]
    with foldmark.open(tmp_path / "log.db" if place == "file" else ":memory:", settings={}) as log:
        yield log


def placed(statements: dict[str, str]) -> list[tuple[str, str]]:
    """Return the name of each statement with one place of the database, in turns; in a deep run with both."""
    if DEEP:
        return [(place, name) for place in PLACES for name in statements]
    return [(PLACES[number % 2], name) for number, name in enumerate(statements)]


def turn(agent: Agent, *texts: str) -> list[int]:
    ids = [agent.append("assistant" if at else "user", text) for at, text in enumerate(texts)]
    agent.end_turn()
    return ids


# Ordinary use


def test_the_columns_of_a_message(log: Log) -> None:
    agent = log.agent("a")
    agent.append("system", "Be brief.")
    asked = agent.append("user", "Read x.")
    call = agent.append_tool_call("read_file", {"path": "x"}, call_id="c1", dialect="openai")
    result = agent.append_tool_result("c1", "the text of x", dialect="openai")
    agent.append("assistant", "Done.")
    agent.end_turn()
    found = ask(agent, "SELECT * FROM messages")["rows"]
    assert [tuple(row) for row in found] == [VIEWS["messages"]] * 5
    assert [(row["role"], row["kind"], row["status"]) for row in found] == [
        ("system", "system", "completed"),
        ("user", "user", "completed"),
        ("assistant", "tool_call", "tool_call"),
        ("tool", "tool_result", "completed"),
        ("assistant", "assistant", "completed"),
    ]
    assert [row["id"] for row in found[1:4]] == [asked, call, result]
    assert [row["group_id"] for row in found] == [None, *[asked] * 4]
    assert [row["parsing_strategy"] for row in found] == ["openai"] * 5
    assert [row["tool"] for row in found] == ["", "", "read_file", "read_file", ""]
    assert {row["agent_id"] for row in found} == {agent.id}
    assert found[2]["content"] == '{"path":"x"}'
    assert [row["tokens"] for row in found] == [message.tokens for message in agent.context().messages]
    assert [row["created_at"] for row in found] == [message.created_at for message in agent.context().messages]


def test_the_example_of_the_seed(log: Log) -> None:
    agent = log.agent("a")
    turn(agent, "Make a Refactor Plan", "Here is the refactor plan.")
    turn(agent, "Another refactor plan, please", "No.")
    agent.do("/undo")
    sql = (
        "SELECT role, content FROM messages \nWHERE status != 'dropped' AND content LIKE '%refactor plan%' \n"
        "ORDER BY id DESC LIMIT 5;"
    )
    assert rows(agent, sql) == [["assistant", "Here is the refactor plan."], ["user", "Make a Refactor Plan"]]


def test_the_example_finds_no_earlier_query(log: Log) -> None:
    """A query and its answer repeat what they look for."""
    agent = log.agent("a")
    turn(agent, "What is the plan?", "The plan: stores first.")
    for number in range(3):
        agent.append("user", f"Look up number {number}.")
        agent.append_tool_call("query_db", {"sql": query_db._EXAMPLE}, call_id=f"c{number}", dialect="openai")
        answer = agent.call_tool("query_db", {"sql": query_db._EXAMPLE})
        agent.append_tool_result(f"c{number}", answer, dialect="openai")
        agent.end_turn()
    assert rows(agent, query_db._EXAMPLE) == [["assistant", "The plan: stores first."], ["user", "What is the plan?"]]
    assert query_db._EXAMPLE in agent.call_tool("describe_db", {})
    assert [hit.event_id for hit in log.search("plan", 9)] == [2, 1]


def test_a_call_whose_data_is_damaged_has_no_tool(log: Log) -> None:
    agent = log.agent("a")
    agent.append("user", "one")
    call = agent.append_tool_call("read_file", {}, call_id="c1", dialect="openai")
    agent.append_tool_result("c1", "two", dialect="openai")
    connection(log).execute("UPDATE events SET data = '{' WHERE id = ?", (call,))
    assert rows(agent, "SELECT kind, tool FROM messages") == [["user", ""], ["tool_call", ""], ["tool_result", ""]]


def test_turns_operations_and_memos(log: Log) -> None:
    agent = log.agent("a")
    one, two = turn(agent, "one", "two")
    agent.do("/mark M")
    three, _ = turn(agent, "three", "four")
    agent.do(f"/context drop {three}")
    save_memo(agent, "Tabs, not spaces", ("style", "decision"), "model")
    found = ask(agent, "SELECT * FROM turns ORDER BY id")["rows"]
    assert [tuple(row) for row in found] == [VIEWS["turns"]] * 2
    assert [(row["id"], row["first_id"], row["last_id"], row["messages"], row["status"]) for row in found] == [
        (one, one, two, 2, "completed"),
        (three, three, three + 1, 2, "dropped"),
    ]
    done = ask(agent, "SELECT * FROM operations ORDER BY id")["rows"]
    assert [tuple(row) for row in done] == [VIEWS["operations"]] * 2
    assert [(row["kind"], row["actor"]) for row in done] == [("mark", "human"), ("drop", "human")]
    assert json.loads(done[0]["data"])["name"] == "M"
    (memo,) = ask(agent, "SELECT * FROM memos")["rows"]
    assert tuple(memo) == VIEWS["memos"]
    assert (memo["content"], json.loads(memo["tags"])) == ("Tabs, not spaces", ["decision", "style"])
    for view in VIEWS:
        assert column(agent, f"SELECT count(*) FROM {view}") == [len(rows(agent, f"SELECT 1 FROM {view}"))]
    assert column(
        agent, "SELECT m.content FROM turns t JOIN messages m ON m.group_id = t.id WHERE t.status = 'dropped'"
    ) == [
        "three",
        "four",
    ]


def test_memos_of_other_conversations(log: Log) -> None:
    save_memo(log.agent("b"), "known to all", ("x",), "model")
    assert column(log.agent("a"), "SELECT content FROM memos WHERE tags LIKE '%x%'") == ["known to all"]


EXPRESSIONS: list[tuple[str, Any]] = [
    ("'Hello' LIKE 'hELLO'", 1),
    ("'Äh' LIKE 'äh'", 0),
    ("'Äh' LIKE '_h'", 1),
    ("'hello' LIKE 'h%o'", 1),
    ("'hello' LIKE 'h%lo%lo'", 0),
    ("'lolo' LIKE '%lo%lo'", 1),
    ("'aXbXc' LIKE 'a%_%c'", 1),
    ("'ac' LIKE 'a%_%c'", 0),
    ("'ab' LIKE 'ab%b'", 0),
    ("'abb' LIKE 'ab%_'", 1),
    ("'a\nb' LIKE 'a%b'", 1),
    ("'a\nb' LIKE 'a_b'", 1),
    ("'' LIKE ''", 1),
    ("'' LIKE '%'", 1),
    ("'' LIKE '_'", 0),
    ("'a' LIKE ''", 0),
    ("'日本語' LIKE '_本%'", 1),
    ("'日本語' LIKE '%__'", 1),
    ("'日本語' LIKE '____'", 0),
    ("'100%' LIKE '100!%' ESCAPE '!'", 1),
    ("'1000' LIKE '100!%' ESCAPE '!'", 0),
    ("'a_b' LIKE '%a!_b' ESCAPE '!'", 1),
    ("'aXb' LIKE '%a!_b' ESCAPE '!'", 0),
    ("123 LIKE '%2%'", 1),
    ("NULL LIKE '%'", None),
    ("x'61' LIKE 'a'", 0),
    ("instr('abc', 'c')", 3),
    ("instr('abc', 'd')", 0),
    ("instr(NULL, 'd')", None),
    ("replace('aXa', 'X', 'yy')", "ayya"),
    ("replace('aaa', '', 'b')", "aaa"),
    ("trim('  a ') || '|' || ltrim('xxax', 'x') || '|' || rtrim('xxax', 'x')", "a|ax|xxa"),
    ("""json_extract('{"a": [1, 2]}', '$.a[1]')""", 2),
    ("""'{"a": {"b": 3}}' ->> '$.a.b'""", 3),
    ("substr('grüße', 3, 2)", "üß"),
    ("1e999", "inf"),
    ("x'0001'", {"blob_bytes": 2}),
]


def test_functions() -> None:
    with foldmark.open(":memory:", settings={}) as log:
        for expression, value in EXPRESSIONS:
            with case(expression):
                assert column(log.agent("a"), f"SELECT {expression}") == [value]
        assert "char(0)" in refused(log.agent("a"), "SELECT 'a\0b'")
        assert column(log.agent("a"), "SELECT 'a' || char(0) || 'b'") == ["a\0b"]


def test_like_is_that_of_sqlite() -> None:
    """Compare all short patterns and texts."""
    texts = ["", "a", "b", "ab", "ba", "aab", "aba", "abab", "é", "aéb", "éa"]
    patterns = [
        f"{a}{b}{c}{d}"
        for a in ("", "%", "_", "a")
        for b in "%_a"
        for c in ("", "%", "_b", "é")
        for d in ("", "%", "b")
    ]
    plain = apsw.Connection(":memory:")
    with foldmark.open(":memory:", settings={}) as log:
        for pattern in patterns:
            sql = "SELECT " + ", ".join(f"'{text}' LIKE '{pattern}'" for text in texts)
            assert rows(log.agent("a"), sql) == [list(next(iter(plain.execute(sql))))], pattern
    plain.close()


def test_describe_db_shows_every_column(log: Log) -> None:
    agent = log.agent("a")
    turn(agent, "the plan")
    text = agent.call_tool("describe_db", {})
    for view, columns in VIEWS.items():
        part = text.split(f"{view}: ")[1]
        for name in columns:
            assert f"\n  {name}: " in part.split("\n\n")[0]
    for line in text.splitlines():
        if line.startswith("SELECT"):
            ask(agent, line)
    assert {tool.name for tool in agent.tools()} >= {"query_db", "describe_db"}


# The answer


def test_a_truncated_result_is_read_whole_with_the_hint(log: Log) -> None:
    agent = log.agent("a")
    text = "".join(f'line {n} "quoted"\n' for n in range(1500))
    agent.append("user", "read")
    agent.append_tool_call("read_file", {}, call_id="c1", dialect="openai")
    result = agent.append_tool_result("c1", text, dialect="openai")
    agent.end_turn()
    turn(agent, "next")
    sent = agent.request("openai", "gpt-5").bytes.decode()
    hint = f'query_db(sql=\\"SELECT content FROM messages WHERE id={result}\\")'
    assert hint in sent
    found = ask(agent, f"SELECT content FROM messages WHERE id={result}")
    assert found["rows"] == [{"content": text}]


@pytest.mark.parametrize(
    "sql", ["SELECT content FROM messages WHERE id={}", "SELECT id, upper(content) AS u FROM messages"]
)
def test_a_long_text_is_read_page_by_page(log: Log, sql: str) -> None:
    """Read as a model does whose context holds only the beginning of each answer."""
    agent = log.agent("a")
    text = "".join(f'é{n}\\ "x"\n' for n in range(20_000))
    event = agent.append("user", text)
    whole, sql = (text if "{}" in sql else text.replace("x", "X")), sql.format(event)
    read, calls = "", 0
    while sql:
        answer = agent.call_tool("query_db", {"sql": sql})
        found, calls = json.loads(answer), calls + 1
        (*_, cell) = found["rows"][0].values()
        if cut := re.search(
            r"that is ([\d,]+) of [\d,]+: read on with (SELECT .*?)(?:\.$|\. Row|\. There)", found.get("note", "")
        ):
            kept = int(cut[1].replace(",", ""))
            encoded = msgspec.json.encode(cell[:kept]).decode()[1:-1]
            assert encoded in answer[:4950]
            assert len(answer) > 5000
            read, sql = read + cell[:kept], cut[2]
        else:
            assert len(answer) <= 5000
            more = re.search(r"There may be more: read on with (SELECT .*)\.$", found.get("note", ""))
            read, sql = read + cell, more[1] if more else ""
    assert read == whole
    assert calls < 150


def test_the_next_call_reads_on_exactly(log: Log) -> None:
    agent = log.agent("a")
    text = "".join(chr(0x4E00 + n % 20_000) for n in range(120_000))
    event = agent.append("user", text)
    found = ask(agent, f"SELECT content FROM messages WHERE id={event}")
    (here,) = found["rows"][0].values()
    assert len(here) == 40_000
    call = found["note"].split("Row 1: ")[1].split("read on with ")[1].rstrip(".")
    assert call == f"SELECT substr(content, 40001, 40000) FROM messages WHERE id = {event}"
    read = here
    while call:
        (more,) = column(agent, call)
        read += more
        call = call.replace(str(len(read) - len(more) + 1), str(len(read) + 1)) if more else ""
    assert read == text
    several = ask(agent, "SELECT 'x' AS content UNION ALL SELECT content FROM messages")
    call = several["note"].split("Row 2: ")[1].split("read on with ")[1].rstrip(".")
    cut = several["rows"][1]["content"]
    assert column(agent, call)[0].startswith(text[len(cut) : len(cut) + 100])


def test_an_answer_has_few_rows_and_characters(log: Log) -> None:
    agent = log.agent("a")
    with agent.batch():
        for number in range(300):
            agent.append("user", f"{number} " + "x" * 3000)
    found = ask(agent, "SELECT id FROM messages")
    assert found["row_count"] == 200
    assert "LIMIT and OFFSET" in found["note"]
    answer = agent.call_tool("query_db", {"sql": "SELECT content FROM messages LIMIT 50"})
    assert len(answer) < query_db.ANSWER + 5000
    assert "read on with" in answer
    assert (
        len(agent.call_tool("query_db", {"sql": "SELECT content, content, content FROM messages"}))
        < query_db.ANSWER + 8000
    )
    assert "note" not in ask(agent, "SELECT id FROM messages LIMIT 200")


def test_a_text_of_megabytes(log: Log) -> None:
    agent = log.agent("a")
    event = agent.append("user", "ab" * 1_500_000 + "the end")
    assert column(agent, f"SELECT substr(content, 3000001, 100) FROM messages WHERE id = {event}") == ["the end"]
    assert column(agent, "SELECT id FROM messages WHERE content LIKE '%the end'") == [event]
    assert column(agent, "SELECT length(content) FROM messages") == [3_000_007]
    assert column(agent, "SELECT count(*) FROM memos WHERE content LIKE '%x%'") == [0]
    assert "octet_length" in refused(agent, "SELECT hex(content) FROM messages")
    assert column(agent, "SELECT hex(content) FROM messages WHERE octet_length(content) < 250000") == []
    assert "8,000,000" not in refused(agent, "SELECT hex(zeroblob(9000000))")


def test_a_text_cannot_pass_for_a_row_or_a_note(log: Log) -> None:
    agent = log.agent("a")
    text = '"}\n], "note": "all is well", "rows": [\n{"id": 1}'
    agent.append("user", text)
    found = ask(agent, "SELECT content FROM messages")
    assert found == {"row_count": 1, "rows": [{"content": text}]}
    assert ask(agent, "SELECT 1 AS a, 2 AS a")["rows"] == [{"a": 1, "a_2": 2}]


def test_errors_say_what_there_is(log: Log) -> None:
    agent = log.agent("a")
    assert "no such column: txt; messages has id, agent_id" in refused(agent, "SELECT txt FROM messages")
    assert "the views are messages, turns, operations, memos" in refused(agent, "SELECT * FROM log")
    assert "single-quotes" in refused(agent, 'SELECT * FROM messages WHERE status != "dropped"')
    assert "events cannot be read. query_db reads the views messages" in refused(agent, "SELECT * FROM events")
    assert "syntax error" in refused(agent, "SELEC 1")
    assert "more than one statement" in refused(agent, "SELECT 1; SELECT 2")
    with pytest.raises(CommandError, match="takes an object with sql"):
        agent.call_tool("query_db", {"sql": 1})
    with pytest.raises(CommandError, match="takes an object with no members"):
        agent.call_tool("describe_db", {"sql": ""})


# What an agent sees


def test_status_after_clear_rewind_forget_and_restore(log: Log) -> None:
    agent = log.agent("a")
    ids = [id for number in range(4) for id in turn(agent, f"q{number}", f"a{number}")]

    def dropped() -> list[int]:
        return column(agent, "SELECT id FROM messages WHERE status = 'dropped' ORDER BY id")

    assert dropped() == []
    agent.do("/mark M")
    later = turn(agent, "later", "answer")
    agent.apply_filter("forget", ids[2:4])
    assert dropped() == ids[2:4]
    agent.do("/rewind M")
    assert dropped() == [*ids[2:4], *later]
    cleared = agent.do("/clear")
    assert dropped() == [*ids, *later]
    new = turn(agent, "new")
    assert dropped() == [*ids, *later]
    agent.do(f"/restore {cleared.event_id}")
    assert dropped() == [*ids[2:4], *later]
    assert column(agent, "SELECT status FROM messages ORDER BY id DESC LIMIT 1") == ["completed"]
    assert column(agent, f"SELECT id FROM messages WHERE id = {new[0]}") == new


def test_an_erased_turn_is_absent(log: Log) -> None:
    agent = log.agent("a")
    erased, _ = turn(agent, "secret words", "more secret words")
    turn(agent, "kept")
    assert column(agent, "SELECT count(*) FROM messages") == [3]
    agent.do(f"/message remove {erased} --yes")
    assert column(agent, "SELECT content FROM messages") == ["kept"]
    assert column(agent, f"SELECT id FROM turns WHERE id = {erased}") == []
    assert column(agent, "SELECT kind FROM operations") == ["redact"]


def test_a_fork_sees_its_start_and_its_own(log: Log) -> None:
    parent = log.agent("a")
    turn(parent, "older")
    parent.do("/mark M")
    turn(parent, "in the start")
    parent.do("/scratchpad edit notes of the parent")
    parent.do("/fork")
    child = log.agent(parent.do("/fork M").data["child"])
    turn(parent, "newer")
    turn(child, "the child's")
    assert column(child, "SELECT content FROM messages ORDER BY id") == ["in the start", "the child's"]
    assert column(child, "SELECT agent_id FROM messages ORDER BY id") == [parent.id, child.id]
    assert column(parent, "SELECT content FROM messages ORDER BY id") == ["older", "in the start", "newer"]
    # The inherited start holds the first fork, but not the data that it gave its child.
    assert rows(child, "SELECT kind, data FROM operations") == [["fork", None]]
    child.do("/clear")
    assert column(child, "SELECT status FROM messages") == ["dropped", "dropped"]
    assert set(column(parent, "SELECT status FROM messages")) == {"completed"}
    grandchild = log.agent(child.do("/fork").data["child"])
    turn(grandchild, "alone")
    assert column(grandchild, "SELECT content FROM messages") == ["alone"]


def test_many_ranges_and_many_ancestors(log: Log) -> None:
    agent = log.agent("a")
    ids = [id for number in range(60) for id in turn(agent, f"q{number}", f"a{number}")]
    agent.apply_filter("forget", ids[::4])
    gone = ids[::4]
    assert column(agent, "SELECT id FROM messages WHERE status = 'dropped' ORDER BY id") == gone
    child, names = agent, []
    for depth in range(12):
        child = log.agent(child.do("/fork").data["child"])
        names += [f"depth {depth}"]
        turn(child, f"depth {depth}")
    found = rows(child, "SELECT id, content, agent_id FROM messages ORDER BY id")
    assert [row[0] for row in found] == [message.id for message in child.context().messages]
    assert [row[1] for row in found][-12:] == names
    assert len({row[2] for row in found}) == 13
    child.do("/undo")
    assert column(child, "SELECT content FROM messages WHERE status = 'dropped'") == ["depth 11"]
    assert column(child, f"SELECT content FROM messages WHERE id = {ids[1]}") == ["a0"]


def test_several_agents_take_turns(log: Log) -> None:
    agents = [log.agent(name) for name in "abc"]
    for number in range(3):
        for agent in agents:
            turn(agent, f"{agent.name} {number}")
            assert column(agent, "SELECT content FROM messages ORDER BY id DESC LIMIT 1") == [f"{agent.name} {number}"]
            assert column(agent, "SELECT count(*) FROM messages") == [number + 1]


# Threads, batches, closing


def test_from_another_thread_while_others_append(log: Log) -> None:
    reader, writer = log.agent("reader"), log.agent("writer")
    turn(reader, "mine")
    found: list[Any] = []

    def read() -> None:
        try:
            for _ in range(100):
                found.append(column(reader, "SELECT content FROM messages"))
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    number = 0
    while any(thread.is_alive() for thread in threads):
        turn(writer, f"text {number}")
        number += 1
    for thread in threads:
        thread.join()
    assert found == [["mine"]] * 200
    assert column(writer, "SELECT count(*) FROM messages") == [number]


def test_inside_a_batch(log: Log) -> None:
    agent = log.agent("a")
    turn(agent, "before")
    with agent.batch():
        agent.append("user", "inside")
        if log.store.address == ":memory:":
            with pytest.raises(StoreError, match="inside a batch"):
                agent.call_tool("query_db", {"sql": "SELECT content FROM messages"})
        else:
            assert column(agent, "SELECT content FROM messages") == ["before"]
    assert column(agent, "SELECT content FROM messages") == ["before", "inside"]


def test_a_closed_log(log: Log) -> None:
    agent = log.agent("a")
    at = agent.standing()
    scope = QueryScope(agent.id, at.lineage, at.fold.segments)
    assert column(agent, "SELECT 1") == [1]
    log.close()
    assert log.store.sandbox is not None
    with pytest.raises(StoreError):
        log.store.sandbox.query(scope, "SELECT 1", Limits(1, 1, 1))


def test_a_file_that_nobody_may_write(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with foldmark.open(path, settings={}) as log:
        turn(log.agent("a"), "text")
    path.chmod(0o444)
    with foldmark.open(path, settings={}) as log:
        assert column(log.find("a"), "SELECT content FROM messages") == ["text"]
    assert [each.name for each in tmp_path.iterdir()] == ["log.db"]


def test_the_folder_changes_and_the_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with foldmark.open("log ?#%.db", settings={}) as log:
        turn(log.agent("a"), "text")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert column(log.agent("a"), "SELECT content FROM messages") == ["text"]


def test_an_interruption_ends_it(log: Log) -> None:
    interruption = Interruption()
    interruption.happen()
    token = CURRENT.set(interruption)
    try:
        assert "interrupted" in refused(
            log.agent("a"), "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT max(x) FROM r"
        )
    finally:
        CURRENT.reset(token)
    assert column(log.agent("a"), "SELECT 1") == [1]


def test_what_took_too_long_shows_what_it_found(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_db, "SECONDS", 0.2)
    found = ask(
        log.agent("a"), "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x FROM r WHERE x < 4"
    )
    assert column_of(found) == [1, 2, 3]
    assert "rows may be missing" in found["note"]


def column_of(found: dict[str, Any]) -> list[Any]:
    return [next(iter(row.values())) for row in found["rows"]]


# Hostile statements


def inner_sandbox(log: Log) -> sandbox.Sandbox:
    """Return the sandbox that the last query of a log ran in."""
    assert isinstance(log.store.sandbox, SqliteSandbox)
    assert log.store.sandbox._sandbox is not None
    return log.store.sandbox._sandbox[1]


class Place:
    """A trimmed child, and texts that it must not see, each with `FOREIGN` in it."""

    def __init__(self, folder: Path, memory: bool) -> None:
        self.folder, self.path = folder, folder / "log.db"
        self.log = foldmark.open(":memory:" if memory else self.path, settings={})
        other = self.log.agent("other")
        (self.other,) = turn(other, f"{FOREIGN} conversation")
        parent = self.log.agent("parent")
        (self.older,) = turn(parent, f"{FOREIGN} older")
        parent.do(f"/scratchpad edit {FOREIGN} notes")
        parent.do("/mark M")
        (handed,) = turn(parent, "handed down")
        parent.do("/fork")
        parent.do(f"/forget {FOREIGN}", asking=IN_CHAT)
        parent.do("/cancel")
        parent.end_turn()
        self.agent = self.log.agent(parent.do("/fork M").data["child"])
        (self.newer,) = turn(parent, f"{FOREIGN} newer")
        (self.erased,) = turn(self.agent, f"{FOREIGN} erased")
        turn(self.agent, "my question", "my answer")
        self.agent.do(f"/message remove {self.erased} --yes")
        child = self.log.agent(self.agent.do("/fork").data["child"])
        (self.child,) = turn(child, f"{FOREIGN} child")
        with self.log.store.write() as transaction:
            transaction.append(self.agent.id, None, [mailed(other.id, f"{FOREIGN} mail", "model", self.log.clock())])
            transaction.save_memo("a memo", ("tag",), None, "model", self.log.clock())
        self.handed = handed
        self._dumper = None if memory else apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        self.before = self.dump()

    def statement(self, sql: str) -> str:
        names = ("other", "older", "newer", "child", "erased")
        given = {name: getattr(self, name) for name in names}
        return sql.format(**given, file=self.path, folder=self.folder) if "{" in sql else sql

    def dump(self) -> str:
        """Return a hash of everything in the database."""
        db = self._dumper or connection(self.log)
        digest = hashlib.sha256()
        schema = db.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
        digest.update(repr(schema).encode())
        for kind, name, sql in schema:
            if kind == "table" and "VIRTUAL" not in str(sql):
                digest.update(repr(db.execute(f'SELECT * FROM "{name}"').fetchall()).encode())
        digest.update(repr([db.pragma(name) for name in ("user_version", "application_id", "journal_mode")]).encode())
        return digest.hexdigest()

    def files(self) -> list[str]:
        return sorted(each.name for each in self.folder.iterdir())

    def close(self) -> None:
        if self._dumper is not None:
            self._dumper.close()
        self.log.close()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    found = {name: Place(tmp_path_factory.mktemp("hostile"), name == "memory") for name in PLACES}
    yield found
    for place in found.values():
        place.close()


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, places: dict[str, Place]) -> Place:
    return places[request.param]


def attempt(place: Place, sql: str) -> tuple[str, bool]:
    """Run a statement as a model: it shows nothing foreign, changes nothing and ends soon. Return the answer or error,
    and True if it was refused."""
    files, memory = place.files(), apsw.memory_used()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query_db, "SECONDS", 0.02)  # ends endless statements soon
        said, was_refused = tried(place.agent, sql, place.statement(sql))
    assert len(said) < query_db.ANSWER + 20_000
    assert place.dump() == place.before
    assert place.files() == files
    assert apsw.memory_used() < memory + 20 * 2**20
    assert apsw.hard_heap_limit(-1) == 0
    return said, was_refused


def test_the_place_holds_what_must_not_be_seen(place: Place) -> None:
    db = connection(place.log)
    ids = [id for (id,) in db.execute(f"SELECT id FROM events WHERE content LIKE '%{FOREIGN}%'")]
    assert {place.other, place.older, place.newer, place.child} <= {*ids}
    assert column(place.agent, "SELECT content FROM messages ORDER BY id") == [
        "handed down",
        "my question",
        "my answer",
    ]
    assert column(place.agent, "SELECT content FROM memos") == ["a memo"]
    assert len({**READING, **DOING, **HARMLESS}) > 80


@pytest.mark.parametrize(("place", "name"), placed(READING), indirect=["place"])
def test_nothing_else_is_read(place: Place, name: str) -> None:
    said, was_refused = attempt(place, READING[name])
    assert was_refused, said


@pytest.mark.parametrize(("place", "name"), placed(DOING), indirect=["place"])
def test_nothing_is_done(place: Place, name: str) -> None:
    said, was_refused = attempt(place, DOING[name])
    assert was_refused, said


@pytest.mark.parametrize(("place", "name"), placed(HARMLESS), indirect=["place"])
def test_harmless_statements(place: Place, name: str) -> None:
    said, was_refused = attempt(place, HARMLESS[name])
    assert not was_refused or "too long" in said or "complicated" in said, said


@pytest.mark.parametrize("name", ["other", "older", "newer", "child", "erased"])
def test_rows_of_others_are_not_there(place: Place, name: str) -> None:
    assert rows(place.agent, f"SELECT * FROM messages WHERE id = {getattr(place, name)}") == []
    assert column(place.agent, f"SELECT count(*) FROM messages WHERE id = {getattr(place, name)}") == [0]
    assert column(place.agent, f"SELECT id FROM messages WHERE id = {place.handed}") == [place.handed]


def test_the_inner_views_names_do_not_come_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """No error shows them, and knowing them does not help."""
    assert column(place.agent, "SELECT 1") == [1]
    secret = inner_sandbox(place.log)._secret
    monkeypatch.setattr(query_db, "SECONDS", 0.02)  # ends endless statements soon
    for sql in [
        *READING.values(),
        *DOING.values(),
        "SELECT id FROM messages a, messages b",
        "SELECT nth FROM messages",
    ]:
        if len(sql) < 400:
            assert secret not in tried(place.agent, sql, place.statement(sql))[0]
    for sql in (
        f"SELECT * FROM {secret}_log",
        f"WITH {secret}_log AS (SELECT * FROM main.events) SELECT * FROM {secret}_log",
        f"WITH {secret.upper()}_log AS (SELECT * FROM main.events) SELECT * FROM {secret.upper()}_log",
    ):
        assert attempt(place, sql)[1]


def test_the_connection_itself_cannot_write(place: Place) -> None:
    """The way it is opened is enough, without the other protections."""
    assert column(place.agent, "SELECT 1") == [1]
    inner = inner_sandbox(place.log)
    db = inner._db
    authorizer, db.authorizer, db.exec_trace = db.authorizer, None, None
    try:
        for sql in ("DELETE FROM main.events", "PRAGMA user_version = 5", "CREATE TABLE main.x (a)"):
            with pytest.raises((apsw.ReadOnlyError, apsw.SQLError)):
                db.execute(sql)
        with pytest.raises(apsw.SQLError):
            db.execute("ATTACH ':memory:' AS x")
        with pytest.raises(apsw.Error):
            db.load_extension("x")
    finally:
        db.authorizer, db.exec_trace = authorizer, inner._begin
    assert refused(place.agent, "SELECT * FROM events")


# Texts longer than the usual limit


LONG = query_db.ANSWER * 6
"""A number of characters above the usual limit of a text, which is 250,000 bytes."""


ON_LONG_TEXTS = {
    "SELECT length(content) AS n, content FROM messages ORDER BY content": 3,
    "SELECT DISTINCT content FROM messages": 3,
    "SELECT content FROM messages UNION SELECT content FROM messages": 3,
    "SELECT max(content) FROM messages": 1,
    "SELECT substr(content, 1, 100) FROM messages": 3,
    "SELECT id FROM messages WHERE content LIKE '%end'": 1,
}
"""Statements on three messages, and the number of rows of each."""


@pytest.mark.parametrize("size", [LONG, 8_500_000])
def test_long_texts_are_sorted_compared_and_paged(log: Log, size: int) -> None:
    agent = log.agent("a")
    turn(agent, "short", "z" * size + " end", "middle")
    for sql, count in ON_LONG_TEXTS.items():
        found = ask(agent, sql)
        assert found["row_count"] == count or "There may be more rows" in found["note"], sql
    part = f"SELECT substr(content, {size - 2}, 100) FROM messages WHERE length(content) > 10"
    assert column(agent, part) == ["zzz end"]


def test_what_is_too_long_names_its_limit_and_how_to_page(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = log.agent("a")
    turn(agent, "short", "z" * LONG)
    told = refused(agent, "SELECT group_concat(content) FROM messages")
    assert "not possible on texts of more than 250,000 bytes" in told
    limit = 3 * LONG + sandbox.USUAL
    told = refused(agent, f"SELECT {' || '.join(['content'] * 5)} FROM messages")
    assert f"longer than {limit:,} bytes" in told
    assert "substr(content, 1, 4000)" in told
    monkeypatch.setattr(sandbox, "LONGEST", 10)
    monkeypatch.setattr(sandbox, "_IN_A_ROW", 1)
    turn(agent, "z" * LONG)
    told = refused(agent, "SELECT content FROM messages")
    assert told == (
        f"a text has {LONG:,} bytes, and query_db reads none of more than 250,010; "
        "leave it out: WHERE octet_length(content) <= 250010"
    )
    assert column(agent, "SELECT content FROM messages WHERE octet_length(content) <= 250010") == ["short"]
