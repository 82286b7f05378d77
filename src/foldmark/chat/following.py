"""Follow what is recorded while a chat is open, by other programs as well: a gateway, another chat, a command."""

from collections.abc import Callable
from contextlib import closing, suppress
from threading import Event as Flag
from threading import Thread
from types import TracebackType
from typing import Self

from foldmark.core.agents import PAGE, Change, Watch
from foldmark.core.errors import FoldmarkError
from foldmark.log import Log

EVERY = 0.2
"""Minimum seconds between two looks: a busy agent records many messages at once."""

LONGEST = 60.0
"""Maximum seconds of one wait for a commit."""


class Following:
    """A context manager with a thread of its own, in which `changed` is called with what any process has committed
    since the block began, in order. An error of the database is passed over: the next look may succeed."""

    def __init__(self, log: Log, changed: Callable[[list[Change]], object]) -> None:
        self._log, self._changed = log, changed
        self._over = Flag()
        self._thread = Thread(target=self._run, name="foldmark-following", daemon=True)
        self._watch: Watch
        self._cursor: str | None = None

    def __enter__(self) -> Self:
        self._watch = self._log.store.watch()
        self._cursor = self._log.changes().cursor
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        self._watch.close()
        self._thread.join()

    def _run(self) -> None:
        with closing(self._watch):
            while not self._over.is_set():
                if not self._watch.wait(LONGEST):
                    continue
                with suppress(FoldmarkError):
                    self._look()
                self._over.wait(EVERY)

    def _look(self) -> None:
        while (page := self._log.changes(self._cursor, PAGE)).changes:
            self._changed(page.changes)
            self._cursor = page.cursor
