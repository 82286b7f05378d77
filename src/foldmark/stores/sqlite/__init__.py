"""The log in an SQLite file.

Read `store.py` first (opening, `read`, `write`), then `snapshot.py` and `transaction.py`, and for the work below them
`reader.py` (statements and rows), `appender.py` and `erasing.py`. `file.py` opens and upgrades a database with the
migrations in `sql/`, `beside/` holds the tables beside the log, `sandbox/` the connection for a model's SQL.
"""

from foldmark.stores.sqlite.store import SqliteStore as SqliteStore
