"""Choose how long a provider keeps a request in its cache [SPEC 5.7]. Pure functions.

Anthropic keeps the beginning of a request for five minutes after its last use, or for an hour if asked to. Reading
costs 0.1 of the price of a fresh token either way. Writing costs 1.25, or 2.0 for an hour. So an hour costs 0.75 more
for each new token. It saves 1.15 for each token of the context after a pause of more than five minutes and less than an
hour: the context is read and not written again. With a context of 50,000 tokens one such pause pays for 77,000 new
tokens.

The next pause is not known. So the choice follows the recent requests: the lifetime that would have been cheaper for
them is asked for next. One long pause is no rhythm: the hour has to pay for writing the context once more as well, as
it has to be when the lifetime changes. On recorded sessions without such pauses this costs what five minutes cost (an
hour costs 34% more), on one with ten minutes in front of each turn 36% less.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

LIFETIMES = {"5m": 300.0, "1h": 3600.0}
"""Seconds that the beginning of a request is kept after its last use."""

WRITE = {"5m": 1.25, "1h": 2.0}
"""The price of a token that is written, as a share of that of a fresh one."""

READ = 0.1
"""The price of a token that is read, as a share of that of a fresh one."""

RECENT = 100
"""Number of recent requests that decide. A coding agent adds about 1,000 tokens with each: an hour pays from the second
pause among this many on."""


class Use(NamedTuple):
    """A request: when it was made (seconds), the tokens of its input, and those of them that were not cached."""

    moment: float
    tokens: int
    written: int


def lifetime(uses: Sequence[Use]) -> str:
    """Return the lifetime, `5m` or `1h`, that would have been cheaper for these requests, oldest first, plus one more
    write of the context; `5m` if there are none."""
    return "1h" if uses and _cost("1h", uses) < _cost("5m", uses) else "5m"


def _cost(ttl: str, uses: Sequence[Use]) -> float:
    """Return the cost of these requests, in fresh tokens, if each is kept for `ttl`. The first finds nothing cached."""
    cost = WRITE[ttl] * (uses[0].tokens + uses[-1].tokens)
    for before, now in pairwise(uses):
        pause = now.moment - before.moment
        if pause <= LIFETIMES["5m"]:
            new = now.written  # as measured: an operation rewrites the same with either lifetime
        elif pause <= LIFETIMES[ttl]:
            new = max(0, now.tokens - before.tokens)
        else:
            new = now.tokens
        cost += WRITE[ttl] * new + READ * (now.tokens - new)
    return cost
