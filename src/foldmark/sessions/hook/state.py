"""What hooks and the status line remember of a session from one process to the next, and the log of what went wrong.

One small file a session: a line with the time of the last reminder and the size of the window in tokens, of the same
length always, so that who reads it without the lock never finds half of one.
"""

import os
import time

from foldmark.sessions.file_lock import locked
from foldmark.settings.user_folders import state_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FORGOTTEN_AFTER = 30 * 24 * 3600
"""Seconds without a change after which a session's file is removed."""

MOST_LOG = 128 * 1024
"""Bytes of the log; what is older is kept once more, as `hook.log.old`."""

_LOG = "hook.log"
_PREFIX = "session-"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_LINE = "{:017.3f} {:012d}\n"
_LENGTH = 31
_TRIES = 20  # to lock it, with 5 ms between them; it is locked for less than one


class SessionState:
    """What is remembered of the session that a coding agent calls `session`."""

    def __init__(self, environment: "Mapping[str, str]", session: str) -> None:
        self._folder = state_folder(environment)
        self._path = os.path.join(self._folder, f"{_PREFIX}{_file_name(session)}")

    @property
    def window(self) -> int | None:
        """The window's size in tokens as Claude Code told it; None if it never did."""
        try:
            with open(self._path, "rb") as file:
                return _parsed(file.read(_LENGTH + 1))[1] or None
        except OSError:
            return None

    def note_window(self, window: int) -> None:
        """Remember the window's size in tokens; 0 that it is not known. Raises OSError."""
        if self.window != window:
            self._change(lambda last, _: (last, window))

    def may_remind(self, interval: int) -> bool:
        """Whether there was no reminder in the last `interval` seconds; if so, this is one.

        Of several processes that ask at the same moment one is told so. Raises OSError where nothing can be kept.
        """

        def claimed(last: float, window: int) -> tuple[float, int] | None:
            now = time.time()
            return None if abs(now - last) < interval else (now, window)

        return self._change(claimed)

    def _change(self, change: "Callable[[float, int], tuple[float, int] | None]") -> bool:
        """Whether the line was changed: not if `change` says None, or if another process keeps the file locked."""
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
            os.close(descriptor)  # and with it the lock

    def _clean(self) -> None:
        """Remove what sessions left that nobody has gone on with; now and then, which is when one begins."""
        with os.scandir(self._folder) as entries:
            for entry in entries:
                try:
                    if entry.name.startswith(_PREFIX) and entry.stat().st_mtime < time.time() - FORGOTTEN_AFTER:
                        os.unlink(entry.path)
                except OSError:
                    continue  # somebody else was faster


def note_once(environment: "Mapping[str, str]", text: str) -> None:
    """Add a line to the log of hooks, unless the log has it already. A log that cannot be read gets none."""
    try:
        with open(os.path.join(state_folder(environment), _LOG), "rb") as file:
            known = f" {_as_line(text)}\n".encode("utf-8", "backslashreplace") in file.read(2 * MOST_LOG)
    except FileNotFoundError:
        known = False
    except (OSError, ValueError):
        return
    if not known:
        note(environment, text)


def note(environment: "Mapping[str, str]", text: str) -> None:
    """Add a line to the log of hooks. What is wrong with the log itself is of no interest to anybody."""
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {_as_line(text)}\n"
    try:
        folder = state_folder(environment)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = os.path.join(folder, _LOG)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if os.fstat(descriptor).st_size + len(line) > MOST_LOG:
                os.replace(path, f"{path}.old")
                os.close(descriptor)
                descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(descriptor, line.encode("utf-8", "backslashreplace"))
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return


def _as_line(text: str) -> str:
    return " ".join(text.split())[:500]


def _file_name(session: str) -> str:
    """The session's id where that is an ordinary one, otherwise a hash of it: it comes from outside."""
    if 0 < len(session) <= 64 and _PLAIN.issuperset(session):
        return session
    from hashlib import sha256  # 3 ms

    return f"={sha256(session.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _opened(path: str, more: int = 0) -> int:
    return os.open(path, os.O_RDWR | more | getattr(os, "O_BINARY", 0), 0o600)


def _lock(descriptor: int) -> bool:
    """Whether the file is ours until it is closed."""
    for _ in range(_TRIES):
        if locked(descriptor):
            return True
        time.sleep(0.005)
    return False


def _parsed(line: bytes) -> tuple[float, int]:
    """Time of the last reminder and window; 0 for what is not known, as for a line that is none of ours."""
    words = line.split() if len(line) == _LENGTH else []
    try:
        return float(words[0]), int(words[1])
    except (IndexError, ValueError):
        return 0.0, 0
