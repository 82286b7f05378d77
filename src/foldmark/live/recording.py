"""The thread that records what passes through a gateway [SPEC 5.7].

It does one task after the other. While the database is locked or away, it repeats its task until it succeeds. So
nothing is lost as long as the gateway runs, and no request has to wait for that.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event, Lock
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from foldmark.core.errors import StoreError
from foldmark.stores.waiting import PATIENCE

LOG = logging.getLogger(__name__)

EDIT_SECONDS = 0.2
"""Maximum seconds that a request waits for the recorder while the database is locked or away."""

WORK_SECONDS = 5.0
"""Maximum seconds that a request waits for the recorder while that is at work."""

LAST_SECONDS = 3.0
"""Seconds for which the recorder goes on trying when the gateway ends."""

_TRY_SECONDS = 0.1
"""Seconds after which an attempt to write counts as failed."""

_LOOK_SECONDS = 0.05

T = TypeVar("T")
P = ParamSpec("P")


class Recorder:
    """Does tasks in a thread of its own, in the order in which they are submitted. `blocked` is the reason why the
    current task cannot be done; None if the recorder is at work or has nothing to do."""

    def __init__(self) -> None:
        self.blocked: StoreError | None = None
        self._since = 0.0
        self._over, self._submitting = Event(), Lock()
        self._last: Future[Any] | None = None
        self._thread = ThreadPoolExecutor(1, "foldmark-recording", PATIENCE.set, (_TRY_SECONDS,))

    def submit(self, task: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Do a task after all earlier ones. After a StoreError that passes it is done
        again."""
        with self._submitting:
            future = self._thread.submit(self._done, lambda: task(*args, **kwargs))
            self._last = future
        return future

    def caught_up(self) -> bool:
        """Wait until everything submitted so far is done. Return False if it is not."""
        return self._last is None or self.is_done(self._last, EDIT_SECONDS, WORK_SECONDS)

    def is_done(self, task: "Future[T]", patience: float, longest: float) -> bool:
        """Wait for a task, at most `longest` seconds, and no longer if the database has been locked or away for
        `patience` seconds. Return False if it is not done."""
        began = monotonic()
        while not task.done():
            now = monotonic()
            if now - began >= longest or (self.blocked is not None and now - min(began, self._since) >= patience):
                return False
            left = began + patience - now
            wait([task], min(_LOOK_SECONDS, left) if left > 0 else _LOOK_SECONDS)
        return True

    def close(self) -> None:
        """Wait until everything is done, and stop. If the database is locked or away, give up after `LAST_SECONDS`."""
        self._over.set()
        last = self._last
        lost = last is not None and not self.is_done(last, LAST_SECONDS, float("inf"))
        if lost:
            LOG.warning("not everything was recorded: %s", self.blocked)
        self._thread.shutdown(cancel_futures=lost)

    def _done(self, task: Callable[[], T]) -> T:
        while True:
            began = monotonic()
            try:
                done = task()
            except StoreError as error:
                if not error.passes:
                    self.blocked = None
                    raise
                if self.blocked is None:
                    LOG.warning("recording waits: %s", error)
                    self._since = began
                self.blocked = error
                if self._over.wait(_LOOK_SECONDS) and monotonic() - self._since >= LAST_SECONDS:
                    raise
            except BaseException:
                self.blocked = None
                raise
            else:
                self.blocked = None
                return done
