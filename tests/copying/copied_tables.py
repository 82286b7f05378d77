"""All rows of an SQLite database, to compare it with another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

MADE_ANEW = ("redacted_sums", "leases")
"""Tables that may differ in a copy: its sums have nothing to subtract."""


def tables(path: Path | str, but: tuple[str, ...] = MADE_ANEW) -> dict[str, list[Any]]:
    """Return all rows of a database, by table, without the storage of its word indices."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    kept = [name for name in names if not name.startswith(("search", "memo_words")) and name not in but]
    found = {name: sorted(map(repr, db.execute(f'SELECT * FROM "{name}"'))) for name in kept}
    db.close()
    return found
