"""Foldmark: explicit, reversible, explained control over what a language model sees of a conversation.

import foldmark

log = foldmark.open("chat.db")
agent = log.agent("default")
agent.append("user", "What shall we build?")
agent.do("/mark BEFORE")
for message in agent.context().messages:
    print(message.id, message.role, message.content)
"""

from foldmark.app import open, supervise
from foldmark.conversation import Agent, Context, Log, Result
from foldmark.core.errors import CommandError, ConflictError, DamagedError, FoldmarkError, StoreError
from foldmark.core.events import Event
from foldmark.core.segments import Segment

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "CommandError",
    "ConflictError",
    "Context",
    "DamagedError",
    "Event",
    "FoldmarkError",
    "Log",
    "Result",
    "Segment",
    "StoreError",
    "open",
    "supervise",
]
