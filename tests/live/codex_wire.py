"""The Responses API as Codex 0.169 speaks it: with calls of its custom tools and of tools in namespaces, and with what
it adds to items. The rest of its requests is checked as everybody's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from plan import Http, Part, Reply
from wire_openai import ResponsesWire

CUSTOM = ("exec", "apply_patch")
"""Tools that take a text, which is `input` among the arguments of a `Use`."""


class CodexWire(ResponsesWire):
    """Codex asks for a summary by an item of its own; the answer is then one item, too. Behind a summary, messages of
    the developer follow those of the user."""

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        items = [_plain(item) for item in body.get("input", ()) if item.get("role") != "developer"]
        if items and items[-1].get("type") == "compaction_trigger":
            items[-1] = {"role": "user", "content": "Summarize."}
        return super().refuse(path, headers, {**body, "input": items})

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        return map(_changed, super().stream(reply, body))

    def unfinished(self, parts: tuple[Part, ...], body: dict[str, Any]) -> Iterator[bytes]:
        return map(_changed, super().unfinished(parts, body))

    def texts(self, body: dict[str, Any]) -> list[tuple[str, str]]:
        return super().texts({**body, "input": list(map(_plain, body["input"]))})


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    """An item in the form that the API had before custom tools and namespaces."""
    added = ("internal_chat_message_metadata_passthrough", "namespace")
    item = {name: value for name, value in item.items() if name not in added}
    if item.get("type") == "custom_tool_call":
        item = {**item, "type": "function_call", "arguments": item["input"], "id": f"fc{item.get('id')}"}
        del item["input"]
    elif item.get("type") == "custom_tool_call_output":
        item = {**item, "type": "function_call_output"}
    return item


def _changed(event: bytes) -> bytes:
    head, _, data = event.partition(b"data: ")
    value = json.loads(data)
    if "item" in value:
        value["item"] = _item(value["item"])
    if "response" in value:
        value["response"]["output"] = list(map(_item, value["response"]["output"]))
    return head + b"data: " + json.dumps(value).encode() + b"\n\n"


def _item(item: dict[str, Any]) -> dict[str, Any]:
    """A call as Codex's tools are called; a text that begins with COMPACTED as a compaction."""
    if item["type"] == "message" and item["content"] and item["content"][0]["text"].startswith("COMPACTED"):
        return {"type": "compaction", "id": "cmp_1", "encrypted_content": item["content"][0]["text"]}
    if item["type"] != "function_call":
        return item
    space, _, name = item["name"].rpartition(".")
    if space:
        return {**item, "namespace": space, "name": name}
    if name not in CUSTOM:
        return item
    text = json.loads(item["arguments"])["input"] if item["arguments"] else ""
    rest = {name: value for name, value in item.items() if name != "arguments"}
    return {**rest, "type": "custom_tool_call", "id": f"ctc{item['id'][2:]}", "input": text}
