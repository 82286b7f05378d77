"""Thirty steps of Claude Code and of Codex, scripted in long_session.py. Skipped without `make clients` or tmux."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from codex_wire import CodexWire
from long_session import LongClient, forgotten, run
from plan import Think, Use
from screens import BIN, ClaudeScreen, CodexScreen, Screen
from wire_bound import BoundWire

_UUID = r"\w{8}(?:-\w{4}){3}-\w{12}"


class MergingWire(BoundWire):
    """A server that takes what Claude Code 2.1.332 sends after a compaction: two messages of the user."""

    alternates = False


class Claude(LongClient):
    """Claude Code, with a model that binds its thinking to the messages before it."""

    program, resumes = "claude", ("--continue",)
    interrupted, compacted = "Interrupted", "Compacted"
    # After a compaction it sends thinking that is bound to earlier messages, and then asks again without it.
    refused_alone = True
    wire: BoundWire

    def speaks(self) -> BoundWire:
        return MergingWire()

    def begin(self, folder: Path, upstream: str, *more: str, live: bool) -> Screen:
        return ClaudeScreen(folder, upstream, *more, live=live, model="claude-fable-5-1")

    def messages(self, body: Any) -> list[Any]:
        found = list[list[Any]]()
        for role, blocks in (_cleaned(each) for each in body["messages"] if each["role"] != "system"):
            if found and found[-1][0] == role:  # the API merges them
                found[-1][1] += blocks
            else:
                found.append([role, blocks])
        # The ids and the duration of a sub-agent, and the file of the session after a compaction.
        made_up = rf"agentId: \w+ |to: '\w+'|\w+\.output|duration_ms: \d+|{_UUID}"
        return json.loads(re.sub(made_up, "", json.dumps(found)))  # type: ignore[no-any-return]

    def newest(self, body: Any) -> tuple[str, list[str]]:
        results: list[str] = []
        for message in reversed(body["messages"]):
            if message["role"] != "user":
                continue
            for block in reversed(_blocks(message)):
                if block["type"] == "tool_result":
                    results.append(json.dumps(block["content"]))
                text = block.get("text", "").strip()
                if text and not text.startswith("<"):
                    return text, results
        return "", results

    def aside(self, body: Any) -> str | None:
        compacts = "Respond with TEXT ONLY" in self.newest(body)[0]
        if body.get("tools") and not compacts:
            return None
        return forgotten(json.dumps(body["messages"])) or "<summary>All that was said.</summary>"

    def thought(self, body: Any) -> tuple[Think, ...]:
        return (Think("Hm.", self.wire.sign(body)),) if "thinking" in body else ()

    def calls(self, prompt: str, results: Sequence[str]) -> list[Use]:
        number = prompt.split()[-1]
        if results:
            return []
        if prompt.startswith("READ"):
            paths = [str(self.work / f"{name}.txt") for name in "ab"]
            return [Use(f"toolu_{number}{at}", "Read", {"file_path": path}) for at, path in enumerate(paths)]
        if prompt.startswith("RUN"):
            return [Use(f"toolu_{number}", "Bash", {"command": f"seq {number}", "description": "count"})]
        if prompt.startswith("DELEGATE"):
            task = {"description": "do it", "prompt": "SUBTASK: do it", "subagent_type": "general-purpose"}
            return [Use(f"toolu_{number}", "Agent", {**task, "run_in_background": False})]
        return []


def _blocks(message: Any) -> list[Any]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _cleaned(message: Any) -> Any:
    """Return a message without thinking, cache marks, and the text that Claude Code injects."""
    kept = [{name: value for name, value in block.items() if name != "cache_control"} for block in _blocks(message)]
    shown = [block for block in kept if block["type"] != "thinking" and not _injected(block)]
    # The results of parallel calls are in the order in which the tools finished.
    return message["role"], sorted(shown, key=lambda block: str(block.get("tool_use_id", "")))


def _injected(block: Any) -> bool:
    return bool(block["type"] == "text" and block["text"].lstrip().startswith("<system-reminder>"))


class Codex(LongClient):
    """Codex. It calls a sub-agent in two steps: one starts it, one waits for it."""

    program, resumes = "codex", ("resume", "--last")
    interrupted, compacted = "Conversation interrupted", "Context compacted"

    def speaks(self) -> CodexWire:
        return CodexWire()

    def begin(self, folder: Path, upstream: str, *more: str, live: bool) -> Screen:
        return CodexScreen(folder, upstream, *more, live=live)

    def messages(self, body: Any) -> list[Any]:
        found = [
            # Codex and the provider generate new ids of items; the ids and times of turns are new, too.
            {name: value for name, value in item.items() if name not in ("id", _PASSED)}
            for item in body["input"]
        ]
        # The ids of sub-agents and of outputs, the nickname of a sub-agent, and the duration of a command.
        made_up = rf"Chunk ID: \w+|Wall time: [\d.]+|{_UUID}|nickname\\\":\\\"\w+"
        return json.loads(re.sub(made_up, "", json.dumps(found)))  # type: ignore[no-any-return]

    def newest(self, body: Any) -> tuple[str, list[str]]:
        results: list[str] = []
        for item in reversed(body["input"]):
            if item["type"] == "function_call_output":
                results.insert(0, item["output"])
            if item.get("role") == "user" and not (text := item["content"][-1]["text"]).startswith("<"):
                return text, results
        return "", results

    def aside(self, body: Any) -> str | None:
        if body["input"][-1].get("type") == "compaction_trigger":
            return "COMPACTED"
        if body.get("tools"):
            return None
        return forgotten(json.dumps(body["input"])) or '{"title": "A title"}'

    def thought(self, body: Any) -> tuple[Think, ...]:
        prompt, results = self.newest(body)
        return (Think("Hm.", f"signed {prompt} {len(results)}"),)

    def calls(self, prompt: str, results: Sequence[str]) -> list[Use]:
        number = prompt.split()[-1]
        if prompt.startswith("DELEGATE") and len(results) == 1:
            waits = {"targets": [json.loads(results[0])["agent_id"]]}
            return [Use(f"call_{number}w", "multi_agent_v1.wait_agent", waits)]
        if results:
            return []
        if prompt.startswith("READ"):
            return [Use(f"call_{number}{name}", "exec_command", {"cmd": f"cat {name}.txt"}) for name in "ab"]
        if prompt.startswith("RUN"):
            return [Use(f"call_{number}", "exec_command", {"cmd": f"seq {number}"})]
        if prompt.startswith("DELEGATE"):
            return [Use(f"call_{number}s", "multi_agent_v1.spawn_agent", {"message": "SUBTASK: do it"})]
        return []


_PASSED = "internal_chat_message_metadata_passthrough"


@pytest.mark.parametrize("client", [Claude, Codex])
def test_thirty_steps(client: type[LongClient], tmp_path: Path) -> None:
    if not (BIN / client.program).exists() or shutil.which("tmux") is None:
        pytest.skip(f"{client.program} or tmux is not there: `make clients` installs the one")
    for without, live in run(client, tmp_path):
        assert live == without
