"""Ask the model of a session that runs under `foldmark live`, through its gateway [SPEC 5.7].

The gateway has the credentials of the session's client in memory, and asks as the client would. A file that only this
user may read names the gateway (`hook.live_state`).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

import msgspec

from foldmark.core.errors import ProviderError
from foldmark.core.request import Request
from foldmark.log import Agent
from foldmark.log.live_session import client_session
from foldmark.sending.models import CLIENT, provided
from foldmark.sessions.hook import live_state

NO_GATEWAY = "(no gateway runs for this session: its own model was not asked)"
"""The remark if a question was asked as in any other conversation."""

SECONDS = 600.0
"""Maximum time for an answer."""


class SessionModel:
    """The model of one session. `remark` tells a person how it was asked; empty if there is nothing to report."""

    def __init__(self, told: Mapping[str, Any], otherwise: Callable[[Request], str]) -> None:
        """`otherwise` answers a question if no gateway runs."""
        self.remark = ""
        self._url, self._otherwise = str(told.get("url", "")), otherwise

    def ask(self, question: Request) -> str:
        """Return the model's answer to a question. Raises ProviderError."""
        try:
            # No proxy between two programs on one machine.
            with build_opener(ProxyHandler({})).open(self._url, msgspec.msgpack.encode(question), SECONDS) as came:
                text: str = came.read().decode()
                return text
        except HTTPError as error:
            with error:
                said = error.read().decode(errors="replace")
            if error.code == 502:
                raise ProviderError("answer", said) from None
        except (URLError, HTTPException, OSError, ValueError):
            pass
        self.remark = NO_GATEWAY
        return self._otherwise(question)


@contextmanager
def session_model(agent: Agent, environment: Mapping[str, str]) -> Iterator[SessionModel | None]:
    """Route questions to the agent's model, inside the block and in its thread, to the session that the agent records.

    Yield the model of that session, or None if the agent records no session.
    """
    session = client_session(agent)
    if session is None:
        yield None
        return
    told = live_state.read(environment, session)
    model = SessionModel(told if told.get("agent") == agent.id else {}, partial(provided, given=agent.log.given))
    before = CLIENT.set(model.ask)
    try:
        yield model
    finally:
        CLIENT.reset(before)
