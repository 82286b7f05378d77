"""The moment of forgetting (SPEC 4.2): with a model that calls tools, one that answers in words, one without tools."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator

import pytest

import foldmark
from foldmark import CommandError
from foldmark.core.request import Piece, Request, ToolCall
from foldmark.log import Agent, Log, Result
from foldmark.runtime.loop import NO_TOOLS, ONLY_WORDS, Shown, turn
from planning_talk import IN_CHAT
from scripted import ScriptedProvider

ENDED = "Planning has ended; nothing was forgotten."
SAID = ("api contract one", "my salary is 100", "api contract two", "lunch is at noon", "api contract three")
ONE, SALARY, TWO, LUNCH, THREE = SAID


class Tools(ScriptedProvider):
    """A model that previews when it is asked to forget or to remember, and whenever somebody says "also"."""

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        messages = request.body["messages"]
        newest = str(messages[-1]["content"])
        if messages[-1]["role"] == "user" and newest.startswith(("/forget", "/remember", "also")):
            more = {"criteria": f"api contract, {newest.removeprefix('also ')}"} if newest.startswith("also") else {}
            yield ToolCall(f"c{len(messages)}", "filter_context", {"action": "preview", **more})
        else:
            yield "Well."


class Words(ScriptedProvider):
    """A model that never calls a tool."""

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        yield "I have forgotten everything."


MODELS: dict[str, Callable[[], ScriptedProvider]] = {"tools": Tools, "words": Words, "none": Words}


class Dialogue:
    """A conversation of five turns in one program, with one of the models."""

    def __init__(self, log: Log, model: str) -> None:
        self.agent: Agent = log.agent("default")
        self.model, self.shown = MODELS[model](), list[str]()
        with self.agent.batch():
            for text in SAID:
                self.agent.append("user", text)
                self.agent.append("assistant", "Noted.")
                self.agent.end_turn()
        self.ids = {message.content: message.id for message in self.agent.context().messages}
        if model == "none":
            self.agent.configure("tools", "none")

    def says(self, *lines: str) -> str:
        """Say lines, as in a chat. Return what Foldmark said to the last one."""
        for line in lines:
            self.shown.clear()
            typed = None if line.startswith("/") else line
            if typed is None:
                self.agent.do(line, asking=IN_CHAT)
            show = Shown(lambda _: None, lambda _: None, result=self._take)
            asyncio.run(turn(self.agent, self.model, typed, show))
        return "\n".join(self.shown)

    def _take(self, result: Result) -> None:
        self.shown.append(result.text)

    @property
    def left(self) -> list[str]:
        """The five texts, as far as they are in the context."""
        found = {message.content for message in self.agent.context().messages}
        return [text for text in SAID if text in found]


@pytest.fixture(params=[*MODELS])
def dialogue(request: pytest.FixtureRequest) -> Iterator[Dialogue]:
    with foldmark.open(":memory:", settings={}) as log:
        yield Dialogue(log, request.param)


def test_the_preview_is_there_before_the_person_types(dialogue: Dialogue, request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["dialogue"]
    shown = dialogue.says("/forget api contract")
    lines = [line for line in shown.splitlines() if line.startswith("  ")]
    assert [line[:5] for line in lines[:3]] == ["  1. ", "  2. ", "  3. "]
    assert all(": api contract" in line and "(2 messages" in line for line in lines[:3])
    assert {
        "tools": "matched by words" not in shown,
        "words": f"(matched by words: {ONLY_WORDS})" in shown,
        "none": f"(matched by words: {NO_TOOLS})" in shown,
    }[kind]
    assert dialogue.left == [*SAID]


@pytest.mark.parametrize(
    ("line", "answers", "left"),
    [
        ("/forget api contract", ["Yes, forget these 6 messages"], [SALARY, LUNCH]),
        ("/forget api contract", ["sure, go"], [SALARY, LUNCH]),
        ("/forget api contract", ["no thanks"], [*SAID]),
        ("/forget api contract", ["all but 2"], [SALARY, TWO, LUNCH]),
        ("/forget api contract", ["keep 2"], [SALARY, TWO, LUNCH]),
        ("/forget api contract", ["1 and 3"], [SALARY, TWO, LUNCH]),
        ("/forget api contract", ["the first"], [SALARY, TWO, LUNCH, THREE]),
        ("/forget api contract", ["all of them are about billing, why?", "fine by me"], [SALARY, LUNCH]),
        ("/forget api contract", ["Yes, and then fix the parser", "no"], [*SAID]),
        ("/forget api contract", ["Yes, forget these 7 messages", "all of them"], [SALARY, LUNCH]),
        (
            "/forget api contract",
            ["show me what you will forget first", "which ones?", "Yes, proceed"],
            [SALARY, LUNCH],
        ),
        (
            "/forget api contract",
            ["fine, but keep the first one", "what stays?", "all but the first"],
            [ONE, SALARY, LUNCH],
        ),
        ("/forget api contract", ["What is the weather like in Oslo?", "yes"], [*SAID]),
        ("/remember api contract", ["all of them"], [ONE, TWO, THREE]),
        ("/remember api contract", ["keep 2"], [TWO]),
        ("/remember api contract", ["forget 2"], [ONE, THREE]),
        ("/remember api contract", ["everything", "yes"], [ONE, TWO, THREE]),
    ],
)
def test_what_the_answers_do(dialogue: Dialogue, line: str, answers: list[str], left: list[str]) -> None:
    dialogue.says(line, *answers)
    assert dialogue.left == left
    assert dialogue.agent.open_turn is None


def test_ids_are_answers_as_well(dialogue: Dialogue) -> None:
    first = dialogue.ids[ONE]
    assert "4 messages about" in dialogue.says("/forget api contract", f"except messages {first}-{first + 1}")
    assert dialogue.left == [ONE, SALARY, LUNCH]
    assert "1 message about" in dialogue.says("/forget api contract", f"all but message {first}")
    assert dialogue.left == [ONE, SALARY, LUNCH]


def test_numbers_that_were_not_shown_leave_the_offer_open(dialogue: Dialogue) -> None:
    dialogue.says("/forget api contract")
    with pytest.raises(CommandError, match=r"there is no range 4; the ranges are 1 to 3\. The offer is still open"):
        dialogue.says("all but 4")
    dialogue.says("yes")
    assert dialogue.left == [SALARY, LUNCH]


def test_an_answer_in_doubt_is_asked_about_once(dialogue: Dialogue) -> None:
    assert "yes or no?" in dialogue.says("/forget api contract", "Yes, and then fix the parser")
    assert ENDED in dialogue.says("Yes, and then fix the parser")
    assert dialogue.left == [*SAID]


def test_other_criteria_need_a_model_that_previews(dialogue: Dialogue, request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["dialogue"]
    shown = dialogue.says("/forget api contract", "also lunch")
    if kind == "tools":
        assert shown.startswith("Forget 8 messages")
    else:
        assert "/forget with other words looks again" in shown
    assert dialogue.left == [*SAID]
