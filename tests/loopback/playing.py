"""Models that are played by what they read: several agents ask at once, and each gets the answer that is its own."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from plan import Part, Reply, Say, Use, Wire
from talking import connect, use

import foldmark
from foldmark import Agent, Log
from foldmark.core.ports import Provider
from foldmark.log.doctor import examine
from foldmark.operations.effects import NOBODY, Asking
from patience import LIMIT
from stored import stored

TOLD = "[Foldmark: Mail has come from "
"""How an idle agent is told of mail."""

_IDENTITY = re.compile(r"You are agent ([0-9a-f]{8}), a child of agent ([0-9a-f]{8})\. What you find out")


class Asked(NamedTuple):
    """A request as a played model reads it: the agent that asks and its parent, by the digits that mail names them with
    (None: a root agent), and what it says, as `Wire.texts`, without the system field."""

    who: str | None
    parent: str | None
    texts: list[tuple[str, str]]

    @property
    def calls(self) -> int:
        """The calls that are to be seen."""
        return sum(kind == "call" for kind, _ in self.texts)

    @property
    def newest(self) -> tuple[str, str]:
        """What was said last."""
        return self.texts[-1]

    def said(self, text: str) -> bool:
        """Whether this stands in anything but the system field."""
        return any(text in each for _, each in self.texts)


def asked(wire: Wire, body: Any) -> Asked:
    """Whose request it is, and what it says."""
    texts = wire.texts(body)
    found = _IDENTITY.search("\n".join(text for kind, text in texts if kind == "system"))
    who, parent = found.groups() if found else (None, None)
    return Asked(who, parent, [(kind, text) for kind, text in texts if kind != "system"])


def say(*pieces: str) -> Reply:
    """An answer of text, in the pieces in which it is streamed."""
    return Reply((Say(pieces),))


def slash(*commands: str, text: str = "") -> Reply:
    """An answer that calls `slash`, once for each command line, such as "mark M"."""
    said: list[Part] = [Say((text,))] if text else []
    for number, command in enumerate(commands):
        name, _, args = command.partition(" ")
        said.append(
            Use(f"call-{number}-{name}", "slash", {"command": name, "args": args} if args else {"command": name})
        )
    return Reply(tuple(said), "calls")


@contextmanager
def database(path: Path, wire: Wire) -> Iterator[Agent]:
    """A conversation with the wire's model in a file; at the end nothing may be wrong, and nobody at work."""
    with foldmark.open(path, settings={}) as log:
        agent = log.agent("default")
        use(agent, wire)
        yield agent
        assert list(examine(log)) == []
        assert {each.id: each.open_turn for each in log.agents() if each.open_turn is not None} == {}
        assert stored(log).leases() == []


def models(wire: Wire, url: str) -> Callable[[str], Provider]:
    """The wire's provider at this address, whatever the model's name."""
    return lambda name: connect(wire, url)


def wait_until(there: Callable[[], object], what: str) -> None:
    """Wait until something is so."""
    end = time.monotonic() + LIMIT
    while not there():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.002)


async def until(there: Callable[[], object], what: str) -> None:
    """Wait until something is so, and let others run meanwhile."""
    end = time.monotonic() + LIMIT
    while not there():
        assert time.monotonic() < end, f"never: {what}"
        await asyncio.sleep(0.002)


def of(log: Log, *kinds: str, agent: Agent | None = None) -> list[foldmark.Event]:
    """All events of these kinds, those of one agent if it is named."""
    found = []
    for number in range(1, max(each.standing().record.head for each in log.agents()) + 1):
        event = stored(log).event(number)
        if event is not None and event.kind in kinds and (agent is None or event.agent_id == agent.id):
            found.append(event)
    return found


class Listening:
    """An audience that takes note of everything."""

    def __init__(self) -> None:
        self.begun, self.over = list[str](), list[tuple[str, Exception | None]]()
        self.mailed = list[str]()

    def began(self, agent: Agent) -> None:
        self.begun.append(agent.id)

    def ended(self, agent: Agent, error: Exception | None) -> None:
        self.over.append((agent.id, error))

    def mail(self, agent: Agent) -> None:
        self.mailed.append(agent.id)

    def asking(self, agent: Agent) -> Asking:
        return NOBODY
