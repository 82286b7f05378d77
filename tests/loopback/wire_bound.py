"""Anthropic's Messages API with its checks of the content that thinking is bound to.

A block is valid while the system prompt, the set of tools and every message before its own are unchanged, apart from
thinking and cache marks, and while the thinking block before it, if any is sent, is the same as then. From the first
block that fails on, all blocks fail. A block that the model cannot read is always dropped. A compaction that the server
was asked for may replace the messages that it was made from, if the rest follows them directly and is unchanged.

Source: platform.claude.com/docs/en/build-with-claude/preserved-thinking and /compaction-thinking-blocks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from plan import Http, Reply
from wire_anthropic import AnthropicWire, error

THINKING = ("thinking", "redacted_thinking")
UNREAD = {"claude-sonnet-5-5": ("claude-fable-5-1",), "claude-opus-5": ("claude-fable-5-1", "claude-sonnet-5-5")}
"""Model -> models whose thinking it does not read, of the models played here."""
UNCHECKED = ("claude-opus-5",)
"""Models that do not check the prefix."""

WORDS = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


class Signed(NamedTuple):
    """The content that a signature is bound to."""

    model: str
    prefix: str
    before: str | None


class BoundWire(AnthropicWire):
    """A wire with these checks. For each request, `taken` holds the thinking blocks that its model saw, `made` those
    signed so far in answer to it, `entries` its `input_transformations`. An `old` platform does not know
    `block_binding` and refuses instead."""

    model = "claude-fable-5-1"

    def __init__(self, *, old: bool = False) -> None:
        super().__init__()
        self.old = old
        self.known: dict[str, Signed] = {}
        self.taken: list[set[str]] = []
        self.made: list[set[str]] = []
        self.entries: list[list[dict[str, str]]] = []
        self.stood: dict[str, str] = {}  # signature -> the request that a compaction was made from

    def sign(self, body: dict[str, Any]) -> str:
        """Return a signature for one more thinking block of the answer to a request."""
        sent = [_signature(block) for message in body["messages"] for block in _blocks(message) if _thought(block)]
        own = self.made[-1]
        before = max(own, key=lambda each: int(each.partition(".")[0])) if own else sent[-1] if sent else None
        made = f"{len(self.known)}.{'x' * 40}"
        self.known[made] = Signed(body["model"], _prefixes(body)[-1], before)
        own.add(made)
        return made

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        refused = super().refuse(path, headers, body)
        if refused is not None:
            return refused
        taken, entries = self._checked(body)
        binding = body.get("thinking", {}).get("block_binding", {})
        wrong = [each for each in entries if each["reason"] == "prefix_binding_mismatch"]
        if wrong and (self.old or binding.get("prefix_mismatch_behavior") != "drop_block"):
            return error(400, f"{wrong[0]['path']}: {WORDS}")
        self.taken.append(taken)
        self.made.append(set())
        self.entries.append(entries)
        return None

    def _checked(self, body: dict[str, Any]) -> tuple[set[str], list[dict[str, str]]]:
        taken, entries, before, failed = set[str](), list[dict[str, str]](), None, False
        prefixes, instead = _prefixes(body), self._instead(body)
        for index, message in enumerate(body["messages"]):
            for place, block in enumerate(_blocks(message)):
                if not _thought(block):
                    continue
                signature = _signature(block)
                signed = self.known[signature]
                wrong = signed.prefix not in (prefixes[index], instead[index]) or before not in (None, signed.before)
                failed, before = failed or (wrong and body["model"] not in UNCHECKED), signature
                unread = signed.model in UNREAD.get(body["model"], ())
                if failed or unread:
                    reason = "model_binding_mismatch" if unread else "prefix_binding_mismatch"
                    path = f"messages.{index}.content.{place}"
                    entries.append({"type": "thinking_dropped", "path": path, "reason": reason})
                else:
                    taken.add(signature)
        return taken, entries

    def _instead(self, body: dict[str, Any]) -> list[str]:
        """Return each message's prefix as if the compaction were replaced by the messages that it was made from."""
        first, *others = body["messages"]
        made_of = self.stood.get(str(_blocks(first)[0].get("signature")))
        if made_of is None or not others or first["role"] == others[0]["role"] or len(_blocks(first)) > 1:
            return [""] * (len(others) + 1)
        whole = json.loads(made_of)
        if _prefixes({**whole, "messages": []}) != _prefixes({**body, "messages": []}):
            return [""] * (len(others) + 1)
        found = _prefixes({**whole, "messages": [*whole["messages"], *others]})
        return found[len(whole["messages"]) - 1 :]

    def _compacted(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        if body["messages"][-1]["role"] == "assistant" and body["model"] not in UNCHECKED:
            self.stood[f"signed {len(self._signed)}"] = json.dumps(body)
        yield from super()._compacted(reply, body)

    def _start(self, usage: dict[str, Any], body: dict[str, Any]) -> bytes:
        start = super()._start(usage, body)
        if "block_binding" not in body.get("thinking", {}):
            return start
        event = json.loads(start.split(b"data: ")[1].split(b"\n\n")[0])
        event["message"]["input_transformations"] = self.entries[-1]
        return self.event("message_start", message=event["message"])


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _thought(block: dict[str, Any]) -> bool:
    return block["type"] in THINKING


def _signature(block: dict[str, Any]) -> str:
    return str(block.get("signature") or block.get("data"))


def _prefixes(body: dict[str, Any]) -> list[str]:
    """Return the hash of everything before each message, and of the whole."""
    tools = sorted(body.get("tools", []), key=lambda tool: str(tool["name"]))
    hashed = sha256(_written([_system(body.get("system")), tools]))
    found = [hashed.hexdigest()]
    for message in body["messages"]:
        hashed.update(_written([message["role"], [block for block in _blocks(message) if not _thought(block)]]))
        found.append(hashed.hexdigest())
    return found


def _system(system: Any) -> Any:
    """Return a system prompt without the line about billing, which Claude Code writes anew for each request."""
    if not isinstance(system, list):
        return system
    return [block for block in system if not block["text"].startswith("x-anthropic-billing")]


def _written(value: Any) -> bytes:
    return re.sub(r'"cache_control": \{[^{}]*\}, ', "", json.dumps(value, sort_keys=True)).encode()
