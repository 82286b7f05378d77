"""`foldmark search`: the neighbours of a hit, and `--read` for messages of conversations (SPEC 7)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from archive_place import Home
from session_records import assistant, jsonl, user

import foldmark
from foldmark.cli.program import run

Program = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one session and two conversations, of which each test gets a copy."""
    home = Home(tmp_path_factory.mktemp("made") / "home")
    home.session(
        "aa11",
        user("Good morning", "u1", cwd="/home/me/app"),
        user("Where is the zebra?", "u2"),
        assistant([{"type": "text", "text": "## In\n\nthe garden\x1b[31m"}], "a1"),
        user("And now?", "u3"),
    )
    home.sync()
    with foldmark.open(home.folder / "log.db", settings={}) as log:
        agent = log.agent("diary")
        for number in (1, 3, 5, 7):
            assert agent.append("user", f"day {number}" + (", a giraffe" if number == 5 else "")) == number
            agent.end_turn()
        agent.do("/context drop 3")
        agent.do("/message remove 7 --yes")
        other = log.agent("side project")
        other.append("user", "a giraffe elsewhere")
    return home.folder


@pytest.fixture
def program(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """A function that runs a command line in that home."""
    home = Home(tmp_path / "home")
    shutil.copytree(made, home.folder)
    home.enter(monkeypatch)

    def program(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["search", *arguments])
        return code, *capsys.readouterr()

    return program


def test_a_message_with_its_neighbours(program: Program) -> None:
    code, out, _ = program("--read", "5")
    head, *lines = out.splitlines()
    assert code == 0
    assert head.startswith("conversation 'diary', agent ")
    assert [line for line in lines if line[:2] in ("- ", "> ")] == [
        line for line in lines if " message " in f" {line[2:]}"
    ]
    told = [line.split(", ", 3) for line in lines if line[:2] in ("- ", "> ")]
    assert [(each[0], each[1]) for each in told] == [
        ("- message 1", "user"),
        ("- message 3", "user"),
        ("> message 5", "user"),
        ("- message 7", "user"),
    ]
    assert told[1][3] == "out:"
    assert told[3][3].startswith("erased by a human on ")
    assert "\nday 5, a giraffe\n" in out
    assert "day 7" not in out
    assert program("--read", "diary:5")[1] == out
    assert program("--read", "5", "--around", "0")[1].splitlines()[2:] == [
        next(line for line in lines if line.startswith("> ")),
        "day 5, a giraffe",
    ]


def test_a_message_as_json(program: Program) -> None:
    told = json.loads(program("--read", "diary:5", "--around", "1", "--json")[1])
    assert told["name"] == "diary"
    assert [(each["id"], each["visible"], each["erased"], each["asked"]) for each in told["messages"]] == [
        (3, False, False, False),
        (5, True, False, True),
        (7, False, True, False),
    ]
    assert [each["content"] for each in told["messages"]] == ["day 3", "day 5, a giraffe", ""]


def test_read_accepts_the_place_that_a_hit_prints(program: Program) -> None:
    for word, said in (("giraffe", ["day 5, a giraffe", "a giraffe elsewhere"]), ("zebra", ["Where is the zebra?"])):
        out = program(word)[1]
        places = [line.strip().split("  ")[0] for line in out.splitlines() if line.startswith("    ")]
        read = [program("--read", place, "--around", "0")[1].splitlines()[-1] for place in places]
        assert sorted(read) == sorted(said)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("99", "there is no message 99, and no archived session whose id begins with it"),
        ("2", "there is no message 2, and no archived session"),
        ("diary:99", "there is no message 99 in diary"),
        ("side project:5", "there is no message 5 in side project; it belongs to diary"),
        ("diary:2", "event 2 is of kind 'turn ended', not a message"),
        ("nobody:5", "there is no file and no archived session 'nobody'"),
        ("diary", "there is no file and no archived session 'diary'"),
        ("aa11:99", "line 99"),
        ("x" * 5000, "there is no file and no archived session"),
        ("a\0b:1", "there is no file and no archived session"),
    ],
)
def test_invalid_places_are_refused(program: Program, place: str, told: str) -> None:
    code, out, err = program("--read", place)
    assert (code, out) == (2, "")
    assert told in err
    assert "Traceback" not in err


def test_a_number_may_begin_a_sessions_id(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "home/.claude/projects/-p/77ee.jsonl"
    path.parent.mkdir()
    path.write_bytes(jsonl(user("lions", "w1")))
    assert run(["sync", "--quiet"]) == 0
    assert program("--read", "77")[1].endswith("lions\n")
    assert "giraffe" in program("--read", "5")[1]


def test_a_session_is_read_without_a_usable_database(program: Program, tmp_path: Path) -> None:
    (tmp_path / "home/log.db").write_bytes(b"no database" * 1000)
    code, out, err = program("--read", "aa11:2", "--around", "0")
    assert code == 0
    assert out.endswith("Where is the zebra?\n")
    assert "conversations cannot be read" in err


# Neighbours of hits


def test_neighbours_below_each_hit(program: Program) -> None:
    out = program("zebra", "-C", "1")[1].splitlines()
    assert [line.strip() for line in out[1:]] == [
        "user: Where is the zebra?",
        out[2].strip(),
        "line 1, user: Good morning",
        "line 3, assistant: In",
    ]
    assert out[2].endswith("/aa11.jsonl:2")
    out = program("day giraffe", "--agent", "diary", "--limit", "1", "--context", "2")[1].splitlines()
    assert [line.strip() for line in out[-3:]] == [
        "message 1, user: day 1",
        "message 3, user: day 3",
        "message 7, user:",
    ]


def test_neighbours_as_json(program: Program) -> None:
    (hit,) = json.loads(program("zebra", "-C", "1", "--json")[1])["hits"]
    assert [(each["named"], each["role"], each["text"]) for each in hit["context"]] == [
        ("aa11:1", "user", "Good morning"),
        ("aa11:3", "assistant", "## In\n\nthe garden\x1b[31m"),
    ]
    (hit,) = json.loads(program("zebra", "--json")[1])["hits"]
    assert "context" not in hit


def test_a_deleted_file_has_no_neighbours(program: Program, tmp_path: Path) -> None:
    with foldmark.open(tmp_path / "home/log.db") as log:
        log.agent("diary").do("/memo add the okapi")
    assert "okapi" in program("okapi", "-C", "2")[1]


@pytest.mark.parametrize(
    "wrong",
    [
        ["--read", "5", "-C", "1"],
        ["x", "-C", "0"],
        ["x", "-C", "101"],
        ["x", "--role", "nobody"],
        ["--read", "5", "--visible"],
        ["x", "--around", "2"],
    ],
)
def test_options_that_exclude_each_other_are_refused(program: Program, wrong: list[str]) -> None:
    code, out, err = program(*wrong)
    assert (code, out) == (2, "")
    assert err.startswith("foldmark: ")


@pytest.mark.parametrize("hostile", ["\udcff", "a\0b", "'"])
def test_hostile_filters(program: Program, hostile: str) -> None:
    for option in ("--agent", "--project", "--tool"):
        assert program("zebra", option, hostile)[0] == 0
