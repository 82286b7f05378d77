"""Changes committed to a log, by any process: pages of changes, and waiting for the next commit [SPEC 9].

A cursor is text that only its store reads. An event id cannot serve as one: a store may draw an id before the event is
committed, so a listener that has seen id 8 would miss id 7, committed later.
"""

from typing import NamedTuple, Protocol

from foldmark.core.errors import CommandError

MAIL = "mail"
"""The kind of a change that is mail."""

LIVES = ("born", "renamed", "archived", "unarchived", "killed", "deleted")
"""Kinds of changes to an agent: created or forked, renamed, archived or taken out of the archive."""


PAGE = 1000
"""Maximum number of events or changes of a page."""


class Change(NamedTuple):
    """A committed event; or, with `event_id` None, mail sent to an agent (`kind` is `MAIL`) or a change of an agent
    (`kind` is one of `LIVES`).

    It says where to look: its subject may have been erased or changed since.
    """

    agent_id: str
    event_id: int | None
    kind: str


class Changes(NamedTuple):
    """A page of changes, and the cursor after the last of them."""

    changes: list[Change]
    cursor: str


class ChangesView(Protocol):
    """Reads what was committed since an earlier `Snapshot`."""

    def changes(self, after: str | None, limit: int) -> Changes:
        """Return up to `limit` changes after cursor `after`; without a cursor no changes, and the cursor of this
        moment.

        A reader that goes on from each page's cursor gets every change exactly once, whichever process committed it;
        those of one conversation and its forks in the order of their ids. No other order is promised. Raises
        CommandError for a text that is no cursor, StoreError inside a transaction: it may never be committed.
        """


class Watch(Protocol):
    """Waits for commits to one database, from this process and others. It is thread-safe and holds no lock of the store
    while it waits."""

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for a commit that this watch has not reported yet.

        Any commit counts, including leases and settings. Return True after a commit; False after the time is over, or
        at once when the watch or its store is closed.
        """

    def close(self) -> None:
        """Close this watch, and end a wait in another thread."""


def check_page(limit: object) -> None:
    """Raise CommandError if `limit` is no valid page size."""
    if not isinstance(limit, int) or not 1 <= limit <= PAGE:
        raise CommandError(f"limit is a number from 1 to {PAGE}, not {str(limit)[:40]}")
