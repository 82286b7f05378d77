"""Questions and approvals: typed text never answers them by accident, and the whole question can be read."""

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from pathlib import Path
from threading import Thread

from driven import Driven, driven, sample
from golden import check

from foldmark.chat.approvals import Approval
from foldmark.core.request import Piece, Request, ToolCall
from foldmark.log import Agent, Log
from foldmark.operations.effects import Permission
from foldmark.terminal.dialogs import ApprovalDialog, Asked, Question
from foldmark.terminal.theme import DARK, LIGHT
from foldmark.tools.working.paths import work_in
from scripted import ScriptedProvider

COMMAND = "\n".join(["echo ran >> ran.txt", *(f"echo line {n}" for n in range(1, 41)), "echo the last line"])


class Caller(ScriptedProvider):
    """A model that runs a command for every text, then says `Done.`"""

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        if request.body["messages"][-1]["role"] == "user":
            yield ToolCall(f"c{len(request.body['messages'])}", "bash", {"command": COMMAND})
        else:
            yield "Done."


def test_an_approval_is_opened_by_a_key_and_scrolls(log: Log, tmp_path: Path) -> None:
    async def answer() -> None:
        async with driven(log.agent("notes"), lambda _: Caller(), size=(80, 24)) as chat:
            await chat.type("go")
            await chat.until("F8 answer")
            await chat.press("y", "a")  # typed into the prompt, so no answer
            assert chat.app.chat.prompt.text == "ya"
            assert not (tmp_path / "ran.txt").exists()
            await chat.press("f8")
            await chat.until(lambda: isinstance(chat.app.screen, ApprovalDialog))
            await chat.until("asks to use bash")
            assert "the last line" not in chat.screen
            assert "Always and never: exactly this command in this folder, in this" in chat.screen
            await chat.press("end")
            await chat.until("echo the last line")
            await chat.press("y")
            await chat.until("Done.")
            assert "F8" not in chat.screen

    work_in(log, tmp_path)
    asyncio.run(answer())
    assert (tmp_path / "ran.txt").read_text() == "ran\n"


def test_escape_is_a_no(log: Log, tmp_path: Path) -> None:
    async def answer() -> None:
        async with driven(log.agent("notes"), lambda _: Caller()) as chat:
            await chat.type("go")
            await chat.until("F8 answer")
            await chat.press("f8", "escape")
            await chat.until("Done.")

    work_in(log, tmp_path)
    asyncio.run(answer())
    assert "did not allow" in [each.content for each in log.agent("notes").context().messages][2]
    assert not (tmp_path / "ran.txt").exists()


def test_an_interrupted_turn_withdraws_its_question_and_closes_the_dialog(log: Log, tmp_path: Path) -> None:
    async def interrupt(chat: Driven, text: str, *keys: str) -> None:
        await chat.type(text)
        await chat.until("F8 answer")
        await chat.press(*keys)
        await chat.press("ctrl+c")
        await chat.until(lambda: chat.app.screen is chat.app.chat)
        await chat.until("(interrupted")
        await chat.until(lambda: "F8 answer" not in chat.screen)

    async def answer() -> None:
        async with driven(log.agent("notes"), lambda _: Caller()) as chat:
            await interrupt(chat, "go")
            await interrupt(chat, "go again", "f8", "f1")

    work_in(log, tmp_path)
    asyncio.run(answer())
    assert not (tmp_path / "ran.txt").exists()


def test_the_questions_of_several_agents_wait_behind_each_other(log: Log) -> None:
    """Two agents of one conversation and one of another ask at the same time; each gets its own answer."""
    notes = log.agent("notes")
    child = log.agent(notes.do("/fork").data["child"])
    other = log.agent("other")
    answers: dict[str, str] = {}

    async def answer() -> None:
        async with driven(notes) as chat:
            controller = chat.app.controller

            def ask(agent: Agent) -> None:
                approve = controller.asking(agent).approve
                assert approve is not None
                answers[agent.id] = approve(Permission("bash", f"run {agent.id[-4:]}"))

            threads = [Thread(target=ask, args=(each,)) for each in (child, other)]
            for number, thread in enumerate(threads):
                thread.start()
                await chat.until("F8 answer" if not number else "1 more question")
            await chat.press("f8", "y")
            await chat.until(lambda: "1 more question" not in chat.screen and "run " in chat.screen)
            await chat.press("y", "f8", "f8", "n")  # a second key opens no second dialog
            await chat.until(lambda: len(answers) == 2)
            for thread in threads:
                thread.join()

    asyncio.run(answer())
    assert answers == {child.id: "yes", other.id: "no"}


def test_the_dialog_of_an_approval(log: Log, tmp_path: Path) -> None:
    agent = log.agent("notes")
    work_in(log, tmp_path)
    file = tmp_path / "src" / "export" / "registry.py"
    file.parent.mkdir(parents=True)
    file.write_text("import csv\n" + "\n" * 97 + "EXPORTERS = {}\nadd(csv)\n")
    edit = {
        "path": "src/export/registry.py",
        "edits": [{"oldText": "EXPORTERS = {}\nadd(csv)\n", "newText": "EXPORTERS = {'csv': csv}\nadd(csv)\n"}],
        "dryRun": False,
        "note": "evil \x1b[2J",
    }

    permission = Permission("mcp__fs__edit_file", "call …", edit, "every use of mcp__fs__edit_file")

    def colour(chat: Driven, text: str) -> str:
        segments = (segment for row in chat.lines for strip in row for segment in strip)
        style = next(segment.style for segment in segments if text in segment.text)
        assert style is not None
        assert style.color is not None
        return style.color.get_truecolor().hex

    async def look() -> None:
        async with driven(sample(log), size=(80, 24)) as chat:
            chat.app.push_screen(ApprovalDialog(Asked(Approval(agent, permission), Future())))
            await chat.until(" 99 -     EXPORTERS = {}")
            assert " 99 +     EXPORTERS = {'csv': csv}" in chat.screen
            assert "100       add(csv)" in chat.screen
            for theme in (LIGHT, DARK):
                chat.app.theme = theme.name
                await chat.still()
                assert colour(chat, "99 - ") == theme.variables["removed"]
                assert colour(chat, "99 + ") == theme.variables["added"]
            assert "evil \\x1b[2J" in chat.screen
            assert "Always and never: every use of mcp__fs__edit_file, in this" in chat.screen
            await chat.still()
            check(chat.app, "approval")

    asyncio.run(look())


def test_a_question_takes_y_and_enter_and_nothing_that_is_typed(log: Log) -> None:
    agent = sample(log)
    turn = next(message.turn_id for message in agent.context().messages)
    assert turn is not None
    before = len(agent.context().messages)

    async def ask(chat: Driven, *keys: str) -> None:
        await chat.type(f"/message remove {turn}")
        await chat.until(lambda: isinstance(chat.app.screen, Question))
        await chat.press(*keys)
        await chat.until(lambda: chat.app.screen is chat.app.chat)

    async def answer() -> None:
        async with driven(agent, size=(80, 24)) as chat:
            await ask(chat, *"yes", "enter")
            await chat.until("not confirmed; nothing was changed")
            await ask(chat, "y", "escape")
            await chat.type(f"/message remove {turn}")
            await chat.until("▸ no")
            await chat.still()
            check(chat.app, "question")
            await chat.press("y", "enter")
            await chat.until("erased")

    asyncio.run(answer())
    assert len(log.agent("notes").context().messages) == before - 4
