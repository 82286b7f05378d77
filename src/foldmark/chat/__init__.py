"""The chat: conversations on a terminal, line by line, or through a pipe."""
