"""Compare screens with golden files, which the documentation shows: `docs/screens/NAME.svg`.

`FOLDMARK_GOLDEN=write pytest tests/terminal` writes them again; review the changes before you commit them.
"""

import difflib
import html
import os
import re
from pathlib import Path

from textual.app import App
from textual.widgets import Input, TextArea

FOLDER = Path(__file__).parents[2] / "docs" / "screens"

_TEXT = re.compile(r'<text class="[^"]*-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', re.DOTALL)
_FONT = re.compile(r"@font-face \{.*?\}\n?\s*", re.DOTALL)
_COLUMN = 12.2
"""The width of a character in the picture."""


def check(app: App[None], name: str) -> None:
    """Compare the application's screen with the golden file, as a picture: text, position and colour."""
    for screen in app.screen_stack:  # under a dialog, the prompt's cursor keeps blinking
        if isinstance(screen.focused, Input | TextArea):
            screen.focused.cursor_blink = False  # or the picture would depend on the moment
    shown = _FONT.sub("", app.export_screenshot(title="Foldmark"))
    shown = "".join(f"{line.rstrip()}\n" for line in shown.strip().splitlines())
    path = FOLDER / f"{name}.svg"
    if os.environ.get("FOLDMARK_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    assert path.exists(), f"there is no {path}; FOLDMARK_GOLDEN=write writes it, this is the screen:\n{text_of(shown)}"
    expected = path.read_text(encoding="utf-8")
    if shown != expected:
        before, after = text_of(expected).splitlines(), text_of(shown).splitlines()
        changed = "\n".join(difflib.unified_diff(before, after, "expected", "shown", lineterm=""))
        raise AssertionError(f"{path} shows something else:\n{changed or 'the same text in other colours'}")


def text_of(svg: str) -> str:
    """Return the lines of a picture as text."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in _TEXT.findall(svg):
        rows.setdefault(float(y), []).append((float(x), html.unescape(text).replace("\xa0", " ")))
    lines = []
    for _, row in sorted(rows.items()):
        line = ""
        for x, text in sorted(row):
            line = line.ljust(round(x / _COLUMN)) + text
        lines.append(line.rstrip())
    return "\n".join(lines)
