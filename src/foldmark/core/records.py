"""Memos, which belong to the database, and the form in which records are copied.

A copy is independent of the source store. It keeps all ids and leaves out everything that the target store can derive
from the log: running sums, the word index, stored segments. Vectors, leases and the keys of appends are not
copied.
"""

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from struct import Struct as Layout
from typing import Protocol

from msgspec import Struct

from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.patterns import pattern


class Memo(Struct, frozen=True):
    """A memo; `tags` are in lower case, sorted, distinct.

    `agent` is the agent that saved it, if any; `created_at` is in UTC like `Event.created_at`.
    """

    id: int
    content: str
    tags: tuple[str, ...]
    agent: str | None
    actor: str
    created_at: str

    @property
    def labels(self) -> str:
        """The tags as a suffix: ` [arch-decision, gotcha]`; empty if there are none."""
        return f" [{', '.join(self.tags)}]" if self.tags else ""


class MemosView(Protocol):
    """The part of `Snapshot` that reads memos."""

    def memos(self, limit: int, *, ids: Sequence[int] | None = None, tags: Sequence[str] = ()) -> list[Memo]:
        """Return at most `limit` memos: the newest, newest first; those with these ids, in this order; or those with
        any of these tags, those with the most of them first, then the newest."""

    def memos_with(self, queries: Sequence[tuple[Sequence[str], int]], limit: int) -> list[list[Memo]]:
        """Return memos of any agent for each query, a pair of words and an event: memos with any of the words in
        content or tags, saved before the event was appended, best first, at most `limit` each. With `END` as the event,
        memos of any time are found.

        The order depends on the memos and the words alone. Commit order decides which came first, because ids of
        different conversations cannot be compared.
        """

    def memo_tags(self, limit: int) -> list[tuple[str, int]]:
        """Return the tags in alphabetical order, and the number of memos with each."""


class Memos(MemosView, Protocol):
    """The part of `Transaction` that writes memos."""

    def save_memo(self, content: str, tags: Sequence[str], agent_id: str | None, actor: str, created_at: str) -> int:
        """Store a memo and return its id; ids are never reused."""

    def remove_memo(self, memo_id: int) -> None:
        """Erase a memo, and its text in requests. It remains only in messages that quote it."""


LONGEST_MEMO = 2000
"""Maximum number of characters of a memo, because up to five memos go into every request of a turn."""

MOST_TAGS, LONGEST_TAG = 10, 40
_TAG = pattern(r"\w[\w.+/-]*")


def checked_content(text: str) -> str:
    """Return the checked content of a memo. Raises CommandError if it is empty or too long."""
    content = well_formed(text).strip()
    if not content:
        raise CommandError("a memo needs a text; nothing was saved")
    if len(content) > LONGEST_MEMO:
        raise CommandError(
            f"a memo has at most {LONGEST_MEMO:,} characters, not {len(content):,}; shorten it, or save several memos"
        )
    return str(content)


def checked_tags(words: Iterable[str]) -> tuple[str, ...]:
    """Return tags in normal form: lower case, '-' for white space, sorted, distinct. Raises CommandError."""
    tags = sorted({tag for word in words if (tag := _normal(word))})
    for tag in tags:
        if len(tag) > LONGEST_TAG or not _TAG.fullmatch(tag):
            raise CommandError(
                f"invalid tag {tag[:LONGEST_TAG]!r}: a tag has up to {LONGEST_TAG} letters, digits and any of - _ . + /"
            )
    if len(tags) > MOST_TAGS:
        raise CommandError(f"a memo has at most {MOST_TAGS} tags, not {len(tags)}; keep those that you will search for")
    return tuple(tags)


def _normal(word: str) -> str:
    text = unicodedata.normalize("NFC", well_formed(word)).strip().removeprefix("#")
    return "-".join(text.lower().split())


IMPORTED_LINE = Layout("<8sQII")
"""A line of an imported file in the content of the record of an import: its key, first event, number of events, and the
distance from the beginning of its group to that event."""


class CopiedEvent(Struct, frozen=True):
    """An event as it is stored. `data` is its JSON text; `apart` marks a result that is apart from its call
    (`Snapshot.apart_results`); `redacted` is the operation that erased the event, if it was erased."""

    id: int
    agent: str
    turn: int | None
    kind: str
    dialect: str | None
    actor: str
    created_at: str
    interrupted: bool
    call_id: str | None
    answers: int | None
    apart: bool
    redacted: int | None
    content: str
    data: str | None


class CopiedMemo(Struct, frozen=True):
    """A memo with its tags, sorted; `event` is the newest event that existed when it was saved. Of the newest memo, if
    it was removed, only the id is there: it is never given to another memo."""

    id: int
    event: int = 0
    agent: str | None = None
    actor: str = ""
    created_at: str = ""
    content: str = ""
    tags: tuple[str, ...] = ()

    @property
    def is_removed(self) -> bool:
        """True if nothing but the id is left."""
        return not self.actor


class CopyingView(Protocol):
    """Reads records to copy. Every method raises DamagedError if bytes have changed on the disk."""

    def copied_events(self, after: Mapping[str, int]) -> Iterator[CopiedEvent]:
        """Yield the events of these agents after the id given for each; those of a conversation and its forks come in
        order. They are read as they are consumed."""

    def copied_memos(self, after: int = 0) -> Iterator[CopiedMemo]:
        """Yield the memos with ids above `after`, by id, and the id of the newest one if it was removed. They are read
        as they are consumed."""

    def kept_texts(self, hashes: Collection[str]) -> dict[str, str]:
        """Return the existing texts of requests with these hashes, hash -> text."""


class Copying(CopyingView, Protocol):
    """The part of `Transaction` that takes records from another store, with their ids."""

    def take_events(self, events: Sequence[CopiedEvent]) -> None:
        """Append events with their ids to any agents; the texts of requests were kept before (`keep_texts`). Raises
        StoreError if an event is not newer than its agent's newest, or its id is taken. An operation invalidates its
        agent's stored segments. The names of agents stay as they are."""

    def take_names(self, names: Mapping[str, str | None]) -> None:
        """Give agents these names, or none. Some may take names that others of them give up."""

    def take_erased(self, agent: str, event_ids: Sequence[int], by: int) -> None:
        """Name the operation that erased these events of an agent, which were taken as erased ones before it."""

    def take_memos(self, memos: Sequence[CopiedMemo]) -> None:
        """Add memos with their ids, which are not taken yet; new memos get higher ids."""

    def disown(self, agent: str, hashes: Collection[str]) -> None:
        """Erase texts of an agent's requests that were erased in the source of a copy, unless something else owns
        them."""
