"""Rows of a database, which may be damaged."""

from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct, ValidationError, convert

from foldmark.core.agents import mail_of
from foldmark.core.codec import checksum_of, decode_data
from foldmark.core.errors import DamagedError

Row = tuple[Any, ...]

Fetched = tuple[list[Row], Collection[int]]
"""Rows, and the indices of those in which U+FFFD replaces invalid UTF-8."""

Bindings = dict[str, Any]


class EventRow(Struct, array_like=True, frozen=True, gc=False):
    """The types of an event's columns."""

    id: int
    agent: int
    turn: int | None
    kind: str
    content: str
    data: str | None
    dialect: str | None
    actor: str
    tokens: int
    created_at: str
    interrupted: int
    answers: int | None
    redacted: int | None


class _Page(Struct, array_like=True, gc=False):
    rows: list[EventRow]


def check_types(rows: Sequence[Sequence[Any]]) -> None:
    """Raise ValidationError if a column of an event has the wrong type."""
    convert((rows,), _Page)  # a type other than a struct would be inspected on every call


def well_typed(row: Sequence[Any]) -> Row:
    """Return an event's row with None, an empty text or 0 for columns of the wrong type: a flipped bit can turn a text
    into a null or a number."""
    return tuple(_typed(value, type) for value, type in zip(row, EventRow.__annotations__.values(), strict=True))


def _typed(value: Any, type: Any) -> Any:
    try:
        return convert(value, type)
    except ValidationError:
        return type() if type in (int, str) else None


def carried_mail(data: str | None) -> list[int]:
    """Return the ids of the mail that a message carries, given its stored data."""
    try:
        return mail_of(decode_data("user", data)) if data is not None and '"mail"' in data else []
    except DamagedError:
        return []


def unknown_agent(agent_id: str) -> DamagedError:
    """Return the error for an agent that the log names but the database lacks."""
    return DamagedError(f"an event names agent {agent_id[:8]}, which the database does not have; run `foldmark doctor`")


def fault(head: bytes | None, content: bytes | None, data: bytes | None, stored: int | None) -> str | None:
    """Return the fault of an event; None if it is sound. Without a checksum only its UTF-8 is checked."""
    if head is None or content is None:
        return "a required column is missing"
    texts = list[str]()
    for name, raw in (("row", head), ("content", content), ("data", data or b"")):
        try:
            texts.append(raw.decode())
        except UnicodeDecodeError as error:
            return f"its {name} is not valid UTF-8 at byte {error.start + 1}"
    row, text, json = texts
    if stored is not None and checksum_of(row, text, None if data is None else json) != stored:
        return "it does not match its checksum: bytes have changed on the disk"
    return None
