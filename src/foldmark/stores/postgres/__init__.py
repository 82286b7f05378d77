"""The log in a PostgreSQL database.

Read `store.py` first (opening, `read`, `write`), then `snapshot.py` (statements and rows), `transaction.py` and
`appender.py`. `connection.py` connects and runs statements, many in one round trip; `address.py` explains errors and
creates the tables of `sql/`; `sandbox.py` runs a model's SQL. The reasons are in
docs/development/decisions/0031.
"""
