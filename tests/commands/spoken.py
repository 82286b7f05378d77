"""Turns of a question and an answer, and what a context says, for the tests of commands."""

from foldmark.log import Agent


def say(agent: Agent, text: str) -> int:
    """Append a question and an answer to it, and return the turn."""
    turn = agent.append("user", text)
    agent.append("assistant", f"{text}!")
    agent.end_turn()
    return turn


def said(agent: Agent) -> str:
    return " ".join(message.content for message in agent.context().messages)
