"""Texts and their words: tokens, keywords, snippets, and texts that a person or a model writes in a known form.

Nothing here knows the database. `tokens` uses the tokenizers of SQLite; the other modules are pure.
"""
