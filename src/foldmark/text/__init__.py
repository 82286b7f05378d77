"""Texts and their words: tokens, keywords, snippets, and texts that a person or a model writes in a known form.

It knows nothing of the database. `tokens` needs SQLite's tokenizers, the other modules are pure.
"""
