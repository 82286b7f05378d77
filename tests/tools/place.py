"""A working folder, a folder next to it, and a model that calls tools there."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import foldmark
from foldmark import CommandError
from foldmark.operations.effects import Asking, Decision, Permission
from foldmark.sending.interruption import CURRENT, Interruption


class Place:
    """`folder` is the working folder, `outside` the folder next to it; `asked` holds the questions so far.

    Each question calls `meanwhile` and is then answered with `answer`.
    """

    def __init__(self, path: Path) -> None:
        self.folder, self.outside = path / "work", path / "outside"
        self.folder.mkdir()
        self.outside.mkdir()
        self.log = foldmark.open(":memory:", settings={})
        self.agent = self.log.agent("home")
        self.asked: list[str] = []
        self.answer: Decision | None = "yes"
        self.meanwhile: Callable[[], object] = lambda: None

    def write(self, name: str, text: str | bytes = "text\n", folder: Path | None = None) -> Path:
        path = (folder or self.folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def call(self, name: str, **args: Any) -> str:
        """Return a tool's answer."""
        return self.agent.call_tool(name, args, asking=Asking(approve=self._approve if self.answer else None))

    def refused(self, name: str, **args: Any) -> str:
        """Return a tool's error: one line, not too long, that can be encoded."""
        with pytest.raises(CommandError) as caught:
            self.call(name, **args)
        told = str(caught.value)
        assert "\n" not in told
        assert len(told.encode()) < 4000
        return told

    def _approve(self, permission: Permission) -> Decision:
        self.asked.append(permission.question)
        self.meanwhile()
        assert self.answer is not None
        return self.answer


@contextmanager
def place_in(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Open a place whose folder is this process's working folder."""
    place = Place(Path(os.path.realpath(path)))
    monkeypatch.chdir(place.folder)
    with place.log:
        yield place


def in_turn(does: Callable[[], object], interruption: Interruption) -> tuple[threading.Thread, list[object]]:
    """Run a function in a thread that works for a turn. Return the thread and a list for the result or error text."""
    came: list[object] = []

    def run() -> None:
        CURRENT.set(interruption)
        try:
            came.append(does())
        except CommandError as error:
            came.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    return thread, came
