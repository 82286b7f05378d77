"""The commits to an SQLite file: their number, and waiting for the next one."""

from threading import Condition
from time import monotonic

import apsw

SOONEST, LOOK_SECONDS = 0.005, 0.1
"""Seconds between two checks of a watch for commits of other processes: at first, and after a long wait. A check takes
microseconds."""


class SqliteCommits:
    """The commits of one store: their number, and the number of threads that wait for the next one."""

    def __init__(self) -> None:
        self.number, self.changed = 0, Condition()
        self.waiting = 0

    def one_more(self) -> None:
        """Count a commit. A thread is counted as waiting before it looks at the number, so that it misses none."""
        self.number += 1
        if self.waiting:
            with self.changed:
                self.changed.notify_all()


class SqliteWatch:
    """See `foldmark.core.agents.Watch`. `db` is a separate connection; None for a database in memory, to which no other
    process commits."""

    def __init__(self, commits: SqliteCommits, db: apsw.Connection | None) -> None:
        self._commits, self._db, self._closed = commits, db, False
        self._seen = 0
        self._seen = self._state()
        if db is not None:
            db.set_busy_timeout(0)  # a committing thread would wait for `changed`, which is held meanwhile

    def wait(self, seconds: float) -> bool:
        began = monotonic()
        end = began + seconds
        with self._commits.changed:
            self._commits.waiting += 1
            try:
                while not self._closed:
                    if (state := self._state()) != self._seen:
                        self._seen = state
                        return True
                    now = monotonic()
                    if (left := end - now) <= 0:
                        return False
                    pause = min(max(now - began, SOONEST), LOOK_SECONDS)
                    self._commits.changed.wait(left if self._db is None else min(left, pause))
            finally:
                self._commits.waiting -= 1
        return False

    def close(self) -> None:
        with self._commits.changed:
            self._closed = True
            if self._db is not None:
                self._db.close()
            self._commits.changed.notify_all()

    def _state(self) -> int:
        """Return a number that every commit changes. SQLite's own counts the commits of all other connections."""
        if self._db is None:
            return self._commits.number
        try:
            return int(self._db.pragma("data_version"))
        except apsw.Error:  # busy, or the next reader reports the error
            return self._seen
