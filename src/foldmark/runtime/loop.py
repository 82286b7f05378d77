"""One turn: from a person's text to idle [SPEC 4, 6]."""

from asyncio import CancelledError
from collections.abc import Callable

from foldmark.conversation import Agent
from foldmark.core.errors import ConflictError
from foldmark.core.ports import Provider

ATTEMPTS = 5
"""How often an answer is recorded anew when others write to the same agent meanwhile."""


async def turn(agent: Agent, provider: Provider, text: str, show: Callable[[str], None]) -> None:
    """Record `text`, stream the answer to `show`, record it and end the turn.

    The user's text is recorded before the model is asked. When the turn is cancelled, or the model fails, what there is
    of the answer is kept, marked as interrupted, and the turn is closed; the exception goes on. A turn that a crash
    left open is closed first.
    """
    if agent.open_turn is not None:
        agent.end_turn(interrupted=True)
    opened = agent.append("user", text)
    pieces: list[str] = []
    try:
        async for piece in provider.answer(agent.context().messages):
            pieces.append(piece)
            show(piece)
    except (CancelledError, Exception):
        _close(agent, opened, "".join(pieces), interrupted=True)
        raise
    _close(agent, opened, "".join(pieces), interrupted=False)


def _close(agent: Agent, opened: int, answer: str, *, interrupted: bool) -> None:
    """Record what was answered and end the turn, whatever somebody else has appended meanwhile; not another's turn."""
    for attempt in range(ATTEMPTS):
        try:
            with agent.batch():
                mine = agent.open_turn in (opened, None)
                if answer:
                    agent.append("assistant", answer, interrupted=interrupted)
                if mine:
                    agent.end_turn(interrupted=interrupted)
        except ConflictError:
            if attempt + 1 == ATTEMPTS:
                raise
            agent.context()
        else:
            return
