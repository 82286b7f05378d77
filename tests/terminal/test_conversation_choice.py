"""The choice of a conversation: before the chat, and in it with `/resume`."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from driven import Driven, driven, open_log, sample
from golden import check
from tmux import Tmux, environment

from foldmark.log import Agent, Log
from foldmark.providers.offline import OfflineModel
from foldmark.terminal.application import ChatApplication
from foldmark.terminal.side_screens.conversations import HINT, ConversationsScreen

PROGRAM = str(Path(sys.executable).with_name("foldmark"))


def talks(log: Log) -> Agent:
    """Return the last used of three conversations; one more is archived."""
    sample(log)
    for name, text in (("old plans", "Where do the plans go?"), ("tests", "Why is the test of dates slow?")):
        agent = log.agent(name)
        agent.append("user", text)
        agent.append("assistant", "I do not know.")
        agent.end_turn()
    log.agent("gone").do("/session archive gone")
    return agent


@asynccontextmanager
async def choosing(log: Log, chosen: list[Agent], size: tuple[int, int] = (80, 24)) -> AsyncIterator[Driven]:
    """Run the application up to the choice of a conversation; at the end of the block it has to be over."""
    app = ChatApplication(talks(log), lambda _: OfflineModel(), chosen=chosen.append)
    try:
        async with app.run_test(size=size) as pilot:
            chat = Driven(app, pilot)
            await chat.until("of 3 conversations")
            await chat.still()
            yield chat
            await chat.until(lambda: app.ended)
    finally:
        app.end()


def test_the_screen_of_the_choice_comes_before_the_chat(log: Log) -> None:
    chosen: list[Agent] = []

    async def choose() -> None:
        async with choosing(log, chosen) as chat:
            rows = [line.strip() for line in chat.screen.split("\n") if " · offline" in line]
            assert [row.split("  ")[0] for row in rows] == ["tests", "old plans", "notes"]
            assert rows[0] == "tests  2026-03-02 09:00 · 2 messages · offline"
            assert "    Why is the test of dates slow?" in chat.screen
            assert "    Now the simple way: a module per format." in chat.screen
            assert "gone" not in chat.screen
            check(chat.app, "conversations")
            await chat.press("down", "enter")
            await chat.until("Conversation 'old plans', 2 messages sent")
            await chat.type("hello there")
            await chat.until("I am the offline model")
            chat.app.action_leave()

    asyncio.run(choose())
    assert chosen == [log.agent("old plans")]
    assert log.agent("old plans").context().messages[2].content == "hello there"


def test_typing_filters_and_what_nothing_fits_names_a_new_conversation(log: Log) -> None:
    chosen: list[Agent] = []

    async def choose() -> None:
        async with choosing(log, chosen) as chat:
            await chat.press(*"simple")
            await chat.until("1 of 3 conversations")
            assert "notes  " in chat.screen
            await chat.press("ctrl+u", *"my ", *"talk")
            await chat.until("0 of 3 conversations")
            await chat.until("New conversation “my talk”")
            await chat.press("enter")
            await chat.until("Conversation 'my talk', no messages yet")
            chat.app.action_leave()

    asyncio.run(choose())
    assert chosen == [log.agent("my talk")]


def test_a_name_that_cannot_be_taken_stays_typed(log: Log) -> None:
    chosen: list[Agent] = []

    async def choose() -> None:
        async with choosing(log, chosen) as chat:
            await chat.press("end", "pagedown", "enter")
            await chat.until(f"{HINT}, then Enter")
            await chat.press(*"gone", "enter")
            await chat.until("a conversation 'gone' already exists; choose another name")
            assert chat.screen.split("\n")[0] == " gone"
            await chat.press("2", "enter")
            await chat.until("Conversation 'gone2', no messages yet")
            chat.app.action_leave()

    asyncio.run(choose())


@pytest.mark.parametrize("key", ["escape", "ctrl+c", "ctrl+q"])
def test_without_a_choice_nothing_is_opened(log: Log, key: str) -> None:
    chosen: list[Agent] = []

    async def leave() -> None:
        async with choosing(log, chosen) as chat:
            await chat.press("f7", key)

    asyncio.run(leave())
    assert chosen == []
    assert len(log.agents()) == 4


def test_resume_opens_the_same_choice_in_the_chat(log: Log) -> None:
    async def choose() -> None:
        async with driven(talks(log)) as chat:
            for keys, shown in (
                (("escape",), "tests · offline"),
                ((*"plans", "enter"), "Switched to conversation 'old plans'"),
                ((*"newer", "enter"), "New conversation 'newer'"),
            ):
                await chat.type("/resume")
                await chat.until(lambda: isinstance(chat.app.screen, ConversationsScreen))
                await chat.until("(this one)")
                await chat.press(*keys)
                await chat.until(lambda: chat.app.screen is chat.app.chat)
                await chat.until(shown)
            await chat.type("/resume notes")
            await chat.until("Switched to conversation 'notes'")

    asyncio.run(choose())


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux, a terminal to test with, is missing")
def test_a_bare_chat_opens_the_only_conversation_and_asks_if_there_are_several(tmp_path: Path) -> None:
    env = environment(tmp_path, tmp_path / "log.db", FOLDMARK_OFFLINE_DELAY="0")
    with open_log(tmp_path / "log.db") as log:
        log.agent("notes").append("user", "a note")
        with Tmux(tmp_path, PROGRAM, "chat", env=env) as tmux:
            tmux.until("Conversation 'notes', 1 message")
        log.agent("plans").append("user", "a plan")
        with Tmux(tmp_path, PROGRAM, "chat", "--model", "offline", env=env) as tmux:
            tmux.until("2 of 2 conversations", "a plan")
            tmux.press("n", "o", "t", "e", "Enter")
            tmux.until("Conversation 'notes', 1 message")
        assert [each.name for each in log.agents()] == ["notes", "plans"]
