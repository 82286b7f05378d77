"""Leases: which runtime runs which agent [SPEC 2, 6].

A runtime takes an agent's lease before it works on the agent, renews it meanwhile, and gives it back. A runtime that
finds an expired lease takes it over and closes the open turn. Times are as `Event.created_at`.
"""

from typing import Protocol

from msgspec import Struct

MODEL, TOOLS = "waiting for the model", "executing tools"
"""States of an agent that is being run [SPEC 6]; without a lease in force it is idle, or dead."""


class Lease(Struct, frozen=True):
    """Runtime `holder`, a uuid, in process `process` of `host` runs `agent`, at least until `until`.

    `state` is MODEL or TOOLS; `interrupt` is True if somebody asked the holder to end the turn.
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
    """The part of `Snapshot` that reads leases."""

    def lease(self, agent_id: str) -> Lease | None:
        """Return the agent's lease, expired or not; None if nobody runs it."""

    def leases(self) -> list[Lease]:
        """Return all leases, including expired ones."""


class Leases(LeasesView, Protocol):
    """The part of `Transaction` that writes leases."""

    def lend(self, lease: Lease) -> None:
        """Store a lease in place of the agent's last one. The caller has checked that one in the same transaction."""

    def renew(self, holder: str, until: str) -> list[Lease]:
        """Extend all leases of a runtime and return them."""

    def lease_state(self, agent_id: str, holder: str, state: str) -> None:
        """Set the agent's state, if `holder` still holds its lease."""

    def give_back(self, agent_id: str, holder: str) -> None:
        """End the agent's lease if `holder` still holds it."""

    def ask_interrupt(self, agent_id: str) -> None:
        """Ask the lease's holder to end the agent's turn."""
