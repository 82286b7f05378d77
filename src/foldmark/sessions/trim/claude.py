"""Trim a Claude Code session: the path of the new session, and its tool calls with their results [SPEC 8, S4].

Of the calls only those count that are sent when the session is resumed: a branch that was left makes nothing stale.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from foldmark.sessions.claude.resumption import Links, sent
from foldmark.sessions.claude.rows import rows
from foldmark.sessions.formats import SessionPath
from foldmark.sessions.session_file import Piece, SessionFile
from foldmark.sessions.trim.claude_lines import ClaudeLines
from foldmark.sessions.trim.kind import Job, TrimOptions
from foldmark.sessions.trim.stale import CallRecord, TrimPlan, digest, plan

_REJECTED = ("The user doesn't want to", "[Request interrupted by user")
"""Prefixes of results that report a person's decision; the reason may follow."""

_UNCHANGED = "File unchanged since last read"
_PART = ("offset", "limit", "pages", "view_range")


class ClaudeKind:
    """Claude Code's sessions; see `kind.TrimKind`."""

    bytes_per_token = 3.0

    def plan(self, pieces: Sequence[Piece], options: TrimOptions) -> TrimPlan:
        if not (options.deep or options.spare):
            return TrimPlan()
        return plan(_calls(pieces[0].path), options.spare, deep=options.deep)

    def lines(self, job: Job) -> ClaudeLines:
        return ClaudeLines(job)

    def place(self, session: SessionPath, new_id: str) -> Path:
        return session.path.with_name(f"{new_id}.jsonl")

    def pieces(self, session: SessionPath) -> list[Piece]:
        return [Piece(session.path)]


KIND = ClaudeKind()


def _calls(path: Path) -> list[CallRecord]:
    """Return the calls in the order in which the model reads them. Raises SessionFileError."""
    found: dict[str, CallRecord] = {}
    with SessionFile(path) as file:
        all_rows = list(rows(file))
        for row in sent(all_rows, Links(all_rows)).order:
            if not row.calls and not row.results:
                continue
            content = file.reread(row.line, row.offset).value["message"]["content"]
            for at, id in row.calls:
                if id not in found:
                    found[id] = _asked(id, content[at])
            for at, id in row.results:
                if id in found and found[id].digest is None:
                    found[id] = _answered(found[id], content[at])
    return list(found.values())


def _asked(id: str, block: dict[str, Any]) -> CallRecord:
    given = block.get("input")
    given = given if isinstance(given, dict) else {}
    path = next((each for key in ("file_path", "notebook_path") if isinstance(each := given.get(key), str)), None)
    part = {key: given[key] for key in _PART if given.get(key) is not None}
    attempt = path if path is not None else digest(given).hex()
    return CallRecord(id, block["name"], path, json.dumps(part, sort_keys=True) if part else None, attempt)


def _answered(call: CallRecord, block: dict[str, Any]) -> CallRecord:
    content = block.get("content")
    begin = content if isinstance(content, str) else _first_text(content)
    return msgspec.structs.replace(
        call,
        failed=block.get("is_error") is True,
        digest=digest(content),
        spoken=block.get("is_error") is True and begin.startswith(_REJECTED),
        void=begin.startswith(_UNCHANGED) or _UNCHANGED in begin[:100],
    )


def _first_text(content: Any) -> str:
    first = content[0] if isinstance(content, list) and content else None
    text = first.get("text") if isinstance(first, dict) else None
    return text if isinstance(text, str) else ""
