"""Committed changes in SQLite (see `foldmark.core.agents`).

There is one writer at a time, and it draws the ids: the order of ids is the order of commits, so a cursor is the newest
event, mail, agent and row of `agent_changes` that were seen.
"""

import re
from collections.abc import Iterable
from threading import Condition
from time import monotonic

import apsw

from foldmark.core.agents import Change, Changes
from foldmark.stores.beside.changes import SqlChangesView

SOONEST, LOOK_SECONDS = 0.005, 0.1
"""Seconds between two checks of a watch for commits of other processes: shorter at first, longer after a long wait. A
check takes microseconds."""

_SOURCES = ("event", "mail", "born", "change")


class SqliteChanges(SqlChangesView):
    """Reads changes."""

    _cursor_form = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18}){3}", re.ASCII)

    def _from_now(self) -> Changes:
        (newest,) = self._run("changes_end")
        return Changes([], _cursor(newest))

    def _behind(self, after: str, limit: int) -> Changes:
        seen = [int(number) for number in after.split(".")]
        found = []
        given = dict(zip(_SOURCES, seen, strict=True), limit=limit)
        for id, agent, kind, source in self._run("changes", **given):
            seen[source] = id
            found.append(Change(self._id(agent), None if source else id, kind))
        return Changes(found, _cursor(seen))


def _cursor(seen: Iterable[int]) -> str:
    return ".".join(map(str, seen))


class SqliteCommits:
    """The commits of one store: their number, and the threads that wait for the next."""

    def __init__(self) -> None:
        self.number, self.changed = 0, Condition()

    def one_more(self) -> None:
        """Count a commit."""
        with self.changed:
            self.number += 1
            self.changed.notify_all()


class SqliteWatch:
    """See `foldmark.core.agents.Watch`. `db` is a connection of its own; None for a database in memory, to which no
    other process commits."""

    def __init__(self, commits: SqliteCommits, db: apsw.Connection | None) -> None:
        self._commits, self._db, self._closed = commits, db, False
        self._seen = 0
        self._seen = self._state()
        if db is not None:
            db.set_busy_timeout(0)  # a committing thread waits for `changed`, which is held meanwhile

    def wait(self, seconds: float) -> bool:
        began = monotonic()
        end = began + seconds
        with self._commits.changed:
            while not self._closed:
                if (state := self._state()) != self._seen:
                    self._seen = state
                    return True
                now = monotonic()
                if (left := end - now) <= 0:
                    return False
                pause = min(max(now - began, SOONEST), LOOK_SECONDS)
                self._commits.changed.wait(left if self._db is None else min(left, pause))
        return False

    def close(self) -> None:
        with self._commits.changed:
            self._closed = True
            if self._db is not None:
                self._db.close()
            self._commits.changed.notify_all()

    def _state(self) -> int:
        """Return a number that every commit changes: SQLite's own counts the commits of all other connections."""
        if self._db is None:
            return self._commits.number
        try:
            return int(self._db.pragma("data_version"))
        except apsw.Error:  # busy, or the next reader reports the error
            return self._seen
