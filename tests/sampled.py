"""The share of a long test that runs: a sample by default, all of it with FOLDMARK_DEEP=1 (`make deep`)."""

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

DEEP = os.environ.get("FOLDMARK_DEEP") == "1"


def sampled(every: Sequence[T], most: int) -> list[T]:
    """Return `most` of these at equal distances, including the first and the last; all of them in a deep run."""
    if DEEP or len(every) <= most:
        return list(every)
    return [every[number * (len(every) - 1) // (most - 1)] for number in range(most)]
