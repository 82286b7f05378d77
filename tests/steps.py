"""How much work SQLite does: the steps of its virtual machine, which no machine's speed changes."""

from __future__ import annotations

from collections.abc import Callable

import apsw

import foldmark


def steps(log: foldmark.Log, action: Callable[[], object]) -> int:
    """The steps of all statements that `action` runs on the log's database, as far as they loop or jump."""
    taken = 0

    def count() -> bool:
        nonlocal taken
        taken += 1
        return False

    db: apsw.Connection = log.store._db  # type: ignore[attr-defined]
    db.set_progress_handler(count, 1)
    try:
        action()
    finally:
        db.set_progress_handler(None)
    return taken
