"""The log in an SQLite file.

Read `store.py` first (opening, beginning blocks), then `reading.py` (statements, rows) and `writing.py`, whose events
`events.py` writes and whose appenders `known.py` keeps. `commits.py` waits for the next commit. `file.py` opens a
database, and creates its tables from `sql/`; `sandbox.py` is the connection for a model's SQL, `sandbox_schema.py` its
views and functions.
"""
