"""All rows of an SQLite database, to compare two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

MADE_ANEW = ("redacted_sums", "leases")
"""Tables of which a copy may hold something else: sums from which nothing has to be taken off."""


def tables(path: Path | str, but: tuple[str, ...] = MADE_ANEW) -> dict[str, list[Any]]:
    """All rows of a database, by table, without how its indices store their words."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    kept = [name for name in names if not name.startswith(("search", "memo_words")) and name not in but]
    found = {name: sorted(map(repr, db.execute(f'SELECT * FROM "{name}"'))) for name in kept}
    db.close()
    return found
