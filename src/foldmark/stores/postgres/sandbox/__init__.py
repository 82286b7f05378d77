"""A model's SQL in PostgreSQL.

`queries` is the `sandbox` of a `PostgresStore`, `statements` checks and rewrites a statement, `login` creates the login
that it runs under and the views that it reads, `connection` is a connection of this login.
"""
