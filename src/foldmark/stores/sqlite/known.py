"""Cache of agents' heads and appenders for one SQLite connection.

Reading a head or a position from the database takes several times as long as asking SQLite whether another connection
has committed since then. A transaction of this connection changes the cache as it changes the database; after a
rollback all is forgotten.
"""

from collections.abc import Mapping

import apsw

from foldmark.core.ports import Head
from foldmark.stores.appender import Appender, moved

KNOWN_AGENTS = 64
"""Maximum number of agents in the cache."""


class KnownAgents:
    """The heads and appenders of agents, all as of the same version of the database, or of the transaction that this
    connection has open.

    The version counts the commits of all connections, but SQLite notices those of others only when it begins to read.
    So the connection must have begun to read before a method is called.
    """

    def __init__(self, db: apsw.Connection) -> None:
        self._db, self._version = db, 0
        self.heads: dict[str, Head] = {}
        """The heads as they were read; `head` brings them up to date."""
        self.appenders: dict[str, Appender] = {}
        self.newest = 0
        """The newest event, valid if there is any appender."""

    def check(self) -> None:
        """Forget everything if another connection has committed."""
        version = self._db.data_version()
        if version != self._version:
            self.forget()
            self._version = version

    def head(self, agent_id: str) -> Head | None:
        """Return the current head of an agent; None if it is not cached."""
        self.check()
        head, appender = self.heads.get(agent_id), self.appenders.get(agent_id)
        if head is not None and appender is not None and appender.last != head.record.last:
            head = self.heads[agent_id] = head._replace(record=moved(head.record, appender.state))
        return head

    def draw(self) -> int:
        """Return the id of a new event."""
        self.newest += 1
        return self.newest

    def keep(self, agent_id: str, head: Head) -> None:
        """Keep a committed head of an agent."""
        self.check()
        self.heads[agent_id] = head
        self._limit()

    def committed(self) -> None:
        """Keep everything after a commit of this connection."""
        self._version = self._db.data_version()
        self._limit()

    def forget(self, kept: Mapping[str, Appender] = {}) -> None:
        """Forget everything except the appenders `kept`."""
        self.heads, self.appenders = {}, dict(kept)

    def _limit(self) -> None:
        if len(self.heads) > KNOWN_AGENTS or len(self.appenders) > KNOWN_AGENTS:
            self.forget()
