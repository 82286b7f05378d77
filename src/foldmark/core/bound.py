"""Thinking bound to its context: which thinking blocks a later request may still send [SPEC 5.7]. Pure functions.

Newer Anthropic models accept a thinking block only if system, tools and all messages before it, including their
thinking blocks, are byte for byte those of the request that it answered.
"""

from collections.abc import Sequence
from typing import NamedTuple

from foldmark.core.caching import Beginnings


class Thoughts(NamedTuple):
    """Thinking blocks of the answers in view, summed over all requests: `kept` could be sent, `lost` could not.
    `blocks` counts each lost block once."""

    kept: int = 0
    lost: int = 0
    blocks: int = 0

    @property
    def share(self) -> float:
        """The share that could be sent; 1 where there was none."""
        return self.kept / (self.kept + self.lost) if self.kept + self.lost else 1.0


class Bound:
    """Counts the thinking blocks of one conversation's answers."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[int, int, int]] = {}
        self._shown: list[tuple[int, int]] = []  # for each answer in view: the end of what is sent, and its bytes
        self._gone: set[int] = set()
        self._kept = self._lost = 0

    def add(self, request: Beginnings, same: int, shown: Sequence[int], answer: int | None) -> None:
        """Count a request. `same` is how many answers with thinking it shares with the request before, within their
        common beginning; `shown` are the further ones; `answer` is its own answer, None for one without thinking."""
        del self._shown[same:]
        sent, kept = self._shown[-1] if self._shown else (0, 0)
        made, keys, gone, add = self._made, request.keys, self._gone.add, self._shown.append
        for each in shown:
            length, key, before = made[each]
            if before == sent and length <= len(keys) and keys[length - 1] == key:
                sent, kept = hash((sent, each)), kept + 1
            else:
                gone(each)
            add((sent, kept))
        self._kept, self._lost = self._kept + kept, self._lost + len(self._shown) - kept
        if answer is not None:
            self._made[answer] = len(request.keys), request.keys[-1], sent

    @property
    def thoughts(self) -> Thoughts:
        """The counts so far."""
        return Thoughts(self._kept, self._lost, len(self._gone))
