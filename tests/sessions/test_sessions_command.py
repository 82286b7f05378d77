"""`foldmark sessions`: lineages from their records and from the sessions themselves [S4, SPEC 8]."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from archive_place import Home
from session_records import user

from foldmark.cli.program import run
from foldmark.cli.sessions import forest_data, forest_text
from foldmark.sessions.forest import Archived, Node, archived_sessions, forest, walk
from foldmark.sessions.lineage import NAME, CodingSession


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def listed(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., str]]:
    """A function that returns the output of `foldmark sessions`, with times in UTC."""
    home.enter(monkeypatch)
    monkeypatch.setenv("TZ", "UTC0")
    time.tzset()

    def listed(*arguments: str) -> str:
        capsys.readouterr()
        assert run(["sessions", *arguments]) == 0
        return capsys.readouterr().out

    yield listed
    monkeypatch.undo()
    time.tzset()


def known(id: str, parent: str | None = None, **fields: Any) -> CodingSession:
    return CodingSession("claude", id, f"/p/{id}.jsonl", parent=parent, **fields)


def save(home: Home, *sessions: CodingSession) -> None:
    with (home.archive / NAME).open("ab") as file:
        file.write(b"".join(msgspec.json.encode(each) + b"\n" for each in sessions))


def archived(id: str, parent: str | None = None, why: str | None = None, last: str | None = None) -> Archived:
    return Archived("claude", id, f"/a/{id}.jsonl", "/p", None, parent, why, None, last)


def shape(roots: list[Node]) -> list[tuple[int, str]]:
    return [(depth, node.session_id) for depth, node in walk(roots)]


def test_without_sessions_the_list_says_so(listed: Callable[..., str]) -> None:
    assert "`foldmark sync`" in listed()
    assert json.loads(listed("--json")) == {"lineages": [], "others": [], "more": 0}


def test_a_lineage(home: Home, listed: Callable[..., str]) -> None:
    home.session("one", user("Begin", "u1", cwd="/p"))
    home.session("two", user("Go on", "u2", timestamp="2025-10-02T10:00:00Z"))
    home.session("alone", user("Something else", "u3", timestamp="2025-10-03T10:00:00Z"))
    home.sync()
    save(
        home,
        known(
            "one",
            ended_at="2025-10-02T09:00:00.000000Z",
            end_reason="rollover",
            context_at_end=78,
            issue="ABC-1",
            worker_id=42,
        ),
        known("two", "one", session_number=2, end_reason="completed"),
        known("three", "one", session_number=2, started_at="2025-10-04T09:00:00.000000Z"),
    )
    assert listed().splitlines() == [
        "1.  one  /p  2025-10-01 10:00 to 2025-10-02 09:00  ended by rollover at 78%  issue ABC-1  worker 42  “Begin”",
        "   ├─ 2.  three  2025-10-04 09:00 to ?  not archived",
        "   └─ 2.  two  -home-me-app  2025-10-02 10:00 to 2025-10-02 10:00  completed  “Go on”",
        "",
        "Archived sessions that continue no other:",
        "alone  -home-me-app  2025-10-03 10:00 to 2025-10-03 10:00  “Something else”",
    ]
    told = json.loads(listed("--json"))
    assert [(each["depth"], each["session_id"], each["parent"]) for each in told["lineages"]] == [
        (0, "one", None),
        (1, "three", "one"),
        (1, "two", "one"),
    ]
    assert (told["lineages"][0]["end_reason"], told["lineages"][0]["context_at_end"]) == ("rollover", 78)
    assert [each["session_id"] for each in told["others"]] == ["alone"]


def test_the_first_line_names_a_parent_without_a_row(home: Home, listed: Callable[..., str]) -> None:
    home.session("one", user("Begin", "u1"))
    trim = {"parent_file": "/home/me/.claude/projects/-p/one.jsonl", "trimmed_at": "2026-01-18T12:00:00Z"}
    home.session("two", {**user("Begin", "u1"), "trim_metadata": trim})
    rollover = {"parent_session_file": "/home/me/.claude/projects/-p/gone.jsonl", "reason": "rollover"}
    home.session("three", {**user("Continue", "u2"), "continue_metadata": rollover})
    home.sync()
    shown = listed()
    assert "   └─ two  -home-me-app  2025-10-01 10:00 to 2025-10-01 10:00  continues one (trim)" in shown
    assert "gone  not archived\n   └─ three" in shown
    assert "Archived, continuing no other" not in shown


def test_a_repaired_session(home: Home, listed: Callable[..., str]) -> None:
    """A copy keeps the metadata of its original, so the newest entry counts."""

    def mark(name: str, file: str, parent: str, time: str, at: str) -> dict[str, Any]:
        return {f"{name}_metadata": {file: f"/home/me/.claude/projects/-p/{parent}.jsonl", time: at}}

    trimmed = mark("trim", "parent_file", "one", "trimmed_at", "2026-01-18T12:00:00Z")
    repaired = mark("repair", "parent_file", "two", "repaired_at", "2026-01-19T12:00:00Z")
    again = mark("trim", "parent_file", "three", "trimmed_at", "2026-01-20T12:00:00Z")
    itself = mark("trim", "parent_file", "four", "trimmed_at", "2026-01-21T12:00:00Z")
    for name, marks in (
        ("one", {}),
        ("two", trimmed),
        ("three", trimmed | repaired),
        ("four", repaired | again),
        ("five", {}),
    ):
        home.session(name, {**user("Begin", "u1"), **marks})
    home.sync()
    told = [line.split("  ")[-2] for line in listed().splitlines() if "continues" in line]
    assert told == ["continues one (trim)", "continues two (repair)", "continues three (trim)"]
    whys = [each["continues_by"] for each in json.loads(listed("--json"))["lineages"]]
    assert whys == [None, "trim", "repair", "trim"]
    home.session("four", {**user("Begin anew", "u1"), **repaired, **itself})
    home.session("five", {**user("Begin anew", "u1"), "repair_metadata": {"parent_file": ["two"], "repaired_at": 5}})
    home.sync()
    assert "continues two (repair)  “Begin anew”" in listed()


def test_lines_lead_down_to_every_session() -> None:
    tree = forest([known("a"), known("b", "a"), known("c", "b"), known("d", "a"), known("e", "d"), known("f", "c")], [])
    drawn = [line.removesuffix("  not archived") for line in forest_text(tree, [], 0).splitlines()]
    assert drawn == ["1.  a", "   ├─ 1.  b", "   │  └─ 1.  c", "   │     └─ 1.  f", "   └─ 1.  d", "      └─ 1.  e"]


def test_no_session_ends_before_it_begins(home: Home, listed: Callable[..., str]) -> None:
    home.session("two", user("Begin", "u1"))
    home.sync()
    save(home, known("two", "one", started_at="2026-01-02T09:00:00.000000Z"))
    assert "two  -home-me-app  2026-01-02 09:00 to ?  " in listed()


def test_a_codex_trim(home: Home) -> None:
    id, parent = "019982b8-3422-79e0-8b3b-05abaf4f3c3e", "019f0d8e-dd86-7cc0-b5e5-83e435aaf326"
    path = home.folder / f".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-{id}.jsonl"
    path.parent.mkdir(parents=True)
    told = {"parent_file": f"/c/rollout-2026-01-01T03-04-05-{parent}.jsonl"}
    path.write_text(json.dumps({"type": "session_meta", "payload": {"id": id}, "trim_metadata": told}) + "\n")
    home.sync()
    (root,) = forest([], archived_sessions(home.archive))
    assert shape([root]) == [(0, parent), (1, id)]


def test_subagents_are_counted(home: Home, listed: Callable[..., str]) -> None:
    home.session("one", user("Begin", "u1"))
    home.session("agent-7", user("In the agent", "s1", sessionId="one"))
    home.sync()
    assert listed().count("agent-7") == 0
    assert "1 subagent" in listed()


def test_a_limit(home: Home, listed: Callable[..., str]) -> None:
    for number in range(5):
        home.session(f"s{number}", user("Hello", timestamp=f"2025-10-0{number + 1}T10:00:00Z"))
    home.sync()
    lines = listed("--limit", "2").splitlines()
    assert [line.split()[0] for line in lines] == ["Archived", "s4", "s3", "3"]
    assert json.loads(listed("-n", "2", "--json"))["more"] == 3


def test_the_parent_in_a_row_precedes_that_of_the_first_line() -> None:
    assert shape(forest([known("b", "a")], [archived("b", "x", "trim")])) == [(0, "a"), (1, "b")]


def test_loops_end_and_long_lineages_are_listed() -> None:
    loop = forest([known("a", "b"), known("b", "a"), known("c", "c"), known("d", "a")], [])
    assert sorted(shape(loop)) == [(0, "a"), (0, "b"), (0, "c"), (1, "d")]
    long = forest([known(str(number), str(number - 1) if number else None) for number in range(3000)], [])
    assert shape(long)[-1] == (2999, "2999")
    assert len(forest_text(long, [], 0).splitlines()) == 3000
    assert len(forest_data(long, [], 0)["lineages"]) == 3000


def test_the_tree_with_the_newest_event_is_first() -> None:
    roots = forest(
        [],
        [
            archived("a", last="2025-01-01"),
            archived("b", last="2025-01-02"),
            archived("c", "a", "trim", last="2025-01-03"),
            archived("d", "a", "trim", last="2025-01-04"),
        ],
    )
    assert shape(roots) == [(0, "a"), (1, "d"), (1, "c"), (0, "b")]


def test_control_characters_do_not_steer_a_terminal() -> None:
    node = Node("claude", "a\x1b[2J", known("a", issue="x\ny\x07"))
    assert "\x1b" not in forest_text([node], [], 0)
    assert len(forest_text([node], [], 0).splitlines()) == 1
