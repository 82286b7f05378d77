"""What was committed to a log, by any process: pages of changes, and waiting for the next commit [SPEC 9].

A cursor is text that only its store reads. Ids alone cannot be one: a store may draw an id before the event is
committed, so that a listener that has seen id 8 would miss id 7, which was committed later.
"""

from typing import NamedTuple, Protocol

from foldmark.core.errors import CommandError

MAIL = "mail"
"""The kind of a change that is mail."""

LIVES = ("born", "renamed", "archived", "unarchived", "killed", "deleted")
"""The kinds of changes that say what became of an agent: made or forked, and a conversation that got another name, or
went into or out of the archive."""


PAGE = 1000
"""Maximum number of events or changes of a page."""


class Change(NamedTuple):
    """An event that was committed; or, with `event_id` None, mail that was sent to an agent (`kind` is `MAIL`), or what
    became of an agent (`kind` is one of `LIVES`).

    It says where to look: what it was about may have been erased or changed since.
    """

    agent_id: str
    event_id: int | None
    kind: str


class Changes(NamedTuple):
    """A page of changes, and the cursor behind the last of them."""

    changes: list[Change]
    cursor: str


class ChangesView(Protocol):
    """Reads what was committed since an earlier `Snapshot`."""

    def changes(self, after: str | None, limit: int) -> Changes:
        """Return up to `limit` changes behind cursor `after`; without one no change, and the cursor of this moment.

        Whoever goes on from one cursor to the next gets every change once, whichever process committed it, and those of
        one conversation and its forks in the order of their ids. No other order is promised. Raises CommandError for a
        text that is no cursor, StoreError inside a transaction: it may never be committed.
        """


class Watch(Protocol):
    """Waits for commits to one database, of this process and of others. Any thread may call it; it holds no lock of the
    store while it waits."""

    def wait(self, seconds: float) -> bool:
        """Wait until something is committed that this watch has not woken for yet, at most `seconds`.

        Anything counts, leases and settings included. Return True after a commit; False when the time is over, or at
        once when the watch or its store is closed.
        """

    def close(self) -> None:
        """End this watch, and a wait under way in another thread."""


def check_page(limit: object) -> None:
    """Raise CommandError if no page is that long."""
    if not isinstance(limit, int) or not 1 <= limit <= PAGE:
        raise CommandError(f"limit is a number from 1 to {PAGE}, not {str(limit)[:40]}")
