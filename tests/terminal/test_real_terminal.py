"""The application in a real terminal, which tmux provides: keys, bracketed pastes, `$EDITOR`, Ctrl-C and the end."""

import fcntl
import os
import pty
import select
import shlex
import shutil
import signal
import struct
import sys
import termios
from pathlib import Path
from subprocess import Popen

import pytest
from tmux import Tmux, environment

import foldmark
from foldmark.core.events import METADATA_KINDS
from patience import LIMIT

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux, a terminal to test with, is missing")

PROGRAM = str(Path(sys.executable).with_name("foldmark"))
EDITOR = """
import pathlib, sys
file = pathlib.Path(sys.argv[1])
file.write_text(file.read_text().replace("world", "WORLD"))
"""


@needs_tmux
def test_the_prompt_in_a_real_terminal(tmp_path: Path) -> None:
    (tmp_path / "editor.py").write_text(EDITOR)
    env = environment(
        tmp_path,
        tmp_path / "log.db",
        FOLDMARK_OFFLINE_DELAY="0.2",
        XDG_DATA_HOME=str(tmp_path / "data"),
        EDITOR=shlex.join([sys.executable, str(tmp_path / "editor.py")]),
    )
    pasted = "\n".join(f"line {number} \x1b[31mred\x1b[0m" for number in range(240))
    with Tmux(tmp_path, PROGRAM, "chat", env=env) as tmux:
        tmux.until("A message ·")
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


@pytest.mark.parametrize("hangup", [signal.SIG_DFL, signal.SIG_IGN], ids=["as usual", "under nohup"])
def test_the_chat_ends_with_its_terminal(tmp_path: Path, hangup: signal.Handlers) -> None:
    """A window is closed while an answer streams: what had come is kept, and no process is left behind."""

    def begin() -> None:
        signal.signal(signal.SIGHUP, hangup)
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm-256color",
        "FOLDMARK_DB": str(tmp_path / "log.db"),
        "FOLDMARK_OFFLINE_DELAY": "0.2",
    }
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = Popen(
        [PROGRAM, "chat"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=env,
        start_new_session=True,
        preexec_fn=begin,
    )
    os.close(slave)
    try:
        shown = b""
        for text, answer in (("A message ·".encode(), b"hello\r"), (b"streaming", b"")):
            while text not in shown:
                assert select.select([master], [], [], LIMIT)[0], shown[-2000:]
                shown += os.read(master, 1 << 16)
            os.write(master, answer)
        os.close(master)
        assert process.wait(LIMIT) == 128 + signal.SIGHUP
    finally:
        process.kill()
        process.wait()
    with foldmark.open(tmp_path / "log.db", create=False) as log:
        events = log.agent("default").events()
    ended = [(event.kind, event.interrupted) for event in events if event.kind not in METADATA_KINDS]
    assert ended == [("user", False), ("assistant", True), ("turn_ended", True)]
