"""A Codex folder with databases in the form of Codex 0.169, and Codex itself with a loopback server."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import rollout_records as codex
from rollout_records import ID, jsonl

STATE, HISTORY = "state_5.sqlite", "thread_history_1.sqlite"
PROGRAM = os.environ.get("TEST_CODEX") or shutil.which("codex")
"""The real Codex, 0.169 or one that keeps the same databases; tests with it are skipped where it is not installed."""

SCHEMA = {
    STATE: (
        "CREATE TABLE threads (id TEXT PRIMARY KEY, rollout_path TEXT NOT NULL, title TEXT NOT NULL DEFAULT '', "
        "archived INTEGER NOT NULL DEFAULT 0, history_mode TEXT NOT NULL DEFAULT 'legacy')"
    ),
    HISTORY: (
        "CREATE TABLE thread_turns (thread_id TEXT NOT NULL, turn_id TEXT NOT NULL, rollout_ordinal INTEGER NOT NULL, "
        "status TEXT NOT NULL, rollout_byte_offset INTEGER, PRIMARY KEY (thread_id, turn_id));"
        "CREATE TABLE thread_history_projection_state (thread_id TEXT PRIMARY KEY, "
        "next_rollout_byte_offset INTEGER NOT NULL, next_rollout_ordinal INTEGER NOT NULL)"
    ),
}
"""The tables and columns that Foldmark reads, with Codex's types."""


class CodexHome:
    """A Codex folder: `rollout` has two turns, which both databases contain; they are in WAL mode, as with Codex."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rollout = folder / "sessions" / "2026" / "11" / "02" / codex.name()
        self.rollout.parent.mkdir(parents=True)
        lines = [codex.meta(history_mode="paginated")]
        for turn in ("turn-1", "turn-2"):
            lines += [codex.event("task_started", turn_id=turn), codex.said(turn), codex.call(f"c {turn}")]
            lines += [codex.output(f"c {turn}", "a long line of output\n" * 100)]
            lines += [codex.event("task_complete", turn_id=turn)]
        self.lines = [jsonl({**line, "ordinal": number}) for number, line in enumerate(lines)]
        self.rollout.write_bytes(b"".join(self.lines))
        for name, schema in SCHEMA.items():
            with closing(sqlite3.connect(folder / name)) as database:
                database.execute("PRAGMA journal_mode = wal")
                database.executescript(schema)
        self.change(STATE, "INSERT INTO threads VALUES (?, ?, 'x', 0, 'paginated')", ID, str(self.rollout))
        self.change(HISTORY, "INSERT INTO thread_history_projection_state VALUES (?, ?, ?)", ID, self.at(11), 11)
        for turn, line in (("turn-1", 1), ("turn-2", 6)):
            insert = "INSERT INTO thread_turns VALUES (?, ?, ?, 'completed', ?)"
            self.change(HISTORY, insert, ID, turn, line, self.at(line))

    def at(self, line: int) -> int:
        """Return the byte offset at which a line begins; lines count from 0."""
        return sum(map(len, self.lines[:line]))

    def change(self, name: str, statement: str, *values: Any) -> None:
        with closing(sqlite3.connect(self.folder / name)) as database:
            database.execute(statement, values)
            database.commit()

    def left_open(self, name: str, statement: str, *values: Any) -> None:
        """Change a database and leave the change in its write-ahead log, as a killed Codex does."""
        code = (
            "import os, sqlite3, sys\ndatabase = sqlite3.connect(sys.argv[1])\n"
            "database.execute(sys.argv[2], sys.argv[3:])\ndatabase.commit()\nos._exit(0)\n"
        )
        words = [sys.executable, "-c", code, str(self.folder / name), statement, *map(str, values)]
        subprocess.run(words, check=True)

    @property
    def files(self) -> dict[str, tuple[bytes, int]]:
        """Content and modification time of all files beside the rollouts."""
        found = (path for path in self.folder.iterdir() if path.is_file())
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


class Responses(BaseHTTPRequestHandler):
    """The provider: after RUN, it calls a command with long output; otherwise it answers with the number of items."""

    protocol_version = "HTTP/1.1"
    asked: list[dict[str, Any]]

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(b'{"data": [], "models": []}', "application/json")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(asked)
        last, count = asked["input"][-1], len(asked["input"])
        item: dict[str, Any]
        if last.get("type") == "message" and "RUN" in json.dumps(last):
            item = {"type": "function_call", "id": "f", "call_id": f"c{count}", "name": "exec_command"}
            item["arguments"] = '{"cmd": "seq 1 2000"}'
        else:
            content = [{"type": "output_text", "text": f"{count} items", "annotations": []}]
            item = {"type": "message", "id": f"m{count}", "role": "assistant", "content": content}
        tokens = {"input_tokens": 1000, "output_tokens": 10, "total_tokens": 1010}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {"id": "r"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "r", "output": [item], "usage": tokens}},
        ]
        body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self._answer(body.encode(), "text/event-stream")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class RealCodex:
    """Codex with a separate home, and its requests to the provider (`asked`)."""

    def __init__(self, folder: Path, port: int, asked: list[dict[str, Any]]) -> None:
        self.home, self.work, self.asked = folder / "codex", folder / "work", asked
        self.home.mkdir()
        self.work.mkdir()
        (self.home / "config.toml").write_text(
            'model = "gpt-5"\nmodel_provider = "test"\napproval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
            f'[model_providers.test]\nname = "test"\nbase_url = "http://127.0.0.1:{port}/v1"\nenv_key = "TEST_KEY"\n'
            'wire_api = "responses"\nrequest_max_retries = 0\nstream_max_retries = 0\n'
        )
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "CODEX_HOME": str(self.home),
            "TEST_KEY": "none",
            "FOLDMARK_ARCHIVE": str(folder / "archive"),
            "FOLDMARK_DB": str(folder / "log.db"),
        }

    def run(self, *words: str, code: int = 0) -> str:
        """Run `codex WORDS` and return its standard error."""
        assert PROGRAM is not None
        done = subprocess.run(
            [PROGRAM, *words],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stderr
        return done.stderr

    def said(self, prompt: str, *words: str) -> None:
        """Run a turn of a new session, or with `resume ID` of an old one."""
        self.run("exec", "--skip-git-repo-check", *words, prompt)

    @property
    def rollouts(self) -> list[Path]:
        return sorted((self.home / "sessions").rglob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)

    def shown(self, id: str) -> list[str]:
        """Return the texts of the person's messages that Codex shows for a session."""
        with closing(sqlite3.connect(self.home / HISTORY)) as database:
            query = (
                "SELECT item_json FROM thread_items WHERE thread_id = ? AND item_type = 'userMessage' "
                "ORDER BY rollout_ordinal"
            )
            return [json.loads(row)["content"][0]["text"] for (row,) in database.execute(query, (id,))]


def serving(folder: Path) -> Iterator[RealCodex]:
    """Yield the real Codex while its provider runs."""
    asked: list[dict[str, Any]] = []
    handler = type("Handler", (Responses,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield RealCodex(folder, server.server_address[1], asked)
        server.shutdown()
