"""Codex and Gemini CLI with commands at random moments, by seeds (random_session.py). Skipped without `make clients` or
tmux. One seed runs by default, many with FOLDMARK_DEEP=1."""

import json
import re
import time
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from codex_wire import CodexWire
from gemini_screen import GeminiScreen
from plan import Http, Reply, Use, Wire
from random_session import RandomClient, play
from screens import CodexScreen, Screen
from test_long_gemini import without_repeats
from wire_gemini import GeminiWire

from sampled import DEEP

STEPS = 24
SEEDS = range(1, 11 if DEEP else 2)


class Codex(RandomClient):
    """Codex, which aborts an answer when a command is typed."""

    program, resumes = "codex", ("resume", "--last")
    moments = ("idle", "idle", "two in a row", "preview", "request", "stream", "stream", "tool", "tool", "tool")

    def wire(self, held: Callable[[Iterator[bytes]], Iterator[bytes]]) -> Wire:
        class Held(CodexWire):
            def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
                return held(super().stream(reply, body))

        return Held()

    def begin(self, folder: Path, upstream: str, *more: str, live: bool) -> Screen:
        options = ("-c", 'approval_policy="never"', "-c", 'sandbox_mode="danger-full-access"')
        return CodexScreen(folder, upstream, *options, *more, live=live)

    def messages(self, body: Any) -> list[Any]:
        return list(body["input"])

    def is_aside(self, body: Any) -> bool:
        return not body.get("tools")

    def counted(self, body: Any) -> bytes:
        passed = ("id", "internal_chat_message_metadata_passthrough")
        items = [{name: value for name, value in item.items() if name not in passed} for item in body["input"]]
        return json.dumps([body["tools"], *items], ensure_ascii=False).encode("utf-8", "replace")

    def answered(self, body: Any) -> Any:
        made = [at for at, item in enumerate(body["input"]) if item.get("role") == "assistant" or "name" in item]
        return {**body, "input": body["input"][: made[-1] + 1 if made else 0]}

    def run(self, number: int, part: str, command: str, *, background: bool = False) -> Use:
        return Use(f"call_{number}{part}", "exec_command", {"cmd": command, "yield_time_ms": 30_000})

    def said(self, folder: Path) -> list[str]:
        found = sorted((folder / "home" / ".codex" / "sessions").rglob("rollout-*.jsonl"), key=_changed)
        items = [record.get("payload", {}) for record in _records(found[-1])] if found else []
        spoken = [item for item in items if item.get("type") == "message" and item.get("role") == "assistant"]
        return ["".join(part.get("text", "") for part in item["content"]) for item in spoken]

    def pieces(self, body: Any) -> list[tuple[str, str]]:
        found = list[tuple[str, str]]()
        for item in body["input"]:
            if item.get("role") in ("user", "assistant"):
                texts = [part["text"].strip() for part in item["content"]]
                found += [(item["role"], text) for text in texts if not text.startswith(("<", "# AGENTS"))]
            elif item["type"] == "function_call":
                found.append(("call", item["call_id"]))
            elif item["type"] == "function_call_output":
                found.append(("result", item["output"]))
        return found


class GeminiCli(RandomClient):
    """Gemini CLI, which joins the prompts that wait."""

    program, resumes = "gemini", ("--resume", "latest")
    ready = "Type your message"
    moments = ("idle", "idle", "two in a row", "preview", "request", "stream", "stream", "tool", "tool", "tool")

    def wire(self, held: Callable[[Iterator[bytes]], Iterator[bytes]]) -> Wire:
        class Held(GeminiWire):
            def refuse(self, path: str, headers: Any, body: dict[str, Any]) -> Http | None:
                # Gemini CLI 0.61 repeats responses when it resumes a session, also without Foldmark.
                return super().refuse(path, headers, {**body, "contents": list(map(without_repeats, body["contents"]))})

            def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
                for event in super().stream(reply, body):
                    yield event
                    for _ in held(iter([b"delta " + event])):
                        pass

        return Held()

    def begin(self, folder: Path, upstream: str, *more: str, live: bool) -> Screen:
        own = folder / "work" / ".gemini" / "settings.json"
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text('{"model": {"disableLoopDetection": true}}')  # the answers consist of the same words
        screen = GeminiScreen(folder, upstream, "--approval-mode", "yolo", *more, live=live)
        if more:
            screen.wait(" > ")  # a prompt of the session that it resumes
        return screen

    def messages(self, body: Any) -> list[Any]:
        return list(body["contents"])

    def is_aside(self, body: Any) -> bool:
        return not body.get("tools")

    def counted(self, body: Any) -> bytes:
        parts = [body["tools"], body["systemInstruction"], *body["contents"]]
        return json.dumps(parts, ensure_ascii=False).encode("utf-8", "replace")

    def answered(self, body: Any) -> Any:
        made = [at for at, each in enumerate(body["contents"]) if each["role"] == "model"]
        return {**body, "contents": body["contents"][: made[-1] + 1 if made else 0]}

    def run(self, number: int, part: str, command: str, *, background: bool = False) -> Use:
        about = {"command": command, "description": "count"}
        signature = "c2lnbmVk" if part in ("x", "x0") else None
        return Use(f"call_{number}{part}", "run_shell_command", about, signature)

    def said(self, folder: Path) -> list[str]:
        found = sorted((folder / "home" / ".gemini" / "tmp").glob("*/chats/session-*.jsonl"), key=_changed)
        messages = dict[str, Any]()
        for record in _records(found[-1]) if found else ():
            for each in (record, *record.get("$set", {}).get("messages", ())):
                messages |= {each["id"]: each} if "id" in each else {}
        return [str(each["content"]) for each in messages.values() if each["type"] == "gemini" and each["content"]]

    def settle(self, screen: Screen) -> None:
        # A prompt that is typed while it takes prompts out of its queue replaces them, and one that is typed while it
        # reads an earlier session begins another one.
        idle = 0
        while idle < 5:
            text = screen.text
            idle = 0 if any(each in text for each in ("esc to cancel", "Queued (press", "Resuming")) else idle + 1
            time.sleep(0.1)

    def pieces(self, body: Any) -> list[tuple[str, str]]:
        found = list[tuple[str, str]]()
        for content in body["contents"]:
            for part in without_repeats(content)["parts"]:
                text = part.get("text", "").strip()
                if "functionCall" in part:
                    found.append(("call", part["functionCall"]["name"]))
                elif "functionResponse" in part:
                    said = json.dumps(part["functionResponse"]["response"])
                    found.append(("result", re.sub(r"Process Group PGID: \d+", "", said)))
                elif text and not text.startswith("<session_context>"):
                    found.append(("assistant" if content["role"] == "model" else "user", text))
        return found

    def divided(self, pieces: Iterable[tuple[str, str]], lines: Container[str]) -> Iterator[tuple[str, str]]:
        for role, text in pieces:
            answer = re.search(r"(?:^|\n\n)((?:[ab]\d+\.|Let me see\.).*)", text, re.DOTALL)
            prompts = [each for each in text.split("\n\n") if each not in lines]
            if role == "assistant":
                yield role, answer[1] if answer else text
            elif role != "user" or prompts:
                yield role, "\n\n".join(prompts) if role == "user" else text


def _changed(path: Path) -> float:
    return path.stat().st_mtime


def _records(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().split("\n"):
        try:
            yield json.loads(line)
        except ValueError:  # it is being written
            continue


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("made", [Codex, GeminiCli])
def test_commands_at_random_moments(made: type[RandomClient], seed: int, tmp_path: Path) -> None:
    play(made(), tmp_path, seed, STEPS)
