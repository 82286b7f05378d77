"""OpenAI's tokenizer o200k_base, with its ranks shipped in this package: nothing is downloaded [SPEC 5.4].

`o200k_base.xz` holds the 199,998 tokens in the order of their ranks: first the length of each, one byte, then their
bytes. Loading takes half a second, once, when something is first counted; `import tiktoken` is part of it.
"""

import lzma
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from foldmark.core.errors import CommandError

if TYPE_CHECKING:
    from tiktoken import Encoding

RANKS = Path(__file__).with_name("o200k_base.xz")
SIZE = 199_998
"""How many tokens there are, special ones aside."""

LONGEST = 8192
"""Characters that are handed to the tokenizer at once. It gives up on a million spaces in one piece."""

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
"""How a text falls into words, as tiktoken states it; no token reaches from one word into the next."""


def count(text: str) -> int:
    """The tokens of a text; what looks like a special token is text. Raises CommandError where tiktoken is missing.

    Exact up to `LONGEST` characters. A longer text is cut in front of a space, which changes nothing; where there is
    none, as in Chinese or in base64, each cut can count a token or two too many.
    """
    return sum(_count(piece) for piece in pieces(text))


def pieces(text: str) -> Iterator[str]:
    """A text in pieces of at most `LONGEST` characters, cut where it changes nothing if there is such a place."""
    begin = 0
    while len(text) - begin > LONGEST:
        end = _cut(text, begin + LONGEST // 2, begin + LONGEST)
        yield text[begin:end]
        begin = end
    yield text[begin:]


def ranks() -> dict[bytes, int]:
    """Every token and its rank."""
    data = lzma.decompress(RANKS.read_bytes())
    found, begin = {}, SIZE
    for rank in range(SIZE):
        end = begin + data[rank]
        found[data[begin:end]] = rank
        begin = end
    return found


@cache
def encoding() -> "Encoding":
    """The tokenizer. Raises CommandError where tiktoken is not installed."""
    try:
        import tiktoken
    except ImportError:
        raise CommandError(
            "token_counting is 'tokenizer', which needs tiktoken, and that is not installed: "
            "pip install 'foldmark[openai]', or /config set token_counting=bytes"
        ) from None
    return tiktoken.Encoding("o200k_base", pat_str=_PATTERN, mergeable_ranks=ranks(), special_tokens=_SPECIAL)


def _cut(text: str, least: int, most: int) -> int:
    """The last place from `least` to `most` where a space follows what is not white space; `most` if none is near."""
    at = most
    for _ in range(100):
        at = text.rfind(" ", least, at)
        if at < 0:
            break
        if not text[at - 1].isspace():
            return at
    return most


# The window measures requests that have nearly everything in common: texts come again and again.
@lru_cache(maxsize=8192)
def _count(piece: str) -> int:
    return len(encoding().encode_ordinary(piece))
