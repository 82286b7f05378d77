"""What a coding agent runs while it works: hooks and the status line [SPEC 8, S4]. Nothing is imported here."""
