"""The meaning and the effect of an operation, computed before anything is recorded [SPEC 3, 4].

`decide.py` and `summaries.py` resolve a request of a person or a model into an operation. `receipts.py` computes its
effect on the context and on a model's thinking, `redaction.py` the effect of an erasure. `history.py` lists past
operations and explains why something is or is not in the context; `notices.py` handles a result whose call has left it.
`effects.py` defines the answer to a command.
"""
