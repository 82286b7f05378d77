"""The log in a PostgreSQL database.

Read `store.py` first (opening, beginning blocks), then `reading.py` (statements and rows), `writing.py` and
`appender.py`. `connection.py` connects and runs statements, many in one round trip; `address.py` explains errors and
creates the tables of `sql/`; `sandbox.py` runs a model's SQL. The reasons are in
docs/development/decisions/0031. Nothing imports this package: the entry points of the group `foldmark.stores` name it.
"""

from foldmark.core.errors import StoreError

try:
    import psycopg as psycopg
except ImportError:
    from foldmark.installation import installs

    raise StoreError(
        f"a postgresql:// address needs PostgreSQL's driver, which is not installed; {installs('postgres')}"
    ) from None
