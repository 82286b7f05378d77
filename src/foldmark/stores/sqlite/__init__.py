"""The log in an SQLite file.

Read `store.py` first (opening, `read`, `write`, `watch`), then `snapshot.py` (statements, rows) and `transaction.py`.
`file.py` opens a database, and creates its tables from `sql/`; `sandbox.py` is the connection for a model's SQL,
`sandbox_schema.py` its views and functions.
"""
