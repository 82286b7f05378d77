"""Import a session as a conversation, and export a context as a session [SPEC 8]."""
