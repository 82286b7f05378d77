"""Harmful text in every field of every screen: it is shown, never obeyed."""

from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest
from driven import Driven, run
from textual.screen import Screen
from textual.widgets import Input, OptionList

from foldmark.chat.approvals import Approval
from foldmark.core.errors import CommandError
from foldmark.log import Agent, Log
from foldmark.operations.effects import Permission
from foldmark.terminal.dialogs import ApprovalDialog, Asked, Question
from foldmark.terminal.panels import Panel
from foldmark.terminal.review import ReviewPanel
from foldmark.terminal.side_screens.conversations import ConversationsScreen
from foldmark.terminal.side_screens.find import FindScreen
from foldmark.terminal.side_screens.rows import RowList
from sampled import DEEP

HARM = {
    "escape": "zulu\x1b[31mred\x1b]0;title\x07\x9b2J\x08",
    "bidi": "zulu\u202edcba\u2066x\u2069\u2028line",
    "markup": "zulu[bold red]x[/] [@click=app.leave]y[/] [link=file:///etc]z[/link] [/nothing]",
    "all": "zulu\x1b[31m\u202e\u2028[/][@click=app.leave]y[/]\x07\x9b2J\x08\u2066\u2069[link=file:///etc]z[/link]\x1b]0;title\x07",
}
TEXTS = HARM if DEEP else {"all": HARM["all"]}
FORBIDDEN = {*"\x1b\x07\x08\x9b\u202e\u2066\u2069\u2028\n\t"}


def hostile(log: Log, harm: str) -> Agent:
    """Return a conversation with the text in every field that accepts it."""
    agent = log.agent("notes")
    named(agent, f"/rename {harm}")
    agent.append("user", harm)
    agent.append_tool_call(harm, {"path": harm, harm: [harm]}, call_id="1")
    agent.append_tool_result("1", harm)
    agent.append("assistant", harm)
    agent.end_turn()
    for kind in ("state", "scratchpad"):
        agent.record(kind, f"Goal: {harm}", actor="model")
    named(agent, f"/mark {harm}")
    named(agent, f"/memo add {harm} #tag")
    for number in range(3):
        agent.append("user", f"{harm} {number}")
        agent.append("assistant", f"About {harm}")
        agent.end_turn()
    named(agent, f"/context drop {agent.context().messages[-1].turn_id} -- {harm}")
    named(agent, f"/summarize --text {harm}")
    child = log.agent(agent.do("/fork").data["child"])
    child.append("user", harm)
    child.end_turn()
    named(child, f"/send {agent.id} {harm}")
    named(agent, f"/config set system={harm}")
    return agent


def named(agent: Agent, line: str) -> None:
    """Run a command with a text that it may refuse."""
    with suppress(CommandError):
        agent.do(line)


def harmless(chat: Driven) -> str:
    """Check every cell of the screen, and return its text."""
    strips = chat.app.screen._compositor.render_strips()
    for strip in strips:
        assert not FORBIDDEN & {*strip.text}
        for segment in strip:
            if segment.style is not None:
                assert segment.style.link is None
                assert "leave" not in str(segment.style.meta.get("@click", ""))
    return "\n".join(strip.text for strip in strips)


async def each_screen(chat: Driven) -> None:
    """Open and check one screen after the other."""

    async def at(*keys: str, shows: str = "zulu", leave: bool = True) -> None:
        await chat.press(*keys)
        await chat.until(lambda: shows in harmless(chat))
        await chat.still()
        harmless(chat)
        if leave:
            await chat.press("escape")

    await at("tab", "home", leave=False)
    await at("enter")
    chat.app.chat.prompt.focus()
    await at("f2", leave=False)
    chat.app.screen.query_one(RowList).focus()
    await at("enter")
    await at("escape")
    await chat.until(lambda: chat.app.screen is chat.app.chat)
    for key in ("f3", "f4"):
        await at(key, leave=False)
        options = chat.app.chat.query_one(Panel).query_one(OptionList)
        for row in range(options.option_count):
            options.highlighted = row
            await chat.still()
            harmless(chat)
        await chat.press("escape")
        chat.app.chat.prompt.focus()
    await at("f5", shows=" of ", leave=False)
    for key in ("left", "left", "home", "d", "end", "tab", "tab"):
        await chat.press(key)
        await chat.still()
        harmless(chat)
    await chat.press("escape")
    await chat.until(lambda: chat.app.screen is chat.app.chat)
    await chat.type("/resume")
    await chat.until(lambda: isinstance(chat.app.screen, ConversationsScreen))
    await at(shows="(this one)")
    await chat.until(lambda: chat.app.screen is chat.app.chat)
    await chat.press("f6")
    await chat.until(lambda: isinstance(chat.app.screen, FindScreen) and chat.app.screen.query(Input))
    chat.app.screen.query_one(Input).value = "zulu*"
    await chat.until(lambda: "zulu" in harmless(chat))
    await chat.still()
    harmless(chat)
    await chat.press("escape")


@pytest.mark.parametrize("harm", TEXTS.values(), ids=TEXTS)
def test_harmful_text_stays_text_on_every_screen(log: Log, harm: str) -> None:
    run(hostile(log, harm), each_screen)


async def opened(chat: Driven, dialog: Screen[Any]) -> None:
    """Open a dialog, check it and close it."""
    chat.app.push_screen(dialog)
    await chat.until(lambda: chat.app.screen is dialog and "zulu" in harmless(chat))
    await chat.press("escape")
    await chat.until(lambda: chat.app.screen is chat.app.chat)


@pytest.mark.parametrize("harm", TEXTS.values(), ids=TEXTS)
def test_harmful_text_stays_text_in_reviews_dialogs_and_notices(log: Log, harm: str) -> None:
    agent = hostile(log, harm)

    async def look(chat: Driven) -> None:
        await chat.type("/forget zulu")
        await chat.until(lambda: chat.app.chat.query(ReviewPanel) and "Anything else you type" in harmless(chat))
        assert "zulu" in harmless(chat)
        await chat.press("enter")
        await chat.still()
        harmless(chat)
        await chat.press("escape")
        await chat.until(lambda: chat.app.screen is chat.app.chat)
        chat.app.chat.prompt.focus()
        await chat.type("/cancel")
        await chat.until(lambda: not chat.app.chat.query(ReviewPanel))
        approval = Approval(agent, Permission(harm, f"run {harm}", {harm: harm, "old_string": harm, "new_string": "a"}))
        await opened(chat, ApprovalDialog(Asked(approval, Future())))
        await opened(chat, Question(harm))
        chat.app.chat.approval.announce(approval, Future())
        await chat.until(lambda: "asks to use" in harmless(chat))
        chat.app.chat.prompt.insert(harm)
        await chat.still()
        harmless(chat)

    run(agent, look)
