"""Foldmark: explicit, reversible, explained control over what a language model sees of a conversation.

import foldmark

log = foldmark.open("chat.db")
agent = log.agent("default")
agent.append("user", "What shall we build?")
agent.do("/mark BEFORE")
for message in agent.context().messages:
    print(message.id, message.role, message.content)
"""

from typing import TYPE_CHECKING, Any

from foldmark.app import open, supervise
from foldmark.conversation import Agent, Context, Log, Result
from foldmark.conversation.asking import Asking
from foldmark.core.errors import CommandError, ConflictError, DamagedError, FoldmarkError, StoreError
from foldmark.core.events import Event
from foldmark.core.request import ToolSpec
from foldmark.core.segments import Segment

if TYPE_CHECKING:
    from foldmark.runtime.loop import Shown

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Asking",
    "CommandError",
    "ConflictError",
    "Context",
    "DamagedError",
    "Event",
    "FoldmarkError",
    "Log",
    "Result",
    "Segment",
    "Shown",
    "StoreError",
    "ToolSpec",
    "open",
    "supervise",
]


def __getattr__(name: str) -> Any:
    if name == "Shown":  # 25 ms, for whoever runs agents
        from foldmark.runtime.loop import Shown

        return Shown
    raise AttributeError(f"module 'foldmark' has no attribute '{name}'")
