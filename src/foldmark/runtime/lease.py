"""One writer at a time: a runtime takes an agent's lease before it works on the agent, and checks it before it records
[SPEC 2, 6].

A lease that is not renewed expires; the lease of a process on this machine that has ended does not count. The runtime
that takes over the lease closes the open turn. Times are the database's (`Snapshot.now`), so that clocks of other
machines do not matter. A runtime that was stopped for too long finds its lease gone when it next records, and ends its
turn silently.
"""

from collections.abc import Iterable
from datetime import timedelta
from math import inf

from msgspec.structs import replace

from foldmark.core.agents import MODEL, Lease, minute
from foldmark.core.codec import timestamp, utc
from foldmark.core.errors import FoldmarkError
from foldmark.log import Agent, Log, family
from foldmark.log.family import alive, here, running
from foldmark.log.listening import wait_for

SECONDS = 30.0
"""Seconds until a lease expires unless it is renewed."""

PATIENCE = 5.0
"""Seconds that an interrupted turn of another process has to end."""


class LeaseError(FoldmarkError):
    """Another runtime runs the agent; nothing was recorded."""


class HeldLease:
    """A lease on one agent, held by runtime `holder`."""

    def __init__(self, agent: Agent, holder: str) -> None:
        self._agent, self._holder, self._store = agent, holder, agent.log.store

    def check(self) -> None:
        """Raise LeaseError if another runtime has taken over the lease. Call it in the transaction that records."""
        self._lease()

    def _lease(self) -> Lease:
        with self._store.read() as moment:
            lease = moment.lease(self._agent.id)
        if lease is None or lease.holder != self._holder:
            who = "nobody" if lease is None else _whom(lease)
            raise LeaseError(
                f"{family.label(self._agent)} is no longer run by this process, which was stopped for more than "
                f"{SECONDS:.0f} seconds; {who} runs it now. What this process had recorded by then is kept."
            )
        return lease

    def state(self, state: str) -> None:
        """Record the agent's state. Raises like `check`, so that no work starts on an agent of another runtime."""
        with self._store.write() as transaction:
            transaction.lend(self._agent.id, replace(self._lease(), state=state))

    def give_back(self) -> None:
        """Give the lease back."""
        with self._store.write() as transaction:
            lease = transaction.lease(self._agent.id)
            if lease is not None and lease.holder == self._holder:
                transaction.lend(self._agent.id, None)


def take(agent: Agent, holder: str) -> HeldLease:
    """Take the agent's lease for runtime `holder`, and close the turn that a dead runtime left open.

    Raises LeaseError, which names the holder, if a living runtime holds the lease.
    """
    place = here()
    with agent.log.store.write() as transaction:
        agent.context()  # in the transaction: no append can come between this and the end of the turn
        now, old = transaction.now(), transaction.lease(agent.id)
        if old is not None and old.holder != holder and alive(old, now):
            raise LeaseError(
                f"{family.label(agent)} is being run by {_whom(old)}, {old.state}; wait until it is idle, or end it "
                "there. Nothing was recorded"
            )
        transaction.lend(agent.id, Lease(agent.id, holder, place.host, place.process, MODEL, now, _later(now)))
        if old is not None and old.holder != holder:
            agent.end_turn(interrupted=True)
    return HeldLease(agent, holder)


def renew(log: Log, holder: str) -> list[Lease]:
    """Extend all leases of a runtime and return them."""
    with log.store.write() as transaction:
        return transaction.renew(holder, _later(transaction.now()))


def interrupt(agent: Agent, patience: float = PATIENCE) -> None:
    """Make another process end its turn of the agent, and wait for that; close a turn that a dead process left open.
    Afterwards the agent is up to date with the log.

    Raises LeaseError if the turn does not end in time.
    """

    def over() -> bool:
        lease = running(agent)
        if lease is not None and not lease.interrupt:
            with agent.log.store.write() as transaction:
                if (now := transaction.lease(agent.id)) is not None:
                    transaction.lend(agent.id, replace(now, interrupt=True))
        return lease is None

    if not wait_for(agent.log.store, over, patience) and (lease := running(agent)) is not None:
        raise LeaseError(f"{family.label(agent)} is run by {_whom(lease)}, which does not end its turn; end it there")
    with agent.log.store.read() as moment:
        left = moment.lease(agent.id) is not None
    if left:
        take(agent, agent.log.new_id()).give_back()
    agent.context()


def settled(agents: Iterable[Agent]) -> None:
    """Wait until no runtime runs any of these agents."""
    for agent in agents:
        wait_for(agent.log.store, lambda: running(agent) is None, inf)  # noqa: B023 - called here and now


def _whom(lease: Lease) -> str:
    return f"process {lease.process} on {lease.host.partition(' ')[0]} (since {minute(lease.taken_at)} UTC)"


def _later(now: str) -> str:
    return timestamp(utc(now) + timedelta(seconds=SECONDS))
