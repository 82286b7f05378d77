"""Record the bodies that the real clients send, for test_equal_bodies.py: `python tests/live/record_bodies.py`.

Each client runs twice or more against a provider on the loopback interface. The texts are made unreadable, since the
prompts of the clients are not ours, and ids and folders are replaced. Everything that matters to a gateway stays: the
order of members, escapes, numbers, cache marks, tags, and the length of every text.
"""

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

RECORDED = Path(__file__).with_name("recorded_bodies.json.gz")
LONGEST = 40
"""Maximum characters of a text that stays readable: such texts are types, names and roles."""

_TEXT = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_PIECE = re.compile(rb"\\u[0-9a-fA-F]{4}|\\.|</?[a-z_-]+>|session_id|device_id|account_uuid|[A-Za-z]|[1-9]")
_UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ID = "00000000-0000-4000-8000-000000000000"
SESSION_HEADERS = {
    "x-claude-code-session-id": _ID,
    "x-claude-code-agent-id": "a0000000000000001",
    "session-id": _ID,
    "thread-id": _ID,
}
"""The headers that name a session or a sub-agent, and the values recorded instead."""


class RecordedBody(NamedTuple):
    """A body as a client sent it, with the client, the target and the headers that name its session."""

    client: str
    target: str
    headers: dict[str, str]
    body: bytes


def recorded() -> list[RecordedBody]:
    """Return the recorded bodies in the order in which they were sent."""
    rows = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return [RecordedBody(client, target, headers, body.encode()) for client, target, headers, body in rows]


def unreadable(body: bytes) -> bytes:
    """Return a body of the same form without readable text."""

    def hidden(piece: re.Match[bytes]) -> bytes:
        found = piece[0]
        return found if len(found) > 1 else b"0" if found.isdigit() else b"x"

    def text(found: re.Match[bytes]) -> bytes:
        inner = found[1]
        return b'"' + (_PIECE.sub(hidden, inner) if len(inner) > LONGEST else inner) + b'"'

    return _TEXT.sub(text, _UUID.sub(_ID.encode(), body))


def _record() -> None:
    sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("", "live", "loopback", "wire", "terminal")]
    from plan import Answer
    from screens import BIN
    from server import Loopback
    from test_clients import CLIENTS, answered, reading

    from foldmark.live.answering import Answering
    from foldmark.live.gateway import Gateway
    from foldmark.live.other_programs import OtherPrograms

    rows: list[tuple[str, str, dict[str, str], str]] = []

    class Recorder:
        others = OtherPrograms({}, lambda by, asked: "")

        def __init__(self, client: str, folder: str) -> None:
            self._client, self._folder = client, folder.encode()

        def reads(self, target: str) -> bool:
            return True

        async def pass_on(self, target: str, headers: Mapping[str, str], body: bytes) -> Answering:
            if body.startswith(b"{"):
                kept = {name: own for name, own in SESSION_HEADERS.items() if name in headers}
                clean = unreadable(body.replace(self._folder, b"/home/person"))
                rows.append((self._client, target, kept, clean.decode()))
            return Answering(body)

    for client in CLIENTS:
        with tempfile.TemporaryDirectory() as folder:
            home, work = Path(folder, "home"), Path(folder, "work")
            home.mkdir()
            work.mkdir()
            for name in ("note", "a", "b"):
                (work / f"{name}.txt").write_text("The word is heron.\n")
            model: Callable[[Any], Answer] = reading(client, work / "note.txt")
            if client.program == "claude":
                model = answered("Fine", work)
            with Loopback(client.wire(), model) as upstream:
                recorder: Any = Recorder(client.program, folder)
                with Gateway(upstream.url, sessions=recorder) as gateway:
                    arguments, variables = client.begin(gateway.url, home)
                    runs = [arguments]
                    if client.program == "claude":
                        prompts = ["READ both.", "Delegate it.", "And now?"]
                        runs = [["-p", "Hello."], *(["--continue", "-p", prompt] for prompt in prompts)]
                    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_PROXY": "127.0.0.1", **variables}
                    for words in runs:
                        command = [str(BIN / client.program), *words]
                        subprocess.run(command, env=environment, cwd=work, stdin=subprocess.DEVNULL, check=True)
    RECORDED.write_bytes(gzip.compress(json.dumps(rows, ensure_ascii=False).encode(), 9, mtime=0))
    print(f"{len(rows)} bodies, {sum(len(row[3]) for row in rows):,} characters; {RECORDED.stat().st_size:,} bytes")


if __name__ == "__main__":
    _record()
