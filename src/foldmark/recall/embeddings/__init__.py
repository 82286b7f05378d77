"""Embeddings: search by meaning, an optional extra [SPEC 7]. `model.load` loads a model, `nearest.Nearest` searches.

Modules are imported on demand: `model`, `embedder`, `folder` and `passages` need no optional package, the other modules
need NumPy. The caller decides where vectors are stored.
"""
