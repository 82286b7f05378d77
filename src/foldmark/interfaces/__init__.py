"""What a person or a program sees: parse, call a command, render."""
