"""Erasing what the events of whole agents hold [SPEC 3, 4]."""

from foldmark.conversation.agent import Agent


def erase_agent(agent: Agent, actor: str = "human") -> None:
    """Turn every event of an agent into a tombstone, as `/message remove` does with the events of a turn.

    Called by `/session delete` for each agent of the conversation, children before their parents, inside the one
    transaction of `Store.writing`, in which `Agent.batch` takes part: all of them are erased and deleted, or none. No
    other agent inherits from these.
    """
    agent.redact_all(actor=actor)
