"""The conversation as a person scrolls through it: pages of the log, drawn line by line."""
