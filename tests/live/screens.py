"""Coding agents in a real terminal: keys go in, and the screen comes out as text."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import ClassVar

import psutil

from foldmark.live.live_agent import agent_named
from patience import LIMIT

BIN = Path(os.environ.get("FOLDMARK_CLIENTS") or Path(__file__).parents[2] / ".clients") / "node_modules" / ".bin"
KEY = "sk-planted-77aa"
EARLIEST_WITH_MODS = (2, 1, 287)
"""The first version of Claude Code that loads mods."""
_NUMBERS = count(1)
"""Each terminal has a separate server, because one that should have ended may still exist."""


def claude_version() -> tuple[int, ...]:
    """Return the version of the Claude Code that is installed."""
    said = subprocess.run([BIN / "claude", "--version"], capture_output=True, text=True).stdout
    return tuple(map(int, re.findall(r"\d+", said)[:3]))


class Screen:
    """A program on a terminal of 100 columns. `sign` precedes a prompt."""

    sign: ClassVar[str] = "❯"

    def __init__(self, work: Path, variables: Mapping[str, str], words: Sequence[str], rows: int = 40) -> None:
        self._name = f"foldmark-{os.getpid()}-{next(_NUMBERS)}"
        program = ["env", "-i", *(f"{name}={value}" for name, value in variables.items()), *words]
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", str(rows), "-c", str(work), *program)

    def _tmux(self, *words: str) -> str:
        return subprocess.run(["tmux", "-L", self._name, *words], capture_output=True, text=True).stdout

    @property
    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def wait(self, wanted: str, behind: str | None = None) -> None:
        """Wait until a text is on the screen: after the prompt `behind`, which may appear a moment later than the keys,
        or anywhere if it is None."""
        until = time.monotonic() + LIMIT
        while not _shows(self.text, wanted, None if behind is None else f"{self.sign} {behind}"):
            assert time.monotonic() < until, f"{wanted!r} did not come:\n{self.text}"
            time.sleep(0.1)

    def wait_for_prompt(self, ready: str = "? for shortcuts") -> None:
        """Wait until the program shows that it takes prompts. Claude Code from 2.1.332 on begins in another mode, and
        says so in that place."""
        until = time.monotonic() + LIMIT
        while ready not in self.text and "auto mode on" not in self.text:
            assert time.monotonic() < until, f"it did not begin:\n{self.text}"
            time.sleep(0.1)

    def type(self, text: str, wanted: str, *, stays: bool = True) -> None:
        """Type a line, and wait for its answer: after the line, or anywhere if the line does not stay on the screen."""
        self._tmux("send-keys", "-l", text)
        self.wait(text)
        self._tmux("send-keys", "Enter")
        self.wait(wanted, text if stays else None)

    def queue(self, text: str) -> None:
        """Type a line while the agent works, and wait until it has left the input."""
        self._tmux("send-keys", "-l", text)
        self._typed(lambda line: text in line)
        self._tmux("send-keys", "Enter")
        self._typed(lambda line: text not in line)

    def _typed(self, wanted: Callable[[str], bool]) -> None:
        """Wait until the line that is being typed is as wanted."""
        until = time.monotonic() + LIMIT
        while not wanted(next((line for line in self.text.split("\n")[::-1] if line.startswith(self.sign)), "")):
            assert time.monotonic() < until, self.text
            time.sleep(0.1)

    def press(self, key: str) -> None:
        self._tmux("send-keys", key)

    def changed(self, before: str) -> None:
        """Wait until the screen is no longer as `before`."""
        until = time.monotonic() + LIMIT
        while self.text == before:
            assert time.monotonic() < until, before
            time.sleep(0.1)

    def close(self) -> None:
        """End the terminal, and wait for its processes, which may still write to their home."""
        number = self._tmux("list-panes", "-F", "#{pane_pid}").strip()
        running = []
        if number:
            shell = psutil.Process(int(number))
            running = [shell, *shell.children(recursive=True)]
        self._tmux("kill-server")
        _, left = psutil.wait_procs(running, 3)
        for each in left:  # Gemini CLI keeps running without its terminal
            each.kill()
        assert not psutil.wait_procs(left, LIMIT)[1]


def _shows(screen: str, wanted: str, behind: str | None) -> bool:
    if behind is None:
        return wanted in screen
    _, prompt, answer = screen.rpartition(behind)
    return bool(prompt) and wanted in answer


def common_variables(folder: Path) -> dict[str, str]:
    """Return the variables of a program whose home and database are in a folder."""
    return {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "NO_PROXY": "127.0.0.1",
        "FOLDMARK_DB": str(folder / "live.db"),
    }


class ClaudeScreen(Screen):
    """Claude Code, run by `foldmark live` or directly. It already trusts its folder and its key, and asks before it
    runs a tool: in the auto mode of newer versions the provider's own classifier decides, which no test has."""

    def __init__(self, folder: Path, upstream: str, *more: str, live: bool = True, model: str = "") -> None:
        self.database = folder / "live.db"
        home, work = folder / "home", folder / "work"
        home.mkdir(exist_ok=True)
        work.mkdir(exist_ok=True)
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        known = {"approved": [KEY], "rejected": []}
        settings = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": known}
        if not (home / ".claude.json").exists():
            (home / ".claude.json").write_text(json.dumps({**settings, "projects": {str(work): trusted}}))
        variables = {
            **common_variables(folder),
            "ANTHROPIC_BASE_URL": upstream,
            "ANTHROPIC_API_KEY": KEY,
            "DISABLE_AUTOUPDATER": "1",
        }
        program = [sys.executable, "-m", "foldmark", "live", "claude"] if live else [str(BIN / "claude")]
        asks = () if any(each.startswith("--permission-mode") for each in more) else ("--permission-mode=default",)
        super().__init__(work, variables, [*program, *(("--model", model) if model else ()), *asks, *more])


class CodexScreen(Screen):
    """Codex, run by `foldmark live` or directly. It already trusts its folder."""

    sign = "›"

    def __init__(self, folder: Path, upstream: str, *more: str, live: bool) -> None:
        home, work = folder / "home", folder / "work"
        (home / ".codex").mkdir(parents=True, exist_ok=True)
        work.mkdir(exist_ok=True)
        if not (home / ".codex" / "config.toml").exists():
            # Keys arrive faster than a person types, but must not count as pasted text.
            settings = 'model = "gpt-5.1"\ncheck_for_update_on_startup = false\ndisable_paste_burst = true\n'
            settings += (
                f'[tui]\nanimations = false\nshow_tooltips = false\n[projects."{work}"]\ntrust_level = "trusted"\n'
            )
            (home / ".codex" / "config.toml").write_text(settings)
        variables = {**common_variables(folder), "OPENAI_BASE_URL": f"{upstream}/v1", "OPENAI_API_KEY": KEY}
        plain = [str(BIN / "codex"), *agent_named("codex").options(f"{upstream}/v1", variables)]
        program = [sys.executable, "-m", "foldmark", "live", "codex"] if live else plain
        super().__init__(work, variables, [*program, *more], rows=50)
