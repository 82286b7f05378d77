"""Helpers for the tests of interfaces: the outcome of a command line, and the contents of the log and of a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import foldmark
from foldmark.core import selections
from foldmark.core.events import METADATA_KINDS
from stored import stored

PROGRAM = str(Path(sys.executable).with_name("foldmark"))


@dataclass
class Outcome:
    """Exit code and output of a command line."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Cli = Callable[..., Outcome]


def events(log: foldmark.Log) -> list[foldmark.Event]:
    """Return all events of the database in order, without metadata."""
    found: list[foldmark.Event] = []
    while event := selections.event(stored(log), len(found) + 1):
        found.append(event)
    return [event for event in found if event.kind not in METADATA_KINDS]


def files(folder: Path) -> dict[str, bytes | None]:
    """Return every path below `folder` with the file's bytes, or None for a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
