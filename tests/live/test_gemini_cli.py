"""Gemini CLI, run by `foldmark live` (SPEC 5.7); skipped without `make clients`, and partly without tmux."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from gemini_screen import KEY, MODEL, GeminiScreen, folders, program, variables
from plan import Answer, Reply, Say, Think, Use
from provider_proxy import first_request
from screens import BIN
from server import Loopback
from wire_gemini import GeminiWire

import foldmark
from foldmark.log import Agent, Log
from patience import LIMIT

pytestmark = pytest.mark.skipif(not (BIN / "gemini").exists(), reason="`make clients` installs Gemini CLI")


def answered(work: Path) -> Callable[[Any], Answer]:
    """Return a model that reads two notes at once, delegates a task, finds turns to forget, and otherwise counts."""
    numbers = count(1)

    def played(body: Any) -> Answer:
        functions = json.dumps(body.get("tools", []))
        if not body.get("tools"):
            listed = body["contents"][-1]["parts"][-1]["text"]
            return Reply((Say((forgotten(listed),)),))
        if "complete_task" in functions:
            report = {"SummaryOfFindings": "TASK DONE", "ExplorationTrace": [], "RelevantLocations": []}
            return Reply((Use("call_done", "complete_task", {"report": report}, "c2lnbmVk"),), stop="calls")
        asked = json.dumps(body["contents"][-1])
        if "READ" in asked:
            first, second = ({"file_path": str(work / f"{name}.txt")} for name in "ab")
            calls = (Use("call_a", "read_file", first, "c2lnbmVk"), Use("call_b", "read_file", second))
            return Reply((Think("Both.", "c2lnbmVk"), *calls), stop="calls")
        if "Delegate" in asked:
            task = {"agent_name": "codebase_investigator", "prompt": "SUBTASK"}
            return Reply((Use("call_d", "invoke_agent", task, "c2lnbmVk"),), stop="calls")
        return Reply((Think("Hm.", "c2lnbmVk"), Say(("Answer ", f"number {next(numbers)}."))))

    return played


def forgotten(listed: str) -> str:
    """Return the answer to a question of /forget: the turns about herons."""
    return "[]" if "heron" not in listed else json.dumps(TURNS)


TURNS: list[int] = []


def recorded(log: Log) -> Agent:
    (agent,) = [each for each in log.agents() if each.name]
    return agent


def ids(database: Path, kinds: tuple[str, ...]) -> list[int]:
    with foldmark.open(database, settings={}) as log:
        return [event.id for event in recorded(log).events(0, 1000) if event.kind in kinds]


PROMPTS = ["Hello there.", "READ both.", "Delegate it.", "About a heron.", "Before all.", "After all."]


@pytest.mark.skipif(shutil.which("tmux") is None, reason="it needs tmux")
def test_operations_on_gemini_cli(tmp_path: Path) -> None:
    """One session with operations in between. Once all are undone, the provider gets the same as without Foldmark."""
    with Loopback(GeminiWire()) as plain:
        screen = GeminiScreen(tmp_path / "without", plain.url, live=False)
        plain._answering = answered(tmp_path / "without" / "work")
        try:
            for number, prompt in enumerate(PROMPTS, 1):
                screen.type(prompt, f"Answer number {number}.")
        finally:
            screen.close()
    assert plain.refusals == []
    database = tmp_path / "with" / "live.db"
    with Loopback(GeminiWire()) as upstream:
        screen = GeminiScreen(tmp_path / "with", upstream.url, live=True)
        upstream._answering = answered(tmp_path / "with" / "work")
        try:
            screen.type(":context", "nothing taken out")
            for number, prompt in enumerate(PROMPTS[:4], 1):
                screen.type(prompt, f"Answer number {number}.")
            assert [each.body for each in upstream.asked][-1].keys() == plain.asked[-1].body.keys()
            with foldmark.open(database, settings={}) as log:
                messages = list(recorded(log).context().messages)
                assert len(recorded(log).children) == 1
            result = next(each for each in messages if each.kind == "tool_result")
            TURNS[:] = [next(each.id for each in messages if each.content == "About a heron.")]
            screen.type(f":evict {result.id}", "placeholder")
            screen.type(":forget herons", "Answer :yes, :no")
            screen.type(":yes", "left the context")
            screen.type(":mark HERE", "Checkpoint 'HERE' created.")
            screen.type("Before all.", "Answer number 5.")
            said = upstream.wire.texts(upstream.asked[-1].body)
            assert next(text for kind, text in said if kind == "result").startswith("[Evicted:")
            assert ("user", "About a heron.") not in said
            assert ("user", "Before all.") in said
            screen.type(":clear HERE", "Rewound to 'HERE'.")
            screen.type(f":drop {result.turn_id} -- not needed", f"Turn {result.turn_id} left the context.")
            screen.type(":operations", "not needed")
            for operation in ids(database, ("evict", "filter", "clear", "rewind", "drop")):
                screen.type(f":restore {operation}", f"Operation {operation} taken back.")
            screen.type("After all.", "Answer number 6.")
        finally:
            screen.close()
    assert upstream.refusals == []
    own, other = upstream.asked[-1].body["contents"], plain.asked[-1].body["contents"]
    at = str(tmp_path / "with"), str(tmp_path / "without")
    assert json.dumps(own[1:]).replace(*at) == json.dumps(other[1:])
    sent = json.dumps([each.body for each in upstream.requests if each.body.get("tools")])
    assert not any(command in sent for command in (":evict", ":forget", ":mark", ":drop", "Rewound", ":restore"))
    with foldmark.open(database, settings={}) as log:
        texts = [each.content for each in recorded(log).context().messages if each.kind == "user"]
    # A planning conversation comes back with its filter, and is never sent.
    assert [text for text in texts if text in PROMPTS] == PROMPTS
    assert all(KEY.encode() not in path.read_bytes() for path in (tmp_path / "with").glob("live.*"))


def say(folder: Path, upstream: str, prompt: str, *more: str, live: bool = True) -> str:
    """Send a prompt in a separate run, and return the output."""
    ended = subprocess.run(
        [*program(live=live), *more, "-p", prompt],
        env=variables(folder, upstream),
        cwd=folder / "work",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_a_session_that_is_resumed(tmp_path: Path) -> None:
    """Each prompt has a separate run and gateway. `foldmark live` changes nothing before the first operation."""
    latest = ("--resume", "latest")
    folder, without = tmp_path / "with", tmp_path / "without"
    folders(folder)
    _, work = folders(without)
    with Loopback(GeminiWire(), answered(work)) as plain:
        for number, prompt in enumerate(("Hello there.", "The second.")):
            say(without, plain.url, prompt, *(latest if number else ()), live=False)
    with Loopback(GeminiWire(), answered(work)) as upstream:
        say(folder, upstream.url, "Hello there.")
        say(folder, upstream.url, "The second.", *latest)
        bodies = [json.dumps(each.body).replace(str(folder), str(without)) for each in upstream.asked]
        assert bodies == [json.dumps(each.body) for each in plain.asked]
        assert "created" in say(folder, upstream.url, ":mark HERE", *latest)
        say(folder, upstream.url, "The third.", *latest)
        assert "Rewound" in say(folder, upstream.url, ":clear HERE", *latest)
        say(folder, upstream.url, "READ the fourth.", *latest)
        users = [text for kind, text in upstream.wire.texts(upstream.asked[-1].body) if kind == "user"]
        assert users[1:] == ["Hello there.", "The second.", "READ the fourth."]
        say(folder, upstream.url, "Hello there.")  # another session
    assert upstream.refusals == []
    with foldmark.open(folder / "live.db", settings={}) as log:
        agents = [agent for agent in log.agents() if agent.name]
        texts = [[each.content for each in agent.context().messages if each.kind == "user"] for agent in agents]
    assert texts == [["Hello there.", "The second.", "READ the fourth."], ["Hello there."]]


def test_the_first_request_is_that_of_gemini_cli_alone(tmp_path: Path) -> None:
    """Gemini CLI and its gateway ask the provider's own address."""
    asked = []
    for live in (False, True):
        home, work = folders(tmp_path)
        words = ["gemini", "-m", MODEL, "-p", "Hello there."]
        own = {name: value for name, value in variables(tmp_path, "").items() if name != "GOOGLE_GEMINI_BASE_URL"}
        asked.append(first_request(GeminiWire(), words, work, own, live=live))
        shutil.rmtree(home)
    assert asked[1] == asked[0]


def test_two_sub_agents_with_the_same_task(tmp_path: Path) -> None:
    """They work at the same time, and each becomes a separate child."""
    _, work = folders(tmp_path)
    numbers, both = count(1), Barrier(2, timeout=LIMIT)

    def played(body: Any) -> Answer:
        number, asked = next(numbers), json.dumps(body["contents"][-1])
        if "complete_task" not in json.dumps(body["tools"]):
            task = {"agent_name": "codebase_investigator", "prompt": "SUBTASK"}
            calls = [Use(f"call_{number}{at}", "invoke_agent", task, "c2lnbmVk") for at in "ab"]
            return Reply((Say(("Done.",)),)) if "functionResponse" in asked else Reply((*calls,), stop="calls")
        if "functionResponse" not in asked:
            both.wait()
            paths = {"file_path": str(work / "a.txt")}
            return Reply((Use(f"call_{number}", "read_file", paths, "c2lnbmVk"),), stop="calls")
        report = {"SummaryOfFindings": "TASK DONE", "ExplorationTrace": [], "RelevantLocations": []}
        return Reply((Use(f"call_{number}", "complete_task", {"report": report}, "c2lnbmVk"),), stop="calls")

    with Loopback(GeminiWire(), played) as upstream:
        assert "Done." in say(tmp_path, upstream.url, "Delegate both.")
    assert upstream.refusals == []
    with foldmark.open(tmp_path / "live.db", settings={}) as log:
        children = recorded(log).children
        kinds = [[event.kind for event in child.context().messages] for child in children]
        ids = [[event.call_id for event in child.context().messages if event.call_id] for child in children]
    assert kinds == [["user", "tool_call", "tool_result", "tool_call"]] * 2
    assert all(first == second for first, second, _ in ids)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="it needs tmux")
def test_the_models_hand(tmp_path: Path) -> None:
    """The model acts on its own session through the MCP server. A result whose call has left is sent as a notice."""
    server = {"command": sys.executable, "args": ["-m", "foldmark", "mcp"], "trust": True}
    server["env"] = {"FOLDMARK_DB": str(tmp_path / "live.db")}

    def played(body: Any) -> Answer:
        asked = body["contents"][-1]["parts"][-1].get("text", "")
        if asked.startswith("USE "):
            command, args = asked.removeprefix("USE ").split()
            # Gemini CLI adds the last argument to every tool, and makes no call without the required ones.
            called = {"command": command, "args": args, "conversation": "", "wait_for_previous": True}
            return Reply((Use(f"call_{command}", "mcp_foldmark_slash", called, "c2lnbmVk"),), stop="calls")
        return Reply((Say((f"It is done, {asked[:20]}.",)),))

    with Loopback(GeminiWire(), played) as upstream:

        def asked() -> list[tuple[str, str]]:
            return upstream.wire.texts({"contents": upstream.asked[-1].body["contents"]})[1:]

        screen = GeminiScreen(tmp_path, upstream.url, live=True, mcpServers={"foldmark": server})
        try:
            screen.type("one", "It is done, one.")
            screen.type("USE mark HERE", "It is done")
            screen.type("two", "It is done, two.")
            screen.type("USE clear HERE", "It is done")
            kind, told = asked()[-1]
            assert kind == "user"
            assert "Rewound to 'HERE'." in told
            screen.type("three", "It is done, three.")
            users = [text for kind, text in asked() if kind == "user"]
            assert users == ["one", "USE mark HERE", told, "three"]
        finally:
            screen.close()
    assert upstream.refusals == []


@pytest.mark.skipif(shutil.which("tmux") is None, reason="it needs tmux")
def test_prompts_typed_while_it_works(tmp_path: Path) -> None:
    """Gemini CLI joins them. The commands among them are carried out, and the rest is answered."""
    held, released = Event(), Event()

    def played(body: Any) -> Answer:
        if "HOLD" in json.dumps(body["contents"][-1]):
            held.set()
            released.wait(LIMIT)
        return Reply((Think("Hm.", "c2lnbmVk"), Say((f"I see {len(body['contents'])}.",))))

    with Loopback(GeminiWire(), played) as upstream:
        screen = GeminiScreen(tmp_path, upstream.url, live=True)
        try:
            screen.type("one", "I see 1.")
            screen.queue("HOLD it")
            assert held.wait(LIMIT)
            for line in ("queued alpha", ":mark HERE", "queued beta", ":marks"):
                screen.queue(line)
            released.set()
            screen.wait("I see 5.")
            assert "Checkpoint 'HERE' created." in screen.text
            screen.type("last", "I see 7.")
        finally:
            released.set()
            screen.close()
    assert upstream.refusals == []
    users = [text for kind, text in upstream.wire.texts(upstream.asked[-1].body) if kind == "user"]
    assert users[1:] == ["one", "HOLD it", "queued alpha\n\nqueued beta", "last"]
    sent = json.dumps([each.body["contents"] for each in upstream.requests])
    assert [each in sent for each in (":mark", "HERE", "Checkpoint")] == [False] * 3
    with foldmark.open(tmp_path / "live.db", settings={}) as log:
        assert [event.kind for event in recorded(log).events(0, 1000)].count("mark") == 1
