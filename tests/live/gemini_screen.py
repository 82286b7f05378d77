"""Gemini CLI in a real terminal: its home folder, and how to type a line."""

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from screens import Screen, common_variables

from patience import LIMIT

KEY = "planted-key-9a21"
MODEL = "gemini-2.5-pro"
ENTER_LOST = 5.0
"""Seconds after which Enter is pressed again: Gemini CLI sometimes loses one just after its start."""


def selected(home: Path, how: str, **more: Any) -> None:
    """Write Gemini CLI's settings with a sign-in method and more settings."""
    (home / ".gemini").mkdir(parents=True, exist_ok=True)
    settings = {"security": {"auth": {"selectedType": how}}, "privacy": {"usageStatisticsEnabled": False}, **more}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))


def folders(folder: Path, **settings: Any) -> tuple[Path, Path]:
    """Create and return a home with settings, and a working folder with two notes."""
    home, work = folder / "home", folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    selected(home, "gemini-api-key", **settings)
    for name, line in (("a", "alpha\n"), ("b", "beta\n")):
        (work / f"{name}.txt").write_text(line * 200)
    return home, work


def variables(folder: Path, upstream: str) -> dict[str, str]:
    return {
        **common_variables(folder),
        "GOOGLE_GEMINI_BASE_URL": upstream,
        "GEMINI_API_KEY": KEY,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_CLI_NO_RELAUNCH": "true",  # else it would start itself again, with more memory
    }


def program(*, live: bool, model: str = MODEL) -> list[str]:
    return [*([sys.executable, "-m", "foldmark", "live"] if live else []), "gemini", "-m", model]


class GeminiScreen(Screen):
    """Gemini CLI on a terminal of 100 columns and 60 lines."""

    sign = ">"

    def __init__(
        self, folder: Path, upstream: str, *more: str, live: bool, model: str = MODEL, **settings: Any
    ) -> None:
        _, work = folders(folder, **settings)
        words = [*program(live=live, model=model), *more]
        super().__init__(work, variables(folder, upstream), words, rows=60)
        self.wait("Type your message")

    @property
    def line(self) -> str:
        """The line that is being typed, or the text in its place."""
        return next(iter(re.findall(r"^ [>*] +(.*?) *$", self.text, re.MULTILINE)[::-1]), "")

    def type(self, text: str, wanted: str, *, stays: bool = True) -> None:
        """Type a line once the previous answer has ended, and wait for its answer. Every line stays on this screen."""
        assert self._comes(lambda: "esc to cancel" not in self.text), self.text
        self.queue(text)
        assert self._comes(lambda: f"{self.sign} {text}" in self.text), self.text
        self.wait(wanted, text)

    def queue(self, text: str) -> None:
        """Type a line, also while Gemini CLI works, and wait until it has left the input."""
        self._tmux("send-keys", "-l", text)
        assert self._comes(lambda: self.line == text), self.text
        for _ in range(int(LIMIT / ENTER_LOST)):
            # An Enter directly after a letter would count as part of a pasted text.
            self._tmux("send-keys", "End", "Enter")
            if self._comes(lambda: self.line != text, ENTER_LOST):
                return
        raise AssertionError(self.text)

    def close(self) -> None:
        """Quit, so that Gemini CLI ends at once: it would keep running without its terminal."""
        if "esc to cancel" not in self.text:
            self._tmux("send-keys", "-l", "/quit")
            if self._comes(lambda: self.line == "/quit", ENTER_LOST):
                self._tmux("send-keys", "End", "Enter")
                self._comes(lambda: not self._tmux("list-panes"), ENTER_LOST)
        super().close()

    def _comes(self, there: Callable[[], bool], seconds: float = LIMIT) -> bool:
        """Return True once `there` is true; False if it is not after `seconds`."""
        until = time.monotonic() + seconds
        while not there():
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True
