"""A model's SQL in SQLite: `queries` is the part of `SqliteStore`, `connection` the connection that a statement runs
on, `views` its views, `functions` its functions."""
