"""Read changes committed by any process, and wait for the next ones [SPEC 9]."""

from collections.abc import Callable
from contextlib import closing
from time import monotonic
from typing import TypeVar

from foldmark.core.agents import Changes, check_limit
from foldmark.core.errors import CommandError
from foldmark.core.ports import Store

LOOK_SECONDS = 1.0
"""Seconds between two calls of `look` without a commit: a process may die, or its lease expire, without one."""

T = TypeVar("T")


def changes(store: Store, after: str | None, limit: int, seconds: float) -> Changes:
    """Return up to `limit` (1 to 1000) changes after the cursor `after`, and the next cursor.

    Without `after`, begin now. If there is no change, wait up to `seconds` for one; inside a `read` block none can
    arrive. Raises CommandError for an invalid cursor, StoreError inside a batch or if the log is closed.
    """
    check_limit(limit)
    if not isinstance(after, str | None):
        raise CommandError(f"a cursor must be a text, not {after!r:.40}")
    end = monotonic() + seconds
    found = _read(store, after, limit)
    if found.changes or seconds <= 0:
        return found
    with closing(store.watch()) as watch:
        # Commits made before the watch began do not wake it.
        while not (found := _read(store, found.cursor, limit)).changes and (left := end - monotonic()) > 0:
            watch.wait(left)
    return found


def wait_for(store: Store, look: Callable[[], T], seconds: float) -> T:
    """Return the first true result of `look`, or its last result after `seconds`.

    `look` is called at once, after commits, and every LOOK_SECONDS.
    """
    end = monotonic() + seconds
    if found := look():
        return found
    with closing(store.watch()) as watch:
        while not (found := look()) and (left := end - monotonic()) > 0:
            watch.wait(min(left, LOOK_SECONDS))
    return found


def _read(store: Store, after: str | None, limit: int) -> Changes:
    with store.read() as moment:
        return moment.changes(after, limit)
