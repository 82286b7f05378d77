"""`foldmark rollover --auto-summary`: the model's input; an incomplete answer leaves nothing (SPEC 8, S4)."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import rollout_records as codex
from hook_place import PROGRAM, answer
from plan import Answer, Fail, Reply, Say, Stalled
from server import Loopback
from session_records import REAL_FILES, assistant, call, jsonl, result, user
from test_handoff import GOOD
from test_rollover import ID, Place, files
from wire_openai import OpenAIWire

import forked
from foldmark.formats.places import session_path
from foldmark.formats.session_file import SessionFile
from foldmark.sessions.rollover.auto_summary import newest
from patience import LIMIT

MODEL = ("--auto-summary", "--model", "openai/gpt-5")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write(
        user("The port is 5433."),
        assistant([call("c1", "Bash", command="make test")]),
        user([result("c1", "x" * 9000 + "END")]),
        user("a side chain", isSidechain=True),
        user("told by the program", isMeta=True),
        b'{"torn": \n',
        assistant([{"type": "thinking", "thinking": "secret thought", "signature": "s"}]),
        answer(152_000),
    )
    return place


@pytest.fixture
def asked(place: Place) -> Iterator[list[Loopback]]:
    servers: list[Loopback] = []
    yield servers
    for server in servers:
        server.__exit__(None, None, None)
        assert server.refusals == []


def serve(asked: list[Loopback], place: Place, *answers: Answer) -> Loopback:
    server = Loopback(OpenAIWire(), answers)
    asked.append(server.__enter__())
    place.environment |= {"OPENAI_API_KEY": "test-key-1", "OPENAI_BASE_URL": server.url}
    return server


def says(text: str, stop: str = "end") -> Reply:
    return Reply((Say((text,)),), stop)


def question(server: Loopback, index: int = -1) -> str:
    (message,) = server.asked[index].body["messages"]
    return message["content"] if isinstance(message["content"], str) else message["content"][0]["text"]


def test_a_model_writes_the_summary(place: Place, asked: list[Loopback]) -> None:
    server = serve(asked, place, says(f"{GOOD}\n"))
    done = place.ran(*MODEL, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    told = json.loads(done.stdout)
    assert f"### Handoff Summary\n\n{GOOD}\n\n### Retrieving" in told["prompt"]
    assert [each.summary for each in place.known()] == [GOOD, None]
    put = question(server)
    assert put.startswith("<record>\n[user] The port is 5433.\n\n[tool call Bash] command")
    for part in (
        "make test",
        "[tool result] xxx",
        "[… 9,003 characters]",
        "[assistant] Done.\n</record>",
        "### Key Decisions",
    ):
        assert part in put
    for part in ("a side chain", "told by the program", "secret thought", "END"):
        assert part not in put


def test_the_model_of_the_settings(place: Place, asked: list[Loopback]) -> None:
    server = serve(asked, place, says(GOOD))
    assert place.ran("--auto-summary", FOLDMARK_MODEL="openai/gpt-5-mini").returncode == 0
    assert server.asked[0].body["model"] == "gpt-5-mini"


def test_an_answer_without_the_headings_warns(place: Place, asked: list[Loopback]) -> None:
    serve(asked, place, says("I fixed it."))
    done = place.ran(*MODEL)
    assert done.returncode == 0
    assert done.stderr.startswith(b"foldmark: the summary lacks ### Current Task, ")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (says(""), b"gave an empty answer"),
        (says("### Current", "length"), b"was cut off"),
        (says("No.", "refused"), b"is a refusal"),
        (Fail("key"), b""),
        (Fail("request"), b""),
    ],
)
def test_an_incomplete_answer_writes_nothing(reply: Answer, said: bytes, place: Place, asked: list[Loopback]) -> None:
    serve(asked, place, reply)
    before = files(place.folder)
    done = place.ran(*MODEL)
    assert (done.returncode, done.stdout) == (1, b"")
    assert said in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert files(place.folder) == before


def test_an_interruption_leaves_no_file(place: Place, asked: list[Loopback]) -> None:
    server = serve(asked, place, Stalled((Say(("### Current",)),)))
    before = files(place.folder)
    words = [PROGRAM, "rollover", *MODEL]
    with forked.Popen(words, env=place.environment, cwd=place.work, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + LIMIT
        while not server.asked and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=LIMIT)
    assert (process.returncode, told.strip()) == (
        130,
        b"foldmark: interrupted; no new session was written",
    )
    assert files(place.folder) == before


def test_a_session_too_long_for_the_model_is_shown_in_part(place: Place, asked: list[Loopback]) -> None:
    place.write(*(user(f"message {number} {'word ' * 1000}") for number in range(200)))
    server = serve(asked, place, Fail("overflow", tokens=300_000, limit=150_000), says(GOOD))
    assert place.ran(*MODEL).returncode == 0
    first, second = question(server, 0), question(server, 1)
    assert 0.4 * len(first) < len(second) < 0.55 * len(first)
    for each in (first, second):
        assert "message 199 " in each
        assert "message 0 " not in each


def test_a_session_without_messages_writes_nothing(place: Place, asked: list[Loopback]) -> None:
    serve(asked, place)
    place.write({"type": "summary", "summary": "x", "leafUuid": "u1"})
    done = place.ran(*MODEL)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"there is nothing to hand over; nothing was written" in done.stdout


@pytest.mark.parametrize("room", [0, 100, 5_000, 200_000])
def test_the_newest_messages_as_many_as_fit(room: int, tmp_path: Path) -> None:
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(jsonl(*(user(f"{number:04d} ä {'x' * (number % 700)}") for number in range(1000))))
    shown = newest(session_path(path), room)
    assert len(shown.encode()) <= room
    found = [int(each[7:11]) for each in shown.split("\n\n")] if shown else []
    assert found == list(range(1000 - len(found), 1000))
    assert len(found) >= min(1000, room // 720)


def test_codex(tmp_path: Path) -> None:
    path = tmp_path / codex.name()
    path.write_bytes(jsonl(codex.meta(), codex.said("hello"), codex.call("c1"), codex.output("c1", "a b")))
    shown = newest(session_path(path), 1000)
    assert shown.startswith("[user] hello\n\n[tool call exec_command] ")
    assert shown.endswith("\n\n[tool result] a b")


def test_a_session_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(("\ufeff" + jsonl(user("Grüße"), user("hello")).decode()).encode("utf-16-le"))
    assert newest(session_path(path), 1000) == "[user] Grüße\n\n[user] hello"


def test_lines_that_are_appended_after_opening_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(jsonl(user("one"), user("two")))
    with SessionFile(path) as file:
        first = list(file.records())
        with path.open("ab") as more:
            more.write(jsonl(user("three")))
        assert list(file.backwards(1 << 20)) == [record.value for record in reversed(first)]
        assert [record.value for record in file.records()] == [record.value for record in first]


@pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")
@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.stem)
def test_real_sessions(path: Path) -> None:
    assert 0 < len(newest(session_path(path), 50_000).encode()) <= 50_000
