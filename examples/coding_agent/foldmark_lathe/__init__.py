"""Lathe, an invented coding agent, for Foldmark."""
