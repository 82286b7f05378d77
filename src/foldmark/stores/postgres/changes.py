"""Committed changes in PostgreSQL (see `foldmark.core.agents`), and waiting for the next commit.

Transactions draw their numbers when they first write and commit in any order. An event is stamped with the number of
its transaction, or with that of the newest event of its tree if this one is higher: so stamps follow the ids of a tree.
A reader takes events with stamps below the number of the oldest open transaction: no lower stamp can be committed any
more. A cursor is the place of the last event read: its stamp, whether it is an event, mail or a change of an agent, its
id. A cursor that begins now also names what had been committed already after a transaction that was still open: up to
which id in which trees.
"""

import os
import re
import select
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from threading import Condition, Lock, Timer
from time import monotonic
from typing import Any

import psycopg

from foldmark.core.agents import Change, Changes
from foldmark.core.errors import StoreError
from foldmark.stores.beside.changes import SqlChangesView
from foldmark.stores.postgres.connection import STATEMENTS, Ints, Pool
from foldmark.stores.rows import Row

LOOK_SECONDS = 1.0
"""Seconds between two looks of a watch without a notification: a killed program may have committed without notifying,
and events held back by an open transaction can be read when that has ended, however it ends."""

TELL_SECONDS = 0.05
"""Minimum seconds between two notifications of a store: PostgreSQL serializes commits that notify."""

CHANNEL = "foldmark"

_PLACE = r"[0-9]{1,18}\.[0-9]{1,18}\.[0-9]{1,18}"


class PostgresChanges(SqlChangesView):
    """Reads changes."""

    _cursor_form = re.compile(f"{_PLACE}(:{_PLACE})*", re.ASCII)

    def _from_now(self) -> Changes:
        rows = self._run("changes_end")
        ((begin, *_), *_) = rows
        ahead = [(last, root, *ids) for _, root, last, *ids in rows if root is not None]
        until = max(ahead)[0] if ahead else 0
        return Changes([], _cursor((begin, 0, 0), until, [each[1:] for each in ahead]))

    def _behind(self, after: str, limit: int) -> Changes:
        (stamp, source, id), *seen = [tuple(map(int, each.split("."))) for each in after.split(":")]
        (until, *_), *trees = seen or [(0,)]
        names = zip(("roots", "seen", "lived"), zip(*trees, strict=True) if trees else ((), (), ()), strict=True)
        given = {name: Ints(each) for name, each in names}
        rows = self._run("changes", stamp=stamp, source=source, id=id, **given, limit=limit)
        found = [Change(self._id(agent), None if number else id, kind) for _, number, id, agent, kind in rows]
        return Changes(found, _cursor(rows[-1][:3], until, trees) if rows else after)


def _cursor(place: Sequence[int], until: int, trees: Iterable[Sequence[int]]) -> str:
    """Return the cursor of a place; up to stamp `until` with the ids that were seen already of some trees."""
    seen = [(until, 0, 0), *trees] if place[0] <= until else []
    return ":".join(".".join(map(str, each)) for each in (place, *seen))


class PostgresCommits:
    """Counts the commits of one store, wakes waiting threads, and notifies other programs."""

    def __init__(self, pool: Pool) -> None:
        self.number, self.changed = 0, Condition()
        self.name = os.urandom(8).hex()
        """Distinguishes this store's notifications from others'."""
        self.wakers: set[socket.socket] = set()
        self._pool, self._lock = pool, Lock()
        self._told = 0.0
        self._timer: Timer | None = None

    def telling(self) -> tuple[str, ...]:
        """Return the statements after a commit that notify others; none if a later notification includes it."""
        with self._lock:
            if self._timer is not None:
                return ()
            now = monotonic()
            if now - self._told >= TELL_SECONDS:
                self._told = now
                return (f"NOTIFY {CHANNEL}, '{self.name}'",)
            self._timer = Timer(self._told + TELL_SECONDS - now, self._tell)
            self._timer.daemon = True
            self._timer.start()
            return ()

    def _tell(self) -> None:
        with self._lock:
            self._timer, self._told = None, monotonic()
        with suppress(StoreError):
            self._pool.beside("tell", name=self.name)

    def one_more(self) -> None:
        """Count a commit."""
        with self.changed:
            self.number += 1
            for waker in self.wakers:
                with suppress(BlockingIOError):
                    waker.send(b"x")

    def close(self) -> None:
        """Send the pending notification."""
        with self._lock:
            timer = self._timer
        if timer is not None:
            timer.cancel()
            self._tell()


class PostgresWatch:
    """See `foldmark.core.agents.Watch`. It listens on a connection of its own."""

    def __init__(self, commits: PostgresCommits, pool: Pool) -> None:
        self._commits, self._pool, self._closed = commits, pool, False
        self._lock = Lock()
        self._db: psycopg.Connection[Row] | None = self._listen()
        self._state = self._look()
        self._awake, self._waker = socket.socketpair()
        for end in (self._awake, self._waker):
            end.setblocking(False)
        with commits.changed:
            self._seen = commits.number
            commits.wakers.add(self._waker)

    def wait(self, seconds: float) -> bool:
        end = monotonic() + seconds
        with self._lock:
            look = monotonic() + LOOK_SECONDS
            while not self._closed:
                if self._was_woken():
                    return True
                now = monotonic()
                if now >= look:
                    look = now + LOOK_SECONDS
                    if (state := self._look()) != self._state:
                        self._state = state
                        return True
                if now >= end:
                    return False
                heard: list[Any] = [self._awake] if self._db is None else [self._awake, self._db.fileno()]
                select.select(heard, [], [], min(end, look) - now)
            return False

    def close(self) -> None:
        self._closed = True
        with self._commits.changed:
            if self._waker in self._commits.wakers:
                self._commits.wakers.remove(self._waker)
                self._waker.send(b"x")
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None
            for end in (self._awake, self._waker):
                end.close()

    def _was_woken(self) -> bool:
        with suppress(BlockingIOError):
            self._awake.recv(4096)
        told = self._commits.number != self._seen
        self._seen = self._commits.number
        return self._was_told() or told

    def _was_told(self) -> bool:
        """Return True if another store has notified of a commit."""
        if self._db is None:
            return False
        try:
            return [each for each in self._db.notifies(timeout=0) if each.payload != self._commits.name] != []
        except psycopg.Error:
            self._db = None  # the next look listens again
            return False

    def _listen(self) -> psycopg.Connection[Row]:
        connection = self._pool.connect()
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def _look(self) -> object:
        """Return the newest readable place."""
        try:
            if self._db is None:
                self._db = self._listen()
            return self._db.execute(STATEMENTS["newest_changes"].sql).fetchall()
        except psycopg.Error:  # the next reader reports the error
            self._db = None
            return self._state
