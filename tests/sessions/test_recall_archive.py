"""Archived sessions in `/recall` and in the model's `recall` (SPEC 7)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from archive_place import Home
from session_records import assistant, call, jsonl, result, user

import foldmark
from foldmark.core.errors import CommandError
from foldmark.core.search import ANY, Filters
from foldmark.log.search import search_everything
from foldmark.sessions.archive import recall
from foldmark.sessions.archive.searching import opened
from foldmark.sessions.archive.storing import put

A, B = "0a0a0a0a-1111-4111-8111-111111111111", "0b0b0b0b-2222-4222-8222-222222222222"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path / "home")
    home.enter(monkeypatch)
    return home


@pytest.fixture
def log(home: Home) -> Iterator[foldmark.Log]:
    with foldmark.open(home.folder / "log.db") as log:
        yield log


@pytest.fixture
def agent(log: foldmark.Log) -> foldmark.Agent:
    return log.agent("diary")


def sessions(home: Home) -> None:
    """Archive two sessions, the first by a sync, the second like a hook."""
    home.session(
        A,
        user("How do we migrate the zebra schema?", "u1", cwd="/home/me/app"),
        assistant([call("c1", "Bash", command="alembic zebra")], "a1"),
        user([result("c1", "zebra upgraded")], "u2"),
    )
    home.sync()
    put(home.session(B, user("Colours", "v0"), user("A zebra of colours", "v1", cwd="/home/me/paint")), home.archive)


def test_archived_sessions_are_found_along_with_messages(home: Home, agent: foldmark.Agent) -> None:
    sessions(home)
    agent.append("user", "A zebra crossing")
    agent.end_turn()
    told = agent.do("/recall zebra")
    found = {each["id"]: each for each in told.data["sessions"]}
    assert {id: len(each["hits"]) for id, each in found.items()} == {A: 3, B: 1}
    assert found[B]["place"] == f"{B}:2"
    assert sorted(each["rank"] for each in [*told.data["runs"], *found.values()]) == [1, 2, 3]
    lines = told.text.splitlines()
    assert lines[0] == ("Found 1 message in 1 run of turns, 4 messages in 2 archived sessions, the best first: zebra")
    at = lines.index(f"- October 1, 2025: /home/me/paint, Claude Code session {B}")
    assert lines[at + 1 : at + 3] == ["    user: A zebra of colours", f"    foldmark search --read {B}:2"]
    assert told.data["missing"] == []
    best = lines[lines.index(f"- October 1, 2025: /home/me/app, Claude Code session {A}") + 2]
    assert best.startswith(f"    foldmark search --read {A}:")
    assert " (also lines " in best


def test_filters_apply_to_archived_sessions(home: Home, agent: foldmark.Agent) -> None:
    sessions(home)

    def ids(options: str) -> list[str]:
        return sorted(each["id"] for each in agent.do(f"/recall zebra {options}").data["sessions"])

    assert ids("") == [A, B]
    assert ids("--project PAINT") == [B]
    assert ids("--tool bash") == [A]
    assert ids("--agent 0b0b") == [B]
    assert ids("--before 2020-01-01") == []
    assert ids("--visible") == ids("--forgotten") == []
    agent.append("user", "A zebra crossing")
    alone = agent.do("/recall zebra --archived")
    assert (len(alone.data["sessions"]), alone.data["runs"]) == (2, [])
    assert "zebra (archived sessions)" in alone.text.splitlines()[0]


def test_a_session_in_several_files_is_named_by_the_right_one(home: Home, agent: foldmark.Agent) -> None:
    path = home.session(A, user("zebra first", "u1"))
    home.sync()
    path.write_bytes(jsonl(user("other", "u2"), user("more", "u3"), user("a giraffe", "u4")))
    home.sync()
    (first,) = agent.do("/recall zebra").data["sessions"]
    assert first["place"] == f"{A}:1"
    assert "\n> line 1, user, 2025-10-01 10:00:\nzebra first" in agent.call_tool("recall", {"around": first["place"]})
    (second,) = agent.do("/recall giraffe").data["sessions"]
    assert second["place"] == f"{home.archive}/claude/-home-me-app/{A}.2.jsonl:3"
    assert "\na giraffe" in agent.call_tool("recall", {"around": second["place"]})


def test_a_conversation_of_the_same_name(home: Home, log: foldmark.Log, agent: foldmark.Agent) -> None:
    home.session("agent-7", user("zebra", "u1"))
    home.sync()
    same = log.agent("agent-7")
    same.append("user", "nothing")
    (found,) = agent.do("/recall zebra").data["sessions"]
    assert found["place"].endswith("/agent-7.jsonl:1")
    assert "\nzebra" in agent.call_tool("recall", {"around": found["place"]})
    assert "\nnothing" in agent.call_tool("recall", {"around": "agent-7:1"})


def test_an_unusable_archive_is_reported(home: Home, agent: foldmark.Agent) -> None:
    sessions(home)
    agent.append("user", "A zebra crossing")
    agent.end_turn()
    (home.archive / "index.db").write_bytes(b"no database at all" * 500)
    (home.archive / "index.db.damaged").mkdir()  # so that the damaged index cannot be set aside
    told = agent.do("/recall zebra")
    assert len(told.data["runs"]) == 1
    assert told.data["sessions"] == []
    assert told.text.splitlines()[-1].startswith("Archived sessions were not searched: ")
    assert "Archived sessions were not searched" in agent.call_tool("recall", {"query": "zebra"})
    with pytest.raises(CommandError, match="there is no word to search for"):
        agent.do("/recall ?!")


def test_sessions_that_are_not_indexed_yet_are_reported(
    home: Home, agent: foldmark.Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions(home)
    put(home.session("0c", *[user(f"zebra {n}", f"w{n}") for n in range(5)]), home.archive)
    monkeypatch.setattr(recall, "INDEXING", -1.0)
    told = agent.do("/recall zebra")
    assert A in {each["id"] for each in told.data["sessions"]}
    assert told.text.splitlines()[-1].endswith(
        "bytes of archived sessions are not indexed yet; the next search goes on with that."
    )
    monkeypatch.undo()


def test_logs_in_memory_and_with_own_settings_search_no_archive(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log in memory is for experiments, and a mapping of settings excludes the settings of the machine."""
    sessions(home)
    for path, settings in ((":memory:", None), (str(home.folder / "b.db"), {})):
        with foldmark.open(path, settings=settings) as log:
            agent = log.agent("a")
            assert agent.do("/recall zebra").data["sessions"] == []
            with pytest.raises(CommandError, match="no session is archived here"):
                agent.call_tool("recall", {"around": f"{A}:1"})
    with foldmark.open(home.folder / "c.db") as log:
        assert len(log.agent("a").do("/recall zebra").data["sessions"]) == 2
        assert log.search("zebra") == []


def test_excluded_folders_stay_out(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions(home)
    monkeypatch.setenv("FOLDMARK_SYNC_EXCLUDE", "/home/me/paint")
    with foldmark.open(home.folder / "log.db") as log:
        assert [each["id"] for each in log.agent("a").do("/recall zebra").data["sessions"]] == [A]


# The model's tool


def test_the_tool_names_the_place_to_read_on(home: Home, agent: foldmark.Agent) -> None:
    sessions(home)
    found = agent.call_tool("recall", {"query": "zebra colours"})
    assert f"\n    around: {B}:2" in found
    passage = agent.call_tool("recall", {"around": f"{B}:2"})
    assert passage.splitlines()[1:] == [
        "",
        "- line 1, user, 2025-10-01 10:00:",
        "Colours",
        "",
        "> line 2, user, 2025-10-01 10:00:",
        "A zebra of colours",
    ]
    assert agent.call_tool("recall", {"around": "0b0b:2"}) == passage


def test_the_tool_reads_no_file_that_is_not_archived(home: Home, agent: foldmark.Agent) -> None:
    sessions(home)
    theirs = home.session("0d0d", user("secret", "u1"))
    other = home.folder / "other.jsonl"
    other.write_bytes(jsonl(user("secret", "u2")))
    for place in (
        f"{theirs}:1",
        f"{other}:1",
        f"{os.path.relpath(other)}:1",
        "0d0d:1",
        "/etc/passwd:1",
        "x" * 5000 + ":1",
    ):
        with pytest.raises(CommandError, match="there is no archived session"):
            agent.call_tool("recall", {"around": place})
    for place in (A, str(home.archive), "nobody"):
        with pytest.raises(CommandError, match="there is no message"):
            agent.call_tool("recall", {"around": place})
    with pytest.raises(CommandError, match=r"line 9 .* has no searchable text"):
        agent.call_tool("recall", {"around": f"{A}:9"})


def test_a_passage_is_bounded(home: Home, agent: foldmark.Agent) -> None:
    home.session(A, *[user(f"{n} " + "zebra " * 20_000, f"u{n}") for n in range(9)])
    home.sync()
    passage = agent.call_tool("recall", {"around": f"{A}:5"})
    assert 20_000 < len(passage) < 30_000
    assert f"more characters: around: {A}:4]" in passage


@pytest.mark.parametrize("name", ["mcp__foldmark__search", "mcp_foldmark_search"])
def test_results_of_a_coding_agents_recall_are_not_found_again(home: Home, agent: foldmark.Agent, name: str) -> None:
    answers = [(f"c{n}", f"zebra {n}") for n in range(30)]
    home.session(
        A,
        user("the one zebra", "u0"),
        *[
            record
            for id, text in answers
            for record in (
                assistant([call(id, name, query="zebra")], f"a{id}"),
                user([result(id, text)], f"u{id}"),
            )
        ],
    )
    home.sync()
    found: Any = agent.call_tool("recall", {"query": "zebra", "limit": 1})
    assert found.startswith("Found 1 message in 1 archived session")
    assert "user: the one zebra" in found


@pytest.mark.parametrize("name", ["mcp__plugin_foldmark__filter_context", "mcp_foldmark_filter_context"])
def test_calls_that_plan_forgetting_are_not_found(home: Home, agent: foldmark.Agent, name: str) -> None:
    home.session(
        A,
        user("The zebra is striped.", "u1"),
        assistant([call("c1", name, action="preview", criteria="zebra")], "a1"),
        user([result("c1", "found: the zebra is striped")], "u2"),
    )
    home.sync()
    (session,) = agent.do("/recall zebra").data["sessions"]
    assert [hit["line"] for hit in session["hits"]] == [1]


def test_a_question_finds_the_neighbours_of_a_hit(home: Home, agent: foldmark.Agent) -> None:
    """The neighbour is found once, although a copy of the session also has it, and only if it passes the filters."""
    records = (user("Where is the zebra?", "u1"), assistant([{"type": "text", "text": "In the cellar."}], "a1"))
    home.session(A, *records)
    home.session(B, *records, user("More of it", "u2"))
    home.sync()

    def found(query: str, filters: Filters = ANY) -> list[tuple[str, int | None]]:
        with opened(home.archive, filters) as archive:
            return [(each.id, each.line) for each in search_everything(query, filters=filters, archive=archive)]

    assert found("zebra") == [(A, 1)]
    assert found("where is the zebra?") == [(A, 1), (A, 2)]
    assert found("where is the zebra?", Filters(role="user")) == [(A, 1)]
    assert found("where is the zebra?", Filters(role="assistant")) == []
    (session,) = agent.do("/recall where is the zebra?").data["sessions"]
    assert len(session["hits"]) == 1, "a list of places names those that hold a word"
