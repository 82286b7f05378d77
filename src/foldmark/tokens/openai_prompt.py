"""The tokens of a request to OpenAI, counted as OpenAI lays it out: Chat Completions and Responses bodies [S3].

A message is its texts and 3 tokens, the reply begins with 3, tools add 9 and their declarations; images and
documents are counted as `media.tokens_of` says. Whatever is added to a body adds its own tokens and changes no others.
"""

from collections.abc import Mapping
from typing import Any

from foldmark.core import media
from foldmark.tokens.declarations import declarations
from foldmark.tokens.o200k import count

MESSAGE = 3
"""Tokens around each message."""
REPLY = 3
"""Tokens that begin the answer."""
TOOLS = 9
"""Tokens around the declarations of tools."""

SEALED = (880, 8)
"""Encrypted thinking: characters of it that cost nothing, then how many make a token. OpenAI says neither; in recorded
requests of GPT-5 a sealed block of 900 characters costs next to nothing and one of 1,400 some 64 tokens."""


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """The tokens of a whole request body. What is not of the form of either API counts nothing."""
    total = REPLY
    instructions, tools = body.get("instructions"), body.get("tools")
    if isinstance(instructions, str) and instructions:
        total += MESSAGE + count("system") + count(instructions)
    if isinstance(tools, list) and tools:
        total += TOOLS + count(declarations(tools))
    for key in ("messages", "input"):
        items = body.get(key)
        if isinstance(items, str):
            total += MESSAGE + count("user") + count(items)
        elif isinstance(items, list):
            total += sum(_item(item) for item in items if isinstance(item, Mapping))
    return total


def _item(item: Mapping[str, Any]) -> int:
    """A message of either API, or an item of Responses: a call, a result, a block of thinking."""
    total = MESSAGE + sum(_content(item.get(key)) for key in ("role", "name", "content", "arguments", "output"))
    total += _content(item.get("summary"))
    calls, sealed = item.get("tool_calls"), item.get("encrypted_content")
    if isinstance(calls, list):
        functions = [call.get("function") for call in calls if isinstance(call, Mapping)]
        total += sum(
            _content(function.get(key))
            for function in functions
            if isinstance(function, Mapping)
            for key in ("name", "arguments")
        )
    if isinstance(sealed, str):
        free, each = SEALED
        total += max(0, len(sealed) - free) // each
    return total


def _content(value: Any) -> int:
    """A text, or a list of parts: texts, images and documents."""
    if isinstance(value, str):
        return count(value) if value else 0
    if not isinstance(value, list):
        return 0
    total = 0
    for part in value:
        if isinstance(part, Mapping):
            text = part.get("text")
            total += count(text) if isinstance(text, str) else media.tokens_of(part)
    return total
