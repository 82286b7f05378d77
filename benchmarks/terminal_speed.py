"""The full-screen chat as a process on a terminal of 100 columns and 30 lines, measured from the outside.

- From the start of `foldmark chat` with an empty conversation until it accepts a key: at most 0.6 s.
- From the start with a conversation of 100,000 messages (`--messages`) until its newest message is shown: at most 1 s.
- From a key until it is on the screen, while an answer streams at 200 words a second: at most 50 ms for 95 of 100.
- The peak memory of all this: at most 300 MB.

Everything runs from compiled modules, as an installed package does. Exit code 1 if a limit is exceeded and `--strict`
was given: times depend on the machine and its other work.
"""

import argparse
import fcntl
import os
import pty
import select
import shutil
import statistics
import struct
import sys
import tempfile
import termios
import time
from asyncio import sleep
from collections.abc import AsyncGenerator
from itertools import count
from pathlib import Path

from history_cost import build

import foldmark
from foldmark.core.request import Piece, Request
from foldmark.terminal.application import run

KEYS = "".join(map(chr, (*range(0x3B1, 0x3CA), *range(0x430, 0x450), *range(0x10D0, 0x10F1))))
"""Letters that no message contains."""

PAUSE = 0.05
"""Seconds between two keys."""


class Streaming:
    """A model that answers in Markdown without end."""

    async def count(self, request: Request) -> int:
        """Return the estimate."""
        return request.tokens

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream a word every 5 ms: paragraphs, lists and code."""
        for number in count():
            block = number // 60 % 3
            if number % 60 == 0:
                yield "\n\n```python\n" if block == 1 else "\n\n"
            yield f"name_{number} = {number}\n" if block == 1 else f"*word* {number} "
            if number % 60 == 59 and block == 1:
                yield "```\n"
            await sleep(0.005)


class Terminal:
    """A process on a terminal; `seconds` is the time since its start."""

    def __init__(self, command: list[str], database: str) -> None:
        self._began = time.perf_counter()
        self.pid, self._fd = pty.fork()
        if not self.pid:
            environment = {**os.environ, "FOLDMARK_DB": database, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
            environment["PYTHONPYCACHEPREFIX"] = str(Path(database).parent / "compiled")
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            os.execve(command[0], command, environment)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        modes = termios.tcgetattr(self._fd)
        modes[3] &= ~termios.ECHO  # only the program itself shows what is typed
        termios.tcsetattr(self._fd, termios.TCSANOW, modes)

    @property
    def seconds(self) -> float:
        """The time since the start of the process."""
        return time.perf_counter() - self._began

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._fd, text.encode())

    def shows(self, text: str, within: float, *, typed: str = "") -> bool:
        """Wait until a text is written to the screen, typing another one again and again."""
        wanted, written, end = text.encode(), b"", time.perf_counter() + within
        while time.perf_counter() < end:
            if typed:
                self.type(typed)
            if select.select([self._fd], [], [], 0.02 if typed else 1.0)[0]:
                written = written[-len(wanted) :] + os.read(self._fd, 1 << 16)
                if wanted in written:
                    return True
        return False

    def peak(self) -> float:
        """Return the peak memory in MB."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024

    def end(self) -> None:
        """Leave the chat and wait for the end of the process."""
        self.type("\x03")
        time.sleep(0.2)
        self.type("\x11")
        try:
            while os.read(self._fd, 1 << 16):
                pass
        except OSError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self._fd)


def first_key(program: str, database: str) -> float:
    """Return the seconds until an empty conversation accepts a key."""
    terminal = Terminal([program, "chat", "empty"], database)
    assert terminal.shows(KEYS[0], 20, typed=KEYS[0]), "the chat did not start"
    seconds = terminal.seconds
    terminal.end()
    return seconds


def long_conversation(database: str, newest: str) -> tuple[float, list[float], float]:
    """Return the seconds until the newest message is shown, the seconds from each key to the screen, and MB."""
    terminal = Terminal([sys.executable, __file__, "--chat", database], database)
    assert terminal.shows(newest, 30), "the conversation was not shown"
    first = terminal.seconds
    time.sleep(0.5)
    terminal.type("go\r")
    assert terminal.shows("streaming", 30), "no answer streams"
    keys = []
    for key in KEYS:
        terminal.shows("\0", PAUSE)
        began = time.perf_counter()
        terminal.type(key)
        assert terminal.shows(key, 10), f"{key} was not shown"
        keys.append(time.perf_counter() - began)
    peak = terminal.peak()
    terminal.end()
    return first, keys, peak


def chat(database: str) -> int:
    """Chat with the streaming model, in this process."""
    with foldmark.open(database) as log:
        return run(log.agents()[0], lambda _: Streaming())


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--strict", action="store_true", help="exit with 1 if something is over its limit")
    parser.add_argument("--chat", metavar="DATABASE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.chat:
        return chat(options.chat)
    program = str(Path(sys.executable).with_name("foldmark"))
    starts, firsts, keys, peaks = list[float](), list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "long.db")
        build(path, options.messages, 4)
        with foldmark.open(str(path)) as log:
            log.agents()[0].append("user", "the_newest_message")
        for number in range(options.runs + 1):
            copy = shutil.copy(path, Path(folder, f"copy_{number}.db"))
            start = first_key(program, str(Path(folder, "empty.db")))
            first, pressed, peak = long_conversation(str(copy), "the_newest_message")
            if number:  # the first run compiles
                starts.append(start)
                firsts.append(first)
                keys += pressed
                peaks.append(peak)
    rows = [
        ("start of an empty conversation to a key, s", statistics.median(starts), 0.6),
        (f"start with {options.messages:,} messages to their picture, s", statistics.median(firsts), 1.0),
        ("key to the screen while an answer streams, p95, ms", statistics.quantiles(keys, n=20)[-1] * 1000, 50),
        ("the same, median, ms", statistics.median(keys) * 1000, 50),
        ("memory at its peak, MB", max(peaks), 300),
    ]
    print(f"{f'{options.runs} runs':58}{'measured':>10}{'limit':>8}")
    for name, measured, limit in rows:
        print(f"{name:58}{measured:10.2f}{limit:8}{'' if measured <= limit else '  over'}")
    return int(options.strict and any(measured > limit for _, measured, limit in rows))


if __name__ == "__main__":
    sys.exit(main())
