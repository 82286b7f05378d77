"""What stands beside the log and is SQLite's own: changes and who waits for them, the words of memos, vectors."""
