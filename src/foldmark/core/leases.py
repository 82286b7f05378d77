"""Leases: who runs which agent at the moment [SPEC 2, 6].

A runtime takes an agent's lease before it works on it, renews it while it works, and gives it back. Whoever finds one
that has run out takes it over, and closes the turn that was left open. Times are as `Event.created_at`.
"""

from typing import Protocol

from msgspec import Struct

MODEL, TOOLS = "waiting for the model", "executing tools"
"""What an agent that is being run does [SPEC 6]; without a lease in force it is idle, or dead."""


class Lease(Struct, frozen=True):
    """Runtime `holder`, a uuid, in process `process` of `host` runs `agent`, at least `until` then.

    `state` is MODEL or TOOLS; `interrupt` says that somebody asked the holder to end the turn.
    """

    agent: str
    holder: str
    host: str
    process: int
    state: str
    taken_at: str
    until: str
    interrupt: bool = False


class LeasesView(Protocol):
    """What a `Snapshot` shows of leases."""

    def lease(self, agent_id: str) -> Lease | None:
        """The agent's lease, whether it has run out or not; None if nobody runs it."""

    def leases(self) -> list[Lease]:
        """All leases, those that have run out as well."""


class Leases(LeasesView, Protocol):
    """What a `Transaction` writes of leases."""

    def lend(self, lease: Lease) -> None:
        """Store a lease in place of the agent's last one; the caller has looked at that in the same transaction."""

    def renew(self, holder: str, until: str) -> list[Lease]:
        """Extend all leases of a runtime, and return them."""

    def lease_state(self, agent_id: str, holder: str, state: str) -> None:
        """What the agent does now; nothing if `holder` does not hold its lease any more."""

    def give_back(self, agent_id: str, holder: str) -> None:
        """End the agent's lease if `holder` still holds it."""

    def ask_interrupt(self, agent_id: str) -> None:
        """Ask whoever runs the agent to end its turn."""
