"""The line that says what an answer does: with its seconds and tokens, from one timer that ends with the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from threading import Event

import pytest
from driven import driven

from foldmark.core.request import Piece, Request, Thought, ToolCall, Waiting
from foldmark.log import Log
from foldmark.providers.offline import OfflineModel
from foldmark.terminal.scrollback.answer import STILL, TURNS, Answer
from foldmark.terminal.scrollback.drawing import Loose
from scripted import ScriptedProvider


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def status(answer: Answer) -> str:
    last = answer.entries[-1]
    assert isinstance(last, Loose)
    return last.text


def test_each_kind_of_work_has_its_words_and_its_seconds() -> None:
    clock = Clock()
    answer = Answer(0, clock)
    assert status(answer) == f"{STILL} waiting for the model …"
    clock.now += 2.9
    assert status(answer) == f"{STILL} waiting for the model … 2 s"
    answer.add_piece(Thought("x" * 400))
    assert status(answer) == f"{STILL} thinking … 2 s · ~100 tokens"
    clock.now += 10
    for _ in range(960):
        answer.add_text("é")
    assert status(answer) == f"{STILL} streaming … 12 s · ~580 tokens"
    answer.add_call(ToolCall("c1", "bash", {"command": "ls"}))
    assert status(answer) == f"{STILL} bash is running …"
    clock.now += 3
    assert status(answer) == f"{STILL} bash is running … 3 s"
    answer.add_returned(ToolCall("c1", "bash", {"command": "ls"}), "text")
    assert status(answer) == f"{STILL} waiting for the model … 15 s · ~580 tokens"
    answer.add_piece(Waiting(5, "The provider is busy."))
    assert status(answer) == f"{STILL} The provider is busy; asking again in 5 s"


def test_the_sign_turns_with_the_clock() -> None:
    clock = Clock()
    answer = Answer(0, clock, animated=True)
    seen = []
    for _ in range(20):
        seen.append(status(answer)[0])
        clock.now += 0.1
    assert {*seen} == {*TURNS}


@pytest.mark.parametrize("level", ["none", "full"])
def test_the_line_goes_on_while_nothing_comes_and_its_timer_ends(log: Log, level: str) -> None:
    clock = Clock()

    async def talk() -> None:
        async with driven(log.agent("notes"), lambda _: OfflineModel(delay=3600)) as chat:
            chat.app.animation_level = "none" if level == "none" else "full"
            transcript = chat.app.chat.transcript
            transcript.clock = clock
            await chat.type("hello")
            await chat.until("streaming …")
            assert (f"{STILL} streaming" in chat.screen) is (level == "none")
            clock.now += 12
            await chat.until("streaming … 12 s · ~1 token")
            assert transcript._ticking is not None
            await chat.press("escape")
            await chat.until("(interrupted")
            await chat.until(lambda: transcript._ticking is None)
            await chat.until(lambda: "streaming" not in chat.screen)

    asyncio.run(talk())


def test_the_output_of_a_command_stands_above_the_stream(log: Log) -> None:
    model = Steps()

    async def talk() -> None:
        async with driven(log.agent("notes"), lambda _: model, size=(100, 20)) as chat:
            await chat.type("hello")
            await chat.until("First words.")
            await chat.type("/context show")
            await chat.until("6 more lines · Enter opens")
            await chat.type("/nothing")
            await chat.until("there is no command /nothing")
            lines = [line.strip() for line in chat.screen.splitlines()]
            stream = next(at for at, line in enumerate(lines) if "streaming …" in line)
            assert {*lines[stream + 1 : -3]} <= {""}
            model.goes_on.set()
            await chat.until("Second words.")
            await chat.until(lambda: chat.app.idle)
            await chat.still()
            shown = chat.screen
            assert shown.index("there is no command") < shown.index("First words. Second words.")
            assert "streaming" not in shown
            await chat.press("tab", "home")
            await chat.still()
            assert chat.screen.index("hello") < chat.screen.index("The next request to offline")

    asyncio.run(talk())


class Steps(ScriptedProvider):
    """A model that goes on when it is told to."""

    def __init__(self) -> None:
        self.goes_on = Event()

    async def answer(self, request: Request) -> AsyncGenerator[Piece]:
        yield "First words."
        while not self.goes_on.is_set():
            await asyncio.sleep(0.01)
        yield " Second words."
