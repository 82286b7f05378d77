"""A coroutine in a thread of its own, for a program whose main thread owns the terminal."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class Background(Generic[_T]):
    """The coroutine `work` on an event loop in a thread, which starts at once; `ended` is called in that thread at its
    end. An error, like the result, waits for `result`."""

    def __init__(self, work: Coroutine[Any, Any, _T], ended: Callable[[], object]) -> None:
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(work)
        self._end: Future[_T] = Future()
        self._end.add_done_callback(lambda _: ended())
        self._thread = Thread(target=self._run, name="foldmark-chat")
        self._thread.start()

    @property
    def ended(self) -> bool:
        """True once the coroutine has ended."""
        return self._end.done()

    def call(self, action: Callable[[], object]) -> None:
        """Call an action on the loop, after those of earlier calls; called in any thread. After the end, do nothing."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(action)

    def cancel(self) -> None:
        """Cancel the coroutine, which then still closes what it has opened; called in any thread."""
        self.call(self._cancel)

    def _cancel(self) -> None:
        if not self._task.cancelling():  # a second time would cut its end short
            self._task.cancel()

    def result(self) -> _T:
        """Wait for the end and return the coroutine's result. Raises its errors, CancelledError after `cancel`."""
        self._thread.join()
        return self._end.result()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop):
                found = self._loop.run_until_complete(self._task)
        except BaseException as error:
            self._end.set_exception(error)
        else:
            self._end.set_result(found)
