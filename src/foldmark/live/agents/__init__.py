"""Foldmark's own live agents, one in each module: how each is started, and what in its requests is its own."""
