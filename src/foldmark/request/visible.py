"""The visible messages where an agent stands, read once for one request [SPEC 5]."""

from collections.abc import Iterator
from itertools import takewhile
from typing import Generic, TypeVar

from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.request.once import once
from foldmark.request.standing import Standing

T = TypeVar("T")

AROUND = 24
"""Approximate tokens of a message in a request beside its content."""


class VisibleMessages:
    """The visible messages where an agent stands, read newest first and once for all earlier places."""

    def __init__(self, moment: Snapshot, at: Standing, config: Config) -> None:
        self._moment, self._at, self._segments = moment, at, at.fold.segments
        # The first read takes about as many messages as the window holds.
        size, budget = at.size, config.sliding_context_tokens
        whole = size.tokens + AROUND * size.messages
        share = min(1.0, budget / whole) if budget and whole else 1.0
        self._expected = 8 if config.context_size else min(8 + int(size.messages * share), 4096)

    def holds(self, at: Standing) -> bool:
        """Return True if everything visible at another place is among these messages."""
        return at.fold.segments == self._segments and at.newest <= self._at.newest

    def messages(self, until: int) -> Iterator[Event]:
        """Yield the messages up to an event, newest first."""
        return (event for event in self._messages if event.id <= until)

    def weights(self, until: int) -> Iterator[tuple[int, int]]:
        """Yield the id and the weight of each message up to an event, newest first."""
        return (each for each in self._weights if each[0] <= until)

    def weight(self, until: int) -> int:
        """Return the bytes that the messages up to an event weigh together."""
        later = takewhile(lambda each: each[0] > until, self._weights)
        return self._weight - sum(weight for _, weight in later)

    def since(self, event_id: int) -> list[Event]:
        """Return the messages after an event, in the order of the log."""
        return list(takewhile(lambda event: event.id > event_id, self._messages))[::-1]

    @once
    def _messages(self) -> "ReadOnce[Event]":
        return ReadOnce(self._moment.messages(self._at.visible, newest_first=True, expected=self._expected))

    @once
    def _weights(self) -> "ReadOnce[tuple[int, int]]":
        return ReadOnce(self._moment.weights(self._at.visible, expected=max(256, self._expected)))

    @once
    def _weight(self) -> int:
        return self._moment.weight(self._at.visible)


class ReadOnce(Generic[T]):
    """Items that are read once, however often they are iterated."""

    def __init__(self, items: Iterator[T]) -> None:
        self._read: list[T] = []
        self._rest = items

    def __iter__(self) -> Iterator[T]:
        place = 0
        while True:
            if place == len(self._read):
                try:
                    self._read.append(next(self._rest))
                except StopIteration:
                    return
            yield self._read[place]
            place += 1
