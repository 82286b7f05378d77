"""Count the tokens of a serialized request. Only this module decides how tokens are counted [S3, SPEC 5.4].

A request has a *size*, in bytes or in tokens of the tokenizer, and a ruler has a *ratio*: the size of one token of the
model. Calibration moves the ratio towards the provider's own counts, so it includes everything that cannot be counted
from the outside: the 313 to 346 tokens that Anthropic adds for tools, or the error of a tokenizer.
docs/development/decisions/0008-calibration.md has the figures.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from foldmark.core.assembly.media import Medium, payload
from foldmark.core.config import Config
from foldmark.tokens.models import model_of

OFF = 0.02
"""The relative error of an estimate above which the ratio is corrected."""

LEAST = 100
"""Minimum tokens of a request to calibrate with. A shorter request consists mostly of its frame."""

RATIOS = (0.5, 20.0)
"""Minimum and maximum bytes per token of any text. A report outside this range is wrong, or about another request."""


def usable(ratio: float) -> bool:
    """Return True if a ratio is possible for a text."""
    return RATIOS[0] <= ratio <= RATIOS[1]


def recalibrated(size: int, reported: int, ratio: float) -> float | None:
    """Return the corrected ratio, rounded to 3 digits, or None if the current one is good enough.

    `size` is the size of the request that was sent, as a ruler of this `ratio` measured it; `reported` is the
    number of input tokens billed by the provider: fresh, read from the cache and written to it.
    """
    if size <= 0 or reported < LEAST or abs(size / ratio - reported) <= OFF * reported:
        return None
    measured = round(size / reported, 3)
    return measured if usable(measured) else None


TOKENIZED = ("openai", "openai_responses")
"""Providers whose tokenizer is public."""


class _Ruler(Struct, frozen=True):
    """Base class of the rulers of one model: a token has size `ratio`."""

    ratio: float = 1.0

    def tokens(self, size: int) -> int:
        """Return the number of tokens of a request of this size, rounded up."""
        return ceil(size / self.ratio)


class BytesRuler(_Ruler, frozen=True):
    """Measures requests in bytes; an image or a document counts by its own `tokens`, not by its bytes."""

    def size(self, body: dict[str, Any], data: bytes, media: Sequence[Medium] = ()) -> int:
        """Return the size of a request, given its body, the serialized body, and the images and documents of its
        messages."""
        # A model that does not accept an image or document gets a note instead, and the data is not sent.
        sent = [each for each in media if each.data[-64:].encode() in data]
        return len(data) - payload(sent) + ceil(sum(each.tokens for each in sent) * self.ratio)


class TokenizerRuler(_Ruler, frozen=True):
    """Measures requests to OpenAI with the tokenizer; `ratio` counted tokens are one reported token.

    Raises CommandError at the first measurement if tiktoken is not installed.
    """

    def size(self, body: dict[str, Any], data: bytes, media: Sequence[Medium] = ()) -> int:
        from foldmark.tokens.openai import prompt_tokens

        return prompt_tokens(body)


Ruler: TypeAlias = BytesRuler | TokenizerRuler
"""Sizes can be added and compared; only whole requests have tokens."""


@lru_cache(maxsize=64)
def uncalibrated(provider: str, model: str) -> float:
    """Return the bytes per token of a model before calibration. Claude counts alike at every provider."""
    begin = model.find("claude")
    return model_of(provider if begin < 0 else "anthropic", model[max(begin, 0) :]).bytes_per_token


def ruler(provider: str, model: str, config: Config) -> Ruler:
    """Return the ruler for requests to `model` of `provider`, calibrated if the config has its ratio."""
    measured = config.calibration.get(calibration_key(provider, model, config), 0.0)
    ratio = measured if usable(measured) else None
    if _tokenized(provider, config):
        return TokenizerRuler(ratio or 1.0)
    return BytesRuler(ratio or uncalibrated(provider, model))


def calibration_key(provider: str, model: str, config: Config) -> str:
    """Return the key of the ruler's ratio in `config.calibration`: `provider/model` for bytes, or
    `tokenizer:provider/model` for the tokenizer."""
    return f"{'tokenizer:' if _tokenized(provider, config) else ''}{provider}/{model}"


def count(provider: str, model: str, data: bytes, *, tokenizer: bool = False) -> int:
    """Return the estimated tokens of a serialized request, uncalibrated.

    The estimate divides the bytes by the model's bytes per token (`uncalibrated`). With `tokenizer`, requests to
    OpenAI's models are counted by the tokenizer; data that is not a JSON object is then counted as text. Raises
    CommandError if tiktoken is needed and not installed.
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
