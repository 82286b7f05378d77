"""Count the tokens of a request to OpenAI with its own tokenizer and request layout [S3, SPEC 5.4].

The ranks of the tokenizer o200k_base are shipped in this package, so nothing is downloaded. `o200k_base.xz` contains
the 199,998 tokens in the order of their ranks: first the length of each, one byte, then their bytes. Loading takes half
a second, once, at the first count; this includes `import tiktoken`.

In Chat Completions and Responses bodies, a message counts as its texts plus 3 tokens, the reply begins with 3, and
tools add 9 plus their declarations; images and documents are counted by `media.tokens_of`. An addition to a body adds
its own tokens and does not change those of other parts. OpenAI turns the schemas of tools into TypeScript declarations
before it counts them, in the form that it publishes for its open models: a namespace of function types, descriptions as
comments, optional properties with a question mark. Other content of a schema (formats, limits, patterns) is left out.
"""

import lzma
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from foldmark.core.assembly import media
from foldmark.core.errors import CommandError
from foldmark.wires.chat import calls_of, piece_of
from foldmark.wires.parts import SEALED

if TYPE_CHECKING:
    from tiktoken import Encoding

RANKS = Path(__file__).with_name("o200k_base.xz")
SIZE = 199_998
"""Number of tokens, without the special ones."""

LONGEST = 8192
"""Maximum number of characters per call of the tokenizer. It fails on a million spaces in one piece."""

_SPECIAL = {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018}
_ENDING = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _ENDING,
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _ENDING,
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""Splits a text into words, as tiktoken defines them; no token extends from one word into the next."""


def count(text: str) -> int:
    """Return the tokens of a text; special tokens in it count as text. Raises CommandError if tiktoken is missing.

    The count is exact up to `LONGEST` characters. A longer text is cut before a space, which changes nothing;
    without a space, as in Chinese or in base64, each cut can add a token or two.
    """
    return sum(_count(piece) for piece in pieces(text))


def pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces of at most `LONGEST` characters, cut before spaces if possible."""
    begin = 0
    while len(text) - begin > LONGEST:
        end = _cut(text, begin + LONGEST // 2, begin + LONGEST)
        yield text[begin:end]
        begin = end
    yield text[begin:]


def ranks() -> dict[bytes, int]:
    """Return the rank of every token."""
    data = lzma.decompress(RANKS.read_bytes())
    found, begin = {}, SIZE
    for rank in range(SIZE):
        end = begin + data[rank]
        found[data[begin:end]] = rank
        begin = end
    return found


@cache
def encoding() -> "Encoding":
    """Return the tokenizer. Raises CommandError if tiktoken is not installed."""
    try:
        import tiktoken
    except ImportError:
        from foldmark.installation import installs

        raise CommandError(
            "token_counting is 'tokenizer', which needs tiktoken; /config set token_counting=bytes needs nothing. "
            f"tiktoken is not installed; {installs('openai')}"
        ) from None
    return tiktoken.Encoding("o200k_base", pat_str=_PATTERN, mergeable_ranks=ranks(), special_tokens=_SPECIAL)


def _cut(text: str, least: int, most: int) -> int:
    """Return the last position from `least` to `most` where a space follows a character other than white space, or
    `most` if there is none nearby."""
    at = most
    for _ in range(100):
        at = text.rfind(" ", least, at)
        if at < 0:
            break
        if not text[at - 1].isspace():
            return at
    return most


# The window measures requests that are nearly identical, so the same texts are counted repeatedly.
@lru_cache(maxsize=8192)
def _count(piece: str) -> int:
    return len(encoding().encode_ordinary(piece))


DEEPEST = 32
"""Maximum levels of nesting in a schema; deeper types become `any`."""

_PLAIN = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}


def declarations(tools: Iterable[Any]) -> str:
    """Return the declarations of the tools in a Chat Completions or Responses body; only functions are declared."""
    functions = [function for function in map(_function, tools) if function]
    if not functions:
        return ""
    lines = ["namespace functions {", ""]
    for function in functions:
        lines += [*_comment(function.get("description")), *_type(function), ""]
    return "\n".join([*lines, "} // namespace functions"])


def _function(tool: Any) -> Mapping[str, Any]:
    """Return the description of a function, which is one level deeper in Chat Completions; empty for other tools."""
    about = tool.get("function", tool) if isinstance(tool, Mapping) else {}
    return about if isinstance(about, Mapping) and isinstance(about.get("name"), str) else {}


def _type(function: Mapping[str, Any]) -> list[str]:
    properties = _properties(function.get("parameters"), 0)
    name = function["name"]
    return [f"type {name} = (_: {{", *properties, "}) => any;"] if properties else [f"type {name} = () => any;"]


def _properties(schema: Any, depth: int) -> list[str]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return []
    wanted = schema.get("required")
    required = wanted if isinstance(wanted, list) else ()
    lines = []
    for name, about in properties.items():
        described = about.get("description") if isinstance(about, Mapping) else None
        mark = "" if name in required else "?"
        lines += [*_comment(described), f"{name}{mark}: {_typed(about, depth + 1)},"]
    return lines


def _typed(schema: Any, depth: int) -> str:
    if not isinstance(schema, Mapping) or depth > DEEPEST:
        return "any"
    for key in ("enum", "anyOf", "oneOf"):
        several = schema.get(key)
        if isinstance(several, list) and several:
            found = [_literal(each) if key == "enum" else _typed(each, depth + 1) for each in several]
            return " | ".join(dict.fromkeys(found))
    if "const" in schema:
        return _literal(schema["const"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(dict.fromkeys(_typed({**schema, "type": each}, depth + 1) for each in kind)) or "any"
    if kind == "array":
        return f"{_typed(schema.get('items'), depth + 1)}[]"
    if kind == "object":
        properties = _properties(schema, depth)
        return "\n".join(["{", *properties, "}"]) if properties else "object"
    return _PLAIN.get(kind, "any") if isinstance(kind, str) else "any"


def _literal(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _comment(text: Any) -> list[str]:
    return [f"// {line}" for line in text.strip().splitlines()] if isinstance(text, str) else []


MESSAGE = 3
"""Tokens around each message."""

REPLY = 3
"""Tokens that begin the answer."""

TOOLS = 9
"""Tokens around the declarations of tools."""

SEALED_TOKENS = (880, 8)
"""Encrypted thinking: number of free characters, then characters per token. OpenAI publishes neither; in recorded
requests of GPT-5, a sealed block of 900 characters costs almost nothing and one of 1,400 about 64 tokens."""


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """Return the tokens of a request body. Parts that belong to neither API count as 0."""
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
    """Return the tokens of a message in either API, or of a Responses item: a call, a result, thinking."""
    total = MESSAGE + sum(_content(item.get(key)) for key in ("role", "name", "content", "arguments", "output"))
    total += _content(item.get("summary"))
    sealed = item.get(SEALED)
    total += sum(_content(piece[key]) for piece in map(piece_of, calls_of(item)) for key in ("name", "arguments"))
    if isinstance(sealed, str):
        free, each = SEALED_TOKENS
        total += max(0, len(sealed) - free) // each
    return total


def _content(value: Any) -> int:
    """Return the tokens of a text, or of a list of parts: texts, images and documents."""
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
