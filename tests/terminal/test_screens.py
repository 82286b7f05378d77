"""All screens: their keys are listed and bound once, and nothing is cut off in either theme or without colours."""

import asyncio
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pkgutil import walk_packages

import pytest
from driven import Driven, driven, sample, story
from golden import check
from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode

from foldmark import terminal
from foldmark.core.wording import FINAL
from foldmark.log import Agent, Log
from foldmark.terminal.dialogs import Question
from foldmark.terminal.panels import PanelScreen
from foldmark.terminal.screens import KeyLine
from foldmark.terminal.side_screens.keys import KeysScreen, places
from foldmark.terminal.theme import DARK, LIGHT, fitting
from sampled import DEEP, sampled

KEYS = {"turns": "f2", "agents": "f3", "state": "f4", "time": "f5", "find": "f6", "keys": "f1"}
COLOURS = ("dark", "light", "none")


def owners() -> list[type[DOMNode]]:
    """Return every class of the terminal that has its own keys."""
    modules = [import_module(each.name) for each in walk_packages(terminal.__path__, f"{terminal.__name__}.")]
    return [
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__ and "BINDINGS" in vars(each)
    ]


def test_all_keys_are_listed_with_what_they_do() -> None:
    listed = Counter(binding for place in places() for bindings in place.keys.values() for binding in bindings)
    own = Counter(binding for owner in owners() for binding in Binding.make_bindings(vars(owner)["BINDINGS"]))
    assert listed == own
    assert all(does for place in places() for does in place.keys)


@pytest.mark.parametrize("owner", owners(), ids=lambda owner: owner.__name__)
def test_no_key_is_bound_twice(owner: type[DOMNode]) -> None:
    """In each place, the keys of its class, of its bases and of the whole application work together."""
    bases = [each for each in owner.__mro__ if each in owners()]
    keys = [binding.key for each in bases for binding in Binding.make_bindings(vars(each)["BINDINGS"])]
    assert [key for key, number in Counter(keys).items() if number > 1] == []
    if not issubclass(owner, App):
        everywhere = next(each for each in owners() if issubclass(each, App))
        assert not {*keys} & {binding.key for binding in Binding.make_bindings(vars(everywhere)["BINDINGS"])}


def test_a_question_mark_opens_the_keys_only_while_nothing_is_typed(log: Log) -> None:
    async def ask() -> None:
        async with driven(sample(log)) as chat:
            await chat.press("question_mark")
            await chat.until(lambda: isinstance(chat.app.screen, KeysScreen))
            await chat.press("escape")
            await chat.until(lambda: chat.app.screen is chat.app.chat)
            await chat.press("a", "question_mark")
            assert chat.app.chat.prompt.text == "a?"
            await chat.press("f1")
            await chat.until(lambda: isinstance(chat.app.screen, KeysScreen))

    asyncio.run(ask())


def test_the_line_of_keys_is_composed_again_only_if_its_keys_have_changed(log: Log) -> None:
    async def ask() -> None:
        async with driven(sample(log)) as chat:
            await chat.still()
            line = chat.app.chat.query_one(KeyLine)
            composed = [*line.children]
            chat.app.refresh_bindings()
            await chat.still()
            assert composed
            assert [*line.children] == composed
            await chat.press("tab")
            await chat.until(lambda: [*line.children] != composed)

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("says", "theme"),
    [("", DARK), ("15;0", DARK), ("0;15", LIGHT), ("0;default;7", LIGHT), ("0;8", DARK), ("x;y", DARK)],
)
def test_the_theme_fits_the_terminal(says: str, theme: object) -> None:
    assert fitting({"COLORFGBG": says}) is theme


async def each_screen(chat: Driven, keys: dict[str, str]) -> None:
    """Open and check these screens, the chat and a question."""
    shown: list[str] = []
    for name, key in keys.items():
        await chat.press(key)
        await opened(chat, name.capitalize())
        await look(chat, shown)
        await chat.press("escape")
        await chat.until(lambda: chat.app.screen is chat.app.chat)
    await look(chat, shown)
    chat.app.push_screen(Question(f"Erase turn 1? {FINAL}"))
    await chat.until(FINAL)
    await look(chat, shown)
    assert len({*shown}) == len(keys) + 2


async def opened(chat: Driven, name: str) -> None:
    """Wait until the screen or the panel of this name is shown."""

    def is_shown() -> bool:
        screen = chat.app.screen
        shown = screen.panel if isinstance(screen, PanelScreen) else type(screen)
        return shown.__name__ in (f"{name}Screen", f"{name}Panel")

    await chat.until(is_shown)


async def look(chat: Driven, shown: list[str]) -> None:
    await chat.still()
    lines = next(iter(chat.app.screen.query(KeyLine)))
    assert not lines.max_scroll_x, f"the keys need more than a line:\n{chat.screen}"
    shown.append(chat.screen)


@pytest.mark.parametrize("colours", COLOURS)
def test_every_screen_fits_80_columns_in_both_themes_and_without_colours(
    log: Log, colours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The colours do not change the layout: each screen is opened in one of them, and in all in a deep run."""
    at, names = COLOURS.index(colours), [*KEYS]
    keys = {name: KEYS[name] for name in (names if DEEP else names[at :: len(COLOURS)])}
    monkeypatch.setenv("COLORFGBG", "0;15" if colours == "light" else "15;0")
    if colours == "none":
        monkeypatch.setenv("NO_COLOR", "1")
    agent = sample(log)

    async def see() -> None:
        async with driven(agent, size=(80, 24)) as chat:
            assert chat.app.theme == ("light" if colours == "light" else "dark")
            assert chat.app.no_color is (colours == "none")
            await each_screen(chat, keys)

    asyncio.run(see())


def looked_at(
    log: Log,
    name: str,
    *keys: str,
    size: tuple[int, int] = (100, 30),
    conversation: Callable[[Log], Agent] = sample,
) -> None:
    """Press keys one after the other in a conversation, and compare the last screen with its golden file."""

    async def look() -> None:
        async with driven(conversation(log), size=size) as chat:
            await chat.still()
            for key in keys:
                await chat.press(key)
                await chat.still()
            check(chat.app, name)

    asyncio.run(look())


PICTURES = [
    ("keys", ["f1"]),
    ("turn", ["f2", "enter"]),
    ("event", ["f5", "g"]),
    ("completion", ["/", "c", "o"]),
    ("history", ["ctrl+r", "f"]),
]


@pytest.mark.parametrize(("name", "keys"), sampled(PICTURES, 3))
def test_the_picture_of_a_screen(log: Log, name: str, keys: list[str]) -> None:
    looked_at(log, name, *keys)


SIZES = [("chat-120", (120, 36)), ("chat-160", (160, 45))]


@pytest.mark.parametrize(("name", "size"), SIZES)
def test_the_picture_of_the_chat_in_a_larger_terminal(log: Log, name: str, size: tuple[int, int]) -> None:
    looked_at(log, name, size=size)


def test_the_picture_of_the_chat_in_the_light_theme(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15")
    looked_at(log, "chat-light", conversation=story)


@pytest.mark.parametrize(("name", "keys"), sampled([("chat-80", []), ("turns-80", ["f2"]), ("time-80", ["f5"])], 2))
def test_the_picture_of_a_screen_of_80_columns(log: Log, name: str, keys: list[str]) -> None:
    looked_at(log, name, *keys, size=(80, 24))
