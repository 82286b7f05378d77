"""examples/coding_agent, built and installed, with a stand-in for its agent that asks over HTTP: what a new agent needs
is one file for `foldmark live` and one for its sessions (SPEC 5.7, 8)."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from plan import Answer, Reply, Say, Use
from server import Loopback
from wire_openai import OpenAIWire

import foldmark
import forked
from foldmark.log.live_session import client_session
from forked import PROGRAM
from patience import LIMIT

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "coding_agent"
KEY = "lathe-key-0123456789"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as an installed package, built offline."""
    target = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("source") / "lathe")  # a build leaves files there
    uv, python = str(Path(sys.executable).with_name("uv")), sys.executable
    words = [uv, "pip", "install", "--python", python, "--offline", "--no-deps", "--quiet", "--target", str(target)]
    subprocess.run([*words, str(source)], check=True, capture_output=True)
    return target


def model(body: Any) -> Answer:
    """Run a tool when asked to, and say how many messages of persons there are."""
    newest = body["messages"][-1]
    if "RUN" in str(newest["content"]):
        return Reply((Use("call_1", "run", {"speed": 3}),), stop="calls")
    people = sum(each["role"] == "user" for each in body["messages"])
    return Reply((Say(("I heard ", f"{people} texts.")),))


class Home:
    """A home with Lathe on the PATH and the example beside Foldmark."""

    def __init__(self, folder: Path, built: Path, url: str) -> None:
        self.folder, self.database, self.site = folder, folder / "log.db", built
        program = folder / "bin" / "lathe"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\n{(HERE / 'lathe.py').read_text()}")
        program.chmod(0o755)
        (folder / ".claude").mkdir()  # another agent's settings, which say nothing about this one
        (folder / ".claude" / "settings.json").write_text('{"env": {"ALL_PROXY": "nonsense://127.0.0.1:9"}}')
        self.environment = {
            "HOME": str(folder),
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(built), os.environ.get("PYTHONPATH")))),
            "XDG_STATE_HOME": str(folder / "state"),
            "FOLDMARK_DB": str(self.database),
            "FOLDMARK_ARCHIVE": str(folder / "archive"),
            "LATHE_HOME": str(folder / ".lathe"),
            "LATHE_API_BASE": f"{url}/v1",
            "LATHE_KEY": KEY,
        }

    def foldmark(self, *words: str) -> subprocess.CompletedProcess[str]:
        how: dict[str, Any] = {"env": self.environment, "cwd": self.folder, "capture_output": True, "text": True}
        return forked.run([PROGRAM, *words], site=self.site, timeout=LIMIT, **how)

    def data(self, *words: str) -> dict[str, Any]:
        done = self.foldmark(*words, "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def alone(self, *arguments: str, text: str) -> None:
        """Run Lathe without Foldmark."""
        program = [str(self.folder / "bin" / "lathe"), *arguments]
        subprocess.run(program, env=self.environment, input=text, text=True, check=True, capture_output=True)

    @contextmanager
    def lathe(self, *arguments: str, agent: str = "lathe") -> Iterator["Lathe"]:
        """Run `foldmark live lathe` during the block, or another agent that starts the same program."""
        with forked.Popen(
            [PROGRAM, "live", agent, *arguments],
            site=self.site,
            env=self.environment,
            cwd=self.folder,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            text=True,
        ) as process:
            running = Lathe(process)
            yield running
            _, running.errors = process.communicate(timeout=LIMIT)
            assert process.returncode == 0, running.errors

    def install(self, name: str, text: str, points: str) -> None:
        """Install a package with one module beside the example."""
        self.site = shutil.copytree(self.site, self.folder / f"with-{name}")
        (self.site / f"{name}.py").write_text(text)
        about = self.site / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(points)
        paths = (str(self.site), os.environ.get("PYTHONPATH"))
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


class Lathe:
    """A running Lathe."""

    def __init__(self, process: forked.Popen) -> None:
        self._process, self.session, self.errors = process, "", ""

    def say(self, prompt: str) -> str:
        """Type a prompt and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{prompt}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._process.communicate(timeout=LIMIT)[1]
        self.session, text = json.loads(line)
        return str(text)


@pytest.fixture
def provider() -> Iterator[Loopback]:
    with Loopback(OpenAIWire(), model) as server:
        yield server
    assert server.refusals == []


@pytest.fixture
def home(tmp_path: Path, built: Path, provider: Loopback) -> Home:
    return Home(tmp_path, built, provider.url)


def texts(body: Any) -> list[str]:
    return [str(each["content"]) for each in body["messages"][1:]]


def test_a_session_under_foldmark_live(home: Home, provider: Loopback) -> None:
    with home.lathe() as lathe:
        assert lathe.say("RUN the lathe") == "I heard 2 texts."
        assert lathe.say("It is about pears.") == "I heard 3 texts."
        asked = len(provider.requests)
        assert "~" in lathe.say(":turns")
        with foldmark.open(home.database, settings={}) as log:
            (agent,) = log.agents()
            messages = agent.context().messages
            said = [(each.kind, each.content[:20]) for each in messages if each.kind != "tool_result"]
            pears = next(each.turn_id for each in messages if "pears" in each.content)
        assert "left the context" in lathe.say(f":drop {pears}")
        assert len(provider.requests) == asked, "Foldmark answers these"
        assert lathe.say("What is it about?") == "I heard 3 texts."
    assert agent.name == f"bench · {lathe.session[:8]}"
    assert said == [
        ("client", "<lathe-notes>The ben"),
        ("user", "RUN the lathe"),
        ("tool_call", '{"speed":3}'),
        ("assistant", "I heard 2 texts."),
        ("user", "It is about pears."),
        ("assistant", "I heard 3 texts."),
    ]
    sent = texts(provider.asked[-1].body)
    assert [each for each in sent if "pears" in each or each.startswith(":")] == []
    assert sent[:2] == ["<lathe-notes>The bench is clean.</lathe-notes>", "RUN the lathe"]
    title = next(each for each in provider.asked if "Name this session." in texts(each.body))
    assert title.headers["x-lathe-task"] == "title"
    assert f"recorded 'bench · {lathe.session[:8]}' (4 requests)" in lathe.errors
    assert f"`foldmark live lathe --session {lathe.session}` goes on; `lathe --session` alone sends" in lathe.errors
    assert all(KEY.encode() not in each.read_bytes() for each in home.folder.glob("l*.*"))

    home.alone("--session", lathe.session, text="Without Foldmark.\n")
    assert "pears" in json.dumps(provider.asked[-1].body)  # its own file has everything
    with home.lathe("--session", lathe.session) as lathe:
        notice, _, answer = lathe.say("And now?").partition("\n\n")
        assert notice.startswith("foldmark: 1 prompt of this session was answered without Foldmark")
        assert (answer, lathe.say("And then?")) == ("I heard 5 texts.", "I heard 6 texts.")
    assert [each for each in texts(provider.asked[-1].body) if "pears" in each or "foldmark" in each] == []


def test_its_sessions(home: Home) -> None:
    with home.lathe() as lathe:
        lathe.say("RUN the lathe")
        lathe.say("It is about pears.")
    imported = home.data("import", lathe.session)
    assert imported["messages"] == {"client": 1, "user": 2, "tool_call": 1, "tool_result": 1, "assistant": 2}
    assert imported["turns"] == 2
    assert home.data("sync")["new"] == 1
    assert f"Lathe session {lathe.session}" in home.foldmark("search", "pears").stdout
    trimmed = home.data("trim", lathe.session, "--tools", "run")
    assert (trimmed["trimmed_count"], trimmed["by_tool"][0]["tool"]) == (1, "run")
    new = Path(trimmed["file"])
    assert new.parent == Path(home.environment["LATHE_HOME"], "sessions")
    assert json.loads(new.read_text().splitlines()[0])["session"] == new.stem
    with home.lathe("--session", new.stem) as lathe:
        lathe.say("Go on.")
    for words in (["doctor", "--session"], ["rollover"]):
        refused = home.foldmark(*words, lathe.session)
        assert refused.returncode != 0
        assert "Traceback" not in refused.stderr


WITH_A_WIRE = """
from foldmark.live.clients.openai_chat import ChatClient
from foldmark_lathe.live import Lathe

class SpindleWire(ChatClient):
    name = "spindle"

class Spindle(Lathe):
    name, wire, program = "spindle", "spindle", "lathe"
"""


def test_an_agent_with_a_wire_of_its_own(home: Home, provider: Loopback) -> None:
    points = "[foldmark.wires]\nspindle = spindles:SpindleWire\n[foldmark.live_agents]\nspindle = spindles:Spindle\n"
    home.install("spindles", WITH_A_WIRE, points)
    with home.lathe(agent="spindle") as lathe:
        lathe.say("Hello.")
    with foldmark.open(home.database, settings={}) as log:
        (agent,) = log.agents()
        assert client_session(agent, "spindle") == lathe.session
        assert client_session(agent, "openai") is None


BROKEN = """
from foldmark.live.clients.openai_chat import ChatClient
from foldmark_lathe.live import Lathe

class Torn(Lathe):
    name, program = "torn", "lathe"
    def origin(self, headers, body):
        raise RuntimeError(headers["authorization"])

class BluntWire(ChatClient):
    name = "blunt"
    def reads(self, path):
        raise RuntimeError(path)

class Blunt(Lathe):
    name, wire, program = "blunt", "blunt", "lathe"

class Unheard(Lathe):
    name, wire, program = "unheard", "whispers", "lathe"

class Mute(Lathe):
    name, session_format, program = "mute", "silence", "lathe"

class Other(Lathe):
    name = "another"
"""
POINTS = """
[foldmark.wires]
blunt = broken:BluntWire
[foldmark.live_agents]
torn = broken:Torn
blunt = broken:Blunt
unheard = broken:Unheard
mute = broken:Mute
other = broken:Other
gone = nowhere:HERE
"""


def test_an_agent_that_fails_loses_nothing_and_stops_no_other_one(home: Home, provider: Loopback) -> None:
    home.install("broken", BROKEN, POINTS)
    for name, said in (
        ("gone", "nowhere:HERE, installed as foldmark.live_agents 'gone', fails: ModuleNotFoundError("),
        ("other", "broken:Other, installed as foldmark.live_agents 'other', has another name: 'another'"),
        ("unheard", "no installed package reads the wire 'whispers'; available: anthropic, openai_responses, openai"),
        ("mute", "no installed package reads sessions of 'silence'; there are formats for claude, codex, lathe"),
    ):
        refused = home.foldmark("live", name)
        assert (refused.returncode > 0, len(refused.stderr.splitlines())) == (True, 1)
        assert said in refused.stderr
    for name in ("torn", "blunt"):
        with home.lathe(agent=name) as lathe:
            assert lathe.say("Hello.") == "I heard 2 texts."
        if name == "torn":
            assert "nothing was recorded: 2 requests belonged to no conversation, or could not be read" in lathe.errors
    with home.lathe() as lathe:
        lathe.say("Hello.")
    assert f"recorded 'bench · {lathe.session[:8]}'" in lathe.errors
    log = (home.folder / "live.log").read_text()
    assert "a request is passed on as it came: RuntimeError" in log
    assert "the wire 'blunt' fails: RuntimeError" in log
    assert KEY not in log
    assert "nowhere:HERE, installed as foldmark.live_agents 'gone', fails" in home.foldmark("doctor").stdout
