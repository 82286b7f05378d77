"""Measure the fill level of a model's window [SPEC 5.5] and split a full context into chunks [SPEC 4.2]."""

from collections.abc import Sequence
from itertools import accumulate

WINDOW = 200_000
"""Assumed window of a model in tokens, if nothing better is known [S1]."""


def percent(tokens: int, window: int = WINDOW) -> int:
    """Return the share of the window in percent, rounded down."""
    return tokens * 100 // window


BUDGET_SHOWN = 50
"""Percent of the budget from which the meter shows it: where the budget is smaller than the window, it decides when
older turns leave."""


def meter(tokens: int, window: int = WINDOW, budget: int = 0, whole: int = 0) -> str:
    """Return `Context: 80K/200K tokens (40%) ⚪ · budget 100K (80%)`: the light is yellow from 80% of the window, red
    from 95.

    `tokens` are those of the next request, `budget` is what the settings limit it to (0: nothing), `whole` are the
    tokens of the whole context where the request does not hold all of it [SPEC 5.5].
    """
    share = percent(tokens, window)
    light = "🔴" if share >= 95 else "🟡" if share >= 80 else "⚪"
    beside = []
    if 0 < budget < window and (used := percent(tokens, budget)) >= BUDGET_SHOWN:
        beside.append(f"budget {_thousands(budget)} ({used}%)")
    if whole:
        beside.append(f"whole context ~{_thousands(max(whole, tokens))}")
    return " · ".join((f"Context: {_thousands(tokens)}/{_thousands(window)} tokens ({share}%) {light}", *beside))


def is_full(tokens: int, window: int = WINDOW) -> bool:
    """Return True if text is refused; commands never are."""
    return tokens >= window


def is_ephemeral(tokens: int, window: int = WINDOW) -> bool:
    """Return True if a filter is planned without the rest of the history: from 80% of the window [S1]."""
    return tokens * 100 >= window * 80


def chunk_count(tokens: int, window: int = WINDOW) -> int:
    """Return the number of chunks for a context of `tokens`: one below half of the window, then two, from 80% three,
    from 85% four, and from 90% at least five, none of them above a fifth of the window."""
    share = tokens * 100
    for limit, count in ((50, 1), (80, 2), (85, 3), (90, 4)):
        if share < window * limit:
            return count
    return max(5, -(-tokens * 5 // window))


def chunks(sizes: Sequence[int], count: int) -> list[range]:
    """Split turns, given by their sizes in order, into at most `count` runs of about equal size, none of them empty.

    A turn goes where its middle falls when the whole is cut into `count` equal pieces, so a run is never larger than
    such a piece and half of its first and its last turn. Sizes are not negative; `count` is at least 1.
    """
    total = sum(sizes)
    if not total:
        return chunks([1] * len(sizes), count) if sizes else []
    ends = accumulate(sizes)
    pieces = [min((2 * end - size) * count // (2 * total), count - 1) for end, size in zip(ends, sizes, strict=True)]
    starts = [index for index, piece in enumerate(pieces) if not index or piece != pieces[index - 1]]
    return [range(start, end) for start, end in zip(starts, [*starts[1:], len(sizes)], strict=True)]


def _thousands(tokens: int) -> str:
    """Return tokens rounded to the nearest thousand, never 0 for a positive number."""
    return f"{max((tokens + 500) // 1000, min(tokens, 1))}K"
