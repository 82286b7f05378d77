"""`Log` and `Agent`: the library's public API over the core and a store [SPEC 9].

Read the code of an agent in three steps, each a subclass of the previous one: `timeline.py` appends to its events and
reads its standing, `operable.py` provides its context and its request and records operations, and `log.py` contains
`Agent` itself and `Log`, which finds agents. `context.py` has the `Context` that a caller reads, `recording.py` records
a model's answer, `family.py` has the tree of agents and their mail. `search.py`, `outlines.py` and `embedding.py`
search all conversations; `doctor.py` compares stored segments with a full replay.
"""

from foldmark.log.context import Context, Messages
from foldmark.log.log import Agent, Log
from foldmark.operations.effects import Result

__all__ = ["Agent", "Context", "Log", "Messages", "Result"]
