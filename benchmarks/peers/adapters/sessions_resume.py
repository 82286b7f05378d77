"""Resume a session in the real Claude Code, against a provider on the loopback interface that refuses as the API does.

It needs the clients of `make clients`, in the folder FOLDMARK_CLIENTS, and the modules of the tests of sessions, live
agents, wires and terminals on its path.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from judge import ANSWER, CLIENTS, PROMPT
from lines import serve
from plan import Http, Reply, Say
from screens import BIN
from server import Loopback
from wire_anthropic import AnthropicWire, error

CLAUDE = CLIENTS["claude"]


class Provider(AnthropicWire):
    """A provider that knows the thinking of a session, and refuses it under its signature with another text. It merges
    neighbours of one role, as the API does."""

    alternates = False

    def __init__(self, session: Path) -> None:
        super().__init__()
        self.thought = defaultdict[str, set[str]](set)
        for block in (block for record in records(session) for block in blocks(record.get("message"))):
            if block.get("type") == "thinking":
                self.thought[block["signature"]].add(block["thinking"])

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        """Return what the API would refuse the request with, or None."""
        if refused := super().refuse(path, headers, body):
            return refused
        for at, message in enumerate(body["messages"]):
            for place, block in enumerate(blocks(message)):
                if block["type"] == "thinking" and block["thinking"] not in self.thought.get(
                    block["signature"], {block["thinking"]}
                ):
                    return error(400, f"messages.{at}.content.{place}: Invalid `signature` in `thinking` block")
        return None


def records(session: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a session that can be read."""
    for line in session.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def blocks(message: Any) -> list[dict[str, Any]]:
    """Return the blocks of a message."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or () if isinstance(block, dict)]


def texts(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON value but those of images and documents."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)
    elif isinstance(value, dict) and value.get("type") not in ("image", "document"):
        for each in value.values():
            yield from texts(each)


def version() -> str:
    """Return the version of the client; an empty text if it is not there."""
    return CLAUDE.version if CLAUDE.is_there else ""


def resume(session: str, whole: str, seconds: float = 60) -> dict[str, Any]:
    """Resume a session, and return what was refused (an empty text: nothing), how many bytes of text the client sent,
    and the prompts and answers among them. `whole` is the session as it was before anything was cut.

    The client writes beside the file that it resumes, so it gets a copy.
    """
    provider = Provider(Path(whole))
    with tempfile.TemporaryDirectory() as home, Loopback(provider, lambda _: Reply((Say((ANSWER,)),))) as at:
        path = Path(shutil.copyfile(session, Path(home) / f"{uuid4()}.jsonl"))
        words, variables = CLAUDE.command(at.url, Path(home), path)
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        try:
            ended = subprocess.run(
                [BIN / "claude", *words],
                env={**kept, "HOME": home, "NO_PROXY": "127.0.0.1", **variables},
                cwd=home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            return {"refused": f"the client did not end within {seconds:.0f} s", "bytes": 0, "said": []}
        sent = [
            each.body["messages"]
            for each in at.requests
            if each.body.get("tools") and PROMPT in json.dumps(each.body["messages"])
        ]
        if at.refusals or not sent:
            said = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
            why = json.loads(at.refusals[0])["error"]["message"] if at.refusals else said[-1] if said else "no request"
            return {"refused": why, "bytes": 0, "said": []}
    said = [(m["role"], block["text"]) for m in sent[0] for block in blocks(m) if block["type"] == "text"]
    return {"refused": "", "bytes": sum(len(text.encode()) for text in texts(sent[0])), "said": said}


serve(version=version, resume=resume)
