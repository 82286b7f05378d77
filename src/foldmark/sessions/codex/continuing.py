"""Continue a Codex rollout: build the resume command, or a new rollout with one user message [SPEC 8].

Codex resumes such a rollout; docs/decisions/0014 says what it makes of it.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from foldmark.core.codec import well_formed
from foldmark.core.errors import FoldmarkError
from foldmark.sessions.claude.working_folder import existing, folder_in
from foldmark.sessions.codex.rollouts import head
from foldmark.sessions.formats import ResumeCommand, SessionPath, SessionSurroundings

_NOT_CARRIED = ("history_base", "forked_from_id", "forked_from_ordinal_exclusive", "context_window")


def resume_command(session: SessionPath, environment: Mapping[str, str], *prompt: str) -> ResumeCommand:
    """Return the command. Codex finds a session by its id from any folder."""
    first: dict[str, object] = {}
    with suppress(FoldmarkError):
        first = head(session.path).payload
    by_itself = ("exec",) if first.get("source") == "exec" else ()
    return ResumeCommand(("codex", *by_itself, "resume", session.id, *prompt), existing(folder_in(first)))


def surroundings(session: SessionPath) -> SessionSurroundings:
    """Return where a session works. Raises SessionFileError, also for a rollout that Codex cannot resume either."""
    payload = head(session.path).payload
    return SessionSurroundings(folder_in(payload), {key: payload[key] for key in payload if key not in _NOT_CARRIED})


def new_lines(
    where: SessionSurroundings, new_id: str, message_id: str, prompt: str, mark: dict[str, object], moment: str
) -> bytes:
    """Return a rollout with one message; its first line is marked by `continue_metadata`."""
    meta = {**where.members, "id": new_id, "session_id": new_id, "timestamp": moment}
    content = [{"type": "input_text", "text": prompt}]
    first = {"timestamp": moment, "ordinal": 0, "type": "session_meta", "payload": meta, "continue_metadata": mark}
    message = {"type": "message", "role": "user", "content": content}
    return _line(first) + _line({"timestamp": moment, "ordinal": 1, "type": "response_item", "payload": message})


def _line(record: dict[str, Any]) -> bytes:
    return msgspec.json.encode(well_formed(record)) + b"\n"
