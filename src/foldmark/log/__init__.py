"""`Log` and `Agent`: the library's public API over the core and a store [SPEC 9].

`log.py` contains `Agent`, which records messages, answers and operations, and `Log`, which finds agents. An agent has
two parts (`timeline.py`): `Timeline` appends to its events, `StandingReader` reads what they add up to. `context.py`
has the `Context` that a caller reads, `family.py` the tree of agents and their mail, `memos.py` the memos.
`search.py` and `outlines.py` search all conversations; `doctor.py` compares stored segments with a full replay.
"""

from foldmark.log.context import Context, Messages
from foldmark.log.log import Agent, Log
from foldmark.operations.effects import Result

__all__ = ["Agent", "Context", "Log", "Messages", "Result"]
