"""Cut long and stale tool results; every other byte stays [SPEC 8, S4]."""
