"""The screen of all keys, read from the `BINDINGS` of the screens, panels and dialogs."""

import re
from importlib import import_module
from pkgutil import walk_packages
from typing import NamedTuple

from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Static

import foldmark.terminal as terminal
from foldmark.terminal.screens import ContextScreen

PURPOSES = {
    "Change the context": ("chat", "side_screens.turns", "side_screens.rows", "operations", "review", "meter"),
    "Look at the context at other moments": ("side_screens.time",),
    "Write": ("prompt", "editor", "palette"),
    "Read the conversation": ("scrollback",),
    "Search": ("side_screens.find",),
    "Agents and state": ("side_screens.overview", "panels"),
    "Answer a question": ("dialogs",),
    "Anywhere": ("",),
}
"""What a person may want to do, in the order of the screen, with the modules whose keys do it."""

MOVES = "In lists: ↑ ↓ PgUp PgDn Home End move, Tab goes to the next part. The mouse works too."


class KeyPlace(NamedTuple):
    """A place where keys work: the purpose of its keys, its name, and its keys grouped by description."""

    purpose: str
    name: str
    keys: dict[str, list[Binding]]


def places() -> list[KeyPlace]:
    """Return each place with its own keys, by purpose: those that change the context first. The screens of a purpose
    come before its other places."""
    found = {}
    for module in walk_packages(terminal.__path__, f"{terminal.__name__}."):
        for each in vars(import_module(module.name)).values():
            if isinstance(each, type) and each.__module__ == module.name and "BINDINGS" in vars(each):
                found[each] = _place(each)
    order = [*PURPOSES]
    return [
        found[each]
        for each in sorted(
            found, key=lambda each: (order.index(found[each].purpose), not issubclass(each, Screen), found[each].name)
        )
    ]


def _place(owner: type[DOMNode]) -> KeyPlace:
    """Return the keys of a class. The first clause of its docstring is the name of the place."""
    module = owner.__module__.removeprefix(f"{terminal.__name__}.")
    purpose = next(each for each, names in PURPOSES.items() if any(module.startswith(name) for name in names))
    name = "Everywhere" if issubclass(owner, App) else re.split("[.:;,]", owner.__doc__ or "", maxsplit=1)[0]
    keys: dict[str, list[Binding]] = {}
    for binding in Binding.make_bindings(owner.BINDINGS):
        keys.setdefault(binding.tooltip or binding.description, []).append(binding)
    return KeyPlace(purpose, name, keys)


class KeysScreen(ContextScreen):
    """All keys."""

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with VerticalScroll():
            yield Static(self._shown(), markup=False)

    def _shown(self) -> Content:
        parts: list[str | tuple[str, str]] = []
        purpose = ""
        for place in places():
            if place.purpose != purpose:
                purpose = place.purpose
                parts += [(purpose, "bold $accent"), "\n\n"]
            parts += [(place.name, "bold"), "\n"]
            for does, bindings in place.keys.items():
                shown = " ".join(dict.fromkeys(map(self.app.get_key_display, bindings)))
                parts += ["  ", (shown, "$accent"), " " * max(1, 16 - cell_len(shown)), does, "\n"]
            parts.append("\n")
        return Content.assemble(*parts, MOVES)
