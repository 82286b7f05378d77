"""A chat on a conversation that a gateway records while its agent runs [SPEC 5.7]. It edits the agent's requests;
prompts belong in the agent."""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from foldmark.core.wording import meter
from foldmark.editing import answering
from foldmark.log import Agent, Result
from foldmark.log.live_session import client_session, client_tokens

if TYPE_CHECKING:
    from foldmark.sessions.session_model import SessionModel

GREETING = (
    "This session is recorded while its agent runs. What you take out here is left out of the agent's next request; "
    "what you restore is there again."
)
ELSEWHERE = (
    "(Nothing was sent: a prompt for this session belongs in the agent itself. To talk about it here, /fork makes a "
    "copy, and /switch goes there.)"
)
"""The reply to a text that is not a command."""


def is_live(agent: Agent) -> bool:
    """Return True for a conversation that a gateway records."""
    return client_session(agent) is not None


def fullness(agent: Agent) -> str:
    """Return the meter for the next request of the session's agent."""
    with agent.reading() as (moment, at):
        tokens = client_tokens(agent, moment, at)
    return meter(tokens, agent.window)


def answered(agent: Agent, line: str) -> Result | None:
    """Carry out an answer to the open preview. For any other line, return None and record nothing."""
    agent.context()
    return answering.answered(agent, line.strip().removeprefix(agent.log.given.live_sign))  # as in the agent itself


def session_model(agent: Agent) -> "AbstractContextManager[SessionModel | None]":
    """During the block, ask the session's gateway all questions to the model of a live session."""
    if not is_live(agent):
        return nullcontext()
    from foldmark.sessions.session_model import session_model  # takes 20 ms

    return session_model(agent, os.environ)
