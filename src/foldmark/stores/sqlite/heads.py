"""The heads of agents that an SQLite connection has read, kept as long as they are current.

To read and decode a head takes several times as long as to ask SQLite whether anybody has committed since. A commit of
the connection itself that only appended messages moves nothing but the agent's row, and the transaction knows where to.
"""

from collections.abc import Mapping

import apsw

from foldmark.core.ports import Head
from foldmark.stores.transaction import Appender

KEPT_HEADS = 64
"""Maximum number of agents whose heads are kept."""


class KeptHeads:
    """The kept heads of one connection, all as of the same version of the database.

    The version counts the commits of all connections, but SQLite looks at those of others only when it begins to read.
    So whoever asks must have begun.
    """

    def __init__(self, db: apsw.Connection) -> None:
        self._db, self._version = db, 0
        self._heads: dict[str, Head] = {}
        self._moved: dict[str, Appender] = {}
        """The appenders that have moved agents since their heads were read."""

    def __contains__(self, agent_id: str) -> bool:
        return agent_id in self._heads

    def __len__(self) -> int:
        return len(self._heads)

    def check(self) -> None:
        """Forget all heads if somebody else has committed."""
        if not self._heads:
            return
        if self._db.data_version() != self._version:
            self.forget()

    def get(self, agent_id: str) -> Head | None:
        """Return the head of an agent if it is kept and current."""
        self.check()
        if self._moved and (appender := self._moved.pop(agent_id, None)):
            head = self._heads[agent_id]
            self._heads[agent_id] = head._replace(record=appender.moved(head.record))
        return self._heads.get(agent_id)

    def keep(self, agent_id: str, head: Head) -> None:
        """Keep a head that was just read, and that no open transaction has changed."""
        self.check()
        if len(self._heads) >= KEPT_HEADS:
            self.forget()
        if not self._heads:
            self._version = self._db.data_version()
        self._heads[agent_id] = head

    def committed(self, appenders: Mapping[str, Appender]) -> None:
        """Bring the heads up to date after a commit of this connection that only appended, and that began when they
        were current."""
        if not self._heads:
            return
        self._version = self._db.data_version()
        for agent_id, appender in appenders.items():
            if agent_id in self._heads and appender.has_moved:
                if appender.is_plain:
                    self._moved[agent_id] = appender
                else:
                    del self._heads[agent_id]
                    self._moved.pop(agent_id, None)

    def forget(self) -> None:
        """Forget all heads."""
        self._heads.clear()
        self._moved.clear()
