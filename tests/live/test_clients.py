"""Real agents, installed by `make clients`, through the gateway (SPEC 5.7); without them, these tests are skipped.

The provider on the other side of the gateway checks each request as the real one does.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from plan import Answer, Reply, Say, Stalled, Think, Use
from screens import BIN
from server import Loopback, Received
from wire_anthropic import AnthropicWire
from wire_gemini import GeminiWire
from wire_openai import ResponsesWire

import foldmark
from foldmark.dialects.anthropic.thinking import binds
from foldmark.live.gateway import Gateway
from foldmark.sessions.install.locations import user_places
from foldmark.sessions.install.plan import InstallOptions, install
from patience import LIMIT

KEY = "sk-planted-5b1f77e0"


class Client(NamedTuple):
    """An agent. `begin` returns its arguments and variables for a base URL and a home folder; `reads` returns the call
    of its tool that reads a file."""

    program: str
    wire: type[Any]
    begin: Callable[[str, Path], tuple[list[str], dict[str, str]]]
    reads: Callable[[Path], Use]


def claude(url: str, home: Path) -> tuple[list[str], dict[str, str]]:
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    return ["-p", "Read the note."], {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, **quiet}


def codex(url: str, home: Path) -> tuple[list[str], dict[str, str]]:
    provider = {"name": '"foldmark"', "base_url": f'"{url}/v1"', "env_key": '"OPENAI_API_KEY"'}
    provider |= {"wire_api": '"responses"', "supports_websockets": "false"}
    table = ", ".join(f"{name} = {value}" for name, value in provider.items())
    settings = ['model_provider="foldmark"', f"model_providers.foldmark={{ {table} }}", 'model="gpt-5.1"']
    chosen = [part for each in settings for part in ("-c", each)]
    return ["exec", "--skip-git-repo-check", *chosen, "Read the note."], {"OPENAI_API_KEY": KEY}


def gemini(url: str, home: Path) -> tuple[list[str], dict[str, str]]:
    (home / ".gemini").mkdir()
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    environment = {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return ["-m", "gemini-2.5-pro", "-p", "Read the note."], environment


CLIENTS = [
    Client("claude", AnthropicWire, claude, lambda note: Use("toolu_01", "Read", {"file_path": str(note)})),
    Client("codex", ResponsesWire, codex, lambda note: Use("call_01", "exec_command", {"cmd": f"cat {note}"})),
    Client("gemini", GeminiWire, gemini, lambda note: Use("call_01", "read_file", {"file_path": str(note)})),
]


class Ran(NamedTuple):
    """The result of an agent's run, and the requests that the provider got and refused."""

    code: int
    printed: str
    requests: list[Received]
    refusals: list[str]


def executed(
    words: Sequence[str | Path], home: Path, work: Path, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run an agent without a person until it ends."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    return subprocess.run(
        words,
        env={**kept, "HOME": str(home), "NO_PROXY": "127.0.0.1", **variables},
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


def run(client: Client, folder: Path, answers: Callable[[Path], Callable[[Any], Answer]]) -> Ran:
    program, home, work = BIN / client.program, folder / "home", folder / "work"
    if not program.exists():
        pytest.skip(f"{client.program} is not there: `make clients` installs it")
    home.mkdir()
    work.mkdir()
    note = work / "note.txt"
    note.write_text("The word is heron.\n")
    with Loopback(client.wire(), answers(note)) as upstream, Gateway(upstream.url) as gateway:
        arguments, variables = client.begin(gateway.url, home)
        ended = executed([program, *arguments], home, work, variables)
        return Ran(ended.returncode, ended.stdout + ended.stderr, list(upstream.requests), upstream.refusals)


def reading(client: Client, note: Path) -> Callable[[Any], Answer]:
    """Return a model that reads the note, and says that it found the word once it has seen it."""

    def played(body: Any) -> Answer:
        if "heron" in json.dumps(body):
            return Reply((Say(("The word ", "was found.")),))
        return Reply((Say(("Let me look. ",)), client.reads(note)), stop="calls")

    return played


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.program)
def test_a_session_with_a_tool(client: Client, tmp_path: Path) -> None:
    ran = run(client, tmp_path, lambda note: lambda body: reading(client, note)(body))
    assert ran.refusals == []
    assert ran.code == 0, ran.printed
    assert "was found." in ran.printed
    assert "heron" in json.dumps(ran.requests[-1].body)
    assert all(KEY in json.dumps(each.headers) for each in ran.requests)


def answered(text: str, work: Path) -> Callable[[Any], Answer]:
    """Return a model that reads two notes at once, delegates a task, and otherwise says `text` with a number."""
    numbers = count(1)

    def played(body: Any) -> Answer:
        number, said = next(numbers), json.dumps(body["messages"])
        if "SUBTASK" in json.dumps(body["messages"][0]):
            return Reply((Say(("The task is done.",)),))
        if "Delegate" in said and "toolu_agent" not in said:
            task = {"description": "do it", "prompt": "SUBTASK: do it", "subagent_type": "general-purpose"}
            # From 2.1.332 on, it would work in the background by default, and its notice comes at no fixed time.
            return Reply((Use("toolu_agent", "Agent", {**task, "run_in_background": False}),), stop="calls")
        if "READ" in said and "toolu_a" not in said:
            calls = [Use(f"toolu_{name}", "Read", {"file_path": str(work / f"{name}.txt")}) for name in "ab"]
            return Reply((Think("Both.", f"signed-{number}"), *calls), stop="calls")
        return Reply((Think("Hm.", f"signed-{number}"), Say((f"{text} {number}.",))))

    return played


class Live:
    """Claude Code in a folder, run by `foldmark live` or directly."""

    def __init__(self, folder: Path, upstream: Loopback, *, live: bool) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.upstream, self.database, self.live = upstream, folder / "live.db", live
        self.home.mkdir(parents=True)
        self.work.mkdir()
        for name, line in (("a", "alpha\n"), ("b", "beta\n")):
            (self.work / f"{name}.txt").write_text(line * 200)

    def _run(self, prompt: str) -> dict[str, Any]:
        """Return the arguments of a run that sends a prompt."""
        _, variables = claude(self.upstream.url, self.home)
        more = ["--continue"] if self.upstream.requests else []
        program = [sys.executable, "-m", "foldmark", "live", "claude"] if self.live else [str(BIN / "claude")]
        kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
        environment = {
            **kept,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "NO_PROXY": "127.0.0.1",
            "FOLDMARK_DB": str(self.database),
            **variables,
        }
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return {"args": [*program, *more, "-p", prompt], "env": environment, "cwd": self.work, **pipes}

    def say(self, prompt: str) -> str:
        """Send a prompt in a separate run, and return the output."""
        ended = subprocess.run(**self._run(prompt), timeout=LIMIT)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return str(ended.stdout)

    def kill(self, prompt: str) -> None:
        """Send a prompt, and kill the agent once the provider has the request."""
        before = len(self.upstream.asked)
        with subprocess.Popen(**self._run(prompt), start_new_session=True) as running:
            until = time.monotonic() + LIMIT
            while not any(each.body.get("tools") for each in self.upstream.asked[before:]):
                assert time.monotonic() < until
                time.sleep(0.05)
            time.sleep(0.3)  # until the beginning of the answer has arrived
            children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
            (agent,) = [each for each in children if b"listening" not in Path(f"/proc/{each}/cmdline").read_bytes()]
            os.kill(int(agent), signal.SIGKILL)
            assert running.wait(LIMIT) == 128 + signal.SIGKILL

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The texts of the newest request, without those that the client injects."""
        last = self.upstream.asked[-1].body
        found = self.upstream.wire.texts({"messages": [each for each in last["messages"] if each["role"] != "system"]})
        return [(kind, text) for kind, text in found if not text.startswith("<system-reminder>")]


def test_operations_on_claude_code(tmp_path: Path) -> None:
    """Six prompts, each in a separate run and gateway, with operations in between. Once all are undone, the provider
    gets the same as without Foldmark, but for the thinking that is bound to requests with these operations."""
    if not (BIN / "claude").exists():
        pytest.skip("claude is not there: `make clients` installs it")
    prompts = ["Hello.", "READ both.", "Delegate it.", "After the eviction.", "After the drop.", "After all."]
    with Loopback(AnthropicWire()) as plain:
        without = Live(tmp_path / "without", plain, live=False)
        plain._answering = answered("Fine", without.work)
        for prompt in prompts:
            without.say(prompt)
    with Loopback(AnthropicWire()) as upstream:
        session = Live(tmp_path / "with", upstream, live=True)
        upstream._answering = answered("Fine", session.work)
        for prompt in prompts[:3]:
            session.say(prompt)
        assert "nothing taken out" in session.say(":context")
        with foldmark.open(session.database, settings={}) as log:
            agent = next(each for each in log.agents() if each.name)
            messages = list(agent.context().messages)
            (child,) = agent.children
            assert [each.kind for each in child.context().messages if each.kind != "client"] == ["user", "assistant"]
        result = next(each for each in messages if each.kind == "tool_result")
        session.say(f":evict {result.id}")
        session.say(prompts[3])
        evicted = [text for kind, text in session.texts if kind == "result"]
        assert [text.startswith("[Evicted: ") for text in evicted][:2].count(True) == 1
        assert "left the context" in session.say(f":drop {result.turn_id} -- not needed")
        session.say(prompts[4])
        assert "READ both." not in json.dumps(session.texts)
        assert ":drop" not in json.dumps(upstream.requests[-1].body)
        with foldmark.open(session.database, settings={}) as log:
            agent = next(each for each in log.agents() if each.name)
            operations = [event.id for event in agent.events(0, 1000) if event.kind in ("evict", "drop")]
        for operation in operations:
            session.say(f":restore {operation}")
        session.say(prompts[5])
        assert upstream.refusals == []
        users = [text for kind, text in session.texts if kind == "user"]
        assert users == [text for kind, text in without.texts if kind == "user"] == prompts
        given, edited = [kind for kind, _ in without.texts], len(without.texts)
        if binds(upstream.asked[-1].body["model"]):
            edited = without.texts.index(("user", prompts[3]))
        assert [kind for kind, _ in session.texts] == given[:edited] + [
            kind for kind in given[edited:] if kind != "thinking"
        ]
        with foldmark.open(session.database, settings={}) as log:
            agent = next(each for each in log.agents() if each.name)
            assert [each.content for each in agent.context().messages if each.kind == "user"] == prompts
    assert all(KEY.encode() not in path.read_bytes() for path in (tmp_path / "with").glob("live.*"))


def test_a_resume_without_foldmark(tmp_path: Path) -> None:
    """A program that reads the answers gets no notice in them: the line at the end has it, once."""
    if not (BIN / "claude").exists():
        pytest.skip("claude is not there: `make clients` installs it")
    with Loopback(AnthropicWire()) as upstream:
        session = Live(tmp_path, upstream, live=True)
        upstream._answering = answered("Fine", session.work)
        session.say("The first.")
        session.say(":undo")
        session.live = False
        session.say("Elsewhere.")
        assert "The first." in json.dumps(session.texts)
        session.live = True
        ran = [subprocess.run(**session._run(prompt), timeout=LIMIT) for prompt in ("Back.", "Again.")]
        assert [each.stdout.startswith("Fine") for each in ran] == [True, True]
        notice = "1 prompt of this session was answered without Foldmark"
        assert [notice in each.stderr for each in ran] == [True, False]
        assert [text for kind, text in session.texts if kind == "user"] == ["Elsewhere.", "Back.", "Again."]
        assert upstream.refusals == []


def test_the_installed_command(tmp_path: Path) -> None:
    """`/fm` as `foldmark install claude` writes it: a command in a live session, a hint for the model elsewhere."""
    if not (BIN / "claude").exists():
        pytest.skip("claude is not there: `make clients` installs it")
    with Loopback(AnthropicWire()) as upstream:
        session = Live(tmp_path / "live", upstream, live=True)
        upstream._answering = answered("Fine", session.work)
        given = {"HOME": str(session.home), "PATH": f"{BIN}:{os.environ['PATH']}"}
        install(user_places(session.work, given), InstallOptions(prompt=False), given)
        session.say("Hello.")
        assert "nothing taken out" in session.say("/fm context")
        with foldmark.open(session.database, settings={}) as log:
            (agent,) = log.agents()
            turn = next(each for each in agent.context().messages if each.content == "Hello.").turn_id
        assert "left the context" in session.say(f"/fm drop {turn} -- not needed")
        assert "restore ID" in session.say("/fm")
        session.say("What now?")
        assert [text for kind, text in session.texts if kind == "user"] == ["What now?"]
        session.live = False
        session.say("/fm drop 18")
        assert "foldmark live claude --continue" in json.dumps(upstream.asked[-1].body)
        assert upstream.refusals == []


STALLS = [Stalled(()), Stalled((Say(("I se",)),))]


def test_a_killed_client(tmp_path: Path) -> None:
    """Claude Code is killed while it waits for an answer, and in the middle of one. The session continues."""
    if not (BIN / "claude").exists():
        pytest.skip("claude is not there: `make clients` installs it")
    with Loopback(AnthropicWire()) as upstream:
        session = Live(tmp_path / "live", upstream, live=True)
        answers = answered("Fine", session.work)
        upstream._answering = answers
        session.say("Hello.")
        for number, stalled in enumerate(STALLS):
            upstream._answering = lambda body, stalled=stalled: stalled if body.get("tools") else answers(body)
            session.kill(f"Killed {number}.")
        upstream._answering = answers
        session.say("READ both.")
        session.say("What now?")
        assert upstream.refusals == []
        sent = [text for kind, text in session.texts if kind == "user"]
        with foldmark.open(session.database, settings={}) as log:
            (agent,) = log.agents()
            messages = list(agent.context().messages)
            assert agent.open_turn is None
        assert [each.content for each in messages if each.kind == "user"] == sent
        assert sent == ["Hello.", "Killed 0.", "Killed 1.", "READ both.", "What now?"]
        assert "I se" not in [each.content for each in messages]
