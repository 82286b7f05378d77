"""Memos: knowledge across conversations [S2, SPEC 7]. They belong to the database."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class Memo(Struct, frozen=True):
    """A memo; `tags` are in lower case, sorted, distinct.

    `agent` is who saved it (None: nobody's), `created_at` UTC as `Event.created_at`.
    """

    id: int
    content: str
    tags: tuple[str, ...]
    agent: str | None
    actor: str
    created_at: str

    @property
    def labels(self) -> str:
        """The tags as a suffix: ` [arch-decision, gotcha]`; empty without any."""
        return f" [{', '.join(self.tags)}]" if self.tags else ""


class MemosView(Protocol):
    """The part of `Snapshot` that reads memos."""

    def memo(self, memo_id: int) -> Memo | None:
        """Return the memo with this id."""

    def memos(self, limit: int) -> list[Memo]:
        """Return the newest memos, newest first."""

    def memos_tagged(self, tags: Sequence[str], limit: int) -> list[Memo]:
        """Return memos with any of these tags: those with most of them first, then the newest."""

    def memos_with(self, asked: Sequence[tuple[Sequence[str], int]], limit: int) -> list[list[Memo]]:
        """Return, for each of these words and events, memos of any agent with any of the words in content or tags,
        saved before the event was appended; the best first, at most `limit` each. `END` stands for all memos.

        The order depends on the memos and the words alone. The store decides by the order of commits which was first;
        ids of two conversations cannot be compared.
        """

    def memo_tags(self, limit: int) -> list[tuple[str, int]]:
        """Return the tags in alphabetical order, and the number of memos with each."""


class Memos(MemosView, Protocol):
    """The part of `Transaction` that writes memos."""

    def save_memo(self, content: str, tags: Sequence[str], agent_id: str | None, actor: str, created_at: str) -> int:
        """Store a memo and return its id; ids are never used again."""

    def remove_memo(self, memo_id: int) -> None:
        """Erase a memo. Its text remains nowhere in the database except where it was sent to a model."""
