"""A `Session` for the OpenAI Agents SDK whose history is a Foldmark conversation: everything is logged, nothing is lost
when it leaves the context, and a person decides what the agent sees (docs/reference/openai-agents.md).

The SDK calls `session.py`. `items.py` translates an item of the SDK into Foldmark's terms and keeps the item itself,
`recording.py` appends both, and `giving.py` turns visible messages into items.
"""

from foldmark.integrations.openai_agents.session import FoldmarkSession

__all__ = ["FoldmarkSession"]
