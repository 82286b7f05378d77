"""What a view of the chat displays, read from the log as plain values: any interface can draw them."""
