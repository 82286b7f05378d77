"""Cases of the suites of `FoldmarkSession`, crossed with the kinds of sessions and the methods of the SDK's runner."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, product
from typing import TypeVar

from sdk_sessions import KINDS, RUNNERS

from sampled import DEEP, sampled

_T = TypeVar("_T")
_C = TypeVar("_C")

WAYS = [*product(KINDS, RUNNERS)] if DEEP else [("sqlite", "run"), *(("foldmark", how) for how in RUNNERS)]
"""A kind of session and a method of the runner. The expectations are proved with one method, our session with each."""


def crossed(ways: Sequence[_T], cases: Sequence[_C]) -> list[tuple[_T, _C]]:
    """Return each way with each case in a deep run. Otherwise return each way once, with the cases in turn."""
    return [*product(ways, cases)] if DEEP else [*zip(ways, cycle(cases), strict=False)]


def of_kinds(cases: Sequence[_T]) -> list[tuple[str, _T]]:
    """Return each case with our session, and a sample of them with the SDK's own; all of them in a deep run."""
    return [*(("sqlite", case) for case in sampled(cases, 4)), *(("foldmark", case) for case in cases)]
