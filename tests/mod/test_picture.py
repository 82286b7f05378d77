"""The pictures of an edit in the pane: `docs/screens/fm.svg` and `fm-receipt.svg`, each also for a light page.

They show the real client, whose look changes with its version, so they are written only when asked:
`FOLDMARK_GOLDEN=write pytest tests/mod/test_picture.py`.
"""

import io
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from golden import FOLDER
from mod_session import ModSession, client
from plan import Answer, Reply, Say, Use
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME
from rich.text import Text

from foldmark.core.request import Usage

pytestmark = pytest.mark.skipif(os.environ.get("FOLDMARK_GOLDEN") != "write", reason="FOLDMARK_GOLDEN=write writes it")

PROMPTS: dict[str, dict[str, int]] = {
    "Fix the parser: it drops the last row": {"parser.py": 250, "rows.py": 120},
    "Read the logs of last night": {"gateway.log": 380, "worker.log": 260, "retries.log": 70},
    "Run the whole suite": {"suite.txt": 900},
    "Write the changelog": {"CHANGELOG.md": 60},
}
"""What a person asks, and the files that are read for it, with their lines."""

_LINE = "2026-03-02 14:05:11 worker 3 took row {number} of the report in 41 ms\n"
_FONT = re.compile(r"@font-face \{.*?\}\n?\s*", re.DOTALL)


class _Session(ModSession):
    """A session in which each prompt reads its files, and the provider counts what it gets."""

    def _answer(self, body: Any) -> Answer:
        if not body.get("tools"):
            return Reply((Say(('{"title": "The parser"}',)),))
        said = [json.dumps(each) for each in body["messages"]]
        turn = max(at for at, each in enumerate(said) if any(prompt in each for prompt in PROMPTS))
        files = next(PROMPTS[prompt] for prompt in PROMPTS if prompt in said[turn])
        tokens = 19_000 + sum(map(len, said)) // 3
        usage = Usage(fresh=900, cache_read=tokens - 2900, cache_write=2000, output=180)
        read = sum("tool_result" in each for each in said[turn:])
        number = next(self.numbers)
        if read == len(files):
            return Reply((Say((f"Answer {number}.",)),), usage=usage)
        path = self.folder / "work" / [*files][read]
        return Reply((Use(f"toolu_{number}", "Read", {"file_path": str(path)}),), stop="calls", usage=usage)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_pictures(tmp_path: Path, theme: str) -> None:
    client()
    with _Session(tmp_path / "session", model="claude-sonnet-4-6") as session:
        for files in PROMPTS.values():
            for name, length in files.items():
                text = "".join(_LINE.format(number=number) for number in range(length))
                (tmp_path / "session" / "work" / name).write_text(text)
        for prompt in PROMPTS:
            session.prompt(prompt)
        known = session.folder / "home" / ".claude.json"
        known.write_text(json.dumps({**json.loads(known.read_text()), "theme": theme}))
        session.restart()
        screen = session.screen
        screen.enter("/fm")
        screen.wait("Write the changelog", "")
        screen.wait("s: newest first")
        for key in ("Tab", "Tab", "Down", "Down", "Enter"):  # the filter, a turn, its results, the next turn
            screen.press(key)
            time.sleep(0.5)
        screen.wait("d drops 1 turn")
        _write("fm", theme, screen._tmux("capture-pane", "-p", "-e"))
        screen.press("d")
        screen.wait("left the context")
        screen.wait("↶")
        time.sleep(1)
        _write("fm-receipt", theme, screen._tmux("capture-pane", "-p", "-e"))


def _write(name: str, theme: str, shown: str) -> None:
    """Write the pane of a screen as a picture."""
    lines = shown.split("\n")
    first = next(at for at, line in enumerate(lines) if "✕" in line)
    last = next(at for at, line in enumerate(lines) if at > first and "╰" in line)
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    for line in lines[first : last + 4]:
        console.print(Text.from_ansi(line), no_wrap=True)
    colours = DEFAULT_TERMINAL_THEME if theme == "light" else SVG_EXPORT_THEME
    picture = _FONT.sub("", console.export_svg(title="Claude Code", unique_id=name, theme=colours))
    path = FOLDER / f"{name}{'-light' if theme == 'light' else ''}.svg"
    path.write_text("".join(f"{line.rstrip()}\n" for line in picture.strip().splitlines()))
