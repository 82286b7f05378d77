"""The file of a session that continues another: one message of the user's, written as the coding agent writes it.

Both Claude Code and Codex resume such a file; docs/decisions/0014 says what they make of it.
"""

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from foldmark.core.codec import well_formed
from foldmark.sessions.claude.working_folder import folder_in, newest_record, working_folder
from foldmark.sessions.codex import rollouts
from foldmark.sessions.places import SessionPath

CARRIED = ("userType", "version", "gitBranch")
"""Members of Claude Code's records that a new session takes over."""

_NOT_CARRIED = ("history_base", "forked_from_id", "forked_from_ordinal_exclusive", "context_window")


class SessionSurroundings(Struct, frozen=True):
    """What a session says of where it works: `cwd`, the folder that its program is started in, None if it does not
    say; `members` are those of its records (Claude Code), or of its first one (Codex), that the next session takes."""

    cwd: Path | None
    members: dict[str, Any]


def surroundings(session: SessionPath) -> SessionSurroundings:
    """Where a session works. Raises SessionFileError, also for a rollout that Codex cannot resume either."""
    if session.kind == "codex":
        payload = rollouts.head(session.path).payload
        return SessionSurroundings(
            folder_in(payload), {key: payload[key] for key in payload if key not in _NOT_CARRIED}
        )
    last = newest_record(session.path)
    cwd = working_folder(session.path, last)
    return SessionSurroundings(cwd, {key: last[key] for key in CARRIED if isinstance(last.get(key), str)})


def place(session: SessionPath, new_id: str, moment: datetime) -> Path:
    """Where the new session's file belongs: beside the old one. `moment` is in local time."""
    if session.kind == "codex":
        return session.path.with_name(f"rollout-{moment:%Y-%m-%dT%H-%M-%S}-{new_id}.jsonl")
    return session.path.with_name(f"{new_id}.jsonl")


def claude_lines(
    where: SessionSurroundings, new_id: str, message_id: str, prompt: str, mark: dict[str, object], moment: str
) -> bytes:
    """A session of Claude Code's with one message, marked by `continue_metadata`; `moment` is in UTC, ISO 8601."""
    record = {
        "parentUuid": None,
        "isSidechain": False,
        **({"cwd": os.fspath(where.cwd)} if where.cwd else {}),
        "sessionId": new_id,
        **where.members,
        "type": "user",
        "message": {"role": "user", "content": prompt},
        "uuid": message_id,
        "timestamp": moment,
        "continue_metadata": mark,
    }
    return _line(record)


def codex_lines(where: SessionSurroundings, new_id: str, prompt: str, mark: dict[str, object], moment: str) -> bytes:
    """A rollout of Codex's with one message; its first line is marked by `continue_metadata`."""
    meta = {**where.members, "id": new_id, "session_id": new_id, "timestamp": moment}
    content = [{"type": "input_text", "text": prompt}]
    first = {"timestamp": moment, "ordinal": 0, "type": "session_meta", "payload": meta, "continue_metadata": mark}
    message = {"type": "message", "role": "user", "content": content}
    return _line(first) + _line({"timestamp": moment, "ordinal": 1, "type": "response_item", "payload": message})


def _line(record: dict[str, Any]) -> bytes:
    return msgspec.json.encode(well_formed(record)) + b"\n"
