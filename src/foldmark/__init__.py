"""Foldmark: explicit, reversible, explained control over what a language model sees of a conversation.

import foldmark

log = foldmark.open("chat.db")
agent = log.agent("default")
agent.append("user", "What shall we build?")
agent.do("/mark BEFORE")
for message in agent.context().messages:
    print(message.id, message.role, message.content)
"""

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than all that a hook of a coding agent does

if TYPE_CHECKING:
    from foldmark.app import open, supervise
    from foldmark.core.errors import CommandError, ConflictError, DamagedError, FoldmarkError, StoreError
    from foldmark.core.events import Event
    from foldmark.core.request import ToolSpec
    from foldmark.core.segments import Segment
    from foldmark.log import Agent, Context, Log, Result
    from foldmark.operations.effects import Asking
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

if not TYPE_CHECKING:
    _HOMES = {
        "app": ("open", "supervise"),
        "operations.effects": ("Asking",),
        "log": ("Agent", "Context", "Log", "Result"),
        "core.errors": ("CommandError", "ConflictError", "DamagedError", "FoldmarkError", "StoreError"),
        "core.events": ("Event",),
        "core.request": ("ToolSpec",),
        "core.segments": ("Segment",),
        "runtime.loop": ("Shown",),
    }

    def __getattr__(name):
        """Import a name of `__all__` when it is first used."""
        for module, names in _HOMES.items():
            if name in names:
                from importlib import import_module

                found = globals()[name] = getattr(import_module(f"foldmark.{module}"), name)
                return found
        raise AttributeError(f"module 'foldmark' has no attribute '{name}'")

    def __dir__():
        return sorted({*globals(), *__all__} - {"_HOMES"})
