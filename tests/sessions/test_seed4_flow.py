"""The whole flow of [S4] with the installed command line: reminder, trim, reminder, rollover, retrieval."""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import forked
from foldmark.formats.claude.claude_format import project_folder

PROGRAM = str(Path(sys.executable).with_name("foldmark"))
WINDOW = 200_000
DETAIL = "the zebra cache keeps 74119 stripes"

SUMMARY = """### Current Task
Find out why the stripes are lost (#7): half done.

### Key Decisions
- Keep the cache: it is fast

### Modified Files
- src/cache.py: logs what it drops

### Immediate Next Steps
1. Look up how many stripes the cache keeps

### Critical Context
The tests need an hour."""

WARNED = r"Context at (6[0-4])%\. Consider /trim if responses feel degraded\."
RECOMMENDED = r"Context at (7[5-9])%\. Recommend /trim now or /rollover soon\."


class ClaudeCode:
    """A session as Claude Code writes it. Each step appends a call and its result; the size of the context follows from
    the length of the records."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, folder / "work"
        self.work.mkdir()
        self.environment = {
            "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}",
            "HOME": str(folder / "home"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "data"),
            "FOLDMARK_ISSUE": "issue #7",
            "FOLDMARK_WORKER": "42",
        }
        self.project = folder / "home" / ".claude" / "projects" / project_folder(self.work)
        self.project.mkdir(parents=True)
        self.steps = count()
        self.known: dict[str, tuple[int, int, str | None]] = {}
        self.id = str(uuid.uuid4())
        self.said("user", "Why are the stripes lost?")

    @property
    def transcript(self) -> Path:
        return self.project / f"{self.id}.jsonl"

    def resume(self, command: str) -> None:
        """Resume the session named in a printed command."""
        found = re.fullmatch(rf"cd {self.work} && claude --resume ([0-9a-f-]{{36}})( .*)?", command)
        assert found, command
        self.id = found[1]
        assert self.transcript.exists()

    def said(self, role: str, content: Any, **fields: Any) -> str:
        """Append a line and return its uuid."""
        record = {
            "parentUuid": self.read()[1],
            "isSidechain": False,
            "userType": "external",
            "cwd": str(self.work),
            "sessionId": self.id,
            "version": "2.1.197",
            "gitBranch": "main",
            "type": role,
            "message": {"role": role, "content": content},
            "uuid": str(uuid.uuid4()),
            "timestamp": "2026-11-22T12:00:00.000Z",
            **fields,
        }
        with self.transcript.open("ab") as file:
            file.write(json.dumps(record).encode() + b"\n")
        return str(record["uuid"])

    def used(self) -> int:
        """Return the tokens of the next request: a third of the bytes, plus 15,000 for instructions and tools."""
        return 15_000 + self.read()[0] // 3

    def read(self) -> tuple[int, str | None]:
        """Return the characters of all messages and the uuid of the last line; each line is read once."""
        end, characters, last = self.known.get(self.id, (0, 0, None))
        if self.transcript.exists():
            with self.transcript.open("rb") as file:
                file.seek(end)
                for line in file:
                    record = json.loads(line)
                    characters += len(json.dumps(record.get("message", {}).get("content"))) + 2
                    last = record["uuid"]
                self.known[self.id] = file.tell(), characters, last
        return characters, last

    def step(self, tool: str, args: dict[str, str], output: str) -> str | None:
        """Call a tool and return the hook's text for the model."""
        number = next(self.steps)
        answer = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5-20250929",
            "content": [{"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": args}],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 3,
                "cache_creation_input_tokens": 1_000,
                "cache_read_input_tokens": self.used() - 1_003,
                "output_tokens": 0,
            },
        }
        self.said("assistant", None, message=answer, requestId=f"req_{number}")
        display = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        result = {"tool_use_id": f"toolu_{number}", "type": "tool_result", "content": output}
        self.said("user", [result], toolUseResult=display)
        return self.hook("PostToolUse", tool_name=tool, tool_input=args, tool_response=display)

    def hook(self, event: str, **more: Any) -> str | None:
        """Run the hook for an event and return its text for the model."""
        told = self.foldmark("hook", stdin=json.dumps(self.payload(event, **more)))
        if not told:
            return None
        inner = json.loads(told)["hookSpecificOutput"]
        assert inner["hookEventName"] == event
        return str(inner["additionalContext"])

    def payload(self, event: str, **more: Any) -> dict[str, Any]:
        told = {"session_id": self.id, "transcript_path": str(self.transcript), "cwd": str(self.work)}
        return {**told, "hook_event_name": event, **more}

    def foldmark(self, *words: str, stdin: str = "") -> str:
        """Run the program as the model or a hook does, and assert that it succeeds."""
        done = forked.run(
            [PROGRAM, *words],
            input=stdin.encode(),
            capture_output=True,
            env={**self.environment, "CLAUDE_CODE_SESSION_ID": self.id},
            cwd=self.work,
        )
        assert (done.returncode, done.stderr) == (0, b""), done
        return str(done.stdout.decode())

    def grow(self, percent: int, most: int = 280) -> list[str]:
        """Read files of at most `most` lines until the context reaches this share; return the hook's texts for the
        model."""
        told = []
        while self.used() * 100 // WINDOW < percent:
            number = next(self.steps)
            length = min(most, (WINDOW * percent // 100 - self.used()) // 14 + 1)  # a line has 15 tokens
            lines = "".join(f"{line:6}→    stripe_{number}_{line} = lost({line * number})\n" for line in range(length))
            told.append(self.step("Read", {"file_path": f"/app/src/stripes_{number}.py"}, lines))
        told.append(self.step("TodoWrite", {"todos": ""}, "Todos have been modified"))
        return [each for each in told if each]

    def a_minute_passes(self) -> None:
        """Set the time of the last reminder back by 61 seconds."""
        state = self.folder / "state" / "foldmark" / f"session-{self.id}"
        moment, _, rest = state.read_text().partition(" ")
        state.write_text(f"{float(moment) - 61:017.3f} {rest}")


@pytest.fixture
def claude(tmp_path: Path) -> ClaudeCode:
    return ClaudeCode(tmp_path)


def one(pattern: str, told: list[str | None] | list[str]) -> int:
    """Return the share named in the only reminder; its exact value depends on the length of paths."""
    assert len(told) == 1
    found = re.fullmatch(pattern, told[0] or "")
    assert found, told
    return int(found[1])


def test_the_whole_flow(claude: ClaudeCode) -> None:
    old = claude.id

    # The context grows to 60%.
    test_log = f"{'dots ' * 200}\n{DETAIL}\n{'dots ' * 200}"
    assert claude.step("Bash", {"command": "make test"}, test_log) is None
    assert claude.grow(59) == []
    warned = one(WARNED, claude.grow(60))
    original = claude.transcript.read_bytes()
    assert DETAIL.encode() in original

    # Trim.
    trimmed = json.loads(claude.foldmark("trim", "--json"))
    assert claude.transcript.read_bytes() == original
    assert trimmed["trimmed_count"] > 20
    assert trimmed["tokens_saved"] > 0.3 * WINDOW
    claude.hook("SessionEnd", reason="prompt_input_exit")
    claude.resume(trimmed["command"])
    middle = claude.id
    assert middle == trimmed["new_session_id"]
    assert DETAIL.encode() not in claude.transcript.read_bytes()
    assert claude.used() < 0.3 * WINDOW
    claude.said("user", "Continue.")

    # The context grows to 75%, with reminders at most once a minute.
    assert claude.step("Bash", {"command": "ls"}, "a") is None
    assert one(WARNED, claude.grow(60, 560))
    assert claude.grow(75, 560) == [], "no minute has passed"
    claude.a_minute_passes()
    assert one(RECOMMENDED, [claude.step("Bash", {"command": "ls"}, "b")])
    assert claude.step("Bash", {"command": "ls"}, "c") is None
    assert claude.hook("UserPromptSubmit", prompt="And now?") is None
    claude.a_minute_passes()
    share = one(RECOMMENDED, [claude.hook("UserPromptSubmit", prompt="And now?")])

    # Rollover.
    rolled = json.loads(claude.foldmark("rollover", "--summary-file", "-", "--json", stdin=SUMMARY))
    assert rolled["warnings"] == []
    parent = claude.transcript
    claude.hook("SessionEnd", reason="prompt_input_exit")
    claude.resume(rolled["command"])
    new = claude.id
    (line,) = claude.transcript.read_bytes().splitlines()
    first = json.loads(line)
    assert first["continue_metadata"].pop("continued_at")
    assert first["continue_metadata"] == {
        "parent_session_file": str(parent),
        "worker_id": 42,
        "reason": "rollover",
    }
    prompt = first["message"]["content"]
    assert prompt == rolled["prompt"]
    assert prompt.startswith(
        "## Session Continuation\n\nThis is session #3 for issue #7.\n"
        f"Previous session rolled over at {share}% context to preserve quality.\n\n### Handoff Summary\n\n{SUMMARY}\n\n"
        "### Retrieving Details\n\n"
    )
    assert f"### Lineage\n\nParent session: {parent}\nWorker ID: 42\n\n---\n\nContinue from the handoff" in prompt

    # The search command in the prompt finds a detail that only the oldest session contains.
    assert DETAIL.encode() not in parent.read_bytes() + claude.transcript.read_bytes()
    search = re.search(r'```\nfoldmark (search) "(what you need to find)"\n```', prompt)
    assert search
    found = json.loads(claude.foldmark(search[1], "how many stripes does the zebra cache keep", "--json"))
    assert DETAIL in json.dumps(found["hits"][0])
    assert old in json.dumps(found["hits"][0])
    assert DETAIL in claude.foldmark("search", "zebra cache")

    # The lineage: parents, reasons for the end, and share of the context at the end.
    forest = json.loads(claude.foldmark("sessions", "--json"))
    assert [
        (each["depth"], each["session_id"], each["parent"], each["end_reason"], each["context_at_end"])
        for each in forest["lineages"]
    ] == [(0, old, None, "trim", warned), (1, middle, old, "rollover", share), (2, new, middle, None, None)]
    assert [(each["session_number"], each["worker_id"]) for each in forest["lineages"][1:]] == [(2, 42), (3, 42)]
    shown = claude.foldmark("sessions")
    words = re.findall(rf"[0-9a-f-]{{36}}|trim at {warned}%|rollover at {share}%", shown)
    assert words == [old, f"trim at {warned}%", middle, f"rollover at {share}%", new]
