"""How many tokens a serialized request is: the one place that decides how they are counted [S3, SPEC 5.4].

A request has a *size*, in bytes or in tokens as the tokenizer counts them, and a ruler has a *ratio*: how much of that
size is one token of the model. Calibration moves the ratio towards what the provider reports, so it takes in what
nobody can count from outside: the 313 to 346 tokens that Anthropic adds where there are tools, or the margin by which a
tokenizer is off. docs/decisions/0008-calibration.md has the figures.
"""

from collections.abc import Sequence
from math import ceil
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from foldmark.core.assembly.media import Medium, payload
from foldmark.core.config import Config

OFF = 0.02
"""The share by which an estimate may miss; beyond it the ratio is corrected."""

LEAST = 100
"""A request of fewer tokens is mostly its form, and says nothing of a longer one."""

RATIOS = (0.5, 20.0)
"""No text has fewer or more bytes a token; a report that would say so is wrong, or not of this request."""


def usable(ratio: float) -> bool:
    """Whether a ratio can be that of any text."""
    return RATIOS[0] <= ratio <= RATIOS[1]


def recalibrated(size: int, reported: int, ratio: float) -> float | None:
    """The ratio to count by from now on, rounded to 3 digits, or None if it may stay.

    `size` is a ruler's size of the request that was sent, `reported` its input tokens as the provider billed them
    (fresh, read from the cache and written to it), and `ratio` the ruler's.
    """
    if size <= 0 or reported < LEAST or abs(size / ratio - reported) <= OFF * reported:
        return None
    measured = round(size / reported, 3)
    return measured if usable(measured) else None


BYTES_PER_TOKEN = {"anthropic": 3.0}
"""Bytes that make a token, 4 where nothing else was measured [S3]."""

TOKENIZED = ("openai", "openai_responses")
"""The providers whose tokenizer is public."""


class Ruler(Protocol):
    """Measures requests to one model. Sizes add up and compare; only whole requests have tokens."""

    @property
    def ratio(self) -> float:
        """How much of a size makes a token."""

    def size(self, body: dict[str, Any], data: bytes, media: Sequence[Medium]) -> int:
        """The size of a request: its body, the same serialized, and the images and documents of its messages."""

    def tokens(self, size: int) -> int:
        """The tokens of a request of this size, rounded up."""


class BytesRuler(Struct, frozen=True):
    """Counts bytes, `ratio` of them a token; an image or a document by its own `tokens`, whatever its bytes."""

    ratio: float

    def size(self, body: dict[str, Any], data: bytes, media: Sequence[Medium] = ()) -> int:
        # A model that does not take one gets a note in its place; the end of the data tells.
        sent = [each for each in media if each.data[-64:].encode() in data]
        return len(data) - payload(sent) + ceil(sum(each.tokens for each in sent) * self.ratio)

    def tokens(self, size: int) -> int:
        return ceil(size / self.ratio)


class TokenizerRuler(Struct, frozen=True):
    """Counts a request to OpenAI with the tokenizer; `ratio` of the tokens counted are one of those reported.

    Raises CommandError where tiktoken is not installed, when it first measures.
    """

    ratio: float = 1.0

    def size(self, body: dict[str, Any], data: bytes, media: Sequence[Medium] = ()) -> int:
        from foldmark.tokens.openai import prompt_tokens

        return prompt_tokens(body)

    def tokens(self, size: int) -> int:
        return ceil(size / self.ratio)


def uncalibrated(provider: str, model: str) -> float:
    """The bytes that make a token of a model, before anything was measured; Claude is Claude wherever it is served."""
    return BYTES_PER_TOKEN.get("anthropic" if "claude" in model else provider, 4.0)


def ruler(provider: str, model: str, config: Config) -> Ruler:
    """What measures requests to `model` of `provider`, calibrated if the config holds that."""
    measured = config.calibration.get(calibration_key(provider, model, config), 0.0)
    ratio = measured if usable(measured) else None
    if _tokenized(provider, config):
        return TokenizerRuler(ratio or 1.0)
    return BytesRuler(ratio or uncalibrated(provider, model))


def calibration_key(provider: str, model: str, config: Config) -> str:
    """Under which name `config.calibration` holds the ratio of the ruler that the config asks for.

    `provider/model` for bytes, `tokenizer:provider/model` for the tokenizer: the two are of different kinds.
    """
    return f"{'tokenizer:' if _tokenized(provider, config) else ''}{provider}/{model}"


def count(provider: str, model: str, data: bytes, *, tokenizer: bool = False) -> int:
    """The estimated tokens of a serialized request, uncalibrated.

    Bytes / 4, for Anthropic / 3; with `tokenizer`, and for OpenAI's models only, what its tokenizer counts. What is not
    a JSON object is then counted as text. Raises CommandError where tiktoken is wanted and not installed.
    """
    if not (tokenizer and provider in TOKENIZED):
        return BytesRuler(uncalibrated(provider, model)).tokens(len(data))
    from foldmark.tokens import openai

    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        body = None
    return openai.prompt_tokens(body) if isinstance(body, dict) else openai.count(data.decode("utf-8", "replace"))


def _tokenized(provider: str, config: Config) -> bool:
    return config.token_counting == "tokenizer" and provider in TOKENIZED
