"""What blocks runs in a thread: it tells how far it is, and ends soon after nobody waits for it any more."""

import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
from anyio import from_thread, to_thread

from foldmark.core.ports import Progress
from foldmark.sending.interruption import CURRENT, Interruption

Report = Callable[[float, float | None], Coroutine[Any, Any, None]]
"""Tells the client how much of how much is done; nothing where it did not ask for that."""

EVERY = 0.2
"""Seconds between two reports."""

T = TypeVar("T")


async def in_thread(work: Callable[[Progress], T], report: Report) -> T:
    """What `work` returns or raises; it is given what to tell its progress to.

    If this is cancelled, `work` is interrupted (`asking.interruption`) and waited for: nothing that was begun
    goes on behind the back of whoever comes next.
    """
    interruption = Interruption()
    CURRENT.set(interruption)  # of this request alone: each is a task of its own
    done = anyio.Event()
    outcome: list[T] = []
    failure: list[Exception] = []

    def run() -> T:
        return work(_telling(report))

    async def watch() -> None:
        with anyio.CancelScope(shield=True):
            try:
                outcome.append(await to_thread.run_sync(run))
            except Exception as error:
                failure.append(error)
            done.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            await done.wait()
        except BaseException:
            interruption.happen()
            raise
    if failure:
        raise failure[0]
    return outcome[0]


def _telling(report: Report) -> Progress:
    """To be called in the thread."""
    told = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= EVERY:
            told = now
            from_thread.run(report, done, total)

    return tell
