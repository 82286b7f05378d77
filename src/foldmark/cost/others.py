"""Other policies for the simulator [SPEC 5.7]: the whole history, the newest messages, and the whole history with tool
results cleared by the provider."""

from collections.abc import Sequence
from itertools import islice

from foldmark.core.ports import Snapshot
from foldmark.core.segments import END
from foldmark.cost.history import Group, Item, Pieces, ReplayedContext
from foldmark.cost.policies import SteadySender

TRIGGER, KEEP = 100_000, 3
"""Defaults of Anthropic's `clear_tool_uses_20250919`: the tokens from which it clears tool results, and how many of the
newest it keeps; the least that it clears is not set. Source: platform.claude.com/docs/en/build-with-claude/
context-editing, autumn 2026."""


class WholeHistorySender(SteadySender):
    """Sends the whole history as it is; nothing is shortened, and state, scratchpad and memos are Foldmark's own."""

    notes = False


class NewestMessagesSender(WholeHistorySender):
    """Keeps the newest `most` messages, in whole exchanges, as many frameworks do; nothing is shortened."""

    most = END

    def items(self, now: ReplayedContext) -> list[Item]:
        found, count, at = super().items(now), 0, len(now.groups)
        while at and (not count or count + len(now.groups[at - 1].events) <= self.most):
            at -= 1
            count += len(now.groups[at].events)
        left = min(len(now.groups) - at, len(found) - 1)
        return [found[0], *found[len(found) - left :]]

    def fit(self, budget: int, groups: Sequence[Group]) -> None:
        """Set the number of messages with which every request of these groups stays within the budget, at least one."""
        room = budget * self.pieces.ruler.ratio - self.pieces.head([], anchors=False).size
        first = count = size = 0
        for group in groups:
            count, size = count + len(group.events), size + self.pieces.active(group, {}).size
            while size > room and first < len(groups):
                gone = groups[first]
                count, size = count - len(gone.events), size - self.pieces.active(gone, {}).size
                first += 1
            if first:
                self.most = max(1, min(self.most, count))


class ClearedResultsSender(WholeHistorySender):
    """Sends the whole history; the provider itself clears tool results but the newest [SPEC 5.7]."""

    def __init__(self, moment: Snapshot, pieces: Pieces, limit: int | None = None) -> None:
        super().__init__(moment, pieces, limit)
        self._whole: list[Item] = []
        self._read = self._bytes = 0
        self._cleared: list[Item] = []

    def items(self, now: ReplayedContext) -> list[Item]:
        found = super().items(now)
        if found is not self._whole:
            self._whole, self._cleared, self._read, self._bytes = found, [], 0, 0
        self._bytes += self.added(found[self._read :])
        self._read = len(found)
        if self.pieces.ruler.tokens(self._bytes) <= TRIGGER:
            return found
        newest = (each for group in reversed(now.groups) for each in reversed(group.results))
        keep, cleared = set(islice(newest, KEEP)), self._cleared
        while len(cleared) < len(found) and keep.isdisjoint(_results(found[len(cleared)])):
            cleared.append(self._without(found[len(cleared)], now, keep))
        return [*cleared, *(self._without(item, now, keep) for item in found[len(cleared) :])]

    def _without(self, item: Item, now: ReplayedContext, keep: set[int]) -> Item:
        gone = sum(each not in keep for each in _results(item))
        return self.pieces.cleared(item.group, now.at.fold.evicted, gone) if item.group and gone else item


def _results(item: Item) -> tuple[int, ...]:
    return () if item.group is None else item.group.results
