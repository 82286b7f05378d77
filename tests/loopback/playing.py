"""Played models, which choose an answer by the request: several agents ask at once, and each gets its own answer."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from plan import Part, Reply, Say, Use, Wire
from talking import connect, use

import foldmark
from foldmark import Agent, Log
from foldmark.core.ports import Provider
from foldmark.core.request import Piece, Request
from foldmark.log.doctor import examine
from foldmark.runtime.supervisor import NoAudience
from patience import LIMIT
from stored import leases

TOLD = "[Foldmark: Mail has come from "
"""The beginning of the notice that tells an idle agent of mail."""

_IDENTITY = re.compile(r"You are agent ([0-9a-f]{8}), a child of agent ([0-9a-f]{8})\. What you find out")


class Asked(NamedTuple):
    """A request as a played model reads it. `who` asks, and `parent` is its parent, both by the digits that mail uses
    (None: a root agent); `texts` is the content, as in `Wire.texts`, without the system field."""

    who: str | None
    parent: str | None
    texts: list[tuple[str, str]]

    @property
    def calls(self) -> int:
        """The number of visible calls."""
        return sum(kind == "call" for kind, _ in self.texts)

    @property
    def newest(self) -> tuple[str, str]:
        """The last text, with its kind."""
        return self.texts[-1]

    def said(self, text: str) -> bool:
        """Return True if the text is anywhere outside the system field."""
        return any(text in each for _, each in self.texts)


def asked(wire: Wire, body: Any) -> Asked:
    """Read a request's agent, parent and content."""
    texts = wire.texts(body)
    found = [match for _, text in texts if (match := _IDENTITY.search(text))]  # the newest: others are inherited
    who, parent = found[-1].groups() if found else (None, None)
    return Asked(who, parent, [each for each in texts if each[0] != "system" and not _IDENTITY.search(each[1])])


def say(*pieces: str) -> Reply:
    """Return an answer of text, in its streamed pieces."""
    return Reply((Say(pieces),))


def slash(*commands: str, text: str = "") -> Reply:
    """Return an answer that calls `slash`, once for each command line, such as "mark M"."""
    said: list[Part] = [Say((text,))] if text else []
    for number, command in enumerate(commands):
        name, _, args = command.partition(" ")
        said.append(
            Use(f"call-{number}-{name}", "slash", {"command": name, "args": args} if args else {"command": name})
        )
    return Reply(tuple(said), "calls")


@contextmanager
def database(path: Path, wire: Wire) -> Iterator[Agent]:
    """Open a conversation with the wire's model in a file. At the end, nothing may be damaged and no agent at work."""
    with foldmark.open(path, settings={}) as log:
        agent = log.agent("default")
        use(agent, wire)
        yield agent
        assert list(examine(log)) == []
        assert {each.id: each.open_turn for each in log.agents() if each.open_turn is not None} == {}
        assert leases(log) == []


def models(wire: Wire, url: str) -> Callable[[str], Provider]:
    """Return a function that connects to the wire's provider at this address, whatever the model's name."""
    return lambda name: connect(wire, url)


class Followed:
    """Models as from `models`. `texts` holds, for each request, the text that its agent has taken so far: the server
    cannot know how much of what it has sent has been read."""

    def __init__(self, wire: Wire, url: str) -> None:
        self._models, self.texts = models(wire, url), list[str]()

    def __call__(self, name: str) -> Provider:
        return _Followed(self._models(name), self.texts)


class _Followed:
    def __init__(self, provider: Provider, texts: list[str]) -> None:
        self._provider, self._texts = provider, texts

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        at = len(self._texts)
        self._texts.append("")
        async with aclosing(self._provider.answer(request)) as pieces:
            async for piece in pieces:
                yield piece
                if isinstance(piece, str):  # whoever asks for the next piece has taken this one
                    self._texts[at] += piece

    async def count(self, request: Request) -> int:
        return await self._provider.count(request)


_PAUSE = 0.005
"""Seconds between two looks at a condition. Most conditions read the database."""


def wait_until(there: Callable[[], object], what: str) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + LIMIT
    while not there():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(_PAUSE)


async def until(there: Callable[[], object], what: str) -> None:
    """Wait until a condition holds, while other tasks run."""
    end = time.monotonic() + LIMIT
    while not there():
        assert time.monotonic() < end, f"never: {what}"
        await asyncio.sleep(_PAUSE)


def of(log: Log, *kinds: str, agent: Agent | None = None) -> list[foldmark.Event]:
    """Return all events of these kinds, or only those of one agent."""
    with log.store.read() as moment:
        there = moment.events(range(1, max(each.head for each in moment.agents()) + 1))
    return [each for each in there if each.kind in kinds and (agent is None or each.agent_id == agent.id)]


class Listening(NoAudience):
    """An audience that records everything."""

    def __init__(self) -> None:
        self.begun, self.over = list[str](), list[tuple[str, Exception | None]]()
        self.mailed = list[str]()

    def began(self, agent: Agent) -> None:
        self.begun.append(agent.id)

    def ended(self, agent: Agent, error: Exception | None) -> None:
        self.over.append((agent.id, error))

    def mail(self, agent: Agent) -> None:
        self.mailed.append(agent.id)
