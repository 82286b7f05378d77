"""A small client behind a gateway, with the log and the provider: shared by the session tests of every wire."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Generic, TypeVar

from plan import Wire
from server import Answering, Loopback

import foldmark
from foldmark.core.events import Event
from foldmark.live.gateway import Gateway
from foldmark.live.sessions import Sessions
from foldmark.log import Agent, Log
from patience import LIMIT

ModelOf = TypeVar("ModelOf", bound=Answering)
ClientOf = TypeVar("ClientOf")
RunningOf = TypeVar("RunningOf", bound="Running[Any, Any]")


class Running(Generic[ModelOf, ClientOf]):
    """A client made by `client` from its base URL, the log, and the provider behind the gateway, which answers as
    `model` does. A subclass defines the client's conversation, and the `member` of a body that holds its messages."""

    member, database = "messages", "live.db"

    def __init__(
        self,
        folder: Path,
        wire: Wire,
        model: ModelOf,
        client: Callable[[str], ClientOf],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.model = model
        self.upstream = Loopback(wire, model)
        self.path = folder / self.database
        self.log: Log = foldmark.open(self.path, settings=settings or {})
        self.begin()
        self.client = client(self.gateway.url)

    @property
    def agent(self) -> Agent:
        """The conversation of the client's session, once all traffic is recorded."""
        raise NotImplementedError

    def made_sessions(self) -> Sessions:
        return Sessions(self.log, "app", self.upstream.url)

    def begin(self, port: int = 0, secret: str = "") -> None:
        self.sessions = self.made_sessions()
        self.gateway = self._gateway(port, secret)
        self.gateway.__enter__()

    def _gateway(self, port: int, secret: str) -> Gateway:
        """Return a gateway at a port, which a connection of another process may use for a moment."""
        deadline = monotonic() + LIMIT
        while True:
            try:
                return Gateway(self.upstream.url, port=port, secret=secret, sessions=self.sessions)
            except OSError:
                if monotonic() > deadline:
                    raise
                sleep(0.1)

    def end(self) -> None:
        self.gateway.__exit__(None, None, None)
        self.sessions.close()

    def settle(self) -> None:
        """Wait until every answer has passed and everything is recorded. A client can have the last byte of an answer
        before the gateway has noticed that it was the last one."""
        deadline = monotonic() + LIMIT
        while self.gateway._server.server_state.tasks:
            assert monotonic() < deadline, "an answer does not end"
            sleep(0.001)
        self.sessions.settle()

    def kinds(self) -> list[str]:
        """Return the kinds of the messages, without what the client itself wrote."""
        return [event.kind for event in self.agent.context().messages if event.kind != "client"]

    def told(self) -> list[str]:
        """Return what the client itself wrote."""
        return [event.content for event in self.agent.context().messages if event.kind == "client"]

    def texts(self) -> list[tuple[str, str]]:
        """Return the texts of the newest request, without its system prompt."""
        return self.upstream.wire.texts({self.member: self.upstream.asked[-1].body[self.member]})

    def users(self) -> list[str]:
        return [text for kind, text in self.texts() if kind == "user"]

    def turn(self, text: str) -> int:
        event = self._event(text)
        assert event.turn_id is not None
        return event.turn_id

    def message(self, text: str) -> int:
        return self._event(text).id

    def _event(self, text: str) -> Event:
        return next(each for each in self.agent.context().messages if each.content == text)


@contextmanager
def entered(running: RunningOf) -> Iterator[RunningOf]:
    """Yield `running` with its provider at work. At the end, close everything, and assert that the provider has refused
    nothing."""
    with running.upstream:
        try:
            yield running
        finally:
            running.end()
            running.log.close()
    assert running.upstream.refusals == []
