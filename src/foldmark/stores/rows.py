"""Checks rows that a damaged database may return."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from foldmark.core.checksum import checksum_of
from foldmark.core.errors import DamagedError

Row = tuple[Any, ...]

_TEXTS = frozenset({"kind", "content", "actor", "created_at"})
_EVENT = (
    *("id", "agent", "turn", "kind", "content", "data", "dialect"),
    *("actor", "tokens", "created_at", "interrupted", "answers"),
)
_TYPES = {
    "turn": (int, type(None)),
    "data": (str, type(None)),
    "dialect": (str, type(None)),
    "answers": (int, type(None)),
}
_SHAPES = frozenset(product(*(_TYPES.get(name, (str,) if name in _TEXTS else (int,)) for name in _EVENT)))
"""The types that the columns of an event may have."""


def well_typed(row: Sequence[Any]) -> tuple[Sequence[Any], bool]:
    """Return an event's columns with the types that they should have, and whether one had another: a bit that flips can
    make a null or a number of a text."""
    if tuple(map(type, row)) in _SHAPES:
        return row, False
    return [_typed(name, value) for name, value in zip(_EVENT, row, strict=True)], True


def _typed(name: str, value: Any) -> Any:
    types = _TYPES.get(name, (str,) if name in _TEXTS else (int,))
    if isinstance(value, types):
        return value
    return None if len(types) > 1 else types[0]()


def unknown_agent(agent_id: str) -> DamagedError:
    """The error for an agent that the log names and the database does not have."""
    return DamagedError(f"an event names agent {agent_id[:8]}, which the database does not have; run `foldmark doctor`")


def is_damaged(head: bytes | None, content: bytes | None, data: bytes | None, stored: int | None) -> bool:
    """Return True if bytes of an event have changed since it was recorded, as far as that can be told."""
    return fault(head, content, data, stored) is not None


def fault(head: bytes | None, content: bytes | None, data: bytes | None, stored: int | None) -> str | None:
    """Say what is wrong with an event; one that has no checksum is only looked at for UTF-8."""
    if head is None or content is None:
        return "a column that it must have is lost"
    for name, raw in (("row", head), ("content", content), ("data", data or b"")):
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            return f"its {name} holds what is not UTF-8, at byte {error.start + 1}"
    if stored is not None and checksum_of(head, content, data) != stored:
        return "it is not what its checksum was made of: bytes have changed on the disk"
    return None
