"""What is searched of a record of a session, of Claude Code's or Codex's: texts, tool calls and results [SPEC 7, 8].

Sidechains, abandoned branches and what lies before a compaction are among it. What stands in a record a second time
(`toolUseResult`, Codex's `event_msg`) is not, and neither are instructions of the program (Codex's developer messages).
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, json

from foldmark.sessions.claude.blocks import Call, Result, Text, read_message
from foldmark.sessions.lenient_json import NotJsonError, decode
from foldmark.sessions.places import Kind

LONGEST = 100_000
"""Characters of one message that are searched."""

_CODEX_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_CODEX_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
_CODEX_RESULTS = ("function_call_output", "custom_tool_call_output")


class Said(Struct, frozen=True):
    """One message: `role` is user, assistant, thinking, tool_call or tool_result.

    `text` is whole, for a call the arguments with their names, one a line. `tool` is a call's tool, `call` the id that
    binds a call and its result.
    """

    role: str
    text: str
    tool: str | None = None
    call: str | None = None


def said(record: Any, kind: Kind) -> list[Said]:
    """The messages of a record, in order; none for whatever is not understood."""
    if not isinstance(record, dict):
        return []
    found = _codex(record) if kind == "codex" else _claude(record)
    return [each for each in found if each.text or each.tool]


def searched(record: Any, kind: Kind, part: int) -> str:
    """A message of a record as it is indexed, with the name of its tool in front of it; "" if there is none."""
    messages = said(record, kind)
    if part >= len(messages):
        return ""
    message = messages[part]
    return (f"{message.tool}\n{message.text}" if message.tool else message.text)[:LONGEST]


def key(record: Any, part: int, message: Said) -> int:
    """64 bits that are the same wherever the same message is met again: in a copy, a fork, a trimmed session."""
    from hashlib import blake2b  # a search reads records, and needs no key

    uuid = record.get("uuid")
    if isinstance(uuid, str):
        named: list[Any] = [uuid, part]
    elif message.call:
        named = [message.role, message.call]
    else:
        named = [message.role, record.get("timestamp"), message.text[:LONGEST]]
    return int.from_bytes(blake2b(json.encode(named), digest_size=8).digest(), "big", signed=True)


def arguments(value: Any) -> str:
    """The texts and numbers of a JSON value, each behind its name, one a line."""
    return "\n".join(_leaves(value, ""))


def _claude(record: dict[str, Any]) -> Iterator[Said]:
    for part in read_message(record).parts:
        match part:
            case Text():
                yield Said(part.kind, part.text)
                for block in (part.data or {}).get("blocks", ()):
                    yield from _block(block)
            case Call():
                yield Said("tool_call", arguments(part.args), part.name, part.call_id)
            case Result():
                yield Said("tool_result", part.text, None, part.call_id)


def _block(block: dict[str, Any]) -> Iterator[Said]:
    """Thinking, and the calls of tools that the provider runs."""
    thinking, name = block.get("thinking"), block.get("name")
    if isinstance(thinking, str):
        yield Said("thinking", thinking)
    elif isinstance(name, str) and name:
        yield Said("tool_call", arguments(block.get("input")), name, None)


def _codex(record: dict[str, Any]) -> Iterator[Said]:
    # The first versions wrote items as they are, later ones wrap them.
    item = record.get("payload") if record.get("type") in ("response_item", "compacted") else record
    if not isinstance(item, dict):
        return
    kind, role, call = _name(item.get("type")), item.get("role"), _name(item.get("call_id"))
    if record.get("type") == "compacted":
        yield Said("assistant", _text(item.get("message")))
    elif kind == "message" and role in ("user", "assistant"):
        yield Said(role, _text(item.get("content")))
    elif kind == "reasoning":
        yield Said("thinking", "\n".join(filter(None, (_text(item.get("summary")), _text(item.get("content"))))))
    elif kind in _CODEX_CALLS:
        tool = _name(item.get("name")) or ("shell" if kind == "local_shell_call" else None)
        yield Said("tool_call", arguments(_unpacked(item.get(_CODEX_CALLS[kind]))), tool, call)
    elif kind == "web_search_call":
        yield Said("tool_call", arguments(item.get("action")), "web_search", call)
    elif kind in _CODEX_RESULTS:
        yield Said("tool_result", _output(item.get("output")), None, call)


def _output(value: Any) -> str:
    """A tool's answer: a text, a list of texts and images, or JSON in a text, as older versions have it."""
    inner = _unpacked(value)
    if isinstance(inner, dict) and isinstance(inner.get("output"), str):
        return str(inner["output"])
    if isinstance(value, dict):
        value = value.get("content") or value.get("output")
    return _text(value)


def _text(value: Any) -> str:
    """A text, or the texts of a list of blocks."""
    if isinstance(value, str):
        return value
    blocks = value if isinstance(value, list) else []
    texts = (
        block if isinstance(block, str) else block["text"]
        for block in blocks
        if isinstance(block, str)
        or (isinstance(block, dict) and block.get("type") in _CODEX_TEXTS and isinstance(block.get("text"), str))
    )
    return "\n".join(texts)


def _unpacked(value: Any) -> Any:
    """What a text holds that is a JSON object; otherwise `value` itself."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            return decode(value.encode("utf-8", "replace"))
        except NotJsonError:
            return value
    return value


def _leaves(value: Any, name: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, name)
    elif value is not None and not isinstance(value, bool):
        yield f"{name}: {value}" if name else str(value)


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
