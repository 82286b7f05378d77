"""Ask the model of a session that runs under `foldmark live`, through its gateway [SPEC 5.7].

The gateway has the credentials of the session's client in memory, and asks as the client would. A file that only this
user may read names the gateway (`hook.live_state`).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

import msgspec

from foldmark.core.errors import ProviderError
from foldmark.core.request import Request
from foldmark.log import Agent, Log
from foldmark.log.live_session import client_session
from foldmark.sessions.hook import live_state

NO_GATEWAY = "(no gateway runs for this session: its own model was not asked)"
"""The remark if a question was asked as in any other conversation."""

SECONDS = 600.0
"""Maximum time for an answer."""


class SessionModel:
    """The model of one session. `remark` tells a person how it was asked; empty if there is nothing to report."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.remark = ""
        self._url = str(told.get("url", ""))

    def ask(self, question: Request, otherwise: Callable[[Request], str]) -> str:
        """Return the model's answer to a question. `otherwise` asks it if no gateway runs. Raises ProviderError."""
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
        return otherwise(question)


_IN_USE: ContextVar[SessionModel | None] = ContextVar("session_model", default=None)


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
    model = SessionModel(told if told.get("agent") == agent.id else {})
    _install(agent.log)
    before = _IN_USE.set(model)
    try:
        yield model
    finally:
        _IN_USE.reset(before)


def _install(log: Log) -> None:
    """Make the log ask the session's model inside such blocks."""
    complete = log.complete
    if isinstance(complete, _Asking):
        return
    log.complete = _Asking(complete)


class _Asking:
    def __init__(self, otherwise: Callable[[Request], str]) -> None:
        self._otherwise = otherwise

    def __call__(self, question: Request) -> str:
        model = _IN_USE.get()
        return self._otherwise(question) if model is None else model.ask(question, self._otherwise)
