"""What is selected is seen, and Ctrl-C copies it; where nothing is selected, it interrupts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from driven import Driven, driven, sample
from test_contrast import weak

from foldmark.log import Log


def run(log: Log, act: Callable[[Driven], Awaitable[object]]) -> None:
    async def play() -> None:
        async with driven(sample(log)) as chat:
            await chat.still()
            await act(chat)

    asyncio.run(play())


def told(chat: Driven, text: str) -> bool:
    return any(text in each.message for each in chat.app._notifications)


async def _dragged(chat: Driven, line: str) -> None:
    """Drag the mouse over the whole line with this text."""
    y = next(at for at, row in enumerate(chat.screen.split("\n")) if line in row)
    x = chat.screen.split("\n")[y].index(line)
    await chat.pilot.mouse_down(offset=(x, y))
    await chat.pilot.hover(offset=(x + len(line), y))
    await chat.pilot.mouse_up(offset=(x + len(line), y))
    await chat.still()


def test_a_dragged_text_is_copied(log: Log) -> None:
    async def act(chat: Driven) -> None:
        await _dragged(chat, "Run the whole test suite.")
        assert "Run the whole test suite" in (chat.app.screen.get_selected_text() or "")
        await chat.press("ctrl+c")
        assert chat.app.clipboard.startswith("Run the whole test suite")
        await chat.until(lambda: told(chat, "Copied "))
        assert not chat.app.screen.get_selected_text()
        await chat.press("ctrl+c")
        await chat.until(lambda: told(chat, "Ctrl-C again leaves"))

    run(log, act)


def test_shift_and_an_arrow_select_whole_lines(log: Log) -> None:
    async def act(chat: Driven) -> None:
        await chat.press("tab")
        await chat.until(lambda: chat.app.chat.transcript.current is not None)
        await chat.press("up", "up", "shift+down")
        await chat.press("ctrl+c")
        await chat.until(lambda: told(chat, "Copied "))
        lines = chat.app.clipboard.split("\n")
        assert lines[0].strip()
        assert len(lines) > 1
        assert all(line in chat.screen for line in lines)

    run(log, act)


def test_a_selection_has_no_sign_before_a_line(log: Log) -> None:
    async def act(chat: Driven) -> None:
        await chat.type("first\n  second")
        await chat.until("I am the offline model")
        await chat.still()
        await _dragged(chat, "second")
        assert chat.app.screen.get_selected_text() == "second"
        chat.app.screen.clear_selection()
        chat.app.chat.transcript.focus()
        await chat.until(lambda: chat.app.chat.transcript.current is not None)
        await chat.press("shift+up", "shift+up")
        await chat.press("ctrl+c")
        await chat.until(lambda: told(chat, "Copied "))
        assert "\n  second\n" in chat.app.clipboard
        assert "▌" not in chat.app.clipboard

    run(log, act)


def test_a_selected_part_of_the_prompt_is_copied(log: Log) -> None:
    async def act(chat: Driven) -> None:
        chat.app.chat.prompt.focus()
        await chat.press(*"some words", *["shift+left"] * 5)
        await chat.press("ctrl+c")
        assert chat.app.clipboard == "words"
        assert chat.app.chat.prompt.text == "some words"
        await chat.press("right", "ctrl+c")
        assert chat.app.chat.prompt.text == ""

    run(log, act)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_selection_is_seen(log: Log, theme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15" if theme == "light" else "15;0")

    async def act(chat: Driven) -> None:
        before = [segment.style for row in chat.lines for strip in row for segment in strip]
        backgrounds = {style.bgcolor for style in before if style}
        await _dragged(chat, "FAILED tests/export/test_csv.py")
        shown = [segment for row in chat.lines for strip in row for segment in strip if "FAILED" in segment.text]
        assert any(segment.style and segment.style.bgcolor not in backgrounds for segment in shown)
        assert weak(chat) == []

    run(log, act)
