"""Measures of work that do not depend on the machine: steps of SQLite's virtual machine, lines of Foldmark's code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foldmark
from stored import connection


def steps(log: foldmark.Log, action: Callable[[], object]) -> int:
    """Count the steps that loop or jump in all statements that `action` runs on the log's database."""
    taken = 0

    def count() -> bool:
        nonlocal taken
        taken += 1
        return False

    db = connection(log)
    db.set_progress_handler(count, 1)
    try:
        action()
    finally:
        db.set_progress_handler(None)
    return taken


def work(run: Callable[[], object]) -> int:
    """Count the lines of Foldmark's own code that `run` executes."""
    lines = 0
    folder = str(Path(foldmark.__file__).parent)

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.startswith(folder):
            return None
        lines += event == "line"
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(previous)
    return lines
