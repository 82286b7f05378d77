"""The application in a real terminal, which tmux provides: keys, bracketed pastes, `$EDITOR`, Ctrl-C and the end."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import foldmark
from patience import LIMIT

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux, a terminal to test with, is missing")

PROGRAM = Path(sys.executable).with_name("foldmark")


class Tmux:
    """A terminal of 100 by 30 characters that runs the chat."""

    def __init__(self, place: Path) -> None:
        self._place = place
        settings = {
            "FOLDMARK_DB": str(place / "log.db"),
            "FOLDMARK_OFFLINE_DELAY": "0.2",
            "XDG_DATA_HOME": str(place / "data"),
            "EDITOR": f"{sys.executable} {place / 'editor.py'}",
            "LC_ALL": "C.UTF-8",
        }
        (place / "editor.py").write_text(
            "import pathlib, sys\n"
            "file = pathlib.Path(sys.argv[1])\n"
            "file.write_text(file.read_text().replace('world', 'WORLD'))\n"
        )
        command = f"{PROGRAM} chat; echo ended with $?; cat"
        environment = [word for each in settings.items() for word in ("-e", "=".join(each))]
        self.run("-f", os.devnull, "new-session", "-d", "-s", "chat", "-x", "100", "-y", "30", *environment, command)

    def run(self, *arguments: str) -> str:
        socket = str(self._place / "tmux")
        return subprocess.run(
            ["tmux", "-S", socket, *arguments], check=True, capture_output=True, text=True, timeout=LIMIT
        ).stdout

    @property
    def screen(self) -> str:
        return self.run("capture-pane", "-p", "-t", "chat")

    def press(self, *keys: str) -> None:
        self.run("send-keys", "-t", "chat", *keys)

    def paste(self, text: str) -> None:
        (self._place / "pasted").write_text(text)
        self.run("load-buffer", str(self._place / "pasted"))
        self.run("paste-buffer", "-p", "-t", "chat")

    def until(self, *texts: str) -> None:
        end = time.monotonic() + LIMIT
        while not all(text in self.screen for text in texts):
            assert time.monotonic() < end, f"{texts} did not come; the screen:\n{self.screen}"
            time.sleep(0.05)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    terminal = Tmux(tmp_path)
    yield terminal
    terminal.run("kill-server")


def test_the_prompt_in_a_real_terminal(tmux: Tmux, tmp_path: Path) -> None:
    pasted = "\n".join(f"line {number} \x1b[31mred\x1b[0m" for number in range(240))
    tmux.until("A message, or /")
    tmux.press("hello world", "M-Enter", "two", "C-j", "three\\", "Enter")
    tmux.paste(pasted)
    tmux.until("hello world", "  three", "[pasted 240 lines]")
    tmux.press("C-g")
    tmux.until("hello WORLD", "[pasted 240 lines]")
    tmux.press("Enter")
    tmux.press("waits", "Enter", "/marks", "Enter")
    tmux.until("waits  › waits", "No checkpoint yet")
    tmux.press("C-c")
    tmux.until("1 waiting line dropped", "(interrupted", "/retry asks again")
    tmux.paste("a\x1b[0m\r/mark EVIL\r")
    tmux.until(r"a\x1b[0m", "/mark EVIL")
    tmux.press("C-c")
    tmux.until("/retry asks again")
    tmux.press("C-c")
    tmux.until("Ctrl-C again leaves")
    tmux.press("C-c")
    tmux.until("ended with 0")
    with foldmark.open(tmp_path / "log.db") as log:
        context = log.agent("default").context()
        assert [each.content for each in context.messages if each.kind == "user"] == [
            f"hello WORLD\ntwo\nthree\n{pasted}"
        ]
        assert not context.marks
