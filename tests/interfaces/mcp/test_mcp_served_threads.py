"""Blocking work runs outside the event loop, reports its progress, and ends when nobody waits for it any more."""

from __future__ import annotations

import threading
import time

import anyio
import pytest

from foldmark.core.ports import Progress
from foldmark.mcp import server
from foldmark.mcp.server import in_thread
from foldmark.sending.interruption import watched
from patience import LIMIT


async def nobody(done: float, total: float | None) -> None:
    """Ignore a progress report."""


def test_results_errors_and_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "EVERY", 0.0)
    told: list[tuple[float, float | None]] = []

    async def report(done: float, total: float | None) -> None:
        told.append((done, total))

    def work(progress: Progress) -> str:
        for number in range(3):
            progress(number, 3)
        return threading.current_thread().name

    def failing(progress: Progress) -> str:
        raise ValueError("as asked")

    async def main() -> None:
        assert await in_thread(work, report) != threading.current_thread().name
        with pytest.raises(ValueError, match="as asked"):
            await in_thread(failing, report)

    anyio.run(main)
    assert told == [(0, 3), (1, 3), (2, 3)]


def test_reports_do_not_come_too_often() -> None:
    told: list[float] = []

    async def report(done: float, total: float | None) -> None:
        told.append(done)

    def work(progress: Progress) -> None:
        for number in range(10_000):
            progress(number, 10_000)

    anyio.run(in_thread, work, report)
    assert 1 <= len(told) < 100


def test_a_cancelled_one_is_interrupted_and_waited_for() -> None:
    began, ended = threading.Event(), threading.Event()

    def work(progress: Progress) -> None:
        with watched() as cut:
            began.set()
            assert cut.wait(LIMIT)
        time.sleep(0.05)
        ended.set()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(in_thread, work, nobody)
            while not began.is_set():
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        assert ended.is_set()

    anyio.run(main)


def test_an_interruption_ends_only_one_request() -> None:
    other = threading.Event()

    def cancelled(progress: Progress) -> None:
        with watched() as cut:
            assert cut.wait(LIMIT)

    def goes_on(progress: Progress) -> bool:
        with watched() as cut:
            assert other.wait(LIMIT)
            return cut.is_set()

    async def main() -> None:
        results: list[bool] = []

        async def second() -> None:
            results.append(await in_thread(goes_on, nobody))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second)
            with anyio.move_on_after(0.1):
                await in_thread(cancelled, nobody)
            other.set()
        assert results == [False]

    anyio.run(main)
