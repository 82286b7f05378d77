"""Leases (see `foldmark.core.agents`)."""

from foldmark.core.agents import Lease
from foldmark.stores.reader import SqlReader, SqlWriter
from foldmark.stores.rows import Row


class SqlLeasesView(SqlReader):
    """Reads leases."""

    def lease(self, agent_id: str) -> Lease | None:
        return next(map(_lease, self._run("lease", **self._of(agent_id))), None)

    def leases(self) -> list[Lease]:
        return list(map(_lease, self._run("leases")))


class SqlLeases(SqlLeasesView, SqlWriter):
    """Writes leases."""

    def lend(self, lease: Lease) -> None:
        given = {name: getattr(lease, name) for name in ("holder", "host", "process", "state", "taken_at", "until")}
        self._write("lend", **self._of(lease.agent), **given)

    def renew(self, holder: str, until: str) -> list[Lease]:
        self._write("renew", until=until, holder=holder)
        return list(map(_lease, self._run("held", holder=holder)))

    def lease_state(self, agent_id: str, holder: str, state: str) -> None:
        self._write("lease_state", **self._of(agent_id), state=state, holder=holder)

    def give_back(self, agent_id: str, holder: str) -> None:
        self._write("give_back", **self._of(agent_id), holder=holder)

    def ask_interrupt(self, agent_id: str) -> None:
        self._write("ask_interrupt", **self._of(agent_id))


def _lease(row: Row) -> Lease:
    agent, holder, host, process, state, taken_at, until, interrupt = row
    return Lease(agent, holder, host, process, state, taken_at, until, bool(interrupt))
