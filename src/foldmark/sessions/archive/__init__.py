"""The archive of sessions, its index, and the search over both [SPEC 8]."""
