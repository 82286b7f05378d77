"""Copying from one store to another: records in a form that is independent of the source store.

A copy keeps all ids. It leaves out whatever the target store can derive from the log: running sums, weights, the word
index, stored segments. Vectors, leases and the keys of appends are not copied.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from foldmark.core.lineage import CodingSession


class CopiedAgent(Struct, frozen=True):
    """An agent as it was created. `place` is its number among all agents of its store, from 1."""

    place: int
    id: str
    name: str | None
    parent: str | None
    fork_event: int
    created_at: str


class CopiedEvent(Struct, frozen=True):
    """An event as it is stored. `data` is its JSON text; `redacted` is the operation that erased it, if one did."""

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


class CopiedEnd(Struct, frozen=True):
    """How an agent ended: who killed it and when, who deleted it and when, and since when it is archived. Each is None
    if that did not happen."""

    agent: str
    killed: tuple[str, str, str] | None
    deleted: tuple[str, str] | None
    archived: str | None


class CopiedMail(Struct, frozen=True):
    """A message to an agent; `event` is the event that carried it, None while it is unread."""

    id: int
    sender: str
    recipient: str
    actor: str
    sent_at: str
    content: str
    event: int | None


class CopiedSent(Struct, frozen=True):
    """A recorded request. `data` is the JSON text of its `RequestRecord`, without `question`, which holds a person's
    words."""

    id: int
    agent: str
    event: int
    turn: int | None
    created_at: str
    provider: str
    model: str
    sha256: str
    bytes: int
    tokens: int
    data: str
    question: str | None


class CopiedMemo(Struct, frozen=True):
    """A memo with its tags, sorted; `event` is the newest event that existed when it was saved."""

    id: int
    event: int
    agent: str | None
    actor: str
    created_at: str
    content: str
    tags: tuple[str, ...]


Beside: TypeAlias = CopiedMail | CopiedSent | CopiedMemo | CodingSession
"""Records beside the log that have ids of their own."""

Copied = TypeVar("Copied", CopiedMail, CopiedSent, CopiedMemo, CodingSession, CopiedEnd)


class Numbers(NamedTuple):
    """The highest ids ever given to mail, requests and memos. Ids of removed records are never reused."""

    mail: int
    sent: int
    memos: int


class CopyingView(Protocol):
    """Reads records to copy. Every method raises DamagedError for bytes that changed on the disk."""

    def copied_events(self, after: Mapping[str, int]) -> Iterator[CopiedEvent]:
        """Yield the events of these agents after the id given for each; those of a conversation and its forks in order.
        They are read as they are consumed."""

    def copied(self, kind: type[Copied], agents: Collection[str] | None = None, after: int = 0) -> Iterator[Copied]:
        """Yield the records of one kind beside the log, by id, with ids above `after`: those of these agents (mail of
        its recipients), by default all. Memos and sessions belong to no agent. Ends come in no order and all at once;
        the others are read as they are consumed."""

    def erased(self, agents: Collection[str]) -> Iterator[tuple[int, str, int]]:
        """Yield the erased events of these agents: the id, the agent, the operation that erased it."""

    def kept_texts(self, hashes: Collection[str]) -> dict[str, str]:
        """Return the existing texts with these hashes, hash -> text."""

    def numbers(self) -> Numbers:
        """Return the highest ids ever given to records beside the log."""


class Copying(CopyingView, Protocol):
    """The part of `Transaction` that takes records from another store, with their ids."""

    def take_agents(self, agents: Sequence[CopiedAgent]) -> None:
        """Add agents, without stored segments; parents come before their forks. Raises StoreError if a name is
        taken."""

    def take_events(self, events: Sequence[CopiedEvent]) -> None:
        """Append events with their ids to any of the agents. Raises StoreError if an event is not newer than its
        agent's newest, or its id is taken. An operation invalidates its agent's stored segments."""

    def take(self, records: Sequence[Beside], texts: Mapping[str, str] = {}) -> None:
        """Record what stands beside the log, replacing records with the same id, and these texts by their hashes."""

    def take_numbers(self, numbers: Numbers) -> None:
        """Reserve these ids and all lower ones, so that they are never given to new records."""
