"""Commands that are refused."""

import pytest

from foldmark import Agent, CommandError


def refused(agent: Agent, line: str) -> str:
    """What a command that is refused says; it must record nothing."""
    before = agent.standing().newest
    with pytest.raises(CommandError) as caught:
        agent.do(line)
    assert agent.standing().newest == before
    return str(caught.value)
