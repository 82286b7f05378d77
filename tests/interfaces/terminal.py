"""A program in its own pseudo-terminal. Typed text goes through the terminal's line discipline, so that Ctrl-C is a
real SIGINT. Tests wait for output, with a limit far longer than necessary."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from forked import Popen
from patience import LIMIT

CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """A command line in a pseudo-terminal. Use it as a context manager."""

    def __init__(
        self, *command: str, env: Mapping[str, str], size: tuple[int, int] = (24, 500), stdout: int | None = None
    ) -> None:
        self._master, slave = pty.openpty()
        self.resize(*size)
        self.process = Popen(
            [*command],
            terminal=True,
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            env={**env, "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(slave)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._seen = self._unread = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LIMIT)
        os.close(self._master)

    @property
    def screen(self) -> str:
        """All output so far, with LF line ends."""
        return _shown(self._seen)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def press(self, key: str, text: str) -> None:
        """Press a key until `text` is shown: Python misses a Ctrl-C that comes between the prompt and its wait. A busy
        machine answers late, and a second key would meet what follows, so each wait is longer than the one before."""
        for patience in (1.0, 4.0, 16.0, LIMIT):
            self.type(key)
            try:
                self.until(text, patience)
            except AssertionError:
                continue
            return
        raise AssertionError(f"{text!r} was not shown; there is {self.screen!r}")

    def leave(self) -> int:
        """Type /exit until the program ends, and return its exit code. Text typed while the terminal changes its mode
        is lost, so once may not be enough."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            self.type("/exit\r")
            until = min(deadline, time.monotonic() + 2.0)
            while self._read(until):
                pass
            if time.monotonic() < until:
                break
        return self.process.wait(LIMIT)

    def until(self, text: str, limit: float = LIMIT) -> str:
        """Wait until `text` is shown. Return the output since the last wait, including `text`."""
        deadline = time.monotonic() + limit
        while text not in (unread := _shown(self._unread)):
            if not self._read(deadline):
                raise AssertionError(f"{text!r} was not shown; there is {self.screen!r}")
        shown, _, self._unread = unread.partition(text)
        return shown + text

    def end(self) -> int:
        """Wait for the program to end and return its exit code."""
        deadline = time.monotonic() + LIMIT
        while self._read(deadline):
            pass
        return self.process.wait(LIMIT)

    def kill(self) -> None:
        """Kill the program as `kill -9` does, and wait for its end."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(LIMIT)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # EIO: no process has the terminal open any more
            return False
        text = self._decoder.decode(data)
        self._seen += text
        self._unread += text
        return bool(data)


_UNSEEN = re.compile(r"\x1b\[\?2004h|\x1b\[\?2004l\r?|\r+(?=\n)|(?<=\n)(?:\r|\x1b\[K)+")


def _shown(output: str) -> str:
    """Return the output as a person sees it: LF line ends, no switches of bracketed paste, nothing that returns to the
    start of an empty line or clears it (a question that takes the prompt before it is printed does both).

    Output that came in pieces reads like output that came at once. A cut escape sequence at the end stays.
    """
    while (shown := _UNSEEN.sub("", output)) != output:
        output = shown
    return shown
