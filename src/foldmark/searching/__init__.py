"""Recall over everything: conversations, archived sessions and memos together, and reading what was found [SPEC 7]."""
