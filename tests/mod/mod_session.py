"""Sessions of the real Claude Code with Foldmark's plugins, in a terminal, against a provider that refuses what the
real one refuses."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from plan import Answer, Http, Reply, Say, Think, Use
from screens import BIN, EARLIEST_WITH_MODS, KEY, Screen, claude_version, common_variables
from server import Loopback
from wire_anthropic import AnthropicWire
from wire_bound import BoundWire

import foldmark
from foldmark.core import selections
from foldmark.core.assembly.eviction import client_placeholder
from foldmark.core.codec import operation_of
from foldmark.core.events import Event, PlanningEnded
from foldmark.formats.claude.told import INJECTED
from foldmark.log import Agent, Log
from foldmark.sessions.conversion.importing import import_session
from patience import LIMIT

_REMINDER = re.compile(r"(?:\s*<system-reminder>(?:(?!<system-reminder>).)*</system-reminder>)+\Z", re.DOTALL)
"""What the client adds to the end of a result."""

_USAGE = {"input_tokens": 100, "output_tokens": 20}

OPENING = "[Earlier messages were left out.]"

EDITS = ("mark", "drop", "evict", "rewind", "clear", "undo", "filter", "summary", "restore")
"""The kinds of operations that a person takes back."""

TOPICS = ("kites", "canals", "lanterns")

MARKERS = ("/fm ", "left the context", "came back", "taken back", "Checkpoint '", "foldmark:", "Foldmark:")
"""Texts of Foldmark that no provider may see."""


def client() -> Path:
    """Return the installed client, or skip the test if it is none that loads mods."""
    program = BIN / "claude"
    if not program.exists() or shutil.which("tmux") is None:
        pytest.skip("claude or tmux is not there")
    if (version := claude_version()) < EARLIEST_WITH_MODS:
        pytest.skip(f"Claude Code {version} loads no mods")
    return program


class _Aside:
    """A provider that looks only at requests of the conversation: the client asks for titles with fields of its own."""

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        refused: Http | None = super().refuse(path, headers, body) if body.get("tools") else None  # type: ignore[misc]
        # The provider joins users' messages; the client sends such behind a compaction of its own.
        return None if refused is not None and b"two user messages in a row" in refused.body else refused


class Provider(_Aside, AnthropicWire):
    """A provider whose models do not bind their thinking."""


class BoundProvider(_Aside, BoundWire):
    """A provider whose models bind their thinking."""


def variables_of(folder: Path) -> dict[str, str]:
    """Return the environment of the client and of the installation."""
    return {**common_variables(folder), "DISABLE_AUTOUPDATER": "1"}


class ModScreen(Screen):
    """Claude Code with the installed plugins, in a terminal."""

    def __init__(self, folder: Path, upstream: str, *more: str, model: str, live: bool = False, rows: int = 50) -> None:
        home, work = folder / "home", folder / "work"
        if not home.exists():
            home.mkdir()
            work.mkdir()
            for number in range(9):
                (work / f"x{number}.txt").write_text(f"matter {number}\n" * (3 + 40 * number))
            trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
            known = {"approved": [KEY], "rejected": []}
            settings = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": known}
            (home / ".claude.json").write_text(json.dumps({**settings, "projects": {str(work): trusted}}))
            words = [str(Path(sys.executable).with_name("foldmark")), "install", "claude"]
            done = subprocess.run(
                words, cwd=work, env=variables_of(folder), capture_output=True, text=True, timeout=LIMIT
            )
            assert done.returncode == 0, done.stderr
        variables = {**variables_of(folder), "ANTHROPIC_BASE_URL": upstream, "ANTHROPIC_API_KEY": KEY}
        program = [sys.executable, "-m", "foldmark", "live", "claude"] if live else [str(BIN / "claude")]
        words = [*program, "--model", model, "--permission-mode=default", "--allowedTools", "Read"]
        super().__init__(work, variables, [*words, *more], rows=rows)

    def enter(self, text: str) -> None:
        """Type a line and send it."""
        self._tmux("send-keys", "-l", text)
        self._typed(lambda line: text.split()[-1] in line)
        time.sleep(0.2)
        self.press("Enter")


class ModSession:
    """A session whose requests are compared with the log. `compared` counts the requests.

    `refused_edits` are the prompts whose first request behind an edit was refused. Where a model binds its thinking,
    the client itself moves texts between a turn of tools and the next one, is refused, and repeats the request without
    thinking.
    """

    def __init__(self, folder: Path, seed: int = 0, model: str = "claude-sonnet-4-6", *, live: bool = False) -> None:
        self.folder, self.random, self.model, self.live = folder, random.Random(seed), model, live
        folder.mkdir(exist_ok=True)
        self.numbers, self.compared, self.summaries, self.compactions = count(1), 0, 0, 0
        self.wire = BoundProvider() if model == BoundWire.model else Provider()
        self.upstream = Loopback(self.wire, self._answer)
        self.lines: list[str] = []
        self.asides: list[Any] = []
        self.found, self.reply = "", ""
        self.refused_edits: list[str] = []
        self._edited, self._compacted = False, sys.maxsize
        self.begun = False

    def __enter__(self) -> "ModSession":
        self.upstream.__enter__()
        self.screen = ModScreen(self.folder, self.upstream.url, model=self.model, live=self.live)
        self.screen.wait_for_prompt("mode on")
        return self

    def __exit__(self, *error: object) -> None:
        self.screen.close()
        self.upstream.__exit__(None, None, None)
        for file in (self.folder / "home" / ".local" / "state" / "foldmark").glob("mod-*.json"):
            os.kill(json.loads(file.read_text())["process"], 15)

    def _answer(self, body: Any) -> Answer | Http:
        if not body.get("tools"):
            self.asides.append(body)
            if not body.get("stream"):  # a question of Foldmark's own
                answer = {"content": [{"type": "text", "text": self.found}], "usage": _USAGE, "stop_reason": "end_turn"}
                message = {"id": "msg_own", "type": "message", "role": "assistant", "model": self.model, **answer}
                return Http(200, {"content-type": "application/json"}, json.dumps(message).encode())
            return Reply((Say((self.found or '{"title": "A title"}',)),))
        last = next(each for each in reversed(body["messages"]) if each["role"] != "system")
        number = next(self.numbers)
        said = json.dumps(last)
        if "<summary> block" in said or "Respond with TEXT ONLY" in said:
            self.summaries += 1
            return Reply((Say((f"<analysis>It.</analysis>\n<summary>Summary {number}.</summary>",)),))
        if found := re.search(r"WAIT (\d+)", said):
            time.sleep(int(found[1]))
        signature = self.wire.sign(body) if isinstance(self.wire, BoundWire) else f"signed-{number}"
        if found := re.search(r"READ (\d)", said):
            use = Use(f"toolu_{number}", "Read", {"file_path": str(self.folder / "work" / f"x{found[1]}.txt")})
            return Reply((Think("To read.", signature), Say((f"Reading {number}.",)), use), stop="calls")
        return Reply((Think("Hm.", signature), Say((f"Answer {number}.",))))

    # What a person does

    def prompt(self, text: str) -> None:
        """Send a prompt, wait for the answer, and compare the request with the log."""
        asked = len(self.upstream.requests)
        self.screen.enter(text)
        self._until(lambda: any(text in json.dumps(each.body) for each in self.upstream.requests[asked:]), text)
        self._until(lambda: not self._works(), "the end of the turn")
        if self._edited:
            first = next(each for each in self.upstream.requests[asked:] if each.body.get("tools"))
            self.refused_edits += [] if any(each is first for each in self.upstream.asked) else [text]
            self._edited = False
        if self.begun:
            self._until(lambda: self._recorded(text), f"the record of {text}")
            self.compare()
        else:
            time.sleep(1.0)

    def fm(self, line: str) -> None:
        """Execute a command, and wait until the client sends what it should."""
        self.lines.append(line)
        operations, before = self._operations(), self.boundaries()
        self.screen.enter(f"/fm {line}".rstrip())
        self._until(lambda: "Context ·" in self.screen.text and "…" not in self._heading(), f"the reply to {line}")
        if self._operations() != operations:
            time.sleep(0.7)  # until the client has installed it, and the log has seen that
        self._edited |= self.boundaries() > before
        self.reply, self.begun = self.screen.text, True
        self.screen.press("Escape")
        self._until(lambda: "Context ·" not in self.screen.text, "the pane to close")

    def do(self, line: str) -> None:
        """Execute a command in another terminal."""
        words = [str(Path(sys.executable).with_name("foldmark")), "do", self._name(), line]
        done = subprocess.run(words, env=variables_of(self.folder), capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr

    def play(self, steps: int) -> None:
        """Do random things: prompts, edits, and more rarely a compaction or another start of the client."""
        self.prompt("begin READ 1")
        self.fm("")
        for number in range(steps):
            self.step(number)
        self.prompt("the last prompt")

    def step(self, number: int) -> None:
        """Do one random thing."""
        events, chance = self.events(), self.random.random()
        turns = sorted({each.turn_id for each in events if each.turn_id and each.kind == "user"})
        results = [each.id for each in events if each.kind == "tool_result"]
        edits = self._operations()
        topic = self.random.choice(TOPICS)
        if chance < 0.4:
            read = self.random.choice(("", "", f" READ {self.random.randrange(9)}"))
            self.prompt(f"prompt {number} about {topic}{read}")
        elif chance < 0.55 and turns:
            self.fm(f"drop {self.random.choice(turns)}")
        elif chance < 0.65 and results:
            self.fm(f"evict {self.random.choice(results)}")
        elif chance < 0.8 and edits:
            self.fm(f"restore {self.random.choice(edits)}")
        elif chance < 0.85:
            self.fm("undo")
        elif chance < 0.92:
            about = [each.id for each in events if topic in each.content]
            self.found = json.dumps(about)
            self.fm(f"forget {topic}")
            self.found = ""
            if about and "Answer /fm yes" in self.reply:
                self.fm(self.random.choice(("yes", "no")))
            elif about:
                self.fm("cancel")
        elif chance < 0.95:
            self.restart()
        elif chance < 0.975:
            self.rewind()
        elif len(turns) > 2:
            self.compact()

    def compact(self) -> None:
        """Let the client compact the session."""
        before = self.boundaries()
        self.compactions += 1
        self._compacted = min(self._compacted, len(self._bodies()))
        self.screen.enter("/compact")
        self._until(lambda: self.boundaries() > before, "the compaction")
        time.sleep(1.0)

    def rewind(self) -> None:
        """Let the client go back to before the newest prompt, or the one before it."""
        self.screen.enter("/rewind")
        self._until(lambda: "Enter to continue" in self.screen.text, "the prompts to go back to")
        for key in ["Up"] * self.random.choice((1, 2)) + ["Enter"]:
            self.screen.press(key)
            time.sleep(0.2)
        self._until(lambda: "Restore conversation" in self.screen.text, "what to restore")
        self.screen.press("Enter")
        self._until(lambda: "Restore conversation" not in self.screen.text, "the conversation")
        time.sleep(0.5)
        self.screen.press("C-u")  # the prompt that is taken back stands in the line

    def restart(self) -> None:
        """Leave the client, and continue the session in a new one."""
        self.screen.close()
        self.screen = ModScreen(self.folder, self.upstream.url, "--continue", model=self.model, live=self.live)
        self.screen.wait_for_prompt("mode on")
        self.begun = False
        self.fm("")

    # What is there

    @property
    def transcript(self) -> Path:
        """The session's file."""
        found = (self.folder / "home" / ".claude" / "projects").glob("*/*.jsonl")
        return max(found, key=lambda file: file.stat().st_size)

    def boundaries(self) -> int:
        """Return the number of compactions in the file."""
        return self.transcript.read_text().count('"subtype":"compact_boundary"')

    def agent(self, log: Log) -> Agent:
        """Return the session's agent."""
        (found,) = log.agents()
        return found

    def events(self) -> list[Event]:
        """Return the messages of the context."""
        with foldmark.open(self.folder / "live.db", settings={}) as log:
            return list(self.agent(log).context().messages)

    def _name(self) -> str:
        with foldmark.open(self.folder / "live.db", settings={}) as log:
            return str(self.agent(log).name)

    def _operations(self) -> list[int]:
        if not (self.folder / "live.db").exists():
            return []
        with foldmark.open(self.folder / "live.db", settings={}) as log:
            if not log.agents():
                return []
            agent = self.agent(log)
            with agent.reading() as (moment, _):
                found = selections.operations(moment, agent.id)
                own = [each for each in found if each.actor != "system" and each.kind in EDITS]
                return [each.id for each in own if not isinstance(operation_of(each), PlanningEnded)]

    def context(self) -> list[tuple[str, str]]:
        """Return what a request must hold."""
        with foldmark.open(self.folder / "live.db", settings={}) as log:
            return shown(self.agent(log))

    def compare(self) -> None:
        """Compare the newest request and its answer with the log."""
        request = next(each.body for each in reversed(self.upstream.requests) if each.body.get("tools"))
        sent = [each for each in contents(request["messages"]) if each != ("user", OPENING)]
        wanted = self.context()
        answer = wanted.pop() if wanted and wanted[-1][0] == "assistant" else None
        assert answer is not None
        assert sent == wanted, _difference(sent, wanted) + f"\nafter {self.lines}"
        self.compared += 1

    def check(self) -> None:
        """Check what holds for the whole session."""
        if isinstance(self.wire, BoundWire):
            assert self.refused_edits == []
        else:
            assert self.upstream.refusals == []
        bodies = self._bodies()
        assert self.summaries == self.compactions, "an edit asked for a summary"
        texts = {text for body in bodies for _, text in contents(body["messages"])}
        leaked = [text[:200] for text in texts for marker in MARKERS if marker in text]
        assert not leaked, leaked
        assert not any("archived whole" in json.dumps(body["messages"]) for body in bodies[: self._compacted])
        self._check_import()

    def _check_import(self) -> None:
        """Check that an import of the session has the context of the log."""
        self.screen.close()
        with foldmark.open(self.folder / "imported.db", settings={}) as log:
            import_session(log, self.transcript, "imported")
            # What the client sends as a prompt after a compaction of its own is known as a summary there.
            own = "This session is being continued"
            imported = [("user" if t.startswith(own) else kind, t) for kind, t in shown(log.agent("imported"))]
        with foldmark.open(self.folder / "live.db", settings={}) as log:
            recorded = shown(self.agent(log))
        # The client sends what it tells with a result at the result's end; an import knows the two apart.
        evicted = re.compile(re.escape(client_placeholder(0)).replace("0", r"[\d,]+"))
        recorded, imported = (
            [(kind, evicted.sub("[Evicted]", text)) for kind, text in found if (kind, text) != ("user", OPENING)]
            for found in (recorded, imported)
        )
        assert imported == recorded, _difference(imported, recorded) + f"\nimported, after {self.lines}"

    def _bodies(self) -> list[Any]:
        """Return the requests of the conversation."""
        return [each.body for each in self.upstream.requests if each.body.get("tools")]

    def _heading(self) -> str:
        return next((line for line in self.screen.text.split("\n") if "Context ·" in line), "…")

    def _recorded(self, text: str) -> bool:
        found = [each for each in self.events() if each.kind in ("user", "assistant") and each.content.strip()]
        said = [each.content.strip() for each in found]
        return text in said and found[-1].kind == "assistant" and found[-1].content.startswith("Answer")

    def _works(self) -> bool:
        """Return True while the client shows that it works."""
        time.sleep(0.3)
        return "esc to interrupt" in self.screen.text

    def _until(self, condition: Callable[[], object], what: str) -> None:
        until = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < until, f"{what} did not come:\n{self.screen.text}"
            time.sleep(0.1)


def shown(agent: Agent) -> list[tuple[str, str]]:
    """Return the kind and the text of each content of an agent's context, as a request holds them, without thinking."""
    with agent.reading() as (_, at):
        evicted = set(at.fold.evicted)
    messages = agent.context().messages
    # Of a planning conversation, no client sends anything, also where its filter is taken back.
    begins = ("/forget ", "/remember ", "[Foldmark: this is what")
    talks = {each.turn_id for each in messages if each.content.startswith(begins) or each.content in ("yes", "no")}
    found = []
    for each in (each for each in messages if each.turn_id not in talks):
        text = client_placeholder(len(each.content)) if each.id in evicted else each.content
        if each.kind == "client" or not text.strip():
            continue
        kind = {"tool_call": "call", "tool_result": "result", "summary": "assistant"}.get(each.kind, each.kind)
        found.append((kind, str(each.call_id) if kind == "call" else _REMINDER.sub("", text).strip()))
    return found


def contents(messages: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each content of a request, without thinking and the client's own texts."""
    for message in messages:
        if message["role"] == "system":
            continue
        blocks = message["content"]
        for block in [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks:
            kind = block["type"]
            if kind == "tool_use":
                yield "call", block["id"]
            elif kind == "tool_result":
                content = block["content"]
                text = content if isinstance(content, str) else "".join(each.get("text", "") for each in content)
                yield "result", _REMINDER.sub("", text).strip()
            elif kind == "text":
                text = block["text"].strip()
                if text and not (message["role"] == "user" and INJECTED.match(block["text"])):
                    yield message["role"], text


def _difference(sent: list[Any], wanted: list[Any]) -> str:
    from difflib import unified_diff

    before, after = ([f"{kind}: {text[:70]!r} … {text[-200:]!r}" for kind, text in each] for each in (wanted, sent))
    return "\n".join(unified_diff(before, after, "the log", "the request", lineterm=""))
