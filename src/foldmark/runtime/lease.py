"""One writer at a time: a runtime takes an agent's lease before it works on it, and proves it before it records
[SPEC 2, 6].

A lease that is not renewed runs out; a process that is gone from this machine holds none at all. Whoever takes the
lease over closes the turn that was left open. A runtime that was stopped for too long finds its lease gone when it
records next, and ends its turn without a word.
"""

import os
import socket
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

from foldmark.conversation import Agent, Log, tree
from foldmark.core.codec import timestamp, utc
from foldmark.core.errors import FoldmarkError
from foldmark.core.leases import MODEL, Lease
from foldmark.core.towards import minute

SECONDS = 30.0
"""How long a lease holds unless it is renewed."""

PATIENCE = 5.0
"""Seconds that whoever interrupts a turn of another process waits for its end."""


class LeaseError(FoldmarkError):
    """Somebody else runs the agent; nothing was recorded."""


class Place(NamedTuple):
    """Where a runtime is: a machine, told from others of its name, and a process of it."""

    host: str
    process: int


def here() -> Place:
    """The place of this process."""
    marks = [socket.gethostname()]
    with suppress(OSError):  # containers may share a name, and each has processes of its own
        marks += [
            Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8],
            str(Path("/proc/self/ns/pid").readlink()),
        ]
    return Place(" ".join(marks), os.getpid())


class Held:
    """A lease on one agent, held by runtime `holder`."""

    def __init__(self, agent: Agent, holder: str) -> None:
        self._agent, self._holder, self._store = agent, holder, agent.log.store

    def check(self) -> None:
        """Raise LeaseError if somebody else has taken it over; to be called in the transaction that records."""
        lease = self._store.lease(self._agent.id)
        if lease is None or lease.holder != self._holder:
            who = "nobody" if lease is None else _whom(lease)
            raise LeaseError(
                f"{tree.label(self._agent)} is not run here any more but by {who}: this process was stopped for "
                f"longer than {SECONDS:.0f} seconds. What it had recorded by then is kept."
            )

    def state(self, state: str) -> None:
        """Say what the agent does now."""
        self._store.lease_state(self._agent.id, self._holder, state)

    def give_back(self) -> None:
        """End it."""
        self._store.give_back(self._agent.id, self._holder)


def take(agent: Agent, holder: str, place: Place) -> Held:
    """Take the agent's lease for runtime `holder`, and close the turn that a dead one left open.

    Raises LeaseError if a living one holds it, saying which.
    """
    store, now = agent.log.store, agent.log.clock()
    with store.exclusive():
        agent.context()
        with store.writing():
            old = store.lease(agent.id)
            if old is not None and old.holder != holder and alive(old, now, place):
                raise LeaseError(
                    f"{tree.label(agent)} is being run by {_whom(old)}, {old.state}; wait until it is idle, or end it "
                    "there. Nothing was recorded"
                )
            store.lend(Lease(agent.id, holder, place.host, place.process, MODEL, now, _later(now)))
            if old is not None and old.holder != holder:
                agent.end_turn(interrupted=True)
    return Held(agent, holder)


def renew(log: Log, holder: str) -> list[Lease]:
    """Extend all leases of a runtime, and return them."""
    return log.store.renew(holder, _later(log.clock()))


def alive(lease: Lease, now: str, place: Place) -> bool:
    """Whether the holder still runs the agent, as far as one can tell from `place`."""
    if lease.until <= now:
        return False
    if lease.host != place.host or os.name == "nt":  # where signal 0 is one
        return True
    try:
        os.kill(lease.process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def running(agent: Agent) -> Lease | None:
    """The agent's lease if somebody runs it at the moment."""
    lease = agent.log.store.lease(agent.id)
    return lease if lease is not None and alive(lease, agent.log.clock(), here()) else None


def interrupt(agent: Agent, patience: float = PATIENCE) -> None:
    """Have whoever runs the agent in another process end its turn, and wait for that.

    Raises LeaseError if it does not in time.
    """
    end = monotonic() + patience
    while (lease := running(agent)) is not None:
        if monotonic() >= end:
            raise LeaseError(f"{tree.label(agent)} is run by {_whom(lease)}, which does not end its turn; end it there")
        if not lease.interrupt:
            agent.log.store.ask_interrupt(agent.id)
        sleep(0.05)


def _whom(lease: Lease) -> str:
    return f"process {lease.process} on {lease.host.partition(' ')[0]} (since {minute(lease.taken_at)} UTC)"


def _later(now: str) -> str:
    return timestamp(utc(now) + timedelta(seconds=SECONDS))
