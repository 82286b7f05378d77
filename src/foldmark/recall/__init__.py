"""Recall: finding what was said, in conversations, archived sessions and memos [SPEC 7]."""
