"""Cache of agents' heads and append positions for one SQLite connection.

Reading either from the database takes several times as long as asking SQLite whether another connection has committed
since then. After a commit of this connection that only appended, its transaction knows the new values.
"""

from collections.abc import Mapping

import apsw

from foldmark.core.agents import Size
from foldmark.core.ports import Head
from foldmark.core.replay import Fold
from foldmark.stores.appender import Appender, moved
from foldmark.stores.rows import Row

KNOWN_AGENTS = 64
"""Maximum number of agents in the cache."""


class KnownAgents:
    """The heads and positions of agents, all as of the same version of the database.

    The version counts the commits of all connections, but SQLite notices those of others only when it begins to read.
    So the connection must have begun to read before a method is called.
    """

    def __init__(self, db: apsw.Connection) -> None:
        self._db, self._version = db, 0
        self.heads: dict[str, Head] = {}
        """The heads as they were read; `head` brings them up to date."""
        self.positions: dict[str, tuple[Row, Row | None]] = {}
        """Each agent's state for its next append, with the turn and the kind of its newest message (see `Appender`)."""
        self.next_id = 1
        """The id of the next event, valid if there is any position."""

    def check(self) -> None:
        """Forget everything if another connection has committed."""
        version = self._db.data_version()
        if version != self._version:
            self.forget()
            self._version = version

    def head(self, agent_id: str) -> Head | None:
        """Return the current head of an agent; None if it is not cached."""
        self.check()
        head, position = self.heads.get(agent_id), self.positions.get(agent_id)
        if head is not None and position is not None and position[0][:2] != (head.record.head, head.record.last):
            head = self.heads[agent_id] = head._replace(record=moved(head.record, position[0]))
        return head

    def keep(self, agent_id: str, head: Head | None) -> None:
        """Keep a committed head of an agent; with None, forget the kept one."""
        self.check()
        if head is None:
            self.heads.pop(agent_id, None)
        else:
            self.heads[agent_id] = head
        self._limit()

    def committed(self, appenders: Mapping[str, Appender]) -> None:
        """Keep the positions of agents after a commit of this connection."""
        self._version = self._db.data_version()
        for agent_id, appender in appenders.items():
            if appender.has_moved:
                self.next_id = max(self.next_id, appender.last + 1)
                self.positions[agent_id] = appender.row, appender.newest
        self._limit()

    def forget(self) -> None:
        """Forget everything."""
        self.heads.clear()
        self.positions.clear()

    def _limit(self) -> None:
        if len(self.heads) > KNOWN_AGENTS or len(self.positions) > KNOWN_AGENTS:
            self.forget()


def changed(head: Head, appender: Appender | None, fold: tuple[Fold, Size] | None) -> Head:
    """Return the head of an agent after plain appends, and after its fold was stored."""
    record = head.record if appender is None or not appender.has_moved else moved(head.record, appender.row)
    return Head(record, fold or head.cache, head.newest, head.beside)
