"""The dialect of Gemini's generateContent, and the same wrapped for Code Assist."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from foldmark.core.assembly.caching import Block, block
from foldmark.core.assembly.media import GIF
from foldmark.dialects.dialect import Dialect
from foldmark.dialects.gemini.contents import encode, encode_gca, parse, parse_gca


def blocks(body: dict[str, Any]) -> Iterator[Block]:
    """Yield the blocks of a body, wrapped or not: system, tools, contents."""
    body = body.get("request", body)
    for part in body.get("systemInstruction", {}).get("parts", ()):
        yield block("system", part)
    for tool in body.get("tools", ()):
        yield block("tools", tool)
    for content in body.get("contents", ()):
        for part in content["parts"]:
            yield block(content["role"], part)


GEMINI = Dialect(
    name="gemini",
    recorded="gemini",
    also=("gemini_gca",),
    refused=(GIF,),
    encode=encode,
    parse=parse,
    blocks=blocks,
    on_the_wire="the same JSON as the SDK serializes it once more: white space and escapes differ",
)

CODE_ASSIST = replace(
    GEMINI,
    name="gemini_gca",
    recorded="gemini_gca",
    also=("gemini",),
    encode=encode_gca,
    parse=parse_gca,
    on_the_wire="the same JSON with the account's project and a prompt id, as the SDK serializes it once more",
)
