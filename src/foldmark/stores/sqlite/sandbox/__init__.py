"""A model's SQL: `queries` is the part of `SqliteStore`, `connection` the connection that a statement runs on, `views`
what it can read there, `functions` what it can call."""
