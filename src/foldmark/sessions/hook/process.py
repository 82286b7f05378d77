"""Standard input and output, the log, and the state of a session between processes, for hooks and status lines.

The state is one small file per session: a line with the time of the last reminder and the window in tokens. The line
has a fixed length, so a reader without the lock never sees half of it.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping

from foldmark.sessions.file_lock import locked
from foldmark.settings.user_folders import state_folder

MAX_INPUT = 16 << 20
"""Maximum bytes to parse as JSON. The input contains a tool's result, which may be an image."""

MAX_READ = 1 << 30
"""Maximum bytes to read. Beyond that, the writing process gets an error."""

PATIENCE = 10
"""Maximum seconds to wait for the first byte, since a pipe may have no writer."""

FORGOTTEN_AFTER = 30 * 24 * 3600
"""Seconds without a change after which the file of a session is removed."""

EDIT_SECONDS = 30.0
"""Seconds within which a client has installed an edit, if it does at all."""

MOST_LOG = 128 * 1024
"""Maximum bytes of the log. Older lines are in `hook.log.old`, which is replaced each time."""

PREFIX = "session-"
"""Beginning of the names of files about one session."""

_LOG = "hook.log"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_LINE = "{:017.3f} {:012d}\n"
_LENGTH = 31
_TRIES = 20  # attempts to lock the file, 5 ms apart; a process holds the lock for less than 1 ms


def read() -> dict[str, object]:
    """Return the JSON object on standard input. Raises OSError, and ValueError if there is no object."""
    if sys.stdin is None:  # closed by the caller; another file may have its descriptor
        raise ValueError("standard input is closed")
    if os.isatty(0):
        why = "standard input is a terminal; Claude Code runs this, `foldmark install claude` sets it up"
        sys.stderr.write(f"foldmark: {why}\n")
        raise ValueError(why)
    data = _read_all()
    if len(data) > MAX_INPUT:
        raise ValueError(f"standard input has more than {MAX_INPUT >> 20} MB")
    try:
        found = json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))
    except RecursionError:
        raise ValueError("standard input is nested too deeply") from None
    if not isinstance(found, dict) or not found:
        raise ValueError("standard input is no JSON object")
    return found


def text(given: Mapping[str, object], key: str) -> str:
    """Return a text of the input; "" if it is missing or not a text."""
    value = given.get(key)
    return value if isinstance(value, str) else ""


def write(text: str) -> None:
    """Print one line. Raises OSError."""
    if sys.stdout is None:
        raise OSError("standard output is closed")
    data = f"{text}\n".encode("utf-8", "replace")
    while data:
        data = data[os.write(1, data) :]


class SessionState:
    """The state of one session; `session` is the id that the coding agent gives it."""

    def __init__(self, environment: Mapping[str, str], session: str) -> None:
        self._folder = state_folder(environment)
        self._path = os.path.join(self._folder, f"{PREFIX}{file_name(session)}")

    @property
    def window(self) -> int | None:
        """The window in tokens that Claude Code reported, None if it did not."""
        try:
            with open(self._path, "rb") as file:
                return _parsed(file.read(_LENGTH + 1))[1] or None
        except OSError:
            return None

    def note_window(self, window: int) -> None:
        """Note the window in tokens; 0 means unknown. Raises OSError."""
        if self.window != window:
            self._change(lambda last, _: (last, window))

    def may_remind(self, interval: int) -> bool:
        """Return True, and count this as a reminder, if there was none in the last `interval` seconds.

        If several processes ask at the same moment, only one gets True. Raises OSError if the state cannot be stored.
        """

        def claimed(last: float, window: int) -> tuple[float, int] | None:
            now = time.time()
            return None if abs(now - last) < interval else (now, window)

        return self._change(claimed)

    def note_edit(self) -> None:
        """Note that the client installs an edit now, by a compaction without a summary. Raises OSError."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        os.close(os.open(f"{self._path}.edit", os.O_WRONLY | os.O_CREAT, 0o600))

    def took_edit(self) -> bool:
        """Return True if the client has just installed an edit, and forget it."""
        file = f"{self._path}.edit"
        try:
            age = time.time() - os.stat(file).st_mtime
            os.unlink(file)
        except OSError:
            return False
        return abs(age) < EDIT_SECONDS

    def _change(self, change: Callable[[float, int], tuple[float, int] | None]) -> bool:
        """Return True if the line was changed, False if `change` returns None or another process holds the lock."""
        try:
            descriptor = _opened(self._path)
        except FileNotFoundError:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._clean()
            descriptor = _opened(self._path, os.O_CREAT)
        try:
            if not _lock(descriptor):
                return False
            os.lseek(descriptor, 0, os.SEEK_SET)
            changed = change(*_parsed(os.read(descriptor, _LENGTH + 1)))
            if changed:
                os.lseek(descriptor, 0, os.SEEK_SET)
                os.write(descriptor, _LINE.format(*changed).encode())
                os.ftruncate(descriptor, _LENGTH)
            return bool(changed)
        finally:
            os.close(descriptor)  # this also releases the lock

    def _clean(self) -> None:
        """Remove the files of old sessions."""
        with os.scandir(self._folder) as entries:
            for entry in entries:
                try:
                    if entry.name.startswith(PREFIX) and entry.stat().st_mtime < time.time() - FORGOTTEN_AFTER:
                        os.unlink(entry.path)
                except OSError:
                    continue  # another process was faster


def note_once(environment: Mapping[str, str], text: str) -> None:
    """Add a line to the log of hooks unless the log contains it. An unreadable log gets no line."""
    try:
        with open(os.path.join(state_folder(environment), _LOG), "rb") as file:
            known = f" {_as_line(text)}\n".encode("utf-8", "backslashreplace") in file.read(2 * MOST_LOG)
    except FileNotFoundError:
        known = False
    except (OSError, ValueError):
        return
    if not known:
        note(environment, text)


def note(environment: Mapping[str, str], text: str) -> None:
    """Add a line to the log of hooks. Ignore errors of the log itself, which cannot be reported anywhere."""
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {_as_line(text)}\n"
    try:
        folder = state_folder(environment)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = os.path.join(folder, _LOG)
        if os.path.exists(path) and os.path.getsize(path) + len(line) > MOST_LOG:
            os.replace(path, f"{path}.old")
        with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab", buffering=0) as file:
            file.write(line.encode("utf-8", "backslashreplace"))
    except (OSError, ValueError):
        return


def _as_line(text: str) -> str:
    return " ".join(text.split())[:500]


def file_name(session: str) -> str:
    """Return an ordinary session id unchanged, and a hash of any other: the id comes from another program."""
    if 0 < len(session) <= 64 and _PLAIN.issuperset(session):
        return session
    from hashlib import sha256  # 3 ms

    return f"={sha256(session.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _opened(path: str, more: int = 0) -> int:
    return os.open(path, os.O_RDWR | more | getattr(os, "O_BINARY", 0), 0o600)


def _lock(descriptor: int) -> bool:
    """Lock the file until it is closed. Return False if another process holds the lock."""
    for _ in range(_TRIES):
        if locked(descriptor):
            return True
        time.sleep(0.005)
    return False


def _parsed(line: bytes) -> tuple[float, int]:
    """Return the time of the last reminder and the window; 0 if unknown or if the line has another form."""
    words = line.split() if len(line) == _LENGTH else []
    try:
        return float(words[0]), int(words[1])
    except (IndexError, ValueError):
        return 0.0, 0


def _read_all() -> bytes:
    """Return standard input, cut shortly after `MAX_INPUT` bytes."""
    if sys.platform != "win32":
        from select import select

        if not select([0], [], [], PATIENCE)[0]:
            raise ValueError(f"nobody writes to standard input, after {PATIENCE} seconds")
    pieces, kept, read = [], 0, 0
    while read < MAX_READ and (piece := os.read(0, 1 << 16)):
        read += len(piece)
        if kept <= MAX_INPUT:
            pieces.append(piece)
            kept += len(piece)
    return b"".join(pieces)
