"""Conversations that are gone after the next log-out: `foldmark --db memory://scratch chat`.

The database is an SQLite file in the user's runtime folder, which is kept in memory on most Linux systems, so that
several processes can open it. A store for another database has the same protocols (docs/development/stores.md) and more
to write.
"""

import os
from pathlib import Path
from tempfile import gettempdir

from foldmark import StoreError
from foldmark.stores.sqlite.store import SqliteStore


class MemoryStore(SqliteStore):
    """The database at memory://NAME."""

    def __init__(self, address: str, *, create: bool = True) -> None:
        """Open the database, creating it if `create`. Raises StoreError."""
        name = address.removeprefix("memory://")
        if not name.isidentifier():
            raise StoreError(f"memory://NAME takes letters, digits and _, not '{name[:40]}'")
        folder = Path(os.environ.get("XDG_RUNTIME_DIR") or gettempdir())
        super().__init__(str(folder / f"foldmark-{name}.db"), create=create)
        self.address = address
