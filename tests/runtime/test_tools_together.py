"""Tools of one answer (SPEC 3, 4.1): which of them run in parallel, the order of results, and cancelled turns."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from threading import Barrier, Event, Lock
from typing import Any, NamedTuple

import pytest

import foldmark
from foldmark import Agent, Log
from foldmark.core.errors import CommandError, StoreError
from foldmark.core.request import Piece, Request, ToolCall, ToolSpec
from foldmark.log.doctor import examine
from foldmark.runtime.loop import Shown, turn
from foldmark.sending.interruption import CURRENT
from patience import LIMIT
from scripted import ScriptedProvider
from stored import connection


class Own(NamedTuple):
    """A custom tool of a test."""

    spec: ToolSpec
    run: Callable[[], str]
    together: bool

    def __call__(self, agent: Agent, args: Any, asking: Any) -> str:
        return self.run()


class Calls(ScriptedProvider):
    """A model that makes these calls and then ends its answer."""

    def __init__(self, *names: str) -> None:
        self._answers: list[list[Any]] = [[ToolCall(f"c{n}", name, {}) for n, name in enumerate(names)], ["Done."]]

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        for piece in self._answers.pop(0):
            yield piece


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with foldmark.open(tmp_path / "log.db") as log:
        yield log
        assert list(examine(log)) == []


def add(log: Log, name: str, run: Callable[[], str], *, together: bool) -> None:
    log.add_tool(Own(ToolSpec(name, f"Runs {name}.", {"type": "object", "properties": {}}), run, together))


def play(agent: Agent, *names: str) -> None:
    asyncio.run(turn(agent, Calls(*names), "go", Shown(lambda _: None, lambda _: None)))


def results(agent: Agent) -> list[tuple[str, str]]:
    """Return the call id and text of each result, in the order of the log."""
    found = [message for message in agent.context().messages if message.kind == "tool_result"]
    return [(str(message.call_id), message.content) for message in found]


def test_tools_that_change_nothing_run_side_by_side_and_answer_in_order(log: Log) -> None:
    both, last = Barrier(3, timeout=LIMIT), Event()

    def first() -> str:
        both.wait()
        assert last.wait(LIMIT)  # the third tool ends before this one
        return "first"

    def second() -> str:
        both.wait()
        return "second"

    def third() -> str:
        both.wait()
        last.set()
        return "third"

    for name, run in (("a", first), ("b", second), ("c", third)):
        add(log, name, run, together=True)
    agent = log.agent("default")
    play(agent, "a", "b", "c")
    assert results(agent) == [("c0", "first"), ("c1", "second"), ("c2", "third")]


def test_tools_that_change_something_run_alone(log: Log) -> None:
    running, seen, lock = 0, list[str](), Lock()

    def alone(name: str) -> Callable[[], str]:
        def run() -> str:
            nonlocal running
            with lock:
                running += 1
                seen.append(name)
            assert running == 1
            with lock:
                running -= 1
            return name

        return run

    both = Barrier(2, timeout=LIMIT)

    def beside() -> str:
        assert running == 0
        both.wait()
        return "beside"

    add(log, "w1", alone("w1"), together=False)
    add(log, "w2", alone("w2"), together=False)
    add(log, "r1", beside, together=True)
    add(log, "r2", beside, together=True)
    agent = log.agent("default")
    play(agent, "w1", "r1", "r2", "w2", "w1")
    assert seen == ["w1", "w2", "w1"]
    assert [call for call, _ in results(agent)] == ["c0", "c1", "c2", "c3", "c4"]


def test_slash_runs_last_and_in_order(log: Log) -> None:
    order = list[str]()

    def look() -> str:
        order.append("look")
        return "looked"

    add(log, "look", look, together=True)

    class Model(ScriptedProvider):
        def __init__(self) -> None:
            self.calls = [
                ToolCall("s1", "slash", {"command": "mark", "args": "A"}),
                ToolCall("t1", "look", {}),
                ToolCall("s2", "slash", {"command": "mark", "args": "B"}),
            ]

        async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
            for call in self.calls:
                yield call
            self.calls = []

    shown = list[str]()
    agent = log.agent("default")
    asyncio.run(turn(agent, Model(), "go", Shown(lambda _: None, lambda call: shown.append(call.call_id))))
    assert shown == ["t1", "s1", "s2"]
    assert sorted(agent.context().marks) == ["A", "B"]
    assert agent.context().marks["A"] < agent.context().marks["B"]


def test_an_error_of_one_is_told_and_the_others_answer(log: Log) -> None:
    def wrong() -> str:
        raise CommandError("a path is missing; give one")

    add(log, "wrong", wrong, together=True)
    add(log, "right", lambda: "right", together=True)
    agent = log.agent("default")
    play(agent, "right", "wrong", "right")
    assert [text for _, text in results(agent)] == ["right", "Error: a path is missing; give one", "right"]
    errors = [
        bool((each.data or {}).get("is_error")) for each in agent.context().messages if each.kind == "tool_result"
    ]
    assert errors == [False, True, False]


def test_a_tool_that_fails_in_its_own_way_does_not_end_the_turn(log: Log) -> None:
    def leaves() -> str:
        sys.exit(3)

    add(log, "odd", lambda: [][0], together=True)
    add(log, "leaves", leaves, together=True)
    add(log, "none", lambda: None, together=True)  # type: ignore[arg-type, return-value]
    agent = log.agent("default")
    play(agent, "odd", "leaves", "none")
    assert [text for _, text in results(agent)] == [
        "Error: odd failed: IndexError: list index out of range",
        "Error: leaves failed: SystemExit: 3",
        "Error: none answered with a NoneType instead of a text",
    ]
    assert agent.open_turn is None


def test_a_database_that_fails_in_one_ends_the_turn_and_the_others_are_told(log: Log) -> None:
    told, begun, fails = Event(), Event(), iter([True])

    def broken() -> str:
        """Return a result that cannot be recorded."""
        assert begun.wait(LIMIT)
        connection(log).set_commit_hook(lambda: next(fails, False))
        return "seen"

    def waits() -> str:
        ended = Event()
        with CURRENT.get().ended_by(ended.set):
            begun.set()
            assert ended.wait(LIMIT)
        told.set()
        return "told"

    add(log, "broken", broken, together=True)
    add(log, "waits", waits, together=True)
    agent = log.agent("default")
    with pytest.raises(StoreError):
        play(agent, "broken", "waits")
    assert told.is_set()
    assert agent.open_turn is None


def test_a_cancelled_turn_waits_for_all_that_run_and_begins_no_other(log: Log) -> None:
    begun, later = Barrier(3, timeout=LIMIT), list[str]()

    def waits() -> str:
        ended = Event()
        with CURRENT.get().ended_by(ended.set):
            begun.wait()
            assert ended.wait(LIMIT)
        return "cut short"

    def runs() -> str:
        later.append("ran")
        return "ran"

    add(log, "waits", waits, together=True)
    add(log, "later", runs, together=False)
    agent = log.agent("default")

    async def cancelled() -> None:
        task = asyncio.create_task(
            turn(agent, Calls("waits", "waits", "later"), "go", Shown(lambda _: None, lambda _: None))
        )
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert results(agent) == [("c0", "cut short"), ("c1", "cut short")]
    assert later == []
    assert agent.open_turn is None
    # The model sees the call that never ran as interrupted, so the request stays valid.
    sent = agent.request("openai", "gpt-5").body["messages"]
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ["c0", "c1", "c2"]
