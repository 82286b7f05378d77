"""SQLite's own tables beside the log: changes and waiting for them, the words of memos, vectors."""
