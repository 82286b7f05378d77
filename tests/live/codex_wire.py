"""The Responses API as Codex 0.169 speaks it: with calls of its custom tools and of tools in namespaces, and with
the fields that it adds to items. Each request is checked as a whole.

The ids of items are unique across answers. Codex sends them back, so the wire can check that an item still follows its
thinking.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

from plan import Part, Reply
from rules_codex import codex
from rules_openai_responses import is_made, type_of
from wire_openai import ResponsesWire

CUSTOM = ("exec", "apply_patch")
"""Tools that take a text: the argument `input` of a `Use`."""

OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "local_shell": ("local_shell_call", {"action": {"type": "exec", "command": ["ls"]}}),
    "tool_search": ("tool_search_call", {"execution": "client", "arguments": {"query": "read"}}),
}
"""Tools whose calls are items of their own kind."""

_IDS = re.compile(r'("(?:item_)?id": ?)"(msg|rs|fc)_(\d+)"')
_ENDS = ("compaction_trigger", "function_call_output", "custom_tool_call_output", "tool_search_output")
"""Items that ask something as the last item, besides the messages of a user."""


class Made(NamedTuple):
    """An item of an answer: the ids of the items before and after it, if there are any."""

    before: str | None
    behind: str | None = None


class CodexWire(ResponsesWire):
    """The wire of Codex, which asks for a summary with a special item; the answer is then one item, too."""

    def __init__(self) -> None:
        self._answers = count(1)
        self._made: dict[str, Made] = {}
        self._broken: set[str] = set()  # the last items of answers that broke off

    def violations(self, body: dict[str, Any]) -> list[str]:
        return [*codex(body), *self._standing(body["input"])]

    def _standing(self, items: list[dict[str, Any]]) -> Iterator[str]:
        """Yield the items that are separated from their thinking or it from them, and a last item that asks nothing."""
        nothing: dict[str, Any] = {}
        for index, item in enumerate(items):
            id, kind = item.get("id"), type_of(item)
            before, behind = items[index - 1] if index else nothing, (items[index + 1 :] or [nothing])[0]
            made = self._made.get(str(id), Made(None))
            follows = behind.get("id") == made.behind if made.behind else is_made(behind) or id in self._broken
            if kind == "reasoning" and not follows:
                yield f"Item '{id}' of type 'reasoning' was provided without its required following item."
            if made.before is not None and made.before.startswith("rs_") and before.get("id") != made.before:
                required = f"its required 'reasoning' item: '{made.before}'"
                yield f"Item '{id}' of type '{kind}' was provided without {required}."
        last = items[-1] if items else nothing
        if type_of(last) not in _ENDS and last.get("role") != "user" and last.get("id") not in self._broken:
            # After an answer that broke off, Codex asks for the rest.
            yield f"input[{len(items) - 1}]: the last item asks nothing"

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        return self._noted(super().stream(reply, body), whole=True)

    def unfinished(self, parts: tuple[Part, ...], body: dict[str, Any]) -> Iterator[bytes]:
        return self._noted(super().unfinished(parts, body), whole=False)

    def texts(self, body: dict[str, Any]) -> list[tuple[str, str]]:
        return super().texts({**body, "input": list(map(_plain, body["input"]))})

    def _noted(self, events: Iterator[bytes], *, whole: bool) -> Iterator[bytes]:
        """Yield the events with ids that are unique to their answer, and note the items that they make."""
        answer, last = next(self._answers), None
        own: list[str] = []
        try:
            for event in events:
                head, _, data = event.partition(b"data: ")
                value = json.loads(_IDS.sub(rf'\1"\2_{answer}_\3"', data.decode()))
                if "item" in value:
                    value["item"] = _item(value["item"])
                if "response" in value:
                    value["response"]["output"] = list(map(_item, value["response"]["output"]))
                if value["type"] == "response.output_item.done":
                    id = value["item"]["id"]
                    own.append(id)
                    self._made[id] = Made(last)
                    if last is not None:
                        self._made[last] = self._made[last]._replace(behind=id)
                    last = id
                yield head + b"data: " + json.dumps(value).encode() + b"\n\n"
        except GeneratorExit:
            whole = False
            raise
        finally:
            if not whole:  # the client may have left after any of these
                self._broken.update(own)
                self._made.update({id: Made(self._made[id].before) for id in own})


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    """Return a call of a custom tool, or its output, as that of a function."""
    kinds = {"custom_tool_call": "function_call", "custom_tool_call_output": "function_call_output"}
    return {**item, "type": kinds[item["type"]]} if item.get("type") in kinds else item


def _item(item: dict[str, Any]) -> dict[str, Any]:
    """Return a call in the form of Codex's tools, and a text that begins with COMPACTED as a compaction."""
    if item["type"] == "message" and item["content"] and item["content"][0]["text"].startswith("COMPACTED"):
        return {"type": "compaction", "id": f"cmp_{item['id']}", "encrypted_content": item["content"][0]["text"]}
    if item["type"] != "function_call":
        return item
    if item["name"] in OTHERS:
        kind, rest = OTHERS[item["name"]]
        id = {"id": f"lsh{item['id'][2:]}"} if kind == "local_shell_call" else {"id": f"tsc{item['id'][2:]}"}
        return {"type": kind, **id, "call_id": item["call_id"], "status": "completed", **rest}
    space, _, name = item["name"].rpartition(".")
    if space:
        return {**item, "namespace": space, "name": name}
    if name not in CUSTOM:
        return item
    text = json.loads(item["arguments"])["input"] if item["arguments"] else ""
    rest = {name: value for name, value in item.items() if name != "arguments"}
    return {**rest, "type": "custom_tool_call", "id": f"ctc{item['id'][2:]}", "input": text}
