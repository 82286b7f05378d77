"""Calibration: from what a provider reported for a request to how the next ones are counted [SPEC 5.4]. Pure.

See docs/decisions/0008-calibration.md for the figures.
"""

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
