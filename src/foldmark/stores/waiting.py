"""The time for which a write waits for another program that is writing."""

from contextvars import ContextVar

LONGEST = 10.0

PATIENCE: ContextVar[float] = ContextVar("patience", default=LONGEST)
"""Seconds that a write of this thread or task waits for another program's transaction in the same SQLite file."""
