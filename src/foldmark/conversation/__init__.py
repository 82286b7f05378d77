"""`Log` and `Agent`: the library's public face over the core and a store [SPEC 9].

`log.py` opens conversations, `timeline.py` appends to one agent's events, `agent.py` is the whole of an agent.
`decide.py` resolves what a person or a model asks for into an operation, given where the agent stands (`standing.py`)
and which messages belong together (`exchanges.py`, `answering.py`). `context.py` and `request.py` are what comes out,
`explain.py` says why; `effects.py` is the answer to a command, `receipts.py` and
`notices.py` say what an operation did. `planning.py` and `matching.py` are
about forgetting by topic, `redaction.py` and `erase.py` about erasing, `tree.py` and `mail.py` about agents among
themselves. `doctor.py` compares what is stored beside the log with a full replay.
"""

from foldmark.conversation.agent import Agent
from foldmark.conversation.context import Context, Messages
from foldmark.conversation.effects import Result
from foldmark.conversation.log import Log

__all__ = ["Agent", "Context", "Log", "Messages", "Result"]
