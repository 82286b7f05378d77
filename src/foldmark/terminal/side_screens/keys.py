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
from textual.widgets import Static

import foldmark.terminal as terminal
from foldmark.terminal.screens import ContextScreen

MOVES = "In lists: ↑ ↓ PgUp PgDn Home End move, Tab goes to the next part. The mouse works too."


class KeyPlace(NamedTuple):
    """A place where keys work, and its keys grouped by description."""

    name: str
    keys: dict[str, list[Binding]]


def places() -> list[KeyPlace]:
    """Return each place with its own keys: first the keys that work everywhere, then the places by name."""
    found = {}
    for module in walk_packages(terminal.__path__, f"{terminal.__name__}."):
        for each in vars(import_module(module.name)).values():
            if isinstance(each, type) and each.__module__ == module.name and "BINDINGS" in vars(each):
                found[each] = _place(each)
    return [found[each] for each in sorted(found, key=lambda each: (not issubclass(each, App), found[each].name))]


def _place(owner: type[DOMNode]) -> KeyPlace:
    """Return the keys of a class. The first clause of its docstring is the name of the place."""
    name = "Everywhere" if issubclass(owner, App) else re.split("[.:;,]", owner.__doc__ or "", maxsplit=1)[0]
    keys: dict[str, list[Binding]] = {}
    for binding in Binding.make_bindings(owner.BINDINGS):
        keys.setdefault(binding.tooltip or binding.description, []).append(binding)
    return KeyPlace(name, keys)


class KeysScreen(ContextScreen):
    """All keys."""

    DEFAULT_CSS = "KeysScreen VerticalScroll { padding: 1 2; }"

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with VerticalScroll():
            yield Static(self._shown(), markup=False)

    def _shown(self) -> Content:
        parts: list[str | tuple[str, str]] = []
        for place in places():
            parts += [(place.name, "bold"), "\n"]
            for does, bindings in place.keys.items():
                shown = " ".join(dict.fromkeys(map(self.app.get_key_display, bindings)))
                parts += ["  ", (shown, "$accent"), " " * max(1, 16 - cell_len(shown)), does, "\n"]
            parts.append("\n")
        return Content.assemble(*parts, MOVES)
