"""A program in a real tmux with its own server: send keys, and read the terminal as text."""

import os
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from patience import LIMIT


def environment(folder: Path, db: Path, **more: str) -> dict[str, str]:
    """Return the environment of a person whose home is in `folder`, with `more` variables."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "LC_ALL": "C.UTF-8",
        "TERM": "tmux-256color",
        "FOLDMARK_DB": str(db),
        **more,
    }


class Tmux:
    """A command line in a window of `columns` × `rows`, as a context manager. When the program has ended, the window
    shows `ended with CODE`."""

    def __init__(self, folder: Path, *command: str, env: Mapping[str, str], columns: int = 100, rows: int = 30) -> None:
        # The path of a socket has at most 104 bytes, and a server that is ending still holds its own.
        self._place = TemporaryDirectory(prefix="tmux-", dir="/tmp")
        self._command, self._env, self._folder = command, env, folder
        self._size = ("-x", str(columns), "-y", str(rows))

    def __enter__(self) -> Self:
        line = f"{shlex.join(self._command)}; echo ended with $?; exec sleep {LIMIT:.0f}"
        given = [f"{name}={value}" for name, value in self._env.items()]
        # Windows inherit tmux's environment, hence `env -i`; -f keeps the user's own settings out.
        shell = ("env", "-i", *given, "sh", "-c", line)
        copying = (";", "set-option", "-s", "set-clipboard", "on")  # else OSC 52 is ignored
        self._tmux("-f", "/dev/null", "new-session", "-d", *self._size, "-c", str(self._folder), *shell, *copying)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server")
        self._place.cleanup()

    @property
    def screen(self) -> str:
        """The text on the terminal."""
        return self._tmux("capture-pane", "-p")

    @property
    def styled(self) -> str:
        """The text on the terminal, with the escape sequences of its colours."""
        return self._tmux("capture-pane", "-p", "-e")

    @property
    def clipboard(self) -> str:
        """The text that the program has copied last."""
        return self._tmux("show-buffer")

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def type(self, text: str) -> None:
        """Type the text literally."""
        self._tmux("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names for them: `Enter`, `C-c`, `F2`, `Space`."""
        self._tmux("send-keys", *keys)

    def paste(self, text: str) -> None:
        """Paste the text as a terminal does, in brackets."""
        pasted = Path(self._place.name, "pasted")
        pasted.write_text(text, encoding="utf-8", newline="")
        self._tmux("load-buffer", str(pasted))
        self._tmux("paste-buffer", "-p")

    def line(self, text: str) -> None:
        """Type a line and send it."""
        self.type(text)
        self.press("Enter")

    def until(self, *texts: str) -> str:
        """Wait until all the texts are shown, and return the screen. A program that has ended shows nothing more."""
        end = time.monotonic() + LIMIT
        while not all(text in (screen := self.screen) for text in texts):
            assert "\nended with " not in screen, f"{texts!r} did not come; the screen:\n{screen}"
            assert time.monotonic() < end, f"{texts!r} did not come; the screen:\n{screen}"
            time.sleep(0.1)
        return screen

    def gone(self, text: str) -> None:
        """Wait until the text is no longer shown."""
        end = time.monotonic() + LIMIT
        while text in (screen := self.screen):
            assert time.monotonic() < end, f"{text!r} did not go; the screen:\n{screen}"
            time.sleep(0.1)

    def _tmux(self, *arguments: str) -> str:
        # A program inside tmux has its own controlling terminal; this client needs none. -u: UTF-8 in any locale.
        command = ["tmux", "-u", "-S", str(Path(self._place.name, "socket")), *arguments]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=LIMIT)
        assert done.returncode == 0, f"tmux {arguments[0]}: {done.stderr}"
        return done.stdout
