"""The tables beside the log: each module reads one (`...View`, a part of `SqliteSnapshot`) and writes it (a part of
`SqliteTransaction`), and says what is wrong with it (`damage`). Vectors are a part of `SqliteStore`."""
