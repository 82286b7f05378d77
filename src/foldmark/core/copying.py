"""Copying from one store to another: what is recorded, in a form that says nothing of the store that it comes from.

A copy keeps all ids. What can be had from the log (running sums, weights, the index of words, stored segments) is no
part of it: the store that takes the events makes it anew. Vectors, leases and the keys of appends are not copied.
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
    """A message to an agent; `event` is the one that carried it, None while it is unread."""

    id: int
    sender: str
    recipient: str
    actor: str
    sent_at: str
    content: str
    event: int | None


class CopiedSent(Struct, frozen=True):
    """A recorded request. `data` is the JSON text of its `Makings`, without `question`, which is a person's words."""

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
    """A memo with its tags, sorted; `event` is the newest event that there was when it was saved."""

    id: int
    event: int
    agent: str | None
    actor: str
    created_at: str
    content: str
    tags: tuple[str, ...]


Beside: TypeAlias = CopiedMail | CopiedSent | CopiedMemo | CodingSession
"""What stands beside the log and has an id of its own."""

Copied = TypeVar("Copied", CopiedMail, CopiedSent, CopiedMemo, CodingSession, CopiedEnd)


class Numbers(NamedTuple):
    """The highest ids ever given to mail, requests and memos. Ids of removed ones are not given again."""

    mail: int
    sent: int
    memos: int


class CopyingView(Protocol):
    """Reads what is to be copied. Every method raises DamagedError for bytes that changed on the disk."""

    def copied_events(self, after: Mapping[str, int]) -> Iterator[CopiedEvent]:
        """The events of these agents, each with the id behind which they begin; those of a conversation and its forks
        in order. They are read as they are consumed."""

    def copied(self, kind: type[Copied], agents: Collection[str] | None = None, after: int = 0) -> Iterator[Copied]:
        """All of one kind that stands beside the log, by id, those behind an id: of these agents (mail of its
        recipients), by default of all. Memos and sessions belong to no agent; ends come in no order and all at once.
        The others are read as they are consumed."""

    def erased(self, agents: Collection[str]) -> Iterator[tuple[int, str, int]]:
        """The events of these agents that were erased: the id, the agent, the operation that erased it."""

    def kept_texts(self, hashes: Collection[str]) -> dict[str, str]:
        """The texts behind those of these hashes that there are."""

    def numbers(self) -> Numbers:
        """The highest ids ever given beside the log."""


class Copying(CopyingView, Protocol):
    """What a `Transaction` takes over from another store, with the ids that it has there."""

    def take_agents(self, agents: Sequence[CopiedAgent]) -> None:
        """Add agents, without stored segments; parents come before their forks. Raises StoreError if a name is
        taken."""

    def take_events(self, events: Sequence[CopiedEvent]) -> None:
        """Append events that have their ids already to any of the agents. Raises StoreError if one is not behind its
        agent's newest, or its id is taken. What is an operation takes its agent's stored segments away."""

    def take(self, records: Sequence[Beside], texts: Mapping[str, str] = {}) -> None:
        """Record what stands beside the log, in place of what has the same id, and these texts by their hashes."""

    def take_numbers(self, numbers: Numbers) -> None:
        """Never give these ids, or lower ones, to anything new."""
