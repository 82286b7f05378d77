"""Search by words and meanings in conversations, archived sessions and memos [SPEC 7]."""
