"""A `Session` for the OpenAI Agents SDK whose history is a Foldmark conversation: everything is logged, nothing is lost
by what is taken out of sight, and a person decides what the agent sees (docs/openai-agents.md).

`session.py` is what the SDK calls. `items.py` says what an item of the SDK means in Foldmark's terms and keeps the item
itself beside that, `recording.py` appends both, and `giving.py` makes items of what is visible.
"""

from foldmark.integrations.openai_agents.session import FoldmarkSession

__all__ = ["FoldmarkSession"]
