"""How what blocks in a thread of its own is told that nobody waits for it any more."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Lock


class Interruption:
    """Something that may be cut short: what is inside `ended_by` is told to end, now or once it begins."""

    def __init__(self) -> None:
        self._lock, self._happened = Lock(), False
        self._ends: list[Callable[[], object]] = []

    def happen(self) -> None:
        """Tell everybody to end."""
        with self._lock:  # held to the end, so that nobody leaves `ended_by` before being told
            self._happened = True
            for end in self._ends:
                end()

    @contextmanager
    def ended_by(self, end: Callable[[], object]) -> Iterator[None]:
        """While the block runs, `end` is what ends it; it may be called from another thread."""
        with self._lock:
            self._ends.append(end)
            happened = self._happened
        if happened:
            end()
        try:
            yield
        finally:
            with self._lock:
                self._ends.remove(end)


NEVER = Interruption()
CURRENT: ContextVar[Interruption] = ContextVar("interruption", default=NEVER)
"""The interruption of the turn that a thread works for; one that never happens where there is none."""


@contextmanager
def watched() -> Iterator[Event]:
    """While the block runs, the event is set once the turn that this thread works for is interrupted."""
    cut = Event()
    with CURRENT.get().ended_by(cut.set):
        yield cut
