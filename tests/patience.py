"""How long a test waits before it fails because something hangs. No test measures how fast the machine is."""

LIMIT = 120.0
"""Seconds, far beyond what any machine needs."""
