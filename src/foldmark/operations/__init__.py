"""What an operation means and does, worked out before anything is recorded [SPEC 3, 4].

`decide.py` resolves what a person or a model asks for into an operation. `receipts.py` says what that changes,
`thoughts.py` what it costs of a model's thinking, `redaction.py` what an erasure concerns. `history.py` lists what was
done, `explain.py` why something is or is not in the context, `notices.py` and `answering.py` what becomes of a result
whose call has left it. `effects.py` is the answer to a command.
"""
