"""Continue in a fresh session that begins with a handoff [SPEC 8, S4]."""
