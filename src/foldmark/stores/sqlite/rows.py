"""Rows of a file that may be damaged.

SQLite takes any bytes for text, and a flipped bit on the disk can produce bytes that are not UTF-8. They are read as
U+FFFD, so that one wrong byte stops nothing.
"""

from collections.abc import Iterator
from typing import Any

import apsw

from foldmark.stores.rows import Row


def fetch(db: apsw.Connection, sql: str, bindings: Any = ()) -> list[Row]:
    """Return all rows of a statement, with U+FFFD for invalid UTF-8. Raises apsw.Error."""
    try:
        return db.execute(sql, bindings).fetchall()
    except UnicodeDecodeError:
        return [row for row, _ in mended(db, sql, bindings)]


def mended(db: apsw.Connection, sql: str, bindings: Any = ()) -> Iterator[tuple[Row, bool]]:
    """Yield the rows of a query, each with True if U+FFFD replaces invalid UTF-8 in it. Raises apsw.Error."""
    try:
        columns = len(db.execute(f"SELECT * FROM ({sql})", bindings).get_description())
    except apsw.ExecutionCompleteError:  # the rows were erased meanwhile
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
