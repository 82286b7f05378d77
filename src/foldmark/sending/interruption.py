"""Cancellation of blocking work in other threads whose result is no longer needed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from threading import Event, Lock


class Interruption:
    """An interruption that cancels everything inside its `ended_by` blocks, at once or when they begin. `happened` is
    True afterwards."""

    def __init__(self) -> None:
        self._lock, self.happened = Lock(), False
        self._ends: list[Callable[[], object]] = []

    def happen(self) -> None:
        """Cancel everything."""
        with self._lock:  # until all are cancelled: no block may leave `ended_by` before
            self.happened = True
            for end in self._ends:
                end()

    @contextmanager
    def ended_by(self, end: Callable[[], object]) -> Iterator[None]:
        """Register `end` as the callback that cancels the block; it may be called from another thread."""
        with self._lock:
            self._ends.append(end)
            happened = self.happened
        if happened:
            end()
        try:
            yield
        finally:
            with self._lock:
                self._ends.remove(end)

    @contextmanager
    def cancels(self) -> Iterator[None]:
        """Cancel the current task if the interruption happens during the block."""
        from asyncio import current_task, get_running_loop  # takes 30 ms, and most programs have no task

        task = current_task()
        assert task is not None
        with self.ended_by(partial(get_running_loop().call_soon_threadsafe, task.cancel)):
            yield


NEVER = Interruption()
CURRENT: ContextVar[Interruption] = ContextVar("interruption", default=NEVER)
"""The interruption of this thread's turn; without a turn, one that never happens."""


@contextmanager
def watched() -> Iterator[Event]:
    """Yield an event that is set when this thread's turn is interrupted."""
    cut = Event()
    with CURRENT.get().ended_by(cut.set):
        yield cut
