"""Opening a database (SPEC 2, 9): foreign and read-only files, a full disk, several processes at once; queries."""

import ast
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from shutil import which
from typing import Any

import apsw
import pytest

import foldmark
import forked
from foldmark import stores
from foldmark.core import selections
from foldmark.core.agents import AgentRecord, Size
from foldmark.core.errors import StoreError
from foldmark.core.ports import INDEXED_KINDS
from foldmark.core.replay import birth
from foldmark.installation import source
from foldmark.log.doctor import examine
from foldmark.stores import postgres, sqlite
from foldmark.stores.folders import make_folder
from foldmark.stores.queries import queries, schema
from foldmark.stores.sqlite.store import SqliteStore
from foldmark.stores.waiting import PATIENCE
from foldmark.testing.compared import WHAT
from patience import LIMIT
from stored import connection

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 20
pytestmark = pytest.mark.usefixtures("made_databases")

NOON = 1_772_366_400
"""A time long ago."""

WRITER = Path(__file__).parent / "writer.py"
_DATABASES = (sqlite.__name__, postgres.__name__)


def fails(path: Path | str, **how: Any) -> str:
    """Open the database, which must fail with a one-line error, and return that line."""
    with pytest.raises(StoreError) as caught:
        foldmark.open(str(path), **how)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def conversation(path: Path, *texts: str) -> None:
    with foldmark.open(str(path)) as log:
        agent = log.agent("default")
        for text in texts:
            agent.append("user", text)


def texts(path: Path) -> list[str]:
    with foldmark.open(str(path), create=False) as log:
        assert list(examine(log)) == []
        return [message.content for message in log.agent("default").context().messages]


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the bytes and the modification time of every file."""
    return {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in folder.iterdir() if each.is_file()}


# Files that are not a Foldmark database


@pytest.mark.parametrize("content", [b"hello\n", b"x" * 5000, PNG, b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(content)
    before = files(tmp_path)
    assert "is not a Foldmark database" in fails(path)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (x)",
        "PRAGMA user_version = 3",
        "PRAGMA application_id = 7",
        "CREATE TABLE t (x); PRAGMA application_id = 7",
    ],
)
def test_another_applications_database_is_refused(tmp_path: Path, sql: str) -> None:
    path = tmp_path / "other.db"
    db = apsw.Connection(str(path))
    db.execute(sql)
    db.close()
    before = files(tmp_path)
    assert "not Foldmark's" in fails(path)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("number", "says"),
    [(1, "export its conversations with that one"), (999, f"Update this one, which was installed from {source()}")],
)
def test_a_database_of_another_schema_is_refused(tmp_path: Path, number: int, says: str) -> None:
    path = tmp_path / "log.db"
    conversation(path, "hello")
    db = apsw.Connection(str(path))
    db.execute(f"PRAGMA user_version = {number}")
    db.close()
    before = path.read_bytes()
    message = fails(path)
    assert f"schema {number}, this one knows {schema('sqlite').number}" in message
    assert says in message
    assert path.read_bytes() == before


def test_a_folder_is_not_opened_as_a_database(tmp_path: Path) -> None:
    assert "cannot be opened" in fails(tmp_path)


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    assert f"no folder {tmp_path / 'none'}" in fails(tmp_path / "none" / "log.db")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_an_error_when_reading(tmp_path: Path) -> None:
    assert "there is no database" in fails(tmp_path / "log.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_message_with_an_unprintable_file_name_stays_one_line(tmp_path: Path) -> None:
    """The name's control characters are escaped."""
    path = tmp_path / "two\nlines\x1b[31m.db"
    path.write_bytes(PNG)
    assert "two\\nlines\\x1b[31m.db" in fails(path)


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.touch()
    conversation(path, "hello")
    assert texts(path) == ["hello"]


@pytest.mark.parametrize("name", ["with space.db", "é%20?x=1#y.db", "file:log.db"])
def test_a_database_may_have_any_file_name(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    conversation(Path(name), "hello")
    assert [each.name for each in tmp_path.iterdir()] == [name]
    Path(name).chmod(0o444)
    assert texts(Path(name)) == ["hello"]


# Read-only files


@pytest.mark.parametrize("in_use", [False, True])
def test_a_read_only_file_is_read_and_not_written(tmp_path: Path, in_use: bool) -> None:
    """This holds with and without a WAL that another connection uses."""
    path = tmp_path / "log.db"
    conversation(path, "one")
    other = foldmark.open(str(path))
    if in_use:
        other.agent("default").append("user", "two")
    else:
        other.close()
    path.chmod(0o444)
    before = path.read_bytes()
    with foldmark.open(str(path)) as log:
        agent = log.agent("default")
        assert [message.content for message in agent.context().messages] == ["one", "two"][: 1 + in_use]
        for write in (lambda: agent.append("user", "x"), lambda: agent.do("/mark"), lambda: log.agent("new")):
            with pytest.raises(StoreError, match="read-only: nothing was recorded"):
                write()
        assert len(agent.context().messages) == 1 + in_use
    assert path.read_bytes() == before
    if in_use:
        other.close()


def test_a_journal_in_a_read_only_folder(tmp_path: Path) -> None:
    """SQLite reads a journal with an index that it writes beside it: the refusal names that reason."""
    folder = tmp_path / "medium"
    folder.mkdir()
    with foldmark.open(str(tmp_path / "log.db")) as log:
        log.agent("default").append("user", "one")
        for ending in ("", "-wal"):
            (folder / f"log.db{ending}").write_bytes((tmp_path / f"log.db{ending}").read_bytes())
    folder.chmod(0o555)
    # Root may write into any folder, but for this capability.
    root = os.access(folder, os.W_OK)
    if root and which("setpriv") is None:
        pytest.skip("root cannot leave its permissions here")
    prefix = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if root else []
    script = "import sys, foldmark; foldmark.open(sys.argv[1])"
    command = [*prefix, sys.executable, "-c", script, str(folder / "log.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    folder.chmod(0o755)
    said = done.stderr.splitlines()[-1]
    assert f"{folder / 'log.db'}-wal that a killed program left, and its folder is read-only" in said
    assert texts(folder / "log.db") == ["one"]


# Files that are removed or moved while they are open


@pytest.mark.parametrize("taken", [("", "-wal", "-shm"), ("",), ("-wal",)])
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("settled", [False, True])
def test_a_database_that_leaves_while_it_is_open(
    tmp_path: Path, taken: tuple[str, ...], replaced: bool, settled: bool
) -> None:
    """What would be recorded in a file that nobody opens is refused, until the file is back."""
    path, elsewhere = tmp_path / "log.db", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with foldmark.open(str(path)) as log:
        agent = log.agent("default")
        if settled:
            os.utime(tmp_path, (NOON, NOON))
        agent.append("user", "one")
        for ending in taken:
            file = Path(f"{path}{ending}")
            file.rename(elsewhere / file.name)
            if replaced:
                file.write_bytes(b"")
        for write in (lambda: agent.append("user", "x"), lambda: agent.do("/mark"), lambda: log.agent("new")):
            with pytest.raises(StoreError, match="moved or replaced while it was open: nothing was recorded"):
                write()
        assert [message.content for message in agent.context().messages] == ["one"]
        for ending in taken:
            (elsewhere / f"log.db{ending}").rename(f"{path}{ending}")
        agent.append("user", "two")
    assert texts(path) == ["one", "two"]


def test_the_journal_is_not_looked_at_while_nothing_changes_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux flushes a file more slowly once somebody has asked for its times."""
    path, looked, stat = tmp_path / "log.db", list[str](), os.stat
    with foldmark.open(str(path)) as log:
        agent = log.agent("default")
        os.utime(tmp_path, (NOON, NOON))
        agent.append("user", "one")

        def noted(file: str) -> os.stat_result:
            looked.append(file)
            return stat(file)

        monkeypatch.setattr(os, "stat", noted)
        agent.append("user", "two")
        monkeypatch.undo()
    assert looked == [str(path), str(tmp_path)]


def test_a_read_only_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(PNG)
    path.chmod(0o444)
    assert "is not a Foldmark database" in fails(path)


@pytest.mark.parametrize("in_use", [False, True])
def test_opening_and_reading_write_nothing(tmp_path: Path, in_use: bool) -> None:
    """SPEC 2: opening, reading and `context show`, with and without another connection to the database."""
    path = tmp_path / "log.db"
    conversation(path, "one")
    writer = foldmark.open(str(path))
    agent = writer.agent("default")
    agent.append("user", "two")
    agent.do("/mark M")
    agent.do("/fork")
    if not in_use:
        writer.close()
    written = {name for name in files(tmp_path) if not name.endswith("-shm")}
    before = {name: content for name, content in files(tmp_path).items() if name in written}
    with foldmark.open(str(path), create=False) as log:
        agent = log.agent("default")
        context = agent.context()
        assert len(context.messages) == 2
        assert [message.content for message in context.messages] == ["one", "two"]
        assert (context.state, context.scratchpad, len(context.segments)) == (None, None, 1)
        assert "two" in agent.do("/context show").text
        assert agent.do("/help").text
        assert list(examine(log)) == []
        for wrong in ("/restore 999", "/rewind NONE", "/nothing", "/mark a b"):
            with pytest.raises(foldmark.CommandError):
                agent.do(wrong)
    assert {name: content for name, content in files(tmp_path).items() if name in written} == before
    writer.close()


# A full disk


def test_a_full_database_records_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    conversation(path, "one")
    with foldmark.open(str(path)) as log:
        agent, db = log.agent("default"), connection(log)
        db.pragma("max_page_count", db.pragma("page_count") + 1)
        with pytest.raises(StoreError, match="disk is full: nothing was recorded") as caught:
            agent.append("user", "x" * 100_000)
        assert "\n" not in str(caught.value)

        def batch() -> None:
            with agent.batch():
                for _ in range(50):
                    agent.append("user", "x" * 1000)

        with pytest.raises(StoreError, match="disk is full"):
            batch()
        assert [message.content for message in agent.context().messages] == ["one"]
        db.pragma("max_page_count", 1_000_000)
        agent.append("user", "two" * 10_000)
        with agent.batch():
            agent.append("user", "three")
    assert texts(path) == ["one", "two" * 10_000, "three"]


def test_a_failed_commit_records_nothing(tmp_path: Path) -> None:
    """The agent appends again without reading its context first."""
    path = tmp_path / "log.db"
    conversation(path, "one")
    with foldmark.open(str(path)) as log:
        agent, db = log.agent("default"), connection(log)

        def batch() -> None:
            with agent.batch():
                agent.append("user", "lost")

        for write in (batch, lambda: agent.append("user", "lost"), lambda: agent.do("/mark M"), agent.end_turn):
            db.set_commit_hook(lambda: True)
            with pytest.raises(StoreError):
                write()
            db.set_commit_hook(None)
            agent.append("user", "and on")
    assert texts(path) == ["one", *["and on"] * 4]


def test_a_batch_that_met_a_full_disk_cannot_continue(tmp_path: Path) -> None:
    """SQLite rolls back the whole transaction, so later appends of the block must not be recorded alone."""
    path = tmp_path / "log.db"
    conversation(path, "one")
    with foldmark.open(str(path)) as log:
        agent, db = log.agent("default"), connection(log)
        db.pragma("max_page_count", db.pragma("page_count") + 1)

        def stubborn() -> None:
            with agent.batch():
                for _ in range(50):
                    try:
                        agent.append("user", "x" * 1000)
                    except (StoreError, apsw.Error):
                        db.pragma("max_page_count", 1_000_000)

        with pytest.raises(StoreError):
            stubborn()
        agent.append("user", "two")
    assert texts(path) == ["one", "two"]


def test_errors_inside_a_batch_are_store_errors(tmp_path: Path) -> None:
    """`ports.Store`: every method raises StoreError when the database fails."""
    path = tmp_path / "log.db"
    conversation(path, "one")
    seen: list[type[BaseException]] = []
    with foldmark.open(str(path)) as log:
        agent, db = log.agent("default"), connection(log)
        db.pragma("max_page_count", db.pragma("page_count") + 1)

        def batch() -> None:
            with agent.batch():
                try:
                    agent.append("user", "x" * 100_000)
                except Exception as error:
                    seen.append(type(error))
                    raise

        with pytest.raises(StoreError, match="disk is full"):
            batch()
    assert seen == [StoreError]


def test_a_fork_on_a_full_disk_leaves_no_child(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    conversation(path, "one")
    with foldmark.open(str(path)) as log:
        agent, db = log.agent("default"), connection(log)
        agent.record("scratchpad", "x" * 100_000)
        db.pragma("max_page_count", db.pragma("page_count") + 1)
        with pytest.raises(StoreError, match="disk is full"):
            agent.do("/fork")
        db.pragma("max_page_count", 1_000_000)
        assert agent.children == []
        child = log.agent(agent.do("/fork").data["child"])
        assert [message.content for message in child.context().messages] == ["one"]
        assert list(examine(log)) == []


def test_a_rolled_back_agent_is_forgotten(tmp_path: Path) -> None:
    """A full disk makes SQLite roll back automatically. The next agent must not be mistaken for the lost one."""
    path = str(tmp_path / "log.db")
    with foldmark.open(path) as log, foldmark.open(path) as other:
        agent, store, db = log.agent("default"), log.store, connection(log)
        db.pragma("max_page_count", db.pragma("page_count") + 1)

        def bear() -> None:
            with store.write() as transaction:
                transaction.create_agent(
                    AgentRecord("never", None, agent.id, 1, "2026-03-01T12:00:00.000000Z"),
                    birth("never", 1),
                    Size(0, 0),
                )
                transaction.save_fold(birth("never", 1, pins=tuple(range(100_000))), Size(0, 0))

        with pytest.raises(StoreError, match="disk is full"):
            bear()
        event_id = other.agent("next").append("user", "hello")
        with store.read() as moment:
            event = selections.event(moment, event_id)
        assert event is not None
        assert event.agent_id == other.agent("next").id


FILE_LIMIT = textwrap.dedent("""
    import resource, sys
    import foldmark
    with foldmark.open(sys.argv[1]) as log:
        agent = log.agent("default")
        ids = [agent.append("user", "before")]
        sys.dont_write_bytecode = True  # Python would cut the files short that it compiles modules into
        allowed, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (900_000, most))
        try:
            while True:
                ids.append(agent.append("user", "x" * 20_000))
        except foldmark.StoreError as error:
            print(type(error).__name__, error)
        agent.context()
        print(len(agent.context().messages), len(ids))
        resource.setrlimit(resource.RLIMIT_FSIZE, (allowed, most))
        agent.append("user", "after")
""")


def test_a_file_that_cannot_grow_is_treated_as_a_full_disk(tmp_path: Path) -> None:
    """Writes fail in the middle of the WAL, as on a full disk; appending works again when there is room."""
    path = tmp_path / "log.db"
    done = forked.run([sys.executable, "-c", FILE_LIMIT, str(path)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    error, counts = done.stdout.splitlines()
    assert error.startswith("StoreError ")
    assert "Nothing was recorded" in error or "nothing was recorded" in error
    there, told = map(int, counts.split())
    assert there == told > 5
    found = texts(path)
    assert [found[0], found[-1], len(found)] == ["before", "after", told + 1]


# Several processes at once


def together(path: Path, names: list[str]) -> list[list[str]]:
    """Start a writer for each name at the same time. Return the lines that each prints."""
    processes = [
        forked.Popen(
            [sys.executable, str(WRITER), str(path), name, "5"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    return [process.communicate("0\n")[0].splitlines() for process in processes]


def test_eight_processes_create_one_database(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    for said in together(path, [f"agent-{n}" for n in range(8)]):
        assert said[0] == "ready"
        assert len(said) == 6
    with foldmark.open(str(path), create=False) as log:
        assert len(log.agents()) == 8
        assert all(len(agent.context().messages) == 5 for agent in log.agents())
        assert list(examine(log)) == []


@pytest.fixture
def hooks() -> Iterator[list[Any]]:
    """apsw's hooks for new connections, restored after the test."""
    before = list(apsw.connection_hooks)
    yield apsw.connection_hooks
    apsw.connection_hooks[:] = before


@pytest.mark.parametrize("pragma", ["user_version", "application_id", "schema_version", "journal_mode"])
def test_another_process_creates_the_database_at_the_same_moment(tmp_path: Path, hooks: list[Any], pragma: str) -> None:
    """The other process creates it just before this one reads `pragma`; this one started without a file."""
    path, asked = tmp_path / "log.db", list[str]()

    def trace(_: object, sql: str, __: object) -> bool:
        if pragma in sql and not asked:
            asked.append(sql)
            conversation(path, "from another process")
        return True

    def hook(db: apsw.Connection) -> None:
        if not asked:
            hooks.clear()
            db.exec_trace = trace

    hooks.append(hook)
    with foldmark.open(str(path)) as log:
        assert asked
        assert [m.content for m in log.agent("default").context().messages] == ["from another process"]


def test_two_processes_create_one_conversation(tmp_path: Path) -> None:
    """`Log.agent` gets or creates: the second process gets the conversation of the first (SPEC 9)."""
    path = tmp_path / "log.db"
    with foldmark.open(str(path)) as log, foldmark.open(str(path)) as other:
        clock = log.clock

        def late() -> str:
            other.agent("default")
            return clock()

        log.clock = late
        assert log.agent("default") == other.agent("default")
        assert len(log.agents()) == 1


def test_a_database_that_stays_locked_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    conversation(path, "one")
    with foldmark.open(str(path)) as log:
        agent = log.agent("default")
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        before = PATIENCE.set(0.01)
        with pytest.raises(StoreError, match="locked by another program") as caught:
            agent.append("user", "two")
        assert caught.value.passes
        assert f"process {os.getpid()})" in str(caught.value) or not Path("/proc/locks").exists()
        PATIENCE.reset(before)
        assert [message.content for message in agent.context().messages] == ["one"]
        other.execute("ROLLBACK")
        other.close()
        agent.append("user", "two")
    assert texts(path) == ["one", "two"]


def test_others_read_while_a_write_waits_for_another_program(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    conversation(path, "one")
    with foldmark.open(str(path)) as log, ThreadPoolExecutor(1) as thread:
        agent = log.agent("default")
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        waiting = thread.submit(agent.append, "user", "two")
        for _ in range(3):
            assert [message.content for message in agent.context().messages] == ["one"]
        assert not waiting.done()
        other.execute("ROLLBACK")
        other.close()
        assert waiting.result(LIMIT)
    assert texts(path) == ["one", "two"]


# Queries


@cache
def nodes(module: Any) -> list[ast.AST]:
    return list(ast.walk(ast.parse(inspect.getsource(module))))


def strings(module: Any) -> set[str]:
    return {node.value for node in nodes(module) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def named(module: Any) -> set[str]:
    """Return the names in `run("name", ...)` and the like, `sql["name"]` and `STATEMENTS["name"]`."""
    found = set()
    for node in nodes(module):
        match node:
            case ast.Call(
                func=ast.Attribute(
                    attr="_run" | "run" | "write" | "rows" | "events" | "messages" | "agents" | "run_alone"
                )
                | ast.Name(id="run" | "write"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                found.add(name)
            case ast.Subscript(
                value=ast.Attribute(attr="_sql" | "sql") | ast.Name(id="STATEMENTS"),
                slice=ast.Constant(value=str(name)),
            ):
                found.add(name)
    return found


def below(package: Any) -> list[Any]:
    """Return all modules of a package, including those of its subpackages."""
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return [importlib.import_module(each.name) for each in found]


@pytest.mark.parametrize("database", [sqlite, postgres], ids=["sqlite", "postgres"])
def test_every_query_exists_and_is_used(database: Any) -> None:
    shared = [module for module in below(stores) if not module.__name__.startswith(_DATABASES)]
    modules = [*shared, *below(database)]
    used = set[str]().union(*map(named, modules))
    there = queries(database.__name__.rpartition(".")[2]).keys()
    selections = {name for name in there if name.partition(" ")[0] in ("select", "locate")}
    assert {name for name in used if name.islower()} <= there
    assert there - selections <= set[str]().union(*map(strings, modules))
    assert {*INDEXED_KINDS, *(name.split()[1] for name in selections)} >= set(WHAT)
    assert len(used) > 15


def test_every_query_is_described() -> None:
    for file in Path(stores.__file__).parent.rglob("queries.sql"):
        text = file.read_text("utf-8")
        names = re.findall(r"-- name: (.*)\n", text)
        assert re.findall(r"-- name: (.*)\n(?:-- .+\n)*-- .+\.\n", text) == names
        assert len(names) == len({*names}) > 50


@pytest.fixture(scope="module")
def empty() -> Iterator[apsw.Connection]:
    """An empty database, used to plan queries."""
    with foldmark.open(":memory:") as log:
        yield connection(log)


@pytest.mark.parametrize(
    "name", [each for each in queries("sqlite") if not each.startswith("wrong_") and each != "coverage"]
)
def test_no_query_reads_all_events(empty: apsw.Connection, name: str) -> None:
    """L3: every query finds its rows by an index; a scan of `events` would cost the whole history.

    The queries of `foldmark doctor` (wrong_...) and `foldmark index` (coverage) read everything on purpose.
    """
    sql = queries("sqlite")[name]
    unnamed = {number or str(place) for place, number in enumerate(re.findall(r"\?(\d*)", sql))}
    bindings: Any = dict.fromkeys(re.findall(r":(\w+)", sql), 1) or (1,) * len(unnamed)
    plan = [row[3] for row in empty.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)]
    aliases = {"events", *re.findall(r"\bevents (?!WHERE|ORDER|LIMIT|SET)(?:AS )?(\w+)", sql)}
    assert not [step for step in plan if re.match(rf"SCAN ({'|'.join(aliases)})\b", step)]
    assert not [step for step in plan if "TEMP B-TREE" in step]


def test_no_file_is_left_next_to_a_closed_database(tmp_path: Path) -> None:
    conversation(tmp_path / "log.db", "one")
    assert [each.name for each in tmp_path.iterdir()] == ["log.db"]


# Access by other users


@pytest.fixture
def umask() -> Iterator[None]:
    """A umask that removes no permissions from new files."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}


def test_only_this_user_may_read_a_database(tmp_path: Path, umask: None) -> None:
    with foldmark.open(tmp_path / "log.db", settings={}) as log:
        log.agent("default").append("user", "secret")
        assert modes(tmp_path) == {"log.db": 0o600, "log.db-wal": 0o600, "log.db-shm": 0o600}
        assert not log.store.narrowed


def test_a_database_that_others_can_read_is_made_private_once(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with foldmark.open(path, settings={}) as log:
        log.agent("default").append("user", "secret")
        for each in tmp_path.iterdir():
            each.chmod(0o664)
        with foldmark.open(path, settings={}) as other:
            assert other.store.narrowed
            assert set(modes(tmp_path).values()) == {0o600}
        with foldmark.open(path, settings={}) as other:
            assert not other.store.narrowed
    path.chmod(0o444)
    with foldmark.open(path, settings={}) as log:
        assert not log.store.narrowed, "whoever took away the right to write wants it to be read"
    assert modes(tmp_path) == {"log.db": 0o444}


def test_a_foreign_database_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(PNG)
    path.chmod(0o644)
    fails(path)
    assert modes(tmp_path) == {"picture.png": 0o644}


def test_only_created_folders_are_made_private(tmp_path: Path, umask: None) -> None:
    (tmp_path / "there").mkdir(0o755)
    make_folder(tmp_path / "there" / "a" / "b")
    found = [tmp_path / "there", tmp_path / "there" / "a", tmp_path / "there" / "a" / "b"]
    assert [each.stat().st_mode & 0o777 for each in found] == [0o755, 0o700, 0o700]


def test_a_commit_on_macos_flushes_the_disks_own_cache(tmp_path: Path) -> None:
    """SQLite uses F_FULLFSYNC there if these pragmas are set."""
    with foldmark.open(tmp_path / "log.db", settings={}) as log:
        assert isinstance(log.store, SqliteStore)
        assert [connection(log).pragma(each) for each in ("synchronous", "fullfsync", "checkpoint_fullfsync")] == [
            2,
            1,
            1,
        ]
