"""The real Codex, installed by `make clients`, run by `foldmark live` (SPEC 5.7); without it, these tests are skipped.

The provider on the other side of the gateway checks each request as the real one does.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from codex_wire import CodexWire
from plan import Answer, Broken, Reply, Say, Think, Use
from provider_proxy import first_request
from screens import BIN
from server import Loopback

import foldmark
from foldmark.core.events import Event
from foldmark.core.request import Usage
from foldmark.live.live_agent import agent_named
from foldmark.log import Agent, Log
from patience import LIMIT

KEY = "sk-planted-41c9"

pytestmark = pytest.mark.skipif(not (BIN / "codex").exists(), reason="codex is not there: `make clients` installs it")


def answered(text: str) -> Callable[[Any], Answer]:
    """Return a model that reads two notes at once, asks a sub-agent, finds the messages about herons, and otherwise
    says `text` with the number of its answer."""
    numbers = count(1)

    def played(body: Any) -> Answer:
        last = json.dumps(body["input"][-1])
        if not body.get("tools"):
            return Reply((Say((json.dumps(herons(json.dumps(body["input"]))),)),))
        if "SUBTASK" in last:
            return Reply((Say(("The task is done.",)),))
        number = next(numbers)
        if "DELEGATE" in last:
            return Reply((Use("call_s", "multi_agent_v1.spawn_agent", {"message": "SUBTASK: do it"}),), stop="calls")
        if "agent_id" in last:
            agent = json.loads(body["input"][-1]["output"])["agent_id"]
            return Reply((Use("call_w", "multi_agent_v1.wait_agent", {"targets": [agent]}),), stop="calls")
        if "READ" in last:
            calls = [Use(f"call_{name}{number}", "exec_command", {"cmd": f"cat {name}.txt"}) for name in "ab"]
            return Reply((Think("Both.", f"signed-{number}"), Say(("Reading.",)), *calls), stop="calls")
        return Reply((Think("Hm.", f"signed-{number}"), Say((f"{text} {number}.",))))

    return played


def herons(said: str) -> list[int]:
    """Return the ids before the messages about herons."""
    return [int(found) for found in re.findall(r"\[(\d+)[^\[]*?heron", said)]


class Codex:
    """Codex in a folder, run by `foldmark live` or directly."""

    def __init__(self, folder: Path, upstream: Loopback, *, live: bool, model: str = "gpt-5.1") -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.upstream, self.database, self.live, self.model = upstream, folder / "live.db", live, model
        self.more: list[str] = []
        self.key = {"OPENAI_API_KEY": KEY}
        self._begun = False
        self.home.mkdir(parents=True)
        self.work.mkdir()
        for name, line in (("a", "alpha\n"), ("b", "beta\n")):
            (self.work / f"{name}.txt").write_text(line * 200)

    def say(self, prompt: str) -> str:
        """Send a prompt in a separate run, and return the output."""
        url = f"{self.upstream.url}/v1"
        kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
        variables = {
            **kept,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "NO_PROXY": "127.0.0.1",
            "FOLDMARK_DB": str(self.database),
            "OPENAI_BASE_URL": url,
            **self.key,
        }
        plain = [str(BIN / "codex"), *agent_named("codex").options(url, variables)]
        program = [sys.executable, "-m", "foldmark", "live", "codex"] if self.live else plain
        resumed = ["resume", "--last"] if self._begun else []
        self._begun = True
        ended = subprocess.run(
            [*program, "-c", f'model="{self.model}"', *self.more, "exec", *resumed, "--skip-git-repo-check", prompt],
            env=variables,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The texts of the newest request, without injected ones and without parts that differ from run to run."""
        return self.texts_of(self.upstream.asked[-1].body)

    def texts_of(self, body: Any) -> list[tuple[str, str]]:
        own = [item for item in body["input"] if item.get("role") != "developer"]
        found = [(kind, text) for kind, text in self.upstream.wire.texts({"input": own}) if not text.startswith("<env")]
        return [
            (kind, re.sub(r"Chunk ID: \w+|Wall time: [\d.]+|\w{8}(-\w{4}){3}-\w{12}", "", text)) for kind, text in found
        ]

    @property
    def log(self) -> Log:
        return foldmark.open(self.database, settings={})

    def messages(self) -> list[Event]:
        with self.log as log:
            return list(conversation(log).context().messages)


def conversation(log: Log) -> Agent:
    """Return the only recorded session."""
    (agent,) = [each for each in log.agents() if each.name]
    return agent


def turn(session: Codex, prompt: str) -> int:
    found = next(each.turn_id for each in session.messages() if each.content == prompt)
    assert found is not None
    return found


def test_operations_on_codex(tmp_path: Path) -> None:
    """Prompts, each in a separate run and gateway, with operations in between. Once all are undone, the provider gets
    the same as without Foldmark."""
    prompts = ["Hello.", "READ both.", "The heron.", "After the eviction.", "After the drop.", "After forgetting."]
    prompts += ["Behind the mark.", "After all."]
    with Loopback(CodexWire(), answered("Fine")) as plain:
        without = Codex(tmp_path / "without", plain, live=False)
        for prompt in prompts:
            without.say(prompt)
    with Loopback(CodexWire(), answered("Fine")) as upstream:
        session = Codex(tmp_path / "with", upstream, live=True)
        for prompt in prompts[:3]:
            session.say(prompt)
        assert [session.texts_of(each.body) for each in upstream.asked] == [
            without.texts_of(each.body) for each in plain.asked[: len(upstream.asked)]
        ]
        assert "nothing taken out" in session.say(":context")
        result = next(each for each in session.messages() if each.kind == "tool_result")
        session.say(f":evict {result.id}")
        session.say(prompts[3])
        outputs = [text for kind, text in session.texts if kind == "result"]
        assert [text.startswith("[Evicted: ") for text in outputs] == [True, False]
        assert "left the context" in session.say(f":drop {result.turn_id} -- not needed")
        session.say(prompts[4])
        assert not any(kind in ("call", "result") or "READ" in text for kind, text in session.texts)
        assert "Forget 1 message" in session.say(":forget the heron")
        assert "left the context" in session.say(":yes")
        session.say(prompts[5])
        assert "The heron." not in json.dumps(session.texts)
        session.say(":mark HERE")
        session.say(prompts[6])
        session.say(":clear HERE")
        sent = json.dumps([each.body["input"] for each in upstream.requests])
        commands = (":context", ":evict", ":drop", ":forget", ":yes", ":mark", ":clear", "left the context")
        assert [each for each in commands if each in sent] == []
        with session.log as log:
            kinds = ("evict", "drop", "filter", "clear", "rewind")
            operations = [event.id for event in conversation(log).events(0, 1000) if event.kind in kinds]
        for operation in reversed(operations):
            session.say(f":restore {operation}")
        session.say(prompts[7])
        assert upstream.refusals == plain.refusals == []
        assert session.texts == without.texts
        assert [each.content for each in session.messages() if each.content in prompts] == prompts
    assert all(KEY.encode() not in path.read_bytes() for path in (tmp_path / "with").glob("live.*"))


def test_sub_agents_and_broken_answers(tmp_path: Path) -> None:
    """A sub-agent's thread becomes a child. An answer that broke off and the one after it become one message."""
    breaks: list[Answer] = []
    model = answered("Fine")

    def playing(body: Any) -> Answer:
        return breaks.pop() if breaks else model(body)

    with Loopback(CodexWire(), playing) as upstream:
        session = Codex(tmp_path, upstream, live=True)
        session.say("DELEGATE it.")
        with session.log as log:
            (child,) = conversation(log).children
            said = [each.content for each in child.context().messages if each.kind != "client"]
            assert said == ["SUBTASK: do it", "The task is done."]
        breaks.append(Broken((Use("call_x", "exec_command", {"cmd": "cat a.txt"}),)))
        session.say("Broken.")
        session.say("More.")
        events = session.messages()
        prompts = [each.content for each in events if each.kind == "user" and not each.content.startswith("<")]
        assert prompts == ["DELEGATE it.", "Broken.", "More."]
        with session.log as log:
            assert not any(event.kind == "filter" for event in conversation(log).events(0, 1000))
        session.say(f":drop {turn(session, 'Broken.')}")
        session.say("Last.")
        assert "call_x" not in json.dumps(upstream.asked[-1].body)
        assert upstream.refusals == []


def test_the_models_hand(tmp_path: Path) -> None:
    """The model acts on its own session through the MCP server. A result whose call has left is sent as a notice."""

    def playing(body: Any) -> Answer:
        last = body["input"][-1].get("content", [{}])[-1].get("text", "")
        if last.startswith("USE "):
            command, args = last.removeprefix("USE ").split()
            call = Use(f"call_{command}", "mcp__foldmark.slash", {"command": command, "args": args})
            return Reply((Think("Hm.", f"signed-{command}"), call), stop="calls")
        return Reply((Say(("Done.",)),))

    with Loopback(CodexWire(), playing) as upstream:
        session = Codex(tmp_path, upstream, live=True)
        server = f'command = "{sys.executable}"\nargs = ["-m", "foldmark", "mcp"]\nrequired = true\n'
        server += f'env = {{ FOLDMARK_DB = "{session.database}" }}\ndefault_tools_approval_mode = "approve"\n'
        (session.home / ".codex").mkdir()
        (session.home / ".codex" / "config.toml").write_text(f"[mcp_servers.foldmark]\n{server}")
        session.say("one")
        session.say("USE mark HERE")
        session.say("two")
        session.say("USE clear HERE")
        kind, told = session.texts[-1]
        assert kind == "user"
        assert "Rewound to 'HERE'." in told
        session.say("three")
        users = [text for kind, text in session.texts if kind == "user"]
        assert users == ["one", "USE mark HERE", told, "three"]
        assert upstream.refusals == []


def test_a_login(tmp_path: Path) -> None:
    """With its own login, Codex keeps its own provider, and finds the sessions again without Foldmark."""
    with Loopback(CodexWire(), answered("Fine")) as upstream:
        session = Codex(tmp_path, upstream, live=True)
        session.key = {}
        (session.home / ".codex").mkdir()
        login = {"auth_mode": "apikey", "OPENAI_API_KEY": KEY}
        (session.home / ".codex" / "auth.json").write_text(json.dumps(login))
        assert "Fine 1." in session.say("one")
        assert "nothing taken out" in session.say(":context")
        assert all(each.headers["authorization"] == f"Bearer {KEY}" for each in upstream.requests)
        assert "Fine 2." in session.say("two")
        assert [text for kind, text in session.texts if kind == "user"] == ["one", "two"]
        session.live = False
        assert "Fine 3." in session.say("three")
        assert len(upstream.requests) == 3
        assert '"one"' in json.dumps(upstream.requests[-1].body["input"])


def test_the_first_request_is_that_of_codex_alone(tmp_path: Path) -> None:
    """Codex and its gateway ask the provider's own address, with a key that Codex has stored."""
    asked = []
    for live in (False, True):
        home, work = tmp_path / "home", tmp_path / "work"
        (home / ".codex").mkdir(parents=True)
        work.mkdir()
        (home / ".codex" / "auth.json").write_text(json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": KEY}))
        words = ["codex", "-c", 'model="gpt-5.1"', "exec", "--skip-git-repo-check", "Hello."]
        variables = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(home), "FOLDMARK_DB": str(tmp_path / "live.db")}
        asked.append(first_request(CodexWire(), words, work, variables, live=live))
        shutil.rmtree(home)
        work.rmdir()
    alone, live_one = asked
    assert live_one.body.pop("client_metadata").keys() == alone.body.pop("client_metadata").keys()
    assert live_one == alone


def test_a_compaction_by_codex(tmp_path: Path) -> None:
    """Its request contains the messages that the log shows. Replaced messages leave as an edit by the client."""
    spent = Usage(fresh=3000, cache_read=0, cache_write=0, output=20)

    def playing(body: Any) -> Answer:
        if body["input"][-1]["type"] == "compaction_trigger":
            return Reply((Say(("COMPACTED",)),))
        return Reply((Say((f"I see {len(body['input'])}.",)),), usage=spent)

    with Loopback(CodexWire(), playing) as upstream:
        session = Codex(tmp_path, upstream, live=True)
        session.say("one")
        session.say(":mark HERE")
        session.say("two")
        session.say(f":drop {turn(session, 'one')}")
        session.more = ["-c", "model_auto_compact_token_limit=2000"]
        session.say("three")
        kinds = [body["input"][-1]["type"] for body in (each.body for each in upstream.asked)]
        (place,) = [at for at, kind in enumerate(kinds) if kind == "compaction_trigger"]
        asked = json.dumps(upstream.asked[place].body["input"])
        assert '"two"' in asked
        assert not any(gone in asked for gone in ('"one"', ":mark", ":drop", "Checkpoint"))
        assert "COMPACTED" in json.dumps(upstream.asked[-1].body["input"])
        session.more = []
        session.say(":clear")
        session.say("four")
        assert "COMPACTED" not in json.dumps(upstream.asked[-1].body["input"])
        assert [text for kind, text in session.texts if kind == "user"] == ["four"]
        assert upstream.refusals == []


def test_custom_tools_of_newer_models(tmp_path: Path) -> None:
    def playing(body: Any) -> Answer:
        if "READ" in json.dumps(body["input"][-1]):
            script = {"input": "text('data '.repeat(100))"}
            return Reply((Think("Hm.", "signed"), Use("call_c", "exec", script)), stop="calls")
        return Reply((Think("Hm.", "signed"), Say(("Done.",))))

    with Loopback(CodexWire(), playing) as upstream:
        session = Codex(tmp_path, upstream, live=True, model="gpt-6-sol")
        session.say("READ it.")
        session.say("more")
        found = [each for each in session.messages() if each.kind != "client"]
        assert [each.kind for each in found][:4] == ["user", "assistant", "tool_call", "tool_result"]
        assert json.loads(found[2].content) == {"input": "text('data '.repeat(100))"}
        session.say(f":evict {found[3].id}")
        session.say("again")
        (output,) = [item for item in upstream.asked[-1].body["input"] if item["type"] == "custom_tool_call_output"]
        assert output["output"].startswith("[Evicted: ")
        session.say(f":drop {found[0].turn_id}")
        session.say("last")
        assert "call_c" not in json.dumps(upstream.asked[-1].body)
        assert upstream.refusals == []


def test_what_codex_writes_into_results_is_understood(tmp_path: Path) -> None:
    """The exit code of a command, a file that a command shows, and a patch."""
    numbers, tried = count(1), "ls flag.txt || { seq 1 300; exit 3; }"
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.txt\n@@\n-alpha\n+omega\n*** End Patch\nEOF"
    commands = {"READ": "cat a.txt", "TRY": tried, "PATCH": patch}

    def played(body: Any) -> Answer:
        last, number = json.dumps(body["input"][-1]), next(numbers)
        asked = next((line for word, line in commands.items() if word in last), None)
        if asked is None:
            return Reply((Say(("Fine.",)),))
        return Reply((Use(f"call_{number}", "exec_command", {"cmd": asked}),), stop="calls")

    with Loopback(CodexWire()) as upstream:
        session = Codex(tmp_path / "session", upstream, live=True)
        session.more = ["-c", 'sandbox_mode="danger-full-access"']
        upstream._answering = played
        session.say("READ it.")
        session.say("TRY it.")
        (session.work / "flag.txt").touch()
        session.say("TRY it again.")
        session.say("PATCH it.")
        shown = session.say(":suggest")
        assert re.search(r"exec_command a\.txt · .* · stale: written by call \d+\n", shown)
        assert re.search(r" · failed: succeeded in call \d+\n", shown)
        assert "evicted" in session.say(":yes")
        session.say("Go on.")
        sent = [text.startswith("[Evicted: ") for kind, text in session.texts if kind == "result"]
        assert sent == [True, True, False, False]
        assert upstream.refusals == []
