"""What was committed, in SQLite (see `foldmark.core.changes`).

There is one writer at a time, and ids are drawn by it: the order of ids is the order of commits, so that a cursor is
the newest event and the newest mail that were seen.
"""

import re
from threading import Condition
from time import monotonic

import apsw

from foldmark.core.changes import MAIL, Change, Changes
from foldmark.core.errors import CommandError, StoreError
from foldmark.stores.reader import Reader

LOOK_SECONDS = 0.1
"""How often a watch asks SQLite whether another process has committed; it takes microseconds."""

_CURSOR = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})", re.ASCII)


class ChangesView(Reader):
    """Reads what came since."""

    @property
    def committed(self) -> bool:
        raise NotImplementedError

    def changes(self, after: str | None, limit: int) -> Changes:
        if not self.committed:
            raise StoreError("changes are what is committed; read them outside of the transaction")
        if after is None:
            ((event, mail),) = self._run("changes_end")
            return Changes([], f"{event}.{mail}")
        cursor = _CURSOR.fullmatch(after)
        if cursor is None:
            raise CommandError(f"'{after:.40}' is no cursor; take the one of an earlier answer, or none to begin now")
        event, mail = map(int, cursor.groups())
        found = []
        for id, agent, kind in self._run("changes", event=event, mail=mail, limit=limit):
            if kind is None:
                mail = id
                found.append(Change(self._id(agent), None, MAIL))
            else:
                event = id
                found.append(Change(self._id(agent), id, kind))
        return Changes(found, f"{event}.{mail}")


class Commits:
    """The commits of one store: their number, and who waits for the next."""

    def __init__(self) -> None:
        self.number, self.changed = 0, Condition()

    def one_more(self) -> None:
        """Something was committed."""
        with self.changed:
            self.number += 1
            self.changed.notify_all()


class SqliteWatch:
    """See `foldmark.core.changes.Watch`. `db` is a connection of its own; None for a database in memory, to which
    nobody else commits."""

    def __init__(self, commits: Commits, db: apsw.Connection | None) -> None:
        self._commits, self._db, self._closed = commits, db, False
        self._seen = 0
        self._seen = self._state()
        if db is not None:
            db.set_busy_timeout(0)  # whoever commits waits for `changed`, which is held meanwhile

    def wait(self, seconds: float) -> bool:
        end = monotonic() + seconds
        with self._commits.changed:
            while not self._closed:
                if (state := self._state()) != self._seen:
                    self._seen = state
                    return True
                if (left := end - monotonic()) <= 0:
                    return False
                self._commits.changed.wait(left if self._db is None else min(left, LOOK_SECONDS))
        return False

    def close(self) -> None:
        with self._commits.changed:
            self._closed = True
            if self._db is not None:
                self._db.close()
            self._commits.changed.notify_all()

    def _state(self) -> int:
        """A number that every commit changes: SQLite's own tells a connection of the commits of all others."""
        if self._db is None:
            return self._commits.number
        try:
            return int(self._db.pragma("data_version"))
        except apsw.Error:  # busy, or whoever reads next is told what is wrong
            return self._seen
