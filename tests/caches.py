"""A provider's cache that takes whole requests."""

from typing import Any

from foldmark.core.assembly.caching import Beginnings, Bill, Block, Cache, Rules
from foldmark.dialects.dialect import dialect_named


def blocks(dialect: str, body: dict[str, Any]) -> list[Block]:
    """Return the blocks of a request's body."""
    return list(dialect_named(dialect).blocks(body))


class Sent:
    """The requests of one conversation on their way to a cache."""

    def __init__(self, rules: Rules | None, ratio: float = 4.0) -> None:
        self._cache, self._request, self._blocks = Cache(rules, ratio), Beginnings(), list[Block]()

    def bill(self, dialect: str, body: dict[str, Any], tokens: int, now: float) -> Bill:
        """Return the bill for a request."""
        found = blocks(dialect, body)
        pairs = enumerate(zip(found, self._blocks, strict=False))
        same = next(
            (index for index, (one, other) in pairs if one.data != other.data), min(len(found), len(self._blocks))
        )
        self._request.follow(same, found[same:])
        self._blocks = found
        marks, hour = [i for i, block in enumerate(found) if block.marked], any(block.hour for block in found)
        return self._cache.bill(self._request, marks, tokens, now, hour=hour)
