"""The main thread, which owns the terminal; other threads queue output and questions for it."""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeVar

from foldmark.sending.interruption import CURRENT

_T = TypeVar("_T")

LOOK_SECONDS = 0.05
"""Seconds between two checks of the keyboard during a wait."""


class Foreground:
    """A queue of actions: any thread may add one, and the main thread carries them out in order."""

    def __init__(self) -> None:
        self._actions: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._asked: Future[Any] | None = None

    def put(self, action: Callable[[], object]) -> None:
        """Queue an action for the main thread."""
        self._actions.put(action)

    def ask(
        self,
        question: Callable[[], _T],
        otherwise: _T,
        announce: Callable[[], object] = lambda: None,
        withdraw: Callable[[], object] = lambda: None,
    ) -> _T:
        """Ask a question in the main thread and wait for the answer; call this from another thread. `announce` is
        called once the question is queued, and `withdraw` if the turn is interrupted while the question is being asked.

        Return `otherwise` if the turn is interrupted before there is an answer, or if the person presses Ctrl-C.
        """
        answer: Future[_T] = Future()
        self.put(partial(self._put, question, otherwise, answer))
        announce()

        def cancel() -> None:
            if answer.cancel() and self._asked is answer:
                withdraw()

        with CURRENT.get().ended_by(cancel):
            try:
                return answer.result()
            except CancelledError:
                return otherwise

    def drain(self) -> None:
        """Carry out the queued actions."""
        with suppress(Empty):
            while True:
                self._actions.get_nowait()()

    def until(
        self, begin: "Callable[[], Future[Any]]", interrupted: Callable[[], object], typed: Callable[[], object]
    ) -> "Future[Any]":
        """Carry out actions until the future that `begin` returns is done, and return that future.

        Ctrl-C calls `interrupted`. `typed` is called every LOOK_SECONDS to check the keyboard.
        """
        begun = pressed = False

        def interrupt(*_: object) -> None:
            nonlocal pressed
            pressed = True
            if begun:  # nothing to interrupt before that
                interrupted()

        # Ctrl-C may arrive as soon as work begins, so install the handler first.
        with at_interrupt(interrupt):
            end = begin()
            begun = True
            if pressed:
                interrupted()
            end.add_done_callback(lambda _: self.put(lambda: None))
            look = monotonic() + LOOK_SECONDS
            while not end.done():
                with suppress(Empty):
                    self._actions.get(timeout=LOOK_SECONDS)()
                if monotonic() >= look:  # even while an answer keeps streaming
                    typed()
                    look = monotonic() + LOOK_SECONDS
            self.drain()
        return end

    def _put(self, question: Callable[[], _T], otherwise: _T, answer: "Future[_T]") -> None:
        self._asked = answer
        try:
            if not answer.cancelled():
                said = _answered(question, otherwise)
                with suppress(InvalidStateError):  # no thread waits for it any more: the turn was interrupted
                    answer.set_result(said)
        finally:
            self._asked = None


def _answered(question: Callable[[], _T], otherwise: _T) -> _T:
    before = signal.getsignal(signal.SIGINT)
    try:
        with at_interrupt(signal.default_int_handler):
            return question()
    except KeyboardInterrupt:
        if callable(before) and before is not signal.default_int_handler:
            before(signal.SIGINT, None)
        return otherwise


@contextmanager
def at_interrupt(handler: Callable[[int, Any], object]) -> Iterator[None]:
    """Call `handler` on Ctrl-C during the block. Outside the main thread, do nothing."""
    try:
        before = signal.signal(signal.SIGINT, handler)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
