"""Resolve the references between rollouts of Codex, and continue a rollout [SPEC 8].

A fork's file contains only the lines after the fork. Its first line names the rest in `history_base`: the parent's id,
and the byte (`end_byte_offset`) and the `ordinal` (`end_ordinal_exclusive`) at which the parent's part of the history
ends. A parent may be a fork itself.

Codex resumes a rollout with one user message after its first line (docs/development/decisions/0014).
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line
from foldmark.formats.codex import UUID
from foldmark.formats.session_file import Piece, SessionFile, SessionFileError
from foldmark.formats.session_format import ResumeCommand, SessionPath, SessionSurroundings, files_in, folder_in
from foldmark.wires import responses
from foldmark.wires.lenient_json import NotJsonError, decode, encode_line, member

LONGEST_HEAD = 16 << 20
"""Maximum bytes to read of a line at a given place."""

_STORES = ("sessions", "archived_sessions")
_NOT_CARRIED = ("history_base", "forked_from_id", "forked_from_ordinal_exclusive", "context_window")
"""Members of the first line that a rollout does not copy from the rollout that it continues."""


class RolloutHead(Struct, frozen=True):
    """The `session_meta` at the beginning of a rollout: its payload, and the start and end (in bytes) and the number of
    its line (from 1; blank lines may precede it)."""

    payload: dict[str, Any]
    start: int
    end: int
    number: int


def head(file: SessionFile) -> RolloutHead:
    """Return the first line of a rollout. Raises SessionFileError if it is not a readable `session_meta`."""
    if file.path.suffix == ".zst":
        raise SessionFileError(
            f"{file.label} is compressed, which Foldmark cannot read; unpack it with `zstd -d`, then "
            "name the file that ends in .jsonl"
        )
    number, start = 1, 0
    while (line := file.raw(start)) and not line.strip():
        number, start = number + 1, start + len(line)
    with suppress(NotJsonError):
        record = decode(b"" if file.wide else line)
        payload = member(record, "payload")
        if isinstance(payload, dict) and record.get("type") == "session_meta":
            return RolloutHead(payload, start, start + len(line), number)
    raise SessionFileError(
        f"{file.label} does not begin with a session_meta record, so Codex cannot resume it, nor a trimmed "
        "copy of it; name a rollout as Codex writes it"
    )


def pieces(file: SessionFile, session: SessionPath) -> list[Piece]:
    """Return the pieces of a session's whole history: its first line, the parts in its parents' files, and its other
    lines. `file` is the session's. Raises SessionFileError if a parent is missing or has changed since."""
    own = head(file)
    before = _before(session.path, own.payload, {session.id.lower()})
    if not before:
        return [Piece(session.path)]
    if not _ends_at(file, own.end):
        raise SessionFileError(f"{file.label} is a fork without a line of its own; resume it, then trim it")
    first = Piece(session.path, own.start, own.end, own.number)
    own_rest = Piece(session.path, own.end, None, own.number + 1)
    return [first, *before, own_rest]


def _before(path: Path, payload: dict[str, Any], known: set[str]) -> list[Piece]:
    """Return the pieces of a rollout's history before its own lines. `known` are its own id and those of its forks."""
    base = payload.get("history_base")
    if base is None:
        return []
    id, end = member(base, "thread_id"), member(base, "end_byte_offset")
    if not isinstance(id, str) or not re.fullmatch(UUID, id) or type(end) is not int or id.lower() in known:
        raise SessionFileError(f"the session that {one_line(str(path))} was forked from is named in an unknown way")
    parent = next(rollouts(path, id), None)
    if parent is None:
        raise SessionFileError(
            f"{one_line(str(path))} is a fork of the session {id}, which holds its history and is not there; "
            "bring that rollout back to Codex's sessions, then trim"
        )
    with SessionFile(parent) as file:
        first = head(file)
        if end < first.end or not _ends_at(file, end, base.get("end_ordinal_exclusive")):
            raise SessionFileError(
                f"{file.label} has changed since {one_line(str(path))} was forked from it: its history is "
                "lost; Codex cannot resume the fork either"
            )
    return [*_before(parent, first.payload, {*known, id.lower()}), Piece(parent, first.end, end, first.number + 1)]


def _ends_at(file: SessionFile, end: int, ordinal: Any = None) -> bool:
    """Return True if a line ends at byte `end` and its ordinal is below `ordinal`."""
    last = file.part(max(0, end - LONGEST_HEAD), end)
    if end > file.size or not last.endswith(b"\n"):
        return False
    try:
        record = decode(last[last.rfind(b"\n", 0, -1) + 1 :])
    except NotJsonError:  # Codex skips it
        return True
    own = member(record, "ordinal")
    return not (type(own) is int and type(ordinal) is int and own >= ordinal)


def rollouts(beside: Path, id: str = "") -> Iterator[Path]:
    """Yield the rollouts of session `id` (default: all) in Codex's folders, or next to `beside` if it is elsewhere."""
    store = store_folder(beside)
    if store is None:
        yield from files_in(beside.parent, f"rollout-*{id}.jsonl")
    else:
        for name in _STORES:
            yield from files_in(store.parent / name, f"**/rollout-*{id}.jsonl")


def store_folder(path: Path) -> Path | None:
    """Return the Codex folder that holds a rollout, `sessions` or `archived_sessions`; None if it is outside both."""
    return next((folder for folder in path.absolute().parents if folder.name in _STORES), None)


def resume_command(session: SessionPath, environment: Mapping[str, str], *prompt: str) -> ResumeCommand:
    """Return the command that resumes a session. Codex finds a session by its id from any folder."""
    first: dict[str, object] = {}
    with suppress(FoldmarkError), SessionFile(session.path) as file:
        first = head(file).payload
    by_itself = ("exec",) if first.get("source") == "exec" else ()
    return ResumeCommand(("codex", *by_itself, "resume", session.id, *prompt), folder_in(first, exists=True))


def surroundings(session: SessionPath) -> SessionSurroundings:
    """Return the surroundings of a session. Raises SessionFileError, including if Codex cannot resume the rollout."""
    with SessionFile(session.path) as file:
        payload = head(file).payload
    return SessionSurroundings(folder_in(payload), {key: payload[key] for key in payload if key not in _NOT_CARRIED})


def new_lines(
    where: SessionSurroundings, new_id: str, message_id: str, prompt: str, mark: dict[str, object], moment: str
) -> bytes:
    """Return a rollout with one message, whose first line is marked by `continue_metadata`."""
    meta = {**where.members, "id": new_id, "session_id": new_id, "timestamp": moment}
    first = {"timestamp": moment, "ordinal": 0, "type": "session_meta", "payload": meta, "continue_metadata": mark}
    second = {"timestamp": moment, "ordinal": 1, "type": "response_item", "payload": responses.asked(prompt)}
    return encode_line(first) + encode_line(second)
