"""The hooks and the status line that a coding agent runs while it works [SPEC 8, S4]. This package imports nothing."""
