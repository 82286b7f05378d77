"""What the tests of interfaces share: how a command line ended, and what the log and the folder hold."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import foldmark
from stored import stored

PROGRAM = str(Path(sys.executable).with_name("foldmark"))


@dataclass
class Outcome:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Cli = Callable[..., Outcome]


def events(log: foldmark.Log) -> list[foldmark.Event]:
    """All events of the database in order."""
    found: list[foldmark.Event] = []
    while event := stored(log).event(len(found) + 1):
        found.append(event)
    return found


def files(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below `folder` with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
