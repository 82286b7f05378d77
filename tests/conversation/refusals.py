"""Refused commands."""

import pytest

from foldmark import Agent, CommandError


def refused(agent: Agent, line: str) -> str:
    """Assert that a command is refused and records nothing; return the message."""
    before = agent.standing().newest
    with pytest.raises(CommandError) as caught:
        agent.do(line)
    assert agent.standing().newest == before
    return str(caught.value)
