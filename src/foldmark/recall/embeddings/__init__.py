"""Embeddings: recall by meaning, an optional extra [SPEC 7]. `model.load` gives a model, `nearest.Nearest` searches.

Nothing here is imported before it is used: `model`, `embedder`, `folder` and `passages` need no optional package,
the other modules need NumPy. Where vectors lie is the caller's business.
"""
