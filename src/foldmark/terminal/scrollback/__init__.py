"""The scrollable view of a conversation: pages of the log, drawn line by line."""
