"""A session as a conversation, and a context as a session [SPEC 8]."""
