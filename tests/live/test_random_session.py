"""Real agents with commands at random moments, by seeds (random_session.py). Skipped without `make clients` or tmux.

One seed runs by default, many with FOLDMARK_DEEP=1.
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from plan import Http, Part, Reply, Think, Use, Wire
from random_session import KINDS, RandomClient, play
from screens import ClaudeScreen, Screen
from wire_anthropic import AnthropicWire
from wire_bound import BoundWire

from foldmark.text.queued import TextPart, divided, divided_result
from sampled import DEEP

STEPS = 12
BOUND = ("claude-fable-5-1",)
"""Models that take thinking only behind the messages for which it was made."""

MODELS = ("claude-opus-4-8", "claude-sonnet-4-6")
SEEDS = range(1, 31 if DEEP else 2)


class Claude(RandomClient):
    """Claude Code. Where a model takes no system messages, it puts what a person types meanwhile into results."""

    program, resumes = "claude", ("--continue",)
    moments = (
        *("idle", "idle", "two in a row", "preview", "request", "stream", "stream", "tool", "tool", "tool"),
        *("plan", "background", "sub-agent", "interruption"),
    )

    def __init__(self, model: str = MODELS[0]) -> None:
        self.model = model
        self._wire: Wire
        self.left = False

    def wire(self, held: Callable[[Iterator[bytes]], Iterator[bytes]]) -> Wire:
        client = self

        class Held(BoundWire if self.model in BOUND else AnthropicWire):  # type: ignore[misc]
            def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
                # Claude Code sets a temperature for this model, which the newest models refuse.
                taken = {name: value for name, value in body.items() if name != "temperature"}
                if client.left:  # thinking is bound to a conversation without commands and replies
                    return AnthropicWire.refuse(self, path, headers, taken)
                refused: Http | None = super().refuse(path, headers, taken)
                return refused

            def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
                return held(super().stream(reply, body))

        self._wire = Held()
        return self._wire

    def begin(self, folder: Path, upstream: str, *more: str, live: bool) -> Screen:
        settings = folder / "home" / ".claude" / "settings.json"
        settings.parent.mkdir(parents=True, exist_ok=True)
        # Claude Code moves what hooks say about results, and is then refused by such a model without Foldmark, too.
        settings.write_text(json.dumps({"hooks": {} if self.model in BOUND else _HOOKS}))
        return ClaudeScreen(folder, upstream, *_OPTIONS, *more, live=live, model=self.model)

    def messages(self, body: Any) -> list[Any]:
        return list(body["messages"])

    def is_aside(self, body: Any) -> bool:
        return not body.get("tools")

    def counted(self, body: Any) -> bytes:
        system = [each for each in body.get("system", ()) if not each["text"].startswith("x-anthropic-billing")]
        # A message with a cache mark is a list of blocks, which Claude Code later repeats as one text.
        messages = [{**each, "content": _blocks(each)} for each in body["messages"]]
        text = json.dumps([body["tools"], system, *messages], ensure_ascii=False)
        return re.sub(r', "cache_control": \{[^{}]*\}', "", text).encode("utf-8", "replace")

    def answered(self, body: Any) -> Any:
        answers = [at for at, each in enumerate(body["messages"]) if each["role"] == "assistant"]
        return {**body, "messages": body["messages"][: answers[-1] + 1 if answers else 0]}

    def run(self, number: int, part: str, command: str, *, background: bool = False) -> Use:
        about = {"command": command, "description": "count"}
        return Use(f"toolu_{number}{part}", "Bash", {**about, "run_in_background": True} if background else about)

    def thinking(self, body: Any) -> Sequence[Part]:
        return [Think("Hm.", self._wire.sign(body))] if isinstance(self._wire, BoundWire) else ()

    def leave(self) -> None:
        self.left = True

    def delegate(self, number: int) -> Use:
        task = {"description": "do it", "prompt": f"SUBTASK s{number}.", "subagent_type": "general-purpose"}
        return Use(f"toolu_{number}x", "Agent", {**task, "run_in_background": True})

    def said(self, folder: Path) -> list[str]:
        found = sorted(
            (folder / "home" / ".claude" / "projects").glob("*/*.jsonl"), key=lambda each: each.stat().st_mtime
        )
        lines = found[-1].read_text().split("\n") if found else []
        texts = []
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:  # it is being written
                continue
            if record.get("type") == "assistant" and not record.get("isSidechain"):
                texts += [each["text"] for each in record["message"]["content"] if each["type"] == "text"]
        return texts

    def pieces(self, body: Any) -> list[tuple[str, str]]:
        return [piece for message in body["messages"] for piece in _pieces(message)]

    def set_mode(self, screen: Screen, *, plans: bool) -> None:
        while (("plan mode on" if plans else "shift+tab to cycle") in screen.text) != plans:
            before = screen.text
            screen.press("BTab")
            screen.changed(before)


_OPTIONS = ("--allowedTools=Bash", "--permission-mode=default")


def _adding(event: str) -> list[dict[str, Any]]:
    """Return a hook that tells the model something at an event."""
    told = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": f"A hook tells {event}."}}
    return [{"hooks": [{"type": "command", "command": f"echo {shlex.quote(json.dumps(told))}"}]}]


_HOOKS = {event: _adding(event) for event in ("SessionStart", "UserPromptSubmit", "PostToolUse")}
"""Hooks of a person, whose texts Claude Code adds to prompts, commands and results."""


def _blocks(message: Any) -> list[Any]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _pieces(message: Any) -> Iterator[tuple[str, str]]:
    role = message["role"]
    for block in _blocks(message):
        if block["type"] == "tool_use":
            yield "call", block["id"]
        elif block["type"] == "tool_result":
            content = block["content"]
            found = divided_result(content) if isinstance(content, str) else [TextPart(json.dumps(content))]
            yield from _said("result", found)
        elif block["type"] == "text":
            yield from _said(role, divided(block["text"]))


def _said(role: str, parts: Sequence[TextPart]) -> Iterator[tuple[str, str]]:
    for text, prompt in parts:
        if prompt is not None:
            yield "user", prompt
            continue
        # A system message may have to move behind others, and be joined with one of them.
        for part in text.split("\n\n") if role in ("system", "result") else [text]:
            if part.strip() and not (role == "user" and part.lstrip().startswith("<system-reminder>")):
                yield role, part.strip()


@pytest.mark.parametrize("seed", SEEDS)
def test_commands_at_random_moments(seed: int, tmp_path: Path) -> None:
    play(Claude(MODELS[seed % 10 // 5]), tmp_path, seed, STEPS)


@pytest.mark.skipif(not DEEP, reason="FOLDMARK_DEEP=1 plays a session for each kind of command")
@pytest.mark.parametrize("kind", KINDS)
def test_each_command_beside_what_the_client_adds(kind: int, tmp_path: Path) -> None:
    """Plan mode, reminders, texts of hooks, and notices of tasks and sub-agents in the background."""
    play(Claude(MODELS[kind % 2]), tmp_path, kind, STEPS, kind)


@pytest.mark.skipif(
    "FOLDMARK_CLIENTS" in os.environ, reason="2.1.332 repeats its own system messages in another form: the check fails"
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_model_that_binds_thinking(seed: int, tmp_path: Path) -> None:
    play(Claude(BOUND[0]), tmp_path, seed, STEPS)
