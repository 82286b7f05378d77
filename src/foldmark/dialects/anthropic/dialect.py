"""The dialect of Anthropic's Messages API."""

from collections.abc import Iterator
from typing import Any

from foldmark.core.assembly.caching import Block, block, parts
from foldmark.dialects.anthropic import binding
from foldmark.dialects.anthropic.messages import encode, parse
from foldmark.dialects.anthropic.thinking import binds, compacts
from foldmark.dialects.dialect import Dialect, ThinkingRule


def blocks(body: dict[str, Any]) -> list[Block]:
    """Return the blocks of a body: tools, system, messages."""
    found = list(_blocks(body))
    if body.get("cache_control") and found:
        found[-1] = found[-1]._replace(marked=True)
    return found


def _blocks(body: dict[str, Any]) -> Iterator[Block]:
    for tool in body.get("tools", ()):
        yield block("tools", tool)
    for part in parts(body.get("system")):
        yield block("system", part)
    for message in body.get("messages", ()):
        for part in parts(message["content"]):
            kind = part.get("type", "")
            yield block(message["role"], part, kind if kind in ("tool_use", "tool_result") else "")


ANTHROPIC = Dialect(
    name="anthropic",
    recorded="anthropic",
    reads="anthropic",
    encode=encode,
    parse=parse,
    blocks=blocks,
    on_the_wire='these bytes, with "stream":true as the last field',
    thinking=ThinkingRule(
        binds=binds, bind=binding.bind, sent=binding.thinking, without=binding.without, staying=binding.staying
    ),
    lifetimes=True,
    clears=True,
    compacts=compacts,
)
