"""Leases in SQLite (see `foldmark.core.leases`)."""

from foldmark.core.leases import Lease
from foldmark.stores.sqlite.reader import Reader, Row, Writer


class LeasesView(Reader):
    """Reads leases."""

    def lease(self, agent_id: str) -> Lease | None:
        return next(map(_lease, self._run("lease", self._key(agent_id))), None)

    def leases(self) -> list[Lease]:
        return list(map(_lease, self._run("leases")))


class Leases(LeasesView, Writer):
    """Writes leases."""

    def lend(self, lease: Lease) -> None:
        given = (lease.holder, lease.host, lease.process, lease.state, lease.taken_at, lease.until)
        self._run("lend", self._key(lease.agent), *given)

    def renew(self, holder: str, until: str) -> list[Lease]:
        self._run("renew", until, holder)
        return list(map(_lease, self._run("held", holder)))

    def lease_state(self, agent_id: str, holder: str, state: str) -> None:
        self._run("lease_state", state, self._key(agent_id), holder)

    def give_back(self, agent_id: str, holder: str) -> None:
        self._run("give_back", self._key(agent_id), holder)

    def ask_interrupt(self, agent_id: str) -> None:
        self._run("ask_interrupt", self._key(agent_id))


def _lease(row: Row) -> Lease:
    agent, holder, host, process, state, taken_at, until, interrupt = row
    return Lease(agent, holder, host, process, state, taken_at, until, bool(interrupt))
