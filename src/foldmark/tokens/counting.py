"""How many tokens a serialized request is: the one place that decides how they are counted [S3, SPEC 5.4]."""

from collections.abc import Sequence
from math import ceil
from typing import Any, Protocol

from msgspec import Struct

from foldmark.core import images
from foldmark.core.config import Config
from foldmark.core.images import Image

BYTES_PER_TOKEN = {"anthropic": 3.0}
"""Bytes that make a token, 4 where nothing else was measured."""


class Ruler(Protocol):
    """Measures requests to one model. Sizes add up and compare; only whole requests have tokens."""

    def size(self, body: dict[str, Any], data: bytes, images: Sequence[Image]) -> int:
        """The size of a request: its body, the same serialized, and the images in it."""

    def tokens(self, size: int) -> int:
        """The tokens of a request of this size, rounded up."""


class BytesRuler(Struct, frozen=True):
    """Counts bytes, `ratio` of them a token; an image is counted as `images.TOKENS`, whatever its bytes."""

    ratio: float

    def size(self, body: dict[str, Any], data: bytes, images_: Sequence[Image] = ()) -> int:
        return len(data) - images.payload(images_) + ceil(len(images_) * images.TOKENS * self.ratio)

    def tokens(self, size: int) -> int:
        return ceil(size / self.ratio)


def ruler(provider: str, model: str, config: Config) -> Ruler:
    """What measures requests to `model` of `provider`, calibrated if the config holds that."""
    return BytesRuler(config.calibration.get(f"{provider}/{model}") or BYTES_PER_TOKEN.get(provider, 4.0))


def count(provider: str, model: str, data: bytes) -> int:
    """The estimated tokens of a serialized request, uncalibrated."""
    return BytesRuler(BYTES_PER_TOKEN.get(provider, 4.0)).tokens(len(data))
