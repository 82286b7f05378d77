"""The log in an SQLite file.

Read `store.py` first (opening, `read`, `write`, `watch`), then `snapshot.py` (statements, rows) and `transaction.py`.
`file.py` opens and upgrades a database with the migrations in `sql/`; `sandbox.py` is the connection for a model's SQL,
`sandbox_schema.py` its views and functions.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foldmark.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]

if not TYPE_CHECKING:

    def __getattr__(name):
        """Import the store on demand: programs that open no log use `file`, which takes half as long."""
        if name != "SqliteStore":
            raise AttributeError(f"module 'foldmark.stores.sqlite' has no attribute '{name}'")
        from foldmark.stores.sqlite.store import SqliteStore

        return SqliteStore
