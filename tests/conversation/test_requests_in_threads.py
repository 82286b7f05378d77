"""Requests that are made by several threads at once, some of them inside a transaction."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, current_thread, main_thread
from typing import Any

import pytest

from foldmark import Agent, Log
from foldmark.request.sources import Sources
from patience import LIMIT


def test_a_request_inside_a_transaction_waits_for_no_other_request(
    log: Log, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Receipts count thinking by requests, in the transaction that records the operation. One that waited there for a
    request of another thread, which waits for the store, would wait for ever."""
    agent.append("user", "Hello.")
    inside, done = Event(), Event()
    layers = Sources._layers

    def slow(sources: Sources, *args: Any, **more: Any) -> Any:
        if current_thread() is not main_thread():
            inside.set()
            assert done.wait(LIMIT), "the request in the transaction waits for this one"
        return layers(sources, *args, **more)

    monkeypatch.setattr(Sources, "_layers", slow)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(agent.request)
        assert inside.wait(LIMIT)
        with log.store.exclusive():
            mine = agent.request()
        done.set()
        assert other.result(LIMIT).bytes == mine.bytes
