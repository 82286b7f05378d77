"""The log in a PostgreSQL database.

Read `store.py` first (opening, `read`, `write`), then `snapshot.py` and `transaction.py`, and for the work below them
`reader.py` (statements and rows), `appender.py` and `erasing.py`. `connection.py` connects and runs statements, many in
one round trip; `schema.py` brings a database up to date with the migrations in `sql/`. docs/decisions/0031 gives the
reasons.
"""
