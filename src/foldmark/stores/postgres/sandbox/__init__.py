"""A model's SQL in PostgreSQL.

`queries` is the `sandbox` of a `PostgresStore`, `statements` what a statement may hold and what is sent in its place,
`login` the login that it runs under and the views that it reads, `connection` a connection of this login.
"""
