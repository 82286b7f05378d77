"""Draws docs/context.svg, the picture on the front page, from a real run: a session is imported, a turn is dropped.

The bars are the turns that the run lists, as wide as their tokens; the text below is what the command printed. Its
colours are those of the chat's themes, and follow the reader's preference for light or dark, inside an <img> too.
"""

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from html import escape
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import Any

from textual.theme import Theme

from foldmark.cli.program import run
from foldmark.terminal.theme import DARK, LIGHT

DROPPED = 130
"""The turn of the sample session that led nowhere."""

WIDTH, LEFT, GAP = 880, 20, 2
NUMBERED = 24
"""A bar must be wider than this to show the number of its turn."""

COLUMNS = 106
"""Maximum characters of a line of the command's text."""

MONO = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12.5"'


def _rules(theme: Theme) -> str:
    """Return the rules of a style sheet for the classes of the picture's elements."""
    accent, red = theme.accent, theme.error
    line = theme.variables["line"]
    return (
        f".page {{ fill: {theme.background}; stroke: {line} }} .shell {{ fill: {theme.surface} }}"
        f" text {{ fill: {'#e6edf3' if theme.dark else '#1f2328'} }} .in {{ fill: {accent} }}"
        f" .out {{ fill: none; stroke: {red}; stroke-dasharray: 4 3 }}"
        f" .in + text {{ fill: {theme.background} }} .out + text {{ fill: {red} }}"
    )


STYLE = f"<style>{_rules(LIGHT)} @media (prefers-color-scheme: dark) {{ {_rules(DARK)} }}</style>"


def picture() -> str:
    """Return the SVG text."""
    with as_file(files("foldmark") / "samples" / "notes-cli.jsonl") as sample, TemporaryDirectory() as folder:
        db = str(Path(folder) / "notes.db")
        printed(db, "import", str(sample), "--as", "notes")
        before = turns(db)
        line = f"/context drop {DROPPED}"
        receipt = printed(db, "do", "notes", line).rstrip("\n").split("\n")
        after = turns(db)
    shell = [
        f"$ foldmark do notes '{line}'",
        *(part for each in receipt for part in wrap(each, COLUMNS, subsequent_indent="  ")),
    ]
    room, box = WIDTH - 2 * LEFT, 16 + 19 * len(shell)
    frame = f'width="{WIDTH}" height="{box + 180}"'
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {box + 180}" font-family="sans-serif">',
        STYLE,
        f'<rect class="page" {frame} rx="8"/>',
        *row("The context before: each bar is a turn, as wide as its tokens", before, 22),
        *row(f"After one edit: turn {DROPPED} is out of the context, and still in the log", after, 92),
        f'<rect class="shell" x="{LEFT}" y="166" width="{room}" height="{box}" rx="6"/>',
    ]
    for index, text in enumerate(shell):
        place = f'x="{LEFT + 10}" y="{188 + 19 * index}"'
        elements.append(f'<text {place} {MONO} xml:space="preserve">{escape(text)}</text>')
    return "\n".join([*elements, "</svg>", ""])


def printed(db: str, *words: str) -> str:
    """Return what a command prints. Raises RuntimeError if it fails."""
    output = io.StringIO()
    with redirect_stdout(output):
        code = run(["--db", db, *words])
    if code:
        raise RuntimeError(f"{words}: {output.getvalue()}")
    return output.getvalue()


def turns(db: str) -> list[dict[str, Any]]:
    """Return the turns of the imported conversation, oldest first."""
    listed = json.loads(printed(db, "do", "notes", "/message list 1000", "--json"))
    found: list[dict[str, Any]] = listed["data"]["turns"]
    return found


def row(title: str, listed: Sequence[dict[str, Any]], top: int) -> list[str]:
    """Return the elements of one row of bars: filled if the turn is in the context, otherwise an outline."""
    room = WIDTH - 2 * LEFT - GAP * (len(listed) - 1)
    unit = room / sum(turn["tokens"] for turn in listed)
    elements, x = [f'<text x="{LEFT}" y="{top + 4}" font-size="13">{title}</text>'], float(LEFT)
    for turn in listed:
        width = turn["tokens"] * unit
        look = "in" if turn["in_context"] else "out"
        about = escape(f"Turn {turn['id']}: {turn['title']}")
        elements.append(
            f'<rect class="{look}" x="{x:.1f}" y="{top + 14}" width="{width:.1f}" height="34" rx="2">'
            f"<title>{about}</title></rect>"
        )
        if width > NUMBERED:
            elements.append(
                f'<text x="{x + width / 2:.1f}" y="{top + 35}" text-anchor="middle" font-size="11">{turn["id"]}</text>'
            )
        x += width + GAP
    return elements
