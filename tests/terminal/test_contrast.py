"""Every text of every screen can be read on its background, in both themes (WCAG 2.1, 1.4.3 and 1.4.11)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

import pytest
from driven import Driven, driven, sample
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from foldmark.chat.approvals import Approval
from foldmark.core.wording import FINAL
from foldmark.log import Log
from foldmark.operations.effects import Permission
from foldmark.terminal.dialogs import ApprovalDialog, Asked, Question
from foldmark.terminal.panels import Panel
from sampled import DEEP

TEXT, DECORATION = 4.5, 3.0
"""Minimum contrast of letters, and of lines, blocks and bars."""

KEYS = {"keys": "f1", "turns": "f2", "agents": "f3", "state": "f4", "time": "f5", "find": "f6"}


def contrast(one: ColorTriplet, other: ColorTriplet) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    light, dark = sorted((_luminance(each) for each in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: ColorTriplet) -> float:
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def weak(chat: Driven) -> list[str]:
    """Return the texts of the screen with too little contrast, without what a dialog dims behind it."""
    found = []
    regions = [child.region for child in chat.app.screen.children]
    for y, row in enumerate(chat.lines):
        x = 0
        for segment in (segment for strip in row for segment in strip):
            inside = any(region.contains(x, y) for region in regions)
            x += segment.cell_length
            if not inside or not segment.text.strip():
                continue
            shown = contrast_of(segment)
            least = TEXT if any(char.isalnum() for char in segment.text) else DECORATION
            if shown < least:
                found.append(f"{shown:.1f} {segment.text!r} {segment.style}")
    return found


def contrast_of(segment: Segment) -> float:
    style = segment.style or Style()
    assert style.color is not None, f"{segment.text!r} has no colour of the theme"
    assert style.bgcolor is not None
    front, back = Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)
    if style.reverse:
        front, back = back, front
    if style.dim:
        front = front.blend(back, 0.5)
    return contrast(front.rich_color.get_truecolor(), back.rich_color.get_truecolor())


def test_the_contrast_of_black_and_white() -> None:
    assert contrast(ColorTriplet(0, 0, 0), ColorTriplet(255, 255, 255)) == pytest.approx(21)
    assert contrast(ColorTriplet(119, 119, 119), ColorTriplet(255, 255, 255)) == pytest.approx(4.48, abs=0.01)


async def _keys(chat: Driven, *keys: str) -> None:
    for key in keys:
        await chat.press(key)
        await chat.still()


async def _typed(chat: Driven, line: str) -> None:
    items = len(chat.app.chat.transcript._items)
    await chat.type(line)
    await chat.until(lambda: len(chat.app.chat.transcript._items) > items and chat.app.idle)


async def _approval(chat: Driven) -> None:
    edit = {"path": "a.py", "old_string": "a\nb", "new_string": "a\nc"}
    permission = Permission("edit", "call edit", edit, "every use of edit")
    chat.app.push_screen(ApprovalDialog(Asked(Approval(chat.app.chat.agent, permission), Future())))
    await chat.until("Always and never")


async def _choice(chat: Driven) -> None:
    await chat.type("/resume")
    await chat.until("1 of 1 conversation")


async def _asked(chat: Driven) -> None:
    chat.app.push_screen(Question(f"Erase turn 1? {FINAL}"))
    await chat.until(FINAL)


async def _told(chat: Driven) -> None:
    chat.app.notify("There is no operation to restore.")
    await chat.still()


async def _opened(chat: Driven) -> None:
    await _keys(chat, "tab", "home", "down", "down", "enter", "enter")


SCREENS: dict[str, Callable[[Driven], Awaitable[object]]] = {
    "chat": lambda chat: chat.still(),
    **{name: lambda chat, key=key: _keys(chat, key) for name, key in KEYS.items()},  # type: ignore[misc]
    "a turn": lambda chat: _keys(chat, "f2", "enter"),
    "ticked turns": lambda chat: _keys(chat, "f2", "space", "space", "e"),
    "found": lambda chat: _keys(chat, "f6", "t", "a", "g", "s", "enter"),
    "an event": lambda chat: _keys(chat, "f5", "g"),
    "completion": lambda chat: _keys(chat, "/", "c", "o"),
    "history": lambda chat: _keys(chat, "ctrl+r", "f"),
    "a receipt": lambda chat: _typed(chat, "/mark HERE"),
    "conversations": _choice,
    "an approval": _approval,
    "output": lambda chat: _typed(chat, "/context show"),
    "help": lambda chat: _typed(chat, "/help"),
    "an error": lambda chat: _typed(chat, "/context drop 99999"),
    "a review": lambda chat: _typed(chat, "/forget messages 4, 14, 20"),
    "opened results": _opened,
    "a question": _asked,
    "a notice": _told,
    "what can be done": lambda chat: _keys(chat, "tab", "home", "down", "enter", "down"),
    "a selected line": lambda chat: _keys(chat, "tab", "up"),
}


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_text_can_be_read(log: Log, theme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One screen after the other: each in one theme, and in both in a deep run."""
    monkeypatch.setenv("COLORFGBG", "0;15" if theme == "light" else "15;0")
    names = [*SCREENS] if DEEP else [*SCREENS][theme == "light" :: 2]

    async def look() -> None:
        async with driven(sample(log)) as chat:
            for name in names:
                await chat.still()
                await SCREENS[name](chat)
                await chat.still()
                assert chat.app.theme == theme
                assert weak(chat) == [], f"{name}:\n{chat.screen}"
                while chat.app.screen is not chat.app.chat:
                    await chat.press("escape")
                    await chat.still()
                await chat.press("escape")
                await chat.app.chat.query(Panel).remove()
                chat.app.chat.prompt.focus()
                chat.app.chat.prompt.clear()

    asyncio.run(look())


def test_a_change_of_the_theme_draws_everything_anew(log: Log) -> None:
    async def look() -> None:
        async with driven(sample(log)) as chat:
            await _typed(chat, "/mark HERE")
            for theme in ("light", "dark"):
                await _keys(chat, "f9")
                assert chat.app.theme == theme
                assert weak(chat) == []

    asyncio.run(look())
