"""`foldmark search` finds words in archived sessions and in conversations together [SPEC 7, 8]."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from archive_place import Home
from session_records import REAL_FILES, assistant, call, jsonl, result, user

import foldmark
from foldmark.cli.program import run
from foldmark.cli.search import hits_text
from foldmark.core.codec import utc
from foldmark.core.errors import CommandError
from foldmark.core.search import ANY, Filters, RankedMessage, SearchResult, TermQuery
from foldmark.formats.places import NoSessionError
from foldmark.log.search import search_everything
from foldmark.recall.query import read as read_query
from foldmark.sessions.archive.index import IndexFileError, open_index, remove_messages
from foldmark.sessions.archive.reading import read
from foldmark.sessions.archive.searching import opened
from foldmark.sessions.archive.storing import put
from foldmark.sessions.file_lock import locked

needs_samples = pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")


@dataclass
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def program(home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """A function that runs a command line in this home."""
    home.enter(monkeypatch)

    def program(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = run(list(arguments))
        return Outcome(code, *capsys.readouterr())

    return program


def search(
    query: str, limit: int = 10, filters: Filters = ANY, *, archive: Path, log: foldmark.Log | None = None
) -> list[SearchResult]:
    with opened(archive, filters) as archived:
        return search_everything(query, limit, filters, log=log, archive=archived)


def lines(hits: list[SearchResult]) -> list[tuple[str, int | None]]:
    return [(hit.id, hit.line) for hit in hits]


def found(home: Home, query: str, limit: int = 10, **filters: Any) -> list[tuple[str, int | None]]:
    return lines(search(query, limit, Filters(**filters), archive=home.archive))


def some_sessions(home: Home) -> None:
    home.session(
        "aa11",
        user("How do we migrate the database schema?", "u1", cwd="/home/me/app"),
        assistant([{"type": "text", "text": "With a script."}, call("c1", "Bash", command="alembic upgrade")], "a1"),
        user([result("c1", "upgraded the schema to café")], "u2"),
    )
    home.session("bb22", user("A schema of colours", "v1", timestamp="2025-12-24T12:00:00Z"), project="-home-me-paint")
    home.sync()


def test_sessions_are_found_by_words(home: Home) -> None:
    some_sessions(home)
    assert found(home, "database") == [("aa11", 1)]
    assert found(home, "migrations") == [("aa11", 1)], "words of one family"
    assert found(home, '"schema of colours"') == [("bb22", 1)]
    assert found(home, "alemb*") == [("aa11", 2)]
    assert found(home, "cafe") == [("aa11", 3)]
    assert found(home, "database colours") == [("aa11", 1), ("bb22", 1)] or found(home, "database colours") == [
        ("bb22", 1),
        ("aa11", 1),
    ]
    assert found(home, "database migrate colours")[0] == ("aa11", 1)
    assert found(home, "nothing-of-this-kind") == []


@pytest.mark.parametrize(
    "query", ["schema AND", '"schema', "schema NOT (", "(schema)", "^schema", "schema*:", "-schema"]
)
def test_no_query_is_read_as_syntax(home: Home, query: str) -> None:
    some_sessions(home)
    assert len(found(home, query)) == 3
    assert found(home, f"text:{query}") is not None


def test_a_query_without_a_word_is_refused(home: Home) -> None:
    some_sessions(home)
    with pytest.raises(CommandError, match="no word"):
        found(home, '"("')


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"since": utc("2025-12-01")}, [("bb22", 1)]),
        ({"before": utc("2025-12-01")}, [("aa11", 1), ("aa11", 3)]),
        ({"since": utc("2025-12-24T12:00:00Z"), "before": utc("2025-12-24T12:00:00Z")}, []),
        ({"project": "PAINT"}, [("bb22", 1)]),
        ({"project": "me/app"}, [("aa11", 1), ("aa11", 3)]),
        ({"agent": "aa"}, [("aa11", 1), ("aa11", 3)]),
        ({"agent": "a%"}, []),
        ({"tool": "bash"}, [("aa11", 3)]),
        ({"role": "user"}, [("aa11", 1), ("bb22", 1)]),
        ({"role": "tool_result", "tool": "BASH", "agent": "aa11"}, [("aa11", 3)]),
    ],
)
def test_filters(home: Home, filters: dict[str, Any], expected: list[tuple[str, int]]) -> None:
    some_sessions(home)
    assert sorted(found(home, "schema", **filters)) == expected


@pytest.mark.parametrize("part", ["Übung", "übung", "ÜBUNG/straße", "STRASSE"])
def test_a_project_with_letters_beyond_ascii(home: Home, part: str) -> None:
    some_sessions(home)
    home.session("cc33", user("A schema", "w1", cwd="/home/me/Übung/Straße"))
    home.sync()
    assert found(home, "schema", project=part) == [("cc33", 1)]


def test_a_limit(home: Home) -> None:
    home.session("a", *[user(f"schema {number}", f"u{number}") for number in range(50)])
    home.sync()
    assert len(found(home, "schema", 7)) == 7
    assert len(found(home, "schema", 1000)) == 50


def test_a_message_is_found_once(home: Home) -> None:
    """Copies are in a trimmed session, a rewritten one and the other archive; the hit is the whole message."""
    long = "schema " + "and other words " * 400
    original = [user("go", "u1"), assistant([call("c1")], "a1"), user([result("c1", long)], "u2")]
    path = home.session("aa", *original)
    home.sync()
    cut = [
        {**original[0], "trim_metadata": {"parent_file": str(path)}},
        original[1],
        user([result("c1", "schema")], "u2"),
    ]
    home.session("00-trimmed", *cut)
    path.write_bytes(jsonl(user("other beginning", "u0"), *original))
    theirs = home.folder / ".config/superpowers/conversation-archive/-p"
    theirs.mkdir(parents=True)
    (theirs / "zz.jsonl").write_bytes(jsonl(*original))
    home.sync()
    assert len(home.index()["files"]) == 4
    (hit,) = search("schema", archive=home.archive)
    assert (hit.id, hit.line) == ("aa", 3)
    assert hit.file == str(home.archive / "claude/-home-me-app/aa.jsonl")


def test_calls_of_several_sessions_may_have_one_id(home: Home) -> None:
    home.session("a", user([result("c1", "schema one")], "u1"))
    home.session("b", user([result("c1", "schema two")], "u2"))
    home.sync()
    assert len(found(home, "schema")) == 2


def test_messages_with_all_words_come_first(home: Home) -> None:
    home.session("a", user("alpha beta", "u1"), user("beta alpha", "u2"))
    home.sync()
    with foldmark.open(":memory:") as log:
        log.agent("diary").append("user", "alpha")
        hits = search("alpha beta", archive=home.archive, log=log)
    assert [hit.source for hit in hits] == ["claude", "claude", "conversation"]


def test_hits_in_deleted_files_are_left_out(home: Home) -> None:
    some_sessions(home)
    (home.archive / "claude/-home-me-app/aa11.jsonl").unlink()
    assert found(home, "schema") == [("bb22", 1)]


def test_conversations_and_sessions_together(home: Home) -> None:
    some_sessions(home)
    with foldmark.open(":memory:") as log:
        agent = log.agent("diary")
        agent.append("user", "Which schema has the database?")
        agent.append_tool_call("grep", {"pattern": "schema"}, call_id="c1", dialect="openai")
        agent.append_tool_result("c1", "schema.sql", dialect="openai")
        agent.end_turn()
        agent.do("/clear")
        hits = search("schema database", archive=home.archive, log=log)
        assert {(hit.source, hit.all_words) for hit in hits[:2]} == {("claude", True), ("conversation", True)}
        assert {hit.all_words for hit in hits[2:]} == {False}
        (own,) = [hit for hit in hits[:2] if hit.source == "conversation"]
        assert own == SearchResult(
            "conversation",
            agent.id,
            "diary",
            "user",
            None,
            own.at,
            True,
            own.score,
            "Which schema has the database?",
            ((6, 12), (21, 29)),
            event_id=1,
            visible=False,
        )
        sources = [hit.source for hit in search("schema", archive=home.archive, log=log)]
        assert sorted(sources) == ["claude"] * 3 + ["conversation"] * 3
        of_tool = search("schema", 10, Filters(tool="GREP"), archive=home.archive, log=log)
        assert {(hit.role, hit.tool) for hit in of_tool} == {("tool_call", "grep"), ("tool_result", "grep")}
        assert len(search("schema", 10, Filters(agent=agent.id[:6]), archive=home.archive, log=log)) == 3
        assert search("schema", 10, Filters(project="DIA", role="user"), archive=home.archive, log=log)[0].event_id == 1
        assert len(search("schema", 2, archive=home.archive, log=log)) == 2


def test_hits_are_highlighted_and_control_characters_removed() -> None:
    hit = SearchResult(
        "claude", "a", "/p", "user", None, None, True, 1, "the schemas \x1b[31m of it", ((4, 11),), "/p/a.jsonl", 3
    )
    bold = hits_text([hit], bold=True)
    assert "the \x1b[1mschemas\x1b[0m \\x1b[31m of it" in bold
    plain = hits_text([hit], bold=False)
    assert plain.splitlines() == [
        "no date  /p  Claude Code session a",
        "  user: the schemas \\x1b[31m of it",
        "    /p/a.jsonl:3",
    ]


def test_reading_around_a_line(home: Home) -> None:
    records = [user(f"number {number} " + "x" * 3000, f"u{number}") for number in range(1, 21)]
    path = home.session("aa11", *records[:10], {"type": "progress"}, *records[10:])
    home.sync()
    passage = read(home.archive, "aa11:13", around=2)
    assert [each.line for each in passage.records] == [10, 12, 13, 14, 15]
    assert [each.asked for each in passage.records] == [False, False, True, False, False]
    assert passage.records[2].messages[0].text == "number 12 " + "x" * 3000
    assert read(home.archive, f"{path}:13", around=2).records == passage.records, "a file that is not archived"
    assert [each.line for each in read(home.archive, "aa:1", around=0).records] == [1]
    assert len(read(home.archive, "aa11").records) == 20
    with pytest.raises(NoSessionError, match=r"line 11 .* the nearest lines with text are 7, 8, 9, 10, 12, 13, 14"):
        read(home.archive, "aa11:11")
    with pytest.raises(NoSessionError, match="has no searchable text"):
        read(home.archive, "aa11:99")


def test_reading_a_missing_line_is_an_error(home: Home) -> None:
    with pytest.raises(IndexFileError, match="foldmark sync"):
        read(home.archive, "aa11:1")
    home.session("aa11", user("one"))
    home.session("aa12", user("two"))
    home.sync()
    with pytest.raises(NoSessionError, match="several session ids begin with 'aa1': aa11, aa12"):
        read(home.archive, "aa1")
    for nothing in ("bb", "", ":5"):
        with pytest.raises(NoSessionError):
            read(home.archive, nothing)


def test_the_commands(home: Home, program: Callable[..., Outcome]) -> None:
    nothing = program("search", "schema")
    assert nothing.code == 1
    assert "`foldmark sync`" in nothing.err
    assert "`foldmark chat`" in nothing.err
    home.session("aa11", user("The schema", "u1", cwd="/home/me/app"))
    told = program("sync")
    assert told.out == f"1 session: 1 new\n1 message indexed in {home.archive}\n"
    assert json.loads(program("sync", "--json").out)["unchanged"] == 1
    assert program("sync", "--quiet").out == ""
    hits = json.loads(program("search", "schema", "--json").out)
    assert [(hit["file"], hit["line"]) for hit in hits["hits"]] == [
        (str(home.archive / "claude/-home-me-app/aa11.jsonl"), 1)
    ]
    shown = program("search", "the", "schema")
    assert shown.out.splitlines()[-1].strip() == f"{home.archive}/claude/-home-me-app/aa11.jsonl:1"
    assert program("search", "--read", shown.out.splitlines()[-1].strip()).out.endswith(
        "user, 2025-10-01 10:00:\nThe schema\n"
    )
    assert (
        json.loads(program("search", "--read", "aa11:1", "--json").out)["records"][0]["messages"][0]["text"]
        == "The schema"
    )
    assert program("search").code == 2
    assert "is not a date" in program("search", "schema", "--since", "soon").err
    assert program("search", "nowhere").out == "No messages match.\n"
    assert "filters" in program("search", "schema", "--since", "2030-01-01").out
    for words in (["--read", "aa11:1", "the"], ["--read", "aa11:1", "--tool", "Bash"], ["the", "--around", "3"]):
        wrong = program("search", *words)
        assert (wrong.code, wrong.out) == (2, "")
        assert "--read" in wrong.err
    assert program("search", "--read", "nothing:1").code == 2


def test_a_log_without_an_archive(home: Home, program: Callable[..., Outcome]) -> None:
    with foldmark.open(str(home.folder / "log.db")) as log:
        log.agent("diary").append("user", "The schema")
    shown = program("search", "schema")
    assert "diary:1\n" in shown.out
    assert "`foldmark sync`" in shown.err


def test_problems_are_reported(home: Home, program: Callable[..., Outcome]) -> None:
    home.session("aa11", user("one"))
    (home.archive / "claude/-home-me-app/aa11.jsonl").mkdir(parents=True)
    told = program("sync", "--quiet")
    assert (told.code, told.out) == (1, "")
    assert "aa11.jsonl" in told.err
    assert program("sync", str(home.folder / "none")).code == 2


def test_excluded_by_the_environment(
    home: Home, program: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    home.session("aa11", user("one", cwd="/home/me/app"))
    monkeypatch.setenv("FOLDMARK_SYNC_EXCLUDE", "/elsewhere, /home/me")
    assert program("sync").out.startswith("1 session: nothing new; 1 excluded")
    (home.folder / ".foldmark.toml").write_text('[context]\nsync_exclude = ["/"]\n')
    assert "which of your sessions are kept" in program("sync").err


@needs_samples
def test_the_real_samples_are_found_as_grep_finds_them(home: Home) -> None:
    home.samples()
    home.sync()
    for word in ("prisma", "sidebar", "pagination", "ticket"):
        hits = search(word, 1000, archive=home.archive)
        assert hits
        for hit in hits:
            assert hit.file
            line = Path(hit.file).read_bytes().split(b"\n")[(hit.line or 0) - 1]
            assert word[:5].encode() in line.lower()
    grep = subprocess.run(
        ["grep", "-rlw", "prisma", "--include=*.jsonl", home.archive], capture_output=True, text=True, check=True
    )
    assert {hit.file for hit in search("prisma", 1000, archive=home.archive)} <= set(grep.stdout.splitlines())


def test_sessions_archived_by_a_hook_are_found_without_a_sync(home: Home, program: Callable[..., Outcome]) -> None:
    put(home.session("aa11", user("The schema", "u1")), home.archive)
    (hit,) = json.loads(program("search", "schema", "--json").out)["hits"]
    assert hit["file"] == str(home.archive / "claude/-home-me-app/aa11.jsonl")
    put(home.session("bb22", user("The window", "u1")), home.archive)
    assert {each["session_id"] for each in json.loads(program("sessions", "--json").out)["others"]} == {"aa11", "bb22"}


def test_sessions_removed_during_a_search_are_skipped(home: Home) -> None:
    some_sessions(home)
    with opened(home.archive) as archive:
        assert archive is not None
        ids = archive.best([TermQuery("any", read_query("schema").terms)], 10)
        with closing(open_index(home.archive, write=True)) as db:
            for (file,) in db.execute("SELECT id FROM files").fetchall():
                remove_messages(db, int(str(file)))
        places = [RankedMessage(0, id, 1.0, True, "") for id in ids]
        assert len(ids) == 3
        assert (archive.around(ids, 2), archive.results(places)) == ([], [None] * 3)


def test_a_search_does_not_wait_for_another_indexing_process(home: Home, program: Callable[..., Outcome]) -> None:
    put(home.session("aa11", user("The schema", "u1")), home.archive)
    home.sync()
    put(home.session("bb22", user("Another schema", "u2")), home.archive)
    with (home.archive / "index.lock").open("rb") as file:
        assert locked(file.fileno())
        (hit,) = json.loads(program("search", "schema", "--json").out)["hits"]
    assert hit["id"] == "aa11"
    assert len(json.loads(program("search", "schema", "--json").out)["hits"]) == 2


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the system does not say how much is read")
def test_only_the_needed_lines_of_a_long_session_are_read(home: Home) -> None:
    filler = [user(f"filler {number} {'and more of it ' * 60}", f"f{number}") for number in range(3000)]
    home.session("aa11", *filler[:1500], user("Look at the quartz.", "q"), *filler[1500:])
    home.sync()

    def read_so_far() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    found(home, "quartz")  # the first search also imports modules
    before = read_so_far()
    assert found(home, "quartz") == [("aa11", 1501)]
    assert read_so_far() - before < 1_000_000, "of 3 MB"


def test_tools_that_repeat_other_messages_are_not_found(home: Home) -> None:
    """As in the log: what a search or a query answered would be found in place of the messages themselves."""
    calls = [call("c1", "mcp__foldmark__recall", query="zebra"), call("c2", "Bash", command="echo zebra")]
    home.session(
        "aa11",
        user("Where is the zebra?", "u1", cwd="/home/me/app"),
        assistant(calls, "a1"),
        user([result("c1", "zebra, said earlier"), result("c2", "zebra")], "u2"),
    )
    home.sync()
    assert {(hit.role, hit.tool) for hit in search("zebra", archive=home.archive)} == {
        ("user", None),
        ("tool_call", "Bash"),
        ("tool_result", "Bash"),
    }
