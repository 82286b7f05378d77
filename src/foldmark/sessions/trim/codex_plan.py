"""Read from a rollout of Codex's which outputs are the newest and which come again, for `stale` [SPEC 8].

Codex changes files by patches and commands, so that nothing tells which file an output shows: no output is stale, and
arguments stay.
"""

from collections.abc import Iterator, Sequence

from foldmark.sessions.session_file import Piece, Record, SessionFile
from foldmark.sessions.trim.claude_plan import digest
from foldmark.sessions.trim.codex_tools import OUTPUTS
from foldmark.sessions.trim.stale import Call


def calls(pieces: Sequence[Piece]) -> list[Call]:
    """Return the calls that have an output, in the order of the file. Raises SessionFileError."""
    found: dict[str, Call] = {}
    for piece in pieces:
        for id, output in _outputs(piece):
            found[id] = Call(id, "", digest=digest(output))
    return list(found.values())


def _outputs(piece: Piece) -> Iterator[tuple[str, object]]:
    with SessionFile(piece.path) as file:
        for line in file.lines(piece.number - 1, piece.start):
            if piece.end is not None and file.whole[1] >= piece.end:
                break
            if not isinstance(line, Record) or line.type != "response_item":
                continue
            payload = line.value.get("payload")
            if isinstance(payload, dict) and payload.get("type") in OUTPUTS and isinstance(payload.get("call_id"), str):
                yield payload["call_id"], payload.get("output")
