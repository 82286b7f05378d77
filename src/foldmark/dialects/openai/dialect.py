"""The dialects of OpenAI's two APIs, and of the offline model, which reads Chat Completions."""

from collections.abc import Iterator
from typing import Any

import msgspec

from foldmark.core.assembly.caching import Block, block, parts
from foldmark.dialects.dialect import Dialect
from foldmark.dialects.openai import chat, responses

_STREAM = 'these bytes, with "stream":true'
_KEYED = ', and "prompt_cache_key", the agent\'s id, behind them if it went to OpenAI itself'


def blocks(body: dict[str, Any]) -> Iterator[Block]:
    """Yield the blocks of a body: tools, instructions, messages or items."""
    for tool in body.get("tools", ()):
        yield block("tools", tool)
    if instructions := body.get("instructions"):
        yield block("instructions", instructions)
    for message in body.get("messages", body.get("input", ())):
        field = "output" if "output" in message else "content"
        content = message.get(field)
        if not content:
            yield block("", message)
            continue
        head = msgspec.json.encode({key: value for key, value in message.items() if key != field}).decode()
        for part in parts(content):
            # A text is the same to the model whether it stands by itself or as a part that can be marked.
            named = str(part.get("type", "")).endswith("text")
            yield block(head, {**part, "type": "text"} if named else part)
            head = ""


CHAT = Dialect(
    name="openai",
    recorded="openai",
    encode=chat.encode,
    parse=chat.parse,
    blocks=blocks,
    on_the_wire='these bytes, with "stream":true and "stream_options":{"include_usage":true} as the last fields'
    + _KEYED,
)

RESPONSES = Dialect(
    name="openai_responses",
    recorded="openai",
    reads="openai_responses",
    encode=responses.encode,
    parse=responses.parse,
    blocks=blocks,
    on_the_wire=f"{_STREAM} as the last field{_KEYED}",
)

OFFLINE = msgspec.structs.replace(
    CHAT, name="offline", on_the_wire="nothing: the built-in model reads it in this process", foreign=True
)
