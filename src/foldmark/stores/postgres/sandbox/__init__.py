"""A model's SQL: `queries` is the part of `PostgresStore`, `statements` what a statement may hold and what is sent in its
place, `login` the login that it runs under and the views that it reads, `connection` a connection of this login."""
