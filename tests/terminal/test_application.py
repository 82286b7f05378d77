"""The whole application: a line goes to the controller and comes back, and the screen shows the content of the log."""

import asyncio

import pytest
from driven import driven, sample, story
from golden import check
from textual.app import App
from textual.css.stylesheet import Stylesheet

from foldmark.log import Log
from foldmark.terminal.application import ChatApplication
from foldmark.terminal.theme import LIGHT


def test_a_line_is_answered_and_a_command_is_carried_out(log: Log) -> None:
    async def talk() -> None:
        async with driven(log.agent("notes")) as chat:
            await chat.type("hello there")
            await chat.until("I am the offline model")
            await chat.type("/mark HERE")
            await chat.until("Checkpoint 'HERE' created")

    asyncio.run(talk())
    context = log.agent("notes").context()
    assert [message.kind for message in context.messages] == ["user", "assistant"]
    assert list(context.marks) == ["HERE"]


def test_a_deleted_conversation_is_left_for_another(log: Log) -> None:
    async def talk() -> None:
        async with driven(log.agent("notes")) as chat:
            await chat.type("hello there")
            await chat.until("I am the offline model")
            await chat.type("/session delete notes --yes")
            await chat.until("New conversation 'default'")
            await chat.type("a new beginning")
            await chat.until("a new beginning” (user)")

    asyncio.run(talk())
    assert [each.name for each in log.agents()] == ["default"]
    assert log.agent("default").context().messages[0].content == "a new beginning"


def test_the_screen_of_the_chat(log: Log) -> None:
    async def look() -> None:
        async with driven(story(log)) as chat:
            await chat.until("■ tools")
            await chat.until("exports 501 rows")
            await chat.still()
            check(chat.app, "chat")

    asyncio.run(look())


def test_a_start_styles_with_the_theme_of_the_terminal_from_the_beginning(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A theme that is set after the start would make Textual parse and apply all styles again."""
    reparsed: list[Stylesheet] = []
    monkeypatch.setattr(Stylesheet, "reparse", reparsed.append)
    monkeypatch.setenv("COLORFGBG", "0;15")

    async def look() -> None:
        async with driven(sample(log)) as chat:
            assert chat.app.theme == LIGHT.name
            assert chat.app.theme_variables["background"] == "#FFFFFF"
            assert chat.app.has_class("-light-mode")

    asyncio.run(look())
    assert reparsed == []


def test_no_name_of_the_application_hides_one_of_textual() -> None:
    assert not vars(App()).keys() & vars(ChatApplication).keys()
