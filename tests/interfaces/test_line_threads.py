"""The threads of a chat: that of the terminal, that of the chat, one of a tool, and one in which the screens read."""

import os
import sys
from pathlib import Path

import pytest

from terminal import CTRL_C, CTRL_D, Terminal

MOST = 4
"""Maximum number of threads that exist while a line is carried out."""

PROGRAM = """
import os, sys, threading

start = threading.Thread.start

def counted(thread):
    with open(os.environ["STARTED"], "a") as file:
        file.write(f"{thread.name}\\n")
    start(thread)

threading.Thread.start = counted

from foldmark.cli import main

sys.exit(main())
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="there are no threads in /proc")


def test_a_line_needs_no_more_than_four_threads(db: str) -> None:
    started, program = Path("started"), Path("program.py")
    started.touch()
    program.write_text(PROGRAM)
    environment = {**os.environ, "STARTED": str(started), "FOLDMARK_OFFLINE_DELAY": "0.01"}
    with Terminal(sys.executable, str(program), "chat", env=environment) as screen:
        screen.until("⚪\n> ")
        for line, question, answer in (
            ("hello", "", ""),
            ('call bash {"command": "echo ran"}', "ne[v]er: ", "y\r"),
            ("/context show", "", ""),
            ("hello again", "I am the ", CTRL_C),
            ("!echo ran", "", ""),
        ):
            before, at = [*Path(f"/proc/{screen.process.pid}/task").iterdir()], len(started.read_text())
            screen.type(f"{line}\r")
            if question:
                screen.until(question)
                screen.type(answer)
            screen.until("\n> ")
            begun = started.read_text()[at:].split()
            assert len(before) + len(begun) <= MOST, (line, before, begun)
        assert "ran\n" in screen.screen
        assert "(interrupted; the text so far is kept)" in screen.screen
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert "foldmark-chat" in started.read_text()
