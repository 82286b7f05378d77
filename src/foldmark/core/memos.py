"""Memos: what is to be known beyond one conversation [S2, SPEC 7]. They belong to the database."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class Memo(Struct, frozen=True):
    """A memo; `tags` are in lower case, sorted, each once.

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
        """The tags as they stand behind something: ` [arch-decision, gotcha]`; empty without any."""
        return f" [{', '.join(self.tags)}]" if self.tags else ""


class MemosView(Protocol):
    """What a `Snapshot` shows of memos."""

    def memo(self, memo_id: int) -> Memo | None:
        """The memo with this id."""

    def memos(self, limit: int) -> list[Memo]:
        """The newest memos, newest first."""

    def memos_tagged(self, tags: Sequence[str], limit: int) -> list[Memo]:
        """Memos with any of these tags: those with most of them first, then the newest."""

    def memos_with(self, asked: Sequence[tuple[Sequence[str], int]], limit: int) -> list[list[Memo]]:
        """For each of these words and events, the best first, memos with any of the words in content or tags that were
        saved before the event was appended, whosever they are; at most `limit` each. `END` stands for all memos.

        The order follows from the memos and the words alone. What was before what, the store knows from the order of
        commits; ids of two conversations say nothing of it.
        """

    def memo_tags(self, limit: int) -> list[tuple[str, int]]:
        """The tags there are, by the alphabet, and how many memos have each."""


class Memos(MemosView, Protocol):
    """What a `Transaction` writes of memos."""

    def save_memo(self, content: str, tags: Sequence[str], agent_id: str | None, actor: str, created_at: str) -> int:
        """Store a memo and return its id; ids are never used again."""

    def remove_memo(self, memo_id: int) -> None:
        """Erase a memo; what it said is found nowhere in the database afterwards but where it was sent to a model."""
