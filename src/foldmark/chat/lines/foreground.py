"""The main thread, which owns the terminal while the chat runs in the background: it prints and asks."""

import signal
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, InvalidStateError
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import current_thread, main_thread
from time import monotonic
from typing import Any, TypeVar

from foldmark.chat.lines.person import at_interrupt
from foldmark.chat.views import awaited
from foldmark.runtime.background import Background

_T = TypeVar("_T")

LOOK_SECONDS = 0.05
"""Seconds between two checks of the keyboard."""


class Foreground(Executor):
    """A queue of actions: any thread may add one, and `run` carries them out in order in the main thread.

    As an executor, it carries out work that reads from the terminal, or that Ctrl-C ends with KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self._actions: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._doing: Future[Any] | None = None
        self._background: Background[Any] | None = None
        self._interrupted: Callable[[], object] = lambda: None

    def run(
        self,
        work: Coroutine[Any, Any, _T],
        interrupted: Callable[[], object],
        typed: Callable[[], object] = lambda: None,
    ) -> _T:
        """Carry out actions until the coroutine `work`, which runs in the background, has ended; return its result.

        Ctrl-C calls `interrupted` on the coroutine's loop. `typed` is called every LOOK_SECONDS to check the keyboard.
        An exception in this thread, such as that of a signal, cancels the coroutine and is raised after its end.
        """
        self._interrupted = interrupted
        with at_interrupt(lambda *_: self._interrupt()):
            self._background = background = Background(work, partial(self.put, lambda: None))
            try:
                look = monotonic() + LOOK_SECONDS
                while not background.ended:
                    with suppress(Empty):
                        self._actions.get(timeout=LOOK_SECONDS)()
                    if monotonic() >= look:  # even while an answer keeps streaming
                        typed()
                        look = monotonic() + LOOK_SECONDS
                self.drain()
            except BaseException:
                self._interrupt()
                background.cancel()
                with suppress(BaseException):
                    background.result()
                raise
            return background.result()

    def call(self, action: Callable[[], object]) -> None:
        """Call an action on the loop of the coroutine that runs; called in any thread."""
        if self._background is not None:
            self._background.call(action)

    def _interrupt(self) -> None:
        self.call(self._interrupted)

    def put(self, action: Callable[[], object]) -> None:
        """Queue an action."""
        self._actions.put(action)

    def drain(self) -> None:
        """Carry out the queued actions."""
        with suppress(Empty):
            while True:
                self._actions.get_nowait()()

    def submit(self, work: Callable[..., _T], /, *given: Any, **named: Any) -> "Future[_T]":
        """Queue work, and return the future of its result."""
        done: Future[_T] = Future()
        self.put(partial(self._do, partial(work, *given, **named), done))
        return done

    def ask(
        self,
        question: Callable[[], _T],
        otherwise: _T,
        announce: Callable[[], object] = lambda: None,
        withdraw: Callable[[], object] = lambda: None,
    ) -> _T:
        """Ask a question and wait for the answer. `announce` is called once the question is queued, and `withdraw` if
        the turn is interrupted while the question is being asked.

        Return `otherwise` if the turn is interrupted before there is an answer, or if the person presses Ctrl-C.
        """
        if current_thread() is main_thread():  # in the middle of work that was submitted
            return question()
        answer = self.submit(question)
        announce()

        def cancel() -> None:
            if answer.cancel() and self._doing is answer:
                withdraw()

        try:
            return awaited(answer, otherwise, cancel)
        except KeyboardInterrupt:
            self._interrupt()
            return otherwise

    def _do(self, work: Callable[[], _T], done: "Future[_T]") -> None:
        if done.cancelled():
            return
        self._doing = done
        try:
            with at_interrupt(signal.default_int_handler):
                result = work()
        except (Exception, KeyboardInterrupt) as error:
            end = partial(done.set_exception, error)
        else:
            end = partial(done.set_result, result)
        finally:
            self._doing = None
        with suppress(InvalidStateError):  # nobody waits for it any more: the turn was interrupted
            end()
