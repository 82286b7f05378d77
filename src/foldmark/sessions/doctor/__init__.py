"""What keeps a session from being resumed, and a repaired copy [SPEC 8]."""
