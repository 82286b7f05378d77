"""`Log` and `Agent`: the library's public face over the core and a store [SPEC 9].

`log.py` opens conversations, `agent.py` appends and answers; `decide.py` resolves what a person or a model asks for
into an operation, given where the agent stands (`standing.py`) and which messages belong together (`exchanges.py`);
`context.py` is what comes out, `receipts.py` says what an operation did, `doctor.py` compares the
stored segment cache with a full replay.
"""

from foldmark.conversation.agent import Agent
from foldmark.conversation.context import Context, Messages
from foldmark.conversation.log import Log
from foldmark.conversation.receipts import Result

__all__ = ["Agent", "Context", "Log", "Messages", "Result"]
