"""`Log` and `Agent`: the library's public face over the core and a store [SPEC 9].

An agent is read in four steps, each a class over the one before: `timeline.py` appends to its events, `readable.py`
gives its context and its request, `operable.py` records operations with their receipts, and `log.py` has `Agent`
itself beside `Log`, which finds agents and searches all of them (`similarity.py`, `embedding.py`,
`outlines.py`, `neighbours.py`). `context.py` has the `Context` that a caller reads, `answers.py` records a model's
answer, `doctor.py` compares stored segments with a full replay.
"""

from foldmark.log.context import Context, Messages
from foldmark.log.log import Agent, Log
from foldmark.operations.effects import Result

__all__ = ["Agent", "Context", "Log", "Messages", "Result"]
