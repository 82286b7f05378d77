"""The application in a real terminal, which tmux provides: keys, bracketed pastes, `$EDITOR`, Ctrl-C and the end."""

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from tmux import Tmux

import foldmark

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux, a terminal to test with, is missing")

PROGRAM = str(Path(sys.executable).with_name("foldmark"))
EDITOR = """
import pathlib, sys
file = pathlib.Path(sys.argv[1])
file.write_text(file.read_text().replace("world", "WORLD"))
"""


def test_the_prompt_in_a_real_terminal(tmp_path: Path) -> None:
    (tmp_path / "editor.py").write_text(EDITOR)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "LC_ALL": "C.UTF-8",
        "TERM": "tmux-256color",
        "FOLDMARK_DB": str(tmp_path / "log.db"),
        "FOLDMARK_OFFLINE_DELAY": "0.2",
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "EDITOR": shlex.join([sys.executable, str(tmp_path / "editor.py")]),
    }
    pasted = "\n".join(f"line {number} \x1b[31mred\x1b[0m" for number in range(240))
    with Tmux(tmp_path, PROGRAM, "chat", env=env) as tmux:
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
