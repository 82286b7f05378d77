"""Anthropic's Messages API on the loopback interface: it caches prefixes, bills, binds thinking, and refuses.

What it refuses and binds is in `tests/wire` and `tests/loopback`, written from the provider's pages. What follows here:
the cache (docs.claude.com, "Prompt caching": a request reads the longest beginning that an earlier request wrote at one
of its marks, among the 20 blocks that end with a mark of its own), the bill, and the clearing of tool results on the
server ("Context editing": `clear_tool_uses_20250919`).
"""

import json
import re
import sys
import threading
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("", "wire", "loopback")]

from lines import serve  # noqa: E402
from plan import Http, Reply, Say, Think, Use  # noqa: E402
from server import Loopback  # noqa: E402
from wire_bound import BoundWire  # noqa: E402

from foldmark.core.request import Usage  # noqa: E402
from foldmark.tokens.models import model_of  # noqa: E402

MODEL = "claude-sonnet-5-5"
PRICED = model_of("anthropic", MODEL)
LOOKBACK = 20
CLEARED = "[Old tool result content cleared]"


class Block(NamedTuple):
    """A part of a request: its bytes without a mark, and whether it is marked."""

    data: bytes
    marked: bool


def _block(value: Any) -> Block:
    plain = (
        {name: each for name, each in value.items() if name != "cache_control"} if isinstance(value, dict) else value
    )
    return Block(json.dumps(plain, sort_keys=True).encode(), isinstance(value, dict) and "cache_control" in value)


def blocks(body: dict[str, Any]) -> list[Block]:
    """Return the parts in the order of the cache: tools, system, messages."""
    found = [_block(tool) for tool in body.get("tools", ())]
    system = body.get("system") or []
    found += [_block(each) for each in ([{"type": "text", "text": system}] if isinstance(system, str) else system)]
    for message in body["messages"]:
        content = message["content"]
        for each in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            found.append(_block({**each, "": message["role"]}))
    return found


class Cache:
    """The beginnings that requests wrote: a judge of its own, beside the rule by which Foldmark plans."""

    def __init__(self) -> None:
        self._written: set[bytes] = set()

    def expire(self) -> None:
        """Forget all of them, as after five minutes without a request."""
        self._written.clear()

    def bill(self, found: list[Block], tokens: list[int]) -> tuple[int, int]:
        """Return the tokens that a request reads and writes; `tokens` are those up to each of its blocks."""
        names, digest = [], sha256()
        for block in found:
            digest.update(len(block.data).to_bytes(8, "big") + block.data)
            names.append(digest.digest())
        marks = [at for at, block in enumerate(found) if block.marked]
        near = {at for mark in marks for at in range(max(0, mark - LOOKBACK + 1), mark + 1)}
        read = max((tokens[at] for at in near if names[at] in self._written), default=0)
        long = [mark for mark in marks if tokens[mark] >= PRICED.cache_least]
        self._written.update(names[mark] for mark in long)
        return read, max(0, max((tokens[mark] for mark in long), default=0) - read)


def cleared(body: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a request as the server sees it after the edits that it asks for, and what was done."""
    edits = [
        each
        for each in body.get("context_management", {}).get("edits", ())
        if each["type"].startswith("clear_tool_uses")
    ]
    if not edits:
        return body, []
    edit = edits[0]
    trigger = edit.get("trigger", {"type": "input_tokens", "value": 100_000})
    uses = [
        block["id"]
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_use" and block["name"] not in edit.get("exclude_tools", ())
    ]
    size = len(uses) if trigger["type"] == "tool_uses" else counted(blocks(body))[-1]
    keep = edit.get("keep", {"value": 3})["value"]
    gone = set(uses[: len(uses) - keep] if keep else uses)
    if size <= trigger["value"] or not gone:
        return body, []
    messages = []
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, list):
            content = [
                {**block, "content": CLEARED}
                if block["type"] == "tool_result" and block["tool_use_id"] in gone
                else block
                for block in content
            ]
        messages.append({**message, "content": content})
    made = {**body, "messages": messages}
    saved = counted(blocks(body))[-1] - counted(blocks(made))[-1]
    if saved < edit.get("clear_at_least", {"value": 0})["value"] or saved <= 0:
        return body, []
    return made, [{"type": edit["type"], "cleared_tool_uses": len(gone), "cleared_input_tokens": saved}]


def counted(found: list[Block]) -> list[int]:
    """Return the tokens up to each block: a plain rule, for a loopback server has no tokenizer."""
    sums, size = [], 0
    for block in found:
        size += len(block.data)
        sums.append(int(size / 2.4))
    return sums


class Wire(BoundWire):
    """The API, which takes an address with an empty query, too."""

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        """Return the refusal of a request, or None."""
        return super().refuse(path.removesuffix("?"), headers, body)


class Provider:
    """The server of one contestant."""

    def __init__(self) -> None:
        self.wire, self.cache, self.before = Wire(), Cache(), list[Block]()
        self.wire.model = MODEL
        self.told: list[dict[str, Any]] = []
        self.expected: list[dict[str, Any]] = []
        self.script: list[list[dict[str, Any]]] = []
        self.lock = threading.Lock()
        self.server = Loopback(self.wire, self.answer)
        self.server.__enter__()

    def answer(self, body: dict[str, Any]) -> Reply | Http:
        """Answer a request that was not refused. One without tools asks for a title, and is not counted."""
        if not body.get("tools"):
            return Reply((Say(("A title",)),))
        with self.lock:
            self._follow_script(body)
            seen, done = cleared(body)
            found = blocks(seen)
            sums = counted(found)
            read, written = self.cache.bill(found, sums)
            same = next(
                (at for at, (one, two) in enumerate(zip(found, self.before, strict=False)) if one.data != two.data),
                min(len(found), len(self.before)),
            )
            rewritten = sum(len(block.data) for block in self.before[same:])
            self.before = found
            output = sum(len(json.dumps(each)) for each in self.expected) // 3 + 1
            fresh = max(0, sums[-1] - read - written)
            thoughts = sum(b'"thinking"' in block.data and b'"signature"' in block.data for block in found)
            self.told.append(
                {
                    "read": read,
                    "written": written,
                    "fresh": fresh,
                    "output": output,
                    "rewritten": rewritten,
                    "announced": bool(done),
                    "bytes": len(json.dumps(body)),
                    "thoughts": thoughts,
                }
            )
            parts = tuple(self._part(each, body) for each in self.expected)
        stop = "calls" if any(isinstance(each, Use) for each in parts) else "end"
        usage = Usage(fresh=fresh, cache_read=read, cache_write=written, output=output, altered=tuple(done))
        return Reply(parts, stop, usage)

    def _follow_script(self, body: dict[str, Any]) -> None:
        if not self.script:
            return None
        self.expected = self.script.pop(0)
        if self.expected[-1]["type"] == "compress":
            if all(tool["name"] != "compress" for tool in body["tools"]):
                return self._follow_script(body)
            names = re.findall(r"<dcp-message-id>(m\d+)</dcp-message-id>", json.dumps(body["messages"]))
            names = list(dict.fromkeys(names))
            part = {"startId": names[1], "endId": names[-3], "summary": "Files were read; their lines are numbered."}
            given = {"topic": "Files read", "content": [part]}
            use = {"type": "tool_use", "id": f"toolu_c{len(self.script)}", "name": "compress", "input": given}
            self.expected = [*self.expected[:-1], use]
        return None

    def _part(self, block: dict[str, Any], body: dict[str, Any]) -> Say | Think | Use:
        if block["type"] == "thinking":
            return Think(block["thinking"], self.wire.sign(body))
        if block["type"] == "tool_use":
            return Use(block["id"], block["name"], block["input"])
        return Say((block["text"],))


PROVIDERS: list[Provider] = []


def start() -> dict[str, Any]:
    """Start a server for the next contestant."""
    for each in PROVIDERS:
        each.server.__exit__(None, None, None)
    PROVIDERS[:] = [Provider()]
    price = PRICED.input_price
    return {
        "url": PROVIDERS[0].server.url,
        "model": MODEL,
        "prices": [price * PRICED.cache_read, price * PRICED.cache_write, price, PRICED.output_price],
    }


def expect(answer: list[dict[str, Any]]) -> dict[str, Any]:
    """Set the answer to the next request, and return how many were answered and refused."""
    PROVIDERS[0].expected = answer
    return {"answered": len(PROVIDERS[0].told), "refused": len(PROVIDERS[0].server.refusals)}


def script(answers: list[list[dict[str, Any]]]) -> None:
    """Set the answers to all further requests with tools. A part `compress` becomes a call of DCP's tool about all but
    the newest messages; without that tool, the answer is left out."""
    PROVIDERS[0].script = answers


def pause() -> None:
    """Let the cache expire."""
    PROVIDERS[0].cache.expire()


def told() -> dict[str, Any]:
    """Return what was billed, and the refusals."""
    return {"requests": PROVIDERS[0].told, "refusals": PROVIDERS[0].server.refusals}


serve(start=start, expect=expect, script=script, pause=pause, told=told)
