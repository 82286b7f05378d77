"""Rows of a database that may be damaged.

SQLite takes any bytes for text, and a bit that flips on the disk can make bytes that are not UTF-8. They are read as
U+FFFD, so that one wrong byte stops nothing.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import apsw

from foldmark.core.checksum import checksum_of
from foldmark.core.errors import DamagedError

Row = tuple[Any, ...]


def fetch(db: apsw.Connection, sql: str, bindings: Any = ()) -> list[Row]:
    """Return all rows of a statement, with U+FFFD for what is not UTF-8. Raises apsw.Error."""
    try:
        return db.execute(sql, bindings).fetchall()
    except UnicodeDecodeError:
        return [row for row, _ in mended(db, sql, bindings)]


def mended(db: apsw.Connection, sql: str, bindings: Any = ()) -> Iterator[tuple[Row, bool]]:
    """Yield the rows of a query, each with whether U+FFFD stands in it for what is not UTF-8. Raises apsw.Error."""
    try:
        columns = len(db.execute(f"SELECT * FROM ({sql})", bindings).get_description())
    except apsw.ExecutionCompleteError:  # somebody has erased the rows meanwhile
        return
    names = [f"c{number}" for number in range(columns)]
    # Two columns of each: texts as their bytes, and everything else as it is.
    each = ", ".join(
        f"CASE typeof({n}) WHEN 'text' THEN CAST({n} AS BLOB) END, iif(typeof({n}) = 'text', NULL, {n})" for n in names
    )
    for values in db.execute(f"WITH found ({', '.join(names)}) AS ({sql}) SELECT {each} FROM found", bindings):
        texts = [None if raw is None else raw.decode(errors="replace") for raw in values[::2]]
        row = tuple(other if text is None else text for text, other in zip(texts, values[1::2], strict=True))
        yield row, any(text is not None and text.encode() != raw for text, raw in zip(texts, values[::2], strict=True))


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
