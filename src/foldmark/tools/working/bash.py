"""`bash`: one shell command in the working folder, after a person has agreed to it [SPEC 4.1].

It runs in its own process session, without the providers' keys and with bounded output, until it ends, its time limit
expires, or the turn is interrupted. All processes of that session are ended, also if this process is killed. A process
that leaves the session (`setsid`) keeps running and is not waited for. Not available on Windows.
"""

import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from subprocess import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired
from threading import Event
from time import monotonic, sleep
from typing import IO, Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from foldmark.core.codec import SHORTEST
from foldmark.core.errors import CommandError
from foldmark.core.wording import one_line
from foldmark.log import Agent
from foldmark.operations.effects import Asking
from foldmark.sending.interruption import watched
from foldmark.settings.access import keys
from foldmark.tools.tool import Coverage, Tool
from foldmark.tools.working.command_prefix import command_coverage
from foldmark.tools.working.paths import working_folder

HEAD, TAIL = 64 * 1024, 64 * 1024
"""Bytes of the beginning and of the end of the output that are kept."""
TICK = 0.05
"""Seconds between two checks whether the command has ended or must end."""
LINGER = 0.5
"""Seconds for background processes of a command to end on their own."""
GRACE = 0.3
"""Seconds between asking processes to end and killing them."""

_PROC = Path("/proc")

End = Literal["done", "background", "late", "interrupted"]
"""How a run ended: on its own; on its own, with background processes killed; by its time limit; with the turn."""


class CommandResult(NamedTuple):
    """The result of a command; `code` as in `subprocess`, negative for a signal."""

    output: str
    end: End
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
        """Return the kept output as text, with a note about the omitted bytes."""
        left_out = self._total - len(self._head) - len(self._tail)
        if not left_out:
            return _text(bytes(self._head + self._tail))
        head, tail = bytes(self._head), bytes(self._tail)
        while head and head[-1] & 0xC0 == 0x80:  # cut between characters
            head = head[:-1]
        note = f"[... {left_out:,} of {self._total:,} bytes left out ...]"
        return f"{_text(head[:-1] if head and head[-1] >= 0xC0 else head)}\n{note}\n{_text(tail.lstrip(_INSIDE))}"


_INSIDE = bytes(range(0x80, 0xC0))
"""Bytes that never begin a character."""


def run(command: Sequence[str | bytes], folder: str, environment: Mapping[str, str], timeout: float) -> CommandResult:
    """Run a command without input; `timeout` in seconds. Raises CommandError if it cannot be started."""
    output = CommandOutput()
    with watched() as cut:
        if cut.is_set():
            raise CommandError("the turn was interrupted; nothing was run")
        with _ended_with_us(command) as (words, stdin):
            try:
                process = Popen(
                    words, cwd=folder, env=environment, stdin=stdin, stdout=PIPE, stderr=STDOUT, start_new_session=True
                )
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise CommandError(f"the command cannot be started: {reason}") from None
            assert process.stdout is not None
            with process.stdout as source:
                try:
                    end = _follow(process, source.fileno(), output, monotonic() + timeout, cut)
                finally:
                    _end(process)
                _drain(source.fileno(), output)
    code = process.returncode
    return CommandResult(output.text(), end, -signal.SIGKILL if code is None else code)


_WATCHER = 'read group && [ "$group" ] && { read _ || { kill -TERM -"$group"; sleep 1; kill -KILL -"$group"; }; }'
"""A shell script that reads a process group and waits for a line. If there is none, it ends the group."""

_ANNOUNCED = """echo $$ >&0; exec "$@" < /dev/null"""
"""A shell script that tells the watcher its process group, and becomes a command without input. The command could run
on if this process were killed before it has told the group itself."""


@contextmanager
def _ended_with_us(command: Sequence[str | bytes]) -> Iterator[tuple[Sequence[str | bytes], IO[bytes] | int]]:
    """End a command if this process is killed within the block, which nothing here can then do. Yield the words and the
    standard input to start it with, as the leader of a process group."""
    try:
        watcher = Popen(
            ("/bin/sh", "-c", _WATCHER),
            cwd="/",
            env={"PATH": os.defpath},
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
        )
    except OSError:  # no more processes: the command itself runs
        yield command, DEVNULL
        return
    assert watcher.stdin is not None
    try:
        yield ("/bin/sh", "-c", _ANNOUNCED, "sh", *command), watcher.stdin
    finally:
        with suppress(BrokenPipeError), watcher.stdin as end:
            end.write(b"\n")
        watcher.wait()


def _follow(process: "Popen[bytes]", source: int, output: CommandOutput, until: float, cut: Event) -> End:
    """Read output until the command and all its processes have ended, or must be ended."""
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
    """Read the output written before the end. Processes that left the session may keep writing; do not wait for
    them."""
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
    """Return True if processes of the command's group still run. Zombies do not count where `/proc` shows them: in a
    container, no process may collect them."""
    ended = process.poll() is not None
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    processes = [each for each in _PROC.iterdir() if each.name.isdigit()] if ended and _PROC.is_dir() else []
    return not processes or any(_runs_in(process.pid, each / "stat") for each in processes)


def _runs_in(group: int, stat: Path) -> bool:
    """Return True if the process described by `/proc/N/stat` belongs to the group and is not a zombie."""
    try:
        state, _, found = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:3]
    except (OSError, ValueError):
        return False
    return int(found) == group and state not in "ZX"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


LONGEST = 100_000
"""Maximum number of bytes of a command. Systems accept up to 128 KB."""


class BashArguments(Struct, frozen=True, forbid_unknown_fields=True):
    command: str
    timeout: Annotated[int, Meta(ge=1, le=3600, description="Seconds, 120 if left out, at most 3600")] = 120


def _question(agent: Agent, arguments: BashArguments) -> str:
    """Return the question to a person: the command, line by line, with control characters made visible."""
    if sys.platform == "win32":
        raise CommandError("bash is not available on Windows; go on without it")
    command = arguments.command
    if not command.strip() or "\0" in command or len(command.encode()) > LONGEST:
        raise CommandError(f"a command must be a text of at most {LONGEST:,} bytes without NUL; use a file for more")
    lines = "\n".join(f"  {one_line(line)}" for line in command.split("\n"))
    return f"run in {one_line(working_folder(agent.log))}:\n{lines}"


def _coverage(agent: Agent, arguments: BashArguments) -> Coverage:
    return command_coverage("bash", arguments.command, working_folder(agent.log))


def _run(agent: Agent, arguments: BashArguments, asking: Asking) -> str:
    shell = shutil.which("bash") or "/bin/sh"
    command = (shell, "-c", "--", arguments.command.encode())
    result = run(command, working_folder(agent.log), environment(agent), arguments.timeout)
    output = result.output if not result.output or result.output.endswith("\n") else f"{result.output}\n"
    return f"{output}[{_ended(result, arguments.timeout)}]"


def environment(agent: Agent) -> dict[str, str]:
    """Return the environment of this process without the providers' keys, including copies under other names."""
    hidden = keys(os.environ, agent.log.given)
    secrets = [key for key in hidden.values() if len(key) >= SHORTEST]
    others = {name: value for name, value in os.environ.items() if name not in hidden}
    return {name: value for name, value in others.items() if not any(key in value for key in secrets)}


def _ended(result: CommandResult, timeout: int) -> str:
    match result.end:
        case "late":
            return f"ended after {timeout} s, before it was done; `timeout` takes up to 3600"
        case "interrupted":
            return "interrupted before it was done"
    how = f"exit code {result.code}" if result.code >= 0 else f"ended by {_signal(-result.code)}"
    if result.end == "background":
        return f"{how}; what it left running was ended. To keep it running: setsid COMMAND > FILE 2>&1 &"
    return how


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


BASH = Tool.of(
    "bash",
    "Run a command with bash in the working folder; each one begins there anew. The person is asked first. Answers its "
    "output, error output included, and its exit code. There is no input and no terminal. What it leaves running in "
    "the background is ended with it.",
    BashArguments,
    _run,
    question=_question,
    coverage=_coverage,
)
