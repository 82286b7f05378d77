"""The data that a view of the chat displays, read from the log as plain values that any interface can draw."""
