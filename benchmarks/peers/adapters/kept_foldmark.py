"""Foldmark's ways to shorten a conversation, as methods that a kit of another program can call.

A method records the messages of a session in a log of its own. What it returns is the text of the messages of the next
request, in the form of the kit's transcripts: `[role] text`. A budget counts the characters of that text; the window's
own budget, in tokens, is the largest one whose request stays within them.
"""

import json
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import foldmark

CALL = re.compile(r"(\w+)\((\{.*\})\)", re.DOTALL)
"""A turn of the assistant that calls a tool, as the sessions of the suite write it."""

TYPED = re.compile(r"(SAFETY RULE|HARD CONSTRAINT|FACT|GOAL STATE|USER PREFERENCE): ")
"""The headings by which the kit's own checklists know what to keep."""


class Said(NamedTuple):
    """A message as both kits give it."""

    role: str
    text: str


class Method:
    """The window: the newest turns that fit, older tool results shorter than newer ones."""

    name = "Foldmark: window with tiers"

    def __init__(self) -> None:
        """Open a log in memory."""
        self.agent: foldmark.Agent | None = None
        self.sent = ""
        self.ids: list[int] = []

    def shortened(self, turns: list[Said], characters: int | None) -> str:
        """Return the messages of the next request within a budget. What this method returned before is not a new
        session: the next request is made from the log again."""
        if len(turns) != 1 or turns[0].text != self.sent:
            self.agent, self.ids = self.recorded(turns)
            self.agent.do("/config set sliding_context_low_water=1")
            self.prepare(self.agent, turns)
        self.sent = self.fitted(characters)
        return self.sent

    def recorded(self, turns: list[Said]) -> tuple[foldmark.Agent, list[int]]:
        """Return an agent with these messages, and their ids."""
        agent = foldmark.open(":memory:", settings={}).agent("session")
        return agent, list(_append(agent, turns))

    def prepare(self, agent: foldmark.Agent, turns: list[Said]) -> None:
        """Do what this method does besides the window."""

    def fitted(self, characters: int | None) -> str:
        """Return the messages under the largest budget of tokens with which they stay within the characters."""
        assert self.agent is not None
        self.agent.do("/context budget 0")
        best = text = self.rendered()
        low, high = 0, self.agent.next_request().tokens
        if characters is None or len(text) <= characters:
            return text
        best = ""
        while low < high - 8:
            middle = (low + high) // 2
            self.agent.do(f"/context budget {middle}")
            text = self.rendered()
            if len(text) <= characters:
                low, best = middle, text
            else:
                high = middle
        self.agent.do(f"/context budget {low}")
        return best or text

    def rendered(self) -> str:
        """Return the messages of the next request; of the system texts only the session's own."""
        assert self.agent is not None
        lines = []
        for message in self.agent.next_request().body["messages"]:
            text = message.get("content") or ""
            if message["role"] == "system":
                text = self.agent.do("/system").text
            if text:
                lines.append(f"[{message['role']}] {text}")
            for call in message.get("tool_calls", ()):
                lines.append(f"[assistant] {call['function']['name']}({call['function']['arguments']})")
        return "\n".join(lines)

    def recall(self, question: str) -> str:
        """Return what the tool `recall` answers the model."""
        assert self.agent is not None
        return self.agent.call_tool("recall", {"query": question})


class EvictSuperseded(Method):
    """The window, after results that a later call made stale have been evicted."""

    name = "Foldmark: evict superseded, window"

    def prepare(self, agent: foldmark.Agent, turns: list[Said]) -> None:
        """Evict them."""
        agent.do("/context evict --superseded --yes")


class Pins(Method):
    """The turns of a person that state a rule, which the person pinned, and the newest two turns."""

    name = "Foldmark: pins, newest two turns"

    def prepare(self, agent: foldmark.Agent, turns: list[Said]) -> None:
        """Pin each turn with a heading."""
        agent.do("/context window 2")
        for id, turn in zip(self.ids, (each for each in turns if each.role != "system"), strict=True):
            if turn.role == "user" and TYPED.match(turn.text):
                agent.do(f"/pin {id}")


class Summary(Method):
    """The window, and before it a summary of what it has passed, by the offline model."""

    name = "Foldmark: summary by the offline model, window"

    def fitted(self, characters: int | None) -> str:
        """Return the messages after the older ones have been replaced with a summary."""
        assert self.agent is not None
        whole = super().fitted(None)
        if characters is None or len(whole) <= characters:
            return whole
        left = super().fitted(max(1, characters - 1000))  # a digest has less than 1,000 characters
        self.agent.do("/context budget 0")
        count = sum(line.startswith(("[user] ", "[assistant] ", "[tool] ")) for line in left.split("\n"))
        if 0 < count < len(self.ids):
            self.agent.do(f"/summarize {self.ids[0]}..{self.ids[-count - 1]}")
        return super().fitted(characters)


class TrimDeep(Method):
    """The window over a session of a coding agent after `foldmark trim --profile deep`."""

    name = "Foldmark: trim deep, window"

    def recorded(self, turns: list[Said]) -> tuple[foldmark.Agent, list[int]]:
        """Write the messages as a session of Claude Code, trim it, and import the result."""
        folder = Path(tempfile.mkdtemp())
        session = folder / f"{uuid.UUID(int=1)}.jsonl"
        session.write_text("".join(json.dumps(each) + "\n" for each in _records(turns)), encoding="utf-8")
        _foldmark(folder, "trim", str(session), "--profile", "deep")
        result = next((path for path in folder.glob("*.jsonl") if path != session), session)
        _foldmark(folder, "import", str(result), "--as", "session")
        agent = foldmark.open(folder / "log.db", settings={}).agent("session")
        for turn in turns:
            if turn.role == "system":
                agent.do(f"/system edit {turn.text}")
        return agent, []


METHODS = (Method, EvictSuperseded, TrimDeep, Summary, Pins)


def _foldmark(folder: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "foldmark", "--db", str(folder / "log.db"), *words], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())


def _append(agent: foldmark.Agent, turns: list[Said]) -> Iterator[int]:
    """Record messages, and yield the ids of all but the system's."""
    for number, turn in enumerate(turns):
        call = CALL.fullmatch(turn.text) if turn.role == "assistant" else None
        if turn.role == "system":
            agent.do(f"/system edit {turn.text}")
        elif call:
            yield agent.append_tool_call(call[1], json.loads(call[2]), call_id=f"call{number}")
        elif turn.role == "tool":
            yield agent.append_tool_result(f"call{number - 1}", turn.text)
        else:
            yield agent.append(turn.role, turn.text)
            if turn.role == "assistant":
                agent.end_turn()


def _records(turns: list[Said]) -> Iterator[dict[str, Any]]:
    """Yield the records of a session of Claude Code with these messages."""
    parent = None
    for number, turn in enumerate(turns):
        if turn.role == "system":
            continue
        call = CALL.fullmatch(turn.text) if turn.role == "assistant" else None
        kind, message = turn.role, {"role": turn.role, "content": turn.text}
        if call:
            block = {"type": "tool_use", "id": f"call{number}", "name": call[1], "input": json.loads(call[2])}
            message["content"] = [block]
        elif turn.role == "tool":
            block = {"type": "tool_result", "tool_use_id": f"call{number - 1}", "content": turn.text}
            kind, message = "user", {"role": "user", "content": [block]}
        elif kind == "assistant":
            message["content"] = [{"type": "text", "text": turn.text}]
        if kind == "assistant":
            message |= {"id": f"msg_{number:06}", "model": "claude-sonnet-4-5", "type": "message"}
        id = str(uuid.UUID(int=number + 1))
        yield {
            "type": kind,
            "uuid": id,
            "parentUuid": parent,
            "sessionId": str(uuid.UUID(int=1)),
            "isSidechain": False,
            "cwd": "/",
            "version": "2.1.0",
            "timestamp": f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000Z",
            "message": message,
        }
        parent = id
