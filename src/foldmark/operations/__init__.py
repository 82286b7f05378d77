"""The meaning and the effect of an operation, computed before anything is recorded [SPEC 3, 4].

`decide.py` resolves a request of a person or a model into an operation. `receipts.py` computes what that changes,
`thoughts.py` what it costs of a model's thinking, `redaction.py` what an erasure affects. `history.py` lists past
operations, `explain.py` explains why something is or is not in the context, `notices.py` and `answering.py` handle a
result whose call has left it. `effects.py` defines the answer to a command.
"""
