"""The meaning and the effect of an operation, computed before anything is recorded [SPEC 3, 4].

`decide.py` and `summaries.py` resolve a request of a person or a model into an operation. `receipts.py` computes what
that changes and what it costs of a model's thinking, `redaction.py` what an erasure affects. `history.py` lists past
operations and explains why something is or is not in the context; `notices.py` handles a result whose call has left it.
`effects.py` defines the answer to a command.
"""
