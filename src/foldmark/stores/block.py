"""The block of a store that is open: the statements that run in it, and what its rows say.

A statement has a name (`queries`) and gets its bindings by name. A database derives a `Reading` and a `Writing` of its
own; it decides what stands for an agent, for segments, for events in the bindings. The methods that it has to implement
have no body: the classes are protocols, so that mypy reports a database that lacks one.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, ClassVar, Protocol

import msgspec
from msgspec import ValidationError
from msgspec.structs import replace

from foldmark.core.agents import AgentRecord, Changes, Size
from foldmark.core.codec import decode_data
from foldmark.core.errors import DamagedError, StoreError
from foldmark.core.events import Event
from foldmark.core.ports import Head
from foldmark.core.records import CopiedEvent
from foldmark.core.replay import Fold
from foldmark.core.search import LogIndex, SearchScope
from foldmark.core.segments import Segments
from foldmark.core.turns import Message
from foldmark.stores.appender import Appender, moved
from foldmark.stores.rows import Bindings, Fetched, Row, check_types, unknown_agent, well_typed

_ENDED = "this moment has ended with the block of `read` or `write` that it belongs to; read inside of the block"
_BROKEN = "this transaction has failed and was rolled back: nothing of it was recorded. Repeat it as a whole"


class Reading(Protocol):
    """One block of `read`. `keys` and `ids` cache the keys and uuids of agents."""

    keys: dict[str, int]
    ids: dict[int, str]
    fold: Callable[[str], Fold]
    kinds: Any
    """`NEWEST_KINDS`, for a statement."""

    cursor: ClassVar[re.Pattern[str]]
    """The form of a cursor of `changes`."""

    over: str = ""
    """The reason why the block can no longer be used; empty while it can."""

    # To be implemented

    def run(self, name: str, /, **bindings: Any) -> list[Row]:
        """Return the rows of a statement. Invalid UTF-8 is replaced by U+FFFD."""

    def rows(self, name: str, /, **bindings: Any) -> Fetched:
        """Return the rows of a query, and the indices of those with invalid text."""

    def is_broken(self) -> bool:
        """Return True if the database has already rolled back."""

    def end(self) -> None:
        """End the block."""

    def listed(self, values: Iterable[Any]) -> Any:
        """Return values for a single statement: one statement per value would be slower."""

    def for_agent(self, agent_id: str) -> Bindings:
        """Return bindings for an agent."""

    def for_segments(self, segments: Segments) -> Bindings:
        """Return bindings for segments of one conversation and its forks."""

    def for_events(self, event_ids: Iterable[int]) -> Bindings:
        """Return bindings for events of any agent."""

    def for_messages(self, places: Sequence[Message]) -> Bindings:
        """Return bindings for events together with their agents."""

    def now(self) -> str:
        """See `Snapshot.now`."""

    def changes_from_now(self) -> Changes:
        """Return no changes, and the cursor of this moment."""

    def changes_after(self, after: str, limit: int) -> Changes:
        """Return the changes after a cursor."""

    def index(self, scope: SearchScope) -> LogIndex:
        """See `Snapshot.index`."""

    def memos_before(self, events: Sequence[int]) -> list[Row]:
        """Return pairs: the index of an event in `events`, and the newest memo saved before it, if any."""

    def memos_holding(self, words: Sequence[str], most: int) -> list[Row]:
        """Return distinct pairs: the index of a word, and a memo up to id `most` with this word or a related one."""

    def tags(self, stored: Any) -> Sequence[str]:
        """Return the tags of a memo, decoded from their stored form."""

    def copied_events(self, after: Mapping[int, int]) -> Iterator[Fetched]:
        """Yield pages of events after an id for each agent's key. Those of a tree are in order; other events may be
        among them."""

    # What a database may do otherwise

    def lock(self, agent_id: str) -> None:
        """Have other transactions in the tree of this agent wait."""
        return

    def settle(self) -> None:
        """Write the pending rows of a transaction."""
        return

    def kept_head(self, agent_id: str) -> Head | None:
        """Return the head of an agent in this moment if it was kept."""
        return None

    def keep_head(self, agent_id: str, head: Head) -> None:
        """Keep a head that was read in this moment."""
        return

    def on_rollback(self, undo: Callable[[], None]) -> None:
        """Do nothing: everything that can be read is committed."""
        return

    # Common to all databases

    def check(self) -> None:
        """Raise StoreError if the block has ended or failed."""
        if self.over or self.is_broken():
            self.over = self.over or _BROKEN
            raise StoreError(self.over)

    def expire(self) -> None:
        """Refuse further reads."""
        self.over = self.over or _ENDED

    def key(self, agent_id: str) -> int:
        """Return an agent's key. Raises DamagedError."""
        if agent_id not in self.keys:
            for row in self.run("agent_key", id=agent_id):
                self.cache_agent(agent_id, row)
        try:
            return self.keys[agent_id]
        except KeyError:
            raise unknown_agent(agent_id) from None

    def cache_agent(self, agent_id: str, row: Sequence[Any]) -> None:
        """Cache an agent's key."""
        self.keys[agent_id], self.ids[row[0]] = row[0], agent_id

    def id(self, key: int) -> str:
        """Return an agent's uuid."""
        if key not in self.ids:
            for agent_id, *more in self.run("agent_id", key=key):
                self.cache_agent(agent_id, (key, *more))
        # An event of an unknown agent is damaged and in no agent's lineage.
        return self.ids.get(key) or f"unknown agent {key}"

    def agent(self, row: Sequence[Any]) -> AgentRecord:
        """Return the record of an agent; its key and that of its root are the last columns."""
        *fields, key, root = row
        record = self.record(fields)
        self.cache_agent(record.id, (key, root))
        return record

    def record(self, fields: Sequence[Any]) -> AgentRecord:
        """Return the record with these columns."""
        return AgentRecord(*fields)

    def agents(self, name: str, /, **bindings: Any) -> Iterator[AgentRecord]:
        """Return the agents of a query."""
        return map(self.agent, self.run(name, **bindings))

    def decoded_fold(self, body: str, agent_id: str) -> Fold:
        """Return a stored fold. Raises DamagedError."""
        try:
            return self.fold(body)
        except (msgspec.MsgspecError, RecursionError):
            raise DamagedError(
                f"the stored segments of {agent_id[:8]} are not readable; `foldmark doctor --repair` rebuilds them"
            ) from None

    def events(self, name: str, /, **bindings: Any) -> list[Event]:
        """Return the events of a query; an event with invalid text is marked as damaged."""
        rows, damaged = self.rows(name, **bindings)
        if not rows:
            return []
        if not damaged:
            with suppress(DamagedError, ValidationError):
                return self.decoded_events(rows)
        return [self.event(row, place in damaged) for place, row in enumerate(rows)]

    def event(self, row: Sequence[Any], damaged: bool = False) -> Event:
        """Return the event of a row, which is marked as damaged if a column is not as it was written."""
        try:
            (event,) = self.decoded_events([row])
        except (DamagedError, ValidationError):
            row, damaged = well_typed(row), True
            try:
                (event,) = self.decoded_events([row])
            except DamagedError:  # returned without data; a replay reports a missing operation
                (event,) = self.decoded_events([(*row[:5], None, *row[6:])])
        return replace(event, damaged=True) if damaged else event

    def decoded_events(self, rows: Sequence[Sequence[Any]]) -> list[Event]:
        """Return the events of undamaged rows. Raises DamagedError and ValidationError.

        Most reads use this method, and a call for each row or column would double the time.
        """
        check_types(rows)
        known = self.ids
        return [
            Event(
                id,
                known.get(key) or self.id(key),
                turn,
                kind,
                content,
                None if data is None else decode_data(kind, data),
                dialect,
                actor,
                tokens,
                created_at,
                interrupted != 0,
                answers,
                by,
            )
            for id, key, turn, kind, content, data, dialect, actor, tokens, created_at, interrupted, answers, by in rows
        ]

    def message(self, row: Sequence[Any]) -> Message:
        """Return the message of a row."""
        id, key, turn, kind, answers = row
        return Message(id, self.id(key), turn, kind, answers)

    def messages(self, name: str, /, **bindings: Any) -> list[Message]:
        """Return the messages of a query."""
        return [self.message(row) for row in self.run(name, **bindings)]


class Writing(Reading, Protocol):
    """One block of `write`."""

    appenders: dict[str, Appender]
    undoing: list[Callable[[], None]]
    index_tables: ClassVar[tuple[str, ...]]
    """Statements that remove messages from the indices and their vectors."""

    # To be implemented

    def write(self, name: str, /, **bindings: Any) -> None:
        """Run a statement without a result. It may be delayed until the next one with a result."""

    def atomic(self) -> AbstractContextManager[object]:
        """Write everything inside the block or nothing. If the block raises after it has written something, the whole
        transaction is rolled back and later use raises, so half of a block is never committed."""

    def commit(self) -> None:
        """Write the pending rows and commit. Raises StoreError if nothing was recorded."""

    def appender(self, agent_id: str) -> Appender:
        """Return the appender of an agent in this transaction."""

    def create(self, record: AgentRecord, at: int | None) -> None:
        """Add an agent, at a place if that is free. Raises StoreError if its name is taken."""

    def with_data(self, events: Sequence[tuple[int, str | None]]) -> Bindings:
        """Return bindings for events, each with its data."""

    def save_memo(self, row: Bindings) -> int:
        """Add a memo without its tags and words, and return its id."""

    def index_memo(self, memo_id: int, content: str, tags: str) -> None:
        """Index the words of a memo."""

    def take_memo(self, row: Bindings) -> None:
        """Record a copied memo without its tags and words; `event` is the newest event before it."""

    def reserve_memos(self, highest: int) -> None:
        """Never give this id of a memo, or a lower one, to a new memo."""

    def take_ids(self, events: Sequence[CopiedEvent]) -> None:
        """Reserve the ids of these events. Raises StoreError if they are taken."""

    # What a database may do otherwise

    def rename(self, agent_id: str, name: str | None) -> None:
        """Set or remove an agent's name. Raises StoreError if another agent has it."""
        self.write("rename_agent", **self.for_agent(agent_id), name=name)

    def unindexed(self, ids: Sequence[int]) -> AbstractContextManager[None]:
        """Take messages out of the index of words; their content is erased inside the block."""
        return nullcontext()

    def hold_texts(self, *, to_erase: bool) -> None:
        """Have other transactions that erase texts of requests wait; with `to_erase`, also those that record any."""
        return

    def fold_saved(self, fold: Fold, beside: Size, save: Callable[[], None]) -> None:
        """Call `save`, which stores a fold and the size beside it."""
        save()

    # Common to all databases

    def on_rollback(self, undo: Callable[[], None]) -> None:
        """See `Snapshot.on_rollback`."""
        self.undoing.append(undo)

    def undo(self) -> None:
        """Call the registered undo functions, the last one first: the transaction was rolled back."""
        while self.undoing:
            self.undoing.pop()()

    def record(self, fields: Sequence[Any]) -> AgentRecord:
        """Return the record with these columns, as it is after the appends of this transaction."""
        record = AgentRecord(*fields)
        appender = self.appenders.get(record.id)
        return record if appender is None else moved(record, appender.state)
