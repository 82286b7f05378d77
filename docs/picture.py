"""Draws docs/context.svg, the picture on the front page, from a real run: a session is imported, a turn is dropped.

The bars are the turns that the run lists, as wide as their tokens; the text below is what the command printed.
"""

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from html import escape
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from foldmark.cli.program import run

DROPPED = 130
"""The turn of the sample session that led nowhere."""

WIDTH, LEFT, GAP = 880, 20, 2
NUMBERED = 24
"""A bar must be wider than this to show the number of its turn."""

MONO = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12.5" fill="#1f2328"'


def picture() -> str:
    """Return the SVG text."""
    with as_file(files("foldmark") / "samples" / "notes-cli.jsonl") as sample, TemporaryDirectory() as folder:
        db = str(Path(folder) / "notes.db")
        printed(db, "import", str(sample), "--as", "notes")
        before = turns(db)
        line = f"/context drop {DROPPED}"
        receipt = printed(db, "do", "notes", line).rstrip("\n").split("\n")
        after = turns(db)
    shell = [f"$ foldmark do notes '{line}'", *receipt]
    room, box = WIDTH - 2 * LEFT, 16 + 19 * len(shell)
    frame = f'width="{WIDTH}" height="{box + 180}"'
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {box + 180}" font-family="sans-serif">',
        f'<rect {frame} rx="8" fill="#ffffff" stroke="#d0d7de"/>',
        *row("The context before: each bar is a turn, as wide as its tokens", before, 22),
        *row(f"After one edit: turn {DROPPED} is out of the context, and still in the log", after, 92),
        f'<rect x="{LEFT}" y="166" width="{room}" height="{box}" rx="6" fill="#f6f8fa"/>',
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
    elements, x = [f'<text x="{LEFT}" y="{top + 4}" font-size="13" fill="#1f2328">{title}</text>'], float(LEFT)
    for turn in listed:
        width = turn["tokens"] * unit
        inside = bool(turn["in_context"])
        look = 'fill="#0969da"' if inside else 'fill="none" stroke="#cf222e" stroke-dasharray="4 3"'
        about = escape(f"Turn {turn['id']}: {turn['title']}")
        elements.append(
            f'<rect x="{x:.1f}" y="{top + 14}" width="{width:.1f}" height="34" rx="2" {look}>'
            f"<title>{about}</title></rect>"
        )
        if width > NUMBERED:
            elements.append(
                f'<text x="{x + width / 2:.1f}" y="{top + 35}" text-anchor="middle" font-size="11"'
                f' fill="{"#ffffff" if inside else "#cf222e"}">{turn["id"]}</text>'
            )
        x += width + GAP
    return elements
