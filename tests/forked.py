"""Python programs as forks of a process that has already imported their modules: each starts in 10 ms instead of 400.

Like a newly started program, a fork has its own process id, descriptors, environment, folder, signals and end.
Tests of the start itself use `subprocess`. With FOLDMARK_DEEP=1 nothing is forked.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import gc
import inspect
import json
import os
import runpy
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

DEEP = os.environ.get("FOLDMARK_DEEP") == "1"

PROGRAM = str(Path(sys.executable).with_name("foldmark"))

_IMPORTED = (
    *("chat", "cli", "commands", "log", "mcp", "providers", "runtime", "sessions", "settings", "stores/sqlite"),
    "tools",
)
"""Folders of Foldmark whose modules the programs of most tests import."""

_AT_START = ("PYTHON", "LC_", "LANG", "TZ")
"""Prefixes of variables that Python reads when it starts. Without a locale, it uses C.UTF-8."""

_AT_ANY_TIME = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")

_LENGTH = struct.Struct("!I")
_NUMBER = struct.Struct("!i")


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen` of a command that is `foldmark` or Python with a script or `-c`. `terminal` makes its standard
    input its controlling terminal. `site` is a folder of packages that are not yet imported, which its environment
    names in `PYTHONPATH`."""

    def __init__(
        self, command: Sequence[str | Path], *, terminal: bool = False, site: Path | None = None, **how: Any
    ) -> None:
        self._terminal, self._site = terminal, site
        self._status: socket.socket | None = None
        super().__init__([os.fspath(word) for word in command], **how)

    def _execute_child(self, *given: Any) -> None:
        told = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments  # type: ignore[attr-defined]
        environment = dict(os.environ if told["env"] is None else told["env"])
        words: list[str] = told["args"]
        folder = _folder(told["cwd"])
        if DEEP or folder is None or not _is_forked(words, environment, self._site):
            if self._terminal:
                words = [sys.executable, "-c", _TAKES_TERMINAL, *words]
            super()._execute_child(words, *given[1:])  # type: ignore[misc]
            return
        files = [told[name] if told[name] != -1 else at for at, name in enumerate(("p2cread", "c2pwrite", "errwrite"))]
        mask = os.umask(0)
        os.umask(mask)
        request = {
            "words": words,
            "environment": environment,
            "folder": folder,
            "mask": mask,
            "session": bool(told["start_new_session"]) or self._terminal,
            "terminal": self._terminal,
            "site": str(self._site or ""),
        }
        self._status = _server().start(request, files)
        self.pid = _NUMBER.unpack(_exactly(self._status, _NUMBER.size))[0]
        self._child_created = True
        self._close_pipe_fds(*(told[n] for n in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")))  # type: ignore[attr-defined]

    def _internal_poll(self, *given: Any, **more: Any) -> int | None:
        if self._status is None:
            return super()._internal_poll(*given, **more)  # type: ignore[misc, no-any-return]
        if self.returncode is None:
            ended, status = self._try_wait(os.WNOHANG)
            if ended:
                self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._status is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc, no-any-return]
        with selectors.DefaultSelector() as ready:
            ready.register(self._status, selectors.EVENT_READ)
            if not ready.select(0 if wait_flags & os.WNOHANG else None):
                return 0, 0
        status = _NUMBER.unpack(_exactly(self._status, _NUMBER.size))[0]
        self._status.close()
        return self.pid, status


def run(
    command: Sequence[str | Path], *, input: bytes | str | None = None, timeout: float | None = None, **how: Any
) -> subprocess.CompletedProcess[Any]:
    """Run such a command as `subprocess.run` does."""
    if how.pop("capture_output", False):
        how |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        how["stdin"] = subprocess.PIPE
    check = how.pop("check", False)
    with Popen(command, **how) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


# The child makes the terminal its controlling one, then becomes the program. Under `nohup` the tests ignore SIGHUP, and
# the program would inherit that.
_TAKES_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def _folder(given: Path | str | None) -> str | None:
    """Return the folder to start in; None if it no longer exists."""
    try:
        return str(Path(given or ".").absolute())
    except FileNotFoundError:
        return None


def _is_forked(words: list[str], environment: dict[str, str], site: Path | None) -> bool:
    known = words[0] == PROGRAM or (words[0] == sys.executable and (words[1] == "-c" or words[1].endswith(".py")))
    paths = _environment().get("PYTHONPATH", "")
    expected = {**_environment(), "PYTHONPATH": os.pathsep.join(filter(None, (str(site or ""), paths)))}
    return known and _read_at_start(environment) == _read_at_start(expected)


@cache
def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "TZ")}
    return {**kept, "LC_ALL": "C.UTF-8", "TERM": "dumb"}


def _read_at_start(environment: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if value and name.startswith(_AT_START) and name not in _AT_ANY_TIME and value != "C.UTF-8"
    }


# The process that forks


class _Server:
    """The process that forks, as seen from the tests. All workers of a run share it: it imports for a few seconds."""

    def __init__(self) -> None:
        path = Path(tempfile.gettempdir()) / f"forks-{os.environ.get('PYTEST_XDIST_TESTRUNUID', uuid4().hex)[:12]}"
        self._process: subprocess.Popen[bytes] | None = None
        self._socket = socket.socket(socket.AF_UNIX)
        while (state := self._socket.connect_ex(str(path))) != 0:
            if state == errno.ENOENT:
                self._process = _started(path) or self._process
            else:  # another worker does not listen there yet
                time.sleep(0.01)
        self._lock = threading.Lock()

    def start(self, request: dict[str, Any], files: list[int]) -> socket.socket:
        """Start a program with these files as its first three. Return a socket that reports its id and its end."""
        status, theirs = socket.socketpair()
        text = json.dumps(request).encode()
        with theirs, self._lock:
            socket.send_fds(self._socket, [_LENGTH.pack(len(text))], [theirs.fileno(), *files])
            self._socket.sendall(text)
        return status

    def close(self) -> None:
        """Let go of the process, which ends when all workers have. The worker that started it waits for that."""
        self._socket.close()
        if self._process:
            self._process.wait()


def _started(path: Path) -> subprocess.Popen[bytes] | None:
    """Start the process that forks, which listens at this path and may still be importing. None if another worker
    starts it at this moment."""
    with socket.socket(socket.AF_UNIX) as listening:
        try:
            listening.bind(str(path))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return None
            raise
        listening.listen(256)
        return subprocess.Popen(
            [sys.executable, __file__, str(listening.fileno()), str(path)],
            env=_environment(),
            pass_fds=[listening.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


@cache
def _server() -> _Server:
    server = _Server()
    atexit.register(server.close)
    return server


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise EOFError("the process that forks has ended")
        data += more
    return data


def _serve(listening: socket.socket, path: Path) -> tuple[dict[str, Any], list[int]]:
    """Fork for each request of the workers, and report each exit, until all workers have closed their connections.
    Return only in the forks, each with its request and files."""
    running: dict[int, socket.socket] = {}
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    listening.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ready = selectors.DefaultSelector()
    ready.register(listening, selectors.EVENT_READ)
    ready.register(woken, selectors.EVENT_READ)
    workers: set[socket.socket] = set()
    while True:
        for worker in [key.fileobj for key, _ in ready.select()]:
            if worker is woken:
                woken.recv(1 << 12)
                with suppress(ChildProcessError):
                    while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                        with running.pop(ended[0]) as status, suppress(OSError):
                            status.sendall(_NUMBER.pack(ended[1]))
                continue
            if worker is listening:
                with suppress(BlockingIOError):
                    workers.add(accepted := listening.accept()[0])
                    accepted.setblocking(True)
                    ready.register(accepted, selectors.EVENT_READ)
                continue
            assert isinstance(worker, socket.socket)
            head, files, _, _ = socket.recv_fds(worker, _LENGTH.size, 4)
            if not head:
                ready.unregister(worker)
                workers.remove(worker)
                worker.close()
                if not workers and not _is_awaited(listening, path):
                    os._exit(0)
                continue
            request = json.loads(_exactly(worker, _LENGTH.unpack(head)[0]))
            status = socket.socket(fileno=files[0])
            if pid := os.fork():
                running[pid] = status
                with suppress(OSError):
                    status.sendall(_NUMBER.pack(pid))
                for file in files[1:]:
                    os.close(file)
                continue
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ready.close()
            for opened in (listening, woken, wake, status, *workers, *running.values()):
                opened.close()
            return request, files[1:]


def _is_awaited(listening: socket.socket, path: Path) -> bool:
    """Return whether a worker has connected that was not heard yet. Those after this start a process of their own."""
    path.unlink(missing_ok=True)
    return bool(select.select([listening], [], [], 0)[0])


def _become(request: dict[str, Any], files: list[int]) -> None:
    """Set up this process as `subprocess` sets up a new one."""
    if request["session"]:
        os.setsid()
    for target, file in enumerate(files):
        os.dup2(file, target)
    for file in files:
        os.close(file)
    if request["terminal"]:
        import termios

        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if request["site"]:
        sys.path.insert(1, request["site"])
    os.umask(request["mask"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        lines = 1 if name == "stderr" or os.isatty(number) else -1
        errors = "backslashreplace" if name == "stderr" else "surrogateescape"
        stream = open(number, mode, lines, "utf-8", errors, closefd=False)  # noqa: SIM115
        assert isinstance(stream, TextIOWrapper)
        stream.reconfigure(write_through=mode == "w" and bool(os.environ.get("PYTHONUNBUFFERED")))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _play(words: list[str]) -> None:
    """Run the command."""
    if words[0] == PROGRAM:
        sys.argv = words
        from foldmark.cli import main

        sys.exit(main())
    sys.path[0] = "" if words[1] == "-c" else str(Path(words[1]).parent)
    if words[1] == "-c":
        sys.argv = ["-c", *words[3:]]
        exec(compile(words[2], "<string>", "exec"), {"__name__": "__main__"})
        return
    sys.argv = words[1:]
    runpy.run_path(words[1], run_name="__main__")


def _end(code: object) -> NoReturn:
    """End as the interpreter does, but without tearing down the imported modules, which nobody would see."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        code = 120
    os._exit((code or 0) & 0xFF)


def _main(listening: socket.socket, path: Path) -> None:
    source = Path(__file__).parents[1] / "src"
    for folder in _IMPORTED:
        for file in sorted((source / "foldmark" / folder).rglob("*.py")):
            import_module(".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__"))
    import_module("openai")  # takes longer than all of Foldmark
    gc.collect()
    gc.freeze()
    request, files = _serve(listening, path)
    _become(request, files)
    try:
        _play(request["words"])
    except SystemExit as error:
        _end(error.code)
    _end(0)


if __name__ == "__main__":
    _main(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]))
