"""The commits of a PostgreSQL database: counting them, telling other programs, and waiting for the next (see
`foldmark.core.agents.Watch`)."""

import os
import select
import socket
from contextlib import suppress
from threading import Condition, Lock, Timer
from time import monotonic
from typing import Any

import psycopg

from foldmark.core.errors import StoreError
from foldmark.stores.postgres.connection import STATEMENTS, Pool
from foldmark.stores.reader import Row

LOOK_SECONDS = 1.0
"""Seconds between two looks of a watch without a notification: a killed program may have committed without notifying,
and events held back by an open transaction can be read when that has ended, however it ends."""

NOTIFY_SECONDS = 0.05
"""Minimum seconds between two notifications of a store: PostgreSQL serializes commits that notify."""

CHANNEL = "foldmark"


class PostgresCommits:
    """Counts the commits of one store, wakes waiting threads, and notifies other programs."""

    def __init__(self, pool: Pool) -> None:
        self.number, self.changed = 0, Condition()
        self.name = os.urandom(8).hex()
        """Distinguishes this store's notifications from others'."""
        self.wakers: set[socket.socket] = set()
        self._pool, self._lock = pool, Lock()
        self._notified_at = 0.0
        self._timer: Timer | None = None

    def notifications(self) -> tuple[str, ...]:
        """Return the statements after a commit that notify others; none if a later notification includes it."""
        with self._lock:
            if self._timer is not None:
                return ()
            now = monotonic()
            if now - self._notified_at >= NOTIFY_SECONDS:
                self._notified_at = now
                return (f"NOTIFY {CHANNEL}, '{self.name}'",)
            self._timer = Timer(self._notified_at + NOTIFY_SECONDS - now, self._notify)
            self._timer.daemon = True
            self._timer.start()
            return ()

    def _notify(self) -> None:
        with self._lock:
            self._timer, self._notified_at = None, monotonic()
        with suppress(StoreError):
            self._pool.run_alone("notify", name=self.name)

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
            self._notify()


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
        committed = self._commits.number != self._seen
        self._seen = self._commits.number
        return self._was_notified() or committed

    def _was_notified(self) -> bool:
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
