"""Checks rows that a damaged database may return."""

from collections.abc import Sequence
from typing import Any

import msgspec

from foldmark.core.checksum import checksum_of
from foldmark.core.errors import DamagedError

Row = tuple[Any, ...]

_EVENT = (
    *(int, int, int | None, str, str, str | None, str | None),
    *(str, int, str, int, int | None),
)
"""The types of an event's columns: its id, agent, turn, kind, content, data and dialect; its actor, tokens, time,
whether it was interrupted, and what it answers."""

_ROWS: Any = list[tuple[_EVENT]]  # type: ignore[valid-type]


def well_typed(rows: Sequence[Sequence[Any]]) -> list[Row]:
    """Return rows of events whose columns have the types that they should have. Raises ValidationError if one has
    another."""
    found: list[Row] = msgspec.convert(rows, _ROWS)
    return found


def made_well_typed(row: Sequence[Any]) -> Row:
    """Return an event's row with None, an empty text or 0 where a column has another type than it should have: a bit
    that flips can make a null or a number of a text."""
    return tuple(_typed(value, type) for value, type in zip(row, _EVENT, strict=True))


def _typed(value: Any, type: Any) -> Any:
    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError:
        return type() if type in (int, str) else None


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
