"""A throw-away home with sessions of Claude Code and Codex, and the content of its archive's index."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest
from session_records import REAL, SHORT_FILES, jsonl

from foldmark.sessions.archive.syncing import Synced, sync

CODEX = {
    "agentcmd-old-output-shape": "2025/09/25/rollout-2025-09-25T21-12-14-019982b8-3422-79e0-8b3b-05abaf4f3c3e",
    "traceforge-new-output-shape": "2026/06/28/rollout-2026-06-28T09-28-15-019f0d8e-dd86-7cc0-b5e5-83e435aaf326",
}


class Home:
    """The home folder; `archive` is its archive, and its Claude Code keeps sessions in `projects`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archive = folder / "archive"
        self.projects = folder / ".claude" / "projects"
        self.environment = {"HOME": str(folder), "FOLDMARK_ARCHIVE": str(self.archive)}

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this process work in this home, with a database there."""
        self.folder.mkdir(exist_ok=True)
        for name, value in {**self.environment, "FOLDMARK_DB": str(self.folder / "log.db")}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(self.folder)

    def session(self, name: str, *records: Any, project: str = "-home-me-app") -> Path:
        """Write a session with these records (bytes unchanged) and return its path."""
        path = self.projects / project / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jsonl(*records))
        return path

    def samples(self) -> None:
        """Copy each real sample to the place where its program would keep it; the longest only in a deep run."""
        for path in SHORT_FILES:
            to = self.projects / "-home-me-real" / path.name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
        for name, place in CODEX.items():
            to = self.folder / ".codex" / "sessions" / f"{place}.jsonl"
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REAL.parent / "codex" / f"{name}.jsonl", to)

    def sync(self, *patterns: str, only: Sequence[Path] = ()) -> Synced:
        return sync(self.environment, patterns, only)

    def archived(self) -> dict[str, bytes]:
        """Return the bytes of every archived file by its path."""
        return {
            str(path.relative_to(self.archive)): path.read_bytes() for path in sorted(self.archive.rglob("*.jsonl"))
        }

    def index(self) -> dict[str, Any]:
        """Return the content of the index without the ids, which depend on the order of indexing."""
        db = apsw.Connection(str(self.archive / "index.db"))
        try:
            told = "path, kind, session, project, state, line, offset, cwd, title, parent, why, first, last, calls"
            messages = (
                "SELECT f.path, m.line, m.offset, m.part, m.role, m.tool, m.moment, m.key FROM messages m "
                "JOIN files f ON f.id = m.file ORDER BY 1, 3, 4"
            )
            db.execute("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, words, instance)")
            words = (
                "SELECT f.path, m.offset, m.part, v.offset, v.term FROM vocabulary v JOIN messages m ON m.id = v.doc "
                "JOIN files f ON f.id = m.file ORDER BY 1, 2, 3, 4, 5"
            )
            loose = "SELECT count(*) FROM vocabulary WHERE doc NOT IN (SELECT id FROM messages)"
            return {
                "files": list(db.execute(f"SELECT {told} FROM files ORDER BY path")),
                "messages": list(db.execute(messages)),
                "words": list(db.execute(words)),
                "words of nothing": list(db.execute(loose)),
            }
        finally:
            db.close()


def codex_item(payload: dict[str, Any], at: str = "2026-01-02T03:04:05.000Z") -> dict[str, Any]:
    return {"timestamp": at, "type": "response_item", "payload": payload}
