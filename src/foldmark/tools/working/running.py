"""Run a shell command in a session of its own, with bounded output, up to its end, a time limit or an interruption.

No process of that session is left behind. A process that leaves the session (`setsid`) is, and is not waited for.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from subprocess import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired
from threading import Event
from time import monotonic, sleep
from typing import Literal, NamedTuple

from foldmark.core.errors import CommandError
from foldmark.sending.interruption import watched

HEAD, TAIL = 64 * 1024, 64 * 1024
"""Bytes of the output that are kept of its beginning and of its end."""
TICK = 0.05
"""Seconds between two checks whether to go on."""
LINGER = 0.5
"""Seconds for background processes of a command to end by themselves."""
GRACE = 0.3
"""Seconds between asking processes to end and killing them."""

_PROC = Path("/proc")

Why = Literal["done", "background", "late", "interrupted"]
"""The end of a run: by itself; by itself, with background processes ended; by its time limit; with the turn."""


class CommandResult(NamedTuple):
    """The result of a command; `code` as in `subprocess`, negative for a signal."""

    output: str
    why: Why
    code: int


class CommandOutput:
    """The beginning and the end of the output, and its length."""

    def __init__(self) -> None:
        self._head, self._tail, self._total = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """Add output."""
        self._total += len(data)
        room = HEAD - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[:-TAIL]

    def text(self) -> str:
        """Return the kept output as text, with a note about what was left out."""
        left_out = self._total - len(self._head) - len(self._tail)
        if not left_out:
            return _text(bytes(self._head + self._tail))
        head, tail = bytes(self._head), bytes(self._tail)
        while head and head[-1] & 0xC0 == 0x80:  # never half a character
            head = head[:-1]
        told = f"[... {left_out:,} of {self._total:,} bytes left out ...]"
        return f"{_text(head[:-1] if head and head[-1] >= 0xC0 else head)}\n{told}\n{_text(tail.lstrip(_INSIDE))}"


_INSIDE = bytes(range(0x80, 0xC0))
"""Bytes that never begin a character."""


def run(command: Sequence[str | bytes], folder: str, environment: Mapping[str, str], timeout: float) -> CommandResult:
    """Run a command without input; `timeout` in seconds. Raises CommandError if it cannot be started."""
    output = CommandOutput()
    with watched() as cut:
        if cut.is_set():
            raise CommandError("the turn was interrupted; nothing was run")
        try:
            process = Popen(
                command, cwd=folder, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise CommandError(f"the command cannot be started: {getattr(error, 'strerror', None) or error}") from None
        assert process.stdout is not None
        with process.stdout as source:
            try:
                why = _follow(process, source.fileno(), output, monotonic() + timeout, cut)
            finally:
                _end(process)
            _drain(source.fileno(), output)
    code = process.returncode
    return CommandResult(output.text(), why, -signal.SIGKILL if code is None else code)


def _follow(process: "Popen[bytes]", source: int, output: CommandOutput, until: float, cut: Event) -> Why:
    """Read output until the command and all its processes have ended, or have to be ended."""
    ended, opened = None, True
    with DefaultSelector() as selector:
        selector.register(source, EVENT_READ)
        while True:
            if cut.is_set():
                return "interrupted"
            if ended is None and process.poll() is not None:
                ended = monotonic()
            if ended is not None and not opened and not _alive(process):
                return "done"
            if ended is not None and monotonic() > ended + LINGER:
                return "background" if _alive(process) else "done"
            if ended is None and monotonic() > until:
                return "late"
            if not opened:
                with suppress(TimeoutExpired):
                    process.wait(TICK)
                sleep(TICK / 5 if ended is not None else 0)
            elif selector.select(TICK):
                data = os.read(source, 1 << 16)
                output.add(data)
                opened = bool(data)


def _drain(source: int, output: CommandOutput) -> None:
    """Read the output written before the end; processes that left the session may write on, and are not waited for."""
    os.set_blocking(source, False)
    until = monotonic() + GRACE
    with suppress(BlockingIOError):
        while monotonic() < until and (data := os.read(source, 1 << 16)):
            output.add(data)


def _end(process: "Popen[bytes]") -> None:
    """Kill all processes of the command's group, and leave no zombie."""
    for each in (signal.SIGTERM, signal.SIGKILL):
        if not _alive(process):
            break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, each)
        until = monotonic() + GRACE
        while _alive(process) and monotonic() < until:
            sleep(TICK / 5)
    with suppress(TimeoutExpired):
        process.wait(GRACE)


def _alive(process: "Popen[bytes]") -> bool:
    """Return True if processes of the command's group still run, not counting zombies where they can be recognized: in
    a container nobody may collect them."""
    ended = process.poll() is not None
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    processes = [each for each in _PROC.iterdir() if each.name.isdigit()] if ended and _PROC.is_dir() else []
    return not processes or any(_runs_in(process.pid, each / "stat") for each in processes)


def _runs_in(group: int, stat: Path) -> bool:
    """Return True if the process described by `/proc/N/stat` belongs to the group and is no zombie."""
    try:
        state, _, found = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:3]
    except (OSError, ValueError):
        return False
    return int(found) == group and state not in "ZX"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")
