"""The ports of the library: a store of events with a sandbox for a model's SQL, a provider of a model, a clock.

A `Store` hands out a consistent `Snapshot` to read from and a `Transaction` to write in; everything that the library
needs from a database is a method of one of these. The methods are the smallest set that keeps the number of statements
of each command fixed: they accept segments or lists of ids, and return values.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from foldmark.core.agents import AgentRecord, ChangesView, Lease, Size, Watch
from foldmark.core.events import Draft, Event
from foldmark.core.records import Copying, CopyingView, Memos, MemosView
from foldmark.core.replay import Fold
from foldmark.core.request import Piece, Request
from foldmark.core.search import LogIndex, Outline, SearchScope, Vectors
from foldmark.core.segments import END, Segments
from foldmark.core.turns import Message

VIEWS: Mapping[str, tuple[str, ...]] = {
    "messages": (
        *("id", "agent_id", "group_id", "role", "kind", "tool"),
        *("content", "status", "parsing_strategy", "tokens", "created_at"),
    ),
    "turns": ("id", "agent_id", "first_id", "last_id", "messages", "tokens", "status", "created_at"),
    "operations": ("id", "agent_id", "group_id", "kind", "actor", "data", "created_at"),
    "memos": ("id", "content", "tags", "created_at"),
}
"""View -> its columns, the same in every store."""


class QueryScope(NamedTuple):
    """The rows that the views show: those of `agent` and of its `lineage` (`Standing.lineage`); rows outside `visible`,
    the segments of its fold, have the status `dropped`."""

    agent: str
    lineage: Segments
    visible: Segments


class Limits(NamedTuple):
    """Limits of a query: seconds, and rows and characters of its result. The thread that runs the query polls
    `stopped`; True ends the query."""

    seconds: float
    rows: int
    characters: int
    stopped: Callable[[], bool] = lambda: False


class Rows(NamedTuple):
    """The result of a query: column names and rows, cells as None, int, float, str or bytes.

    `cut` names the limit that was reached, `rows`, `characters` or `time`, if there may be more rows; None if the
    result is complete.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    cut: str | None = None


class SqlSandbox(Protocol):
    """The part of a `Store` that answers a model's SQL."""

    @property
    def dialect(self) -> str:
        """The name of the database whose SQL dialect the sandbox accepts."""

    def query(self, scope: QueryScope, sql: str, limits: Limits) -> Rows:
        """Run one reading statement over the views of `VIEWS`, and nothing else.

        `sql` is hostile: no statement may read or change anything outside the views, or use more than `limits` and the
        memory that the store allows. Raises CommandError, worded for a model, for an invalid statement.
        """


class Maintenance(Protocol):
    """Maintains a database."""

    narrowed: bool
    """True if other users could read the database until this store opened it, and no longer can."""

    def forget_erased(self) -> bool:
        """Remove all traces of erased content from the files next to the database. Return False if another process is
        still reading one of them, a block of `read` or `write` is open, or the disk is full."""

    def damage(self) -> Iterator[str]:
        """Yield one line for each fault of the database, its events or its stored sums; none if it is sound.

        A part that cannot be read yields one line, and the other parts are still checked.
        """


Clock = Callable[[], str]
"""Returns the current time, in the form of `Event.created_at`."""

NewId = Callable[[], str]
"""Returns a new uuid for an agent."""

Progress = Callable[[int, int], None]
"""Receives the amount done and the total."""


NEWEST_KINDS = ("config", "command", "state", "scratchpad", "summary", "system")
"""Kinds whose newest events a `Head` holds."""

INDEXED_KINDS = (*NEWEST_KINDS, "request", "usage", "mail", "killed", "window_summary")
"""Kinds whose events `Snapshot.select` finds by their kind."""

BESIDE = ("memos", "mail", "children")
"""Content of a request that does not come from the agent's timeline: memos, unread mail and the agent's forks."""

ALL = "all"
"""All events."""

MESSAGES = "messages"
"""The messages that were not erased."""

OPENERS = "openers"
"""The messages that opened a turn."""

OPERATIONS = "operations"
"""The events that a replay reads: operations, and the ends of turns that closed a planning conversation."""

ERASED = "erased"
"""The events whose content was erased."""

APART = "apart"
"""The results that are apart from their call: they do not directly follow the calls of that answer, or other results of
these calls."""

WAITING = "waiting"
"""The calls of an open turn that have no result yet."""

UNREAD = "unread"
"""The mail that no message has carried yet."""

RESTORABLE = "restorable"
"""The summaries that carry a state and were not erased."""


NOTHING = Size(0, 0)
"""The size of no messages."""


class Head(NamedTuple):
    """The state of an agent in the store: its row, its stored segment cache with the size (None if there is no cache),
    the newest event of each of `NEWEST_KINDS` that the agent itself recorded and that was not erased, and those of
    `BESIDE` that exist."""

    record: AgentRecord
    cache: tuple[Fold, Size] | None
    newest: Mapping[str, Event]
    beside: frozenset[str]


class Overview(NamedTuple):
    """An agent in the list of all agents: the time of its newest event, or else of its creation; the time since which
    it has been archived; and the size of its context, None for a fork or if the size would have to be counted."""

    record: AgentRecord
    last_used: str
    archived: str | None
    size: Size | None


class Snapshot(ChangesView, CopyingView, MemosView, Protocol):
    """A consistent view of one moment [SPEC 9]. Every method raises StoreError when the database fails.

    It is valid only inside the block of `Store.read`. Ids increase along a conversation and its forks, in the order of
    commits, whatever the class of the events (`core.events.METADATA_KINDS`); there may be gaps, and ids of different
    conversations cannot be compared.
    """

    def on_rollback(self, undo: Callable[[], None]) -> None:
        """Call `undo` if the state that this moment shows is rolled back; for callers that cache parts of that state.
        It is never called if everything is committed."""

    def now(self) -> str:
        """Return the time of the database's clock, in the form of `Event.created_at`. All processes that use the
        database share this clock. Only leases use it."""

    # Agents

    def agents(
        self, *, parent: str | None = None, name: str | None = None, unstarted: bool = False
    ) -> list[AgentRecord]:
        """Return all agents, the agents forked from `parent`, the root agent called `name`, or the living forks that
        wait to be run (`AgentRecord.fate`); oldest first."""

    def agent(self, agent_id: str) -> AgentRecord | None:
        """Return the agent with this uuid, or None."""

    def head(self, agent_id: str, *, until: int = END) -> Head:
        """Return the state of an agent; its newest events are those up to id `until`. Raises DamagedError."""

    def overview(self) -> list[Overview]:
        """Return all agents, oldest first, in one statement. Raises DamagedError."""

    def lease(self, agent_id: str) -> Lease | None:
        """Return the agent's lease, expired or not; None if nobody runs it."""

    # Events: `select` returns them, `locate` what shows which of them belong together

    def events(self, event_ids: Sequence[int]) -> list[Event]:
        """Return the existing events with these ids, of any agent, in the order of the log."""

    def lookup(self, event_ids: Iterable[int]) -> list[Message]:
        """Return the existing events with these ids, in the requested order."""

    def select(
        self, segments: Segments, what: str = MESSAGES, *, newest_first: bool = False, expected: int = 8
    ) -> Iterator[Event]:
        """Yield the events inside `segments`, of one conversation and its forks, one segment after another, each by id;
        read as they are consumed: about `expected` of them first.

        `what` is `MESSAGES`, `ALL`, `OPENERS`, `OPERATIONS`, `ERASED`, `APART`, `WAITING`, `UNREAD`, `RESTORABLE`, or
        one of `INDEXED_KINDS`, of which it selects those that were not erased.
        """

    def locate(
        self, segments: Segments, what: str = MESSAGES, *, newest_first: bool = False, expected: int = 256
    ) -> Iterator[Message]:
        """Yield the same events as `select`, without their texts."""

    def size(self, segments: Segments) -> Size:
        """Return the number of messages and tokens inside `segments`, from stored sums."""

    def bounds(self, segments: Segments) -> Segments:
        """Return `segments`, each reduced to the range from its oldest message to its newest, without empty ones."""

    def turns(self, turn_ids: Sequence[int]) -> dict[int, list[Message]]:
        """Return the messages of each of these turns in order; none for an id that is not a turn."""

    def next_to(self, places: Sequence[Message], count: int) -> list[list[Message]]:
        """Return, for each of these events, the neighbouring messages of the same agent in order: up to `count` that
        end with it, and up to `count` after it."""

    def calls(self, agent_id: str, call_id: str, *, waiting_since: int | None = None) -> list[Message]:
        """Return the agent's newest calls with this provider's call id, newest first. With `waiting_since`, the id of
        its open turn, return only those that have no result yet."""

    def results(self, calls: Sequence[Message], *, erased: bool = False) -> list[Message]:
        """Return the results of `calls` in order, wherever they are, of any agent; with `erased`, also those that have
        since been erased."""

    # Search

    def outlines(self, agent_ids: Sequence[str]) -> dict[str, Outline]:
        """Return the outlines of those agents that exist."""

    def index(self, scope: SearchScope) -> LogIndex:
        """Return an index of the unerased messages of all agents inside `scope`."""


class Transaction(Snapshot, Copying, Memos, Protocol):
    """A unit of writing: all of it is recorded or, if the block of `Store.write` raises, nothing [SPEC 2].

    Transactions on one conversation and its forks run one after another, across all processes; transactions on
    different conversations have no defined order. Reads inside a transaction see its own writes. A part that fails
    after it has recorded something fails the whole transaction: a caller that catches its error and continues gets
    StoreError. Every method raises StoreError when the database fails.
    """

    def append(
        self, agent_id: str, expected: int | None, drafts: Sequence[Draft], *, key: str | None = None
    ) -> list[int]:
        """Append events to an agent and return their ids; one transaction may append to any number of agents.

        `key` is chosen by the caller, for an append that may be repeated because its outcome is unknown: if this agent
        already has an append with this key, nothing is appended, and the earlier ids are returned.

        Metadata never moves the head, and nothing is expected of it: if all `drafts` are metadata, `expected` does not
        matter. A conversation has the name of its newest `renamed` event, or that of its creation; a deleted one has
        none. The texts of a request were kept before in the same transaction (`keep_texts`); it becomes their owner.

        Raises ConflictError unless the agent's head is `expected` (None: do not check), ValueError if data is not JSON,
        CommandError if the agent has ended (`agents.refused`), StoreError if a new name is taken.
        """

    def erase(self, owner: str, turn: int, last: int, by: int, *, mail: Sequence[int] = ()) -> None:
        """Erase the content of the events of a turn of `owner` up to id `last`, for the redact operation `by`. Turn 0
        stands for all its events, including scratchpads and the content that its forks handed down.

        A turn takes along the mail that its messages carry, and the `mail` with these ids: a copy names what a message
        carried that it gets erased.

        Of each event, the id, kind, time, actor and `by` remain; it is no longer a message. The caller must then call
        `save_fold` for all agents that inherited from `owner`, because the sizes of their stored segments change. Texts
        of requests that belong to the turn (`sent.owners`), or to the agent if it is erased as a whole, are erased
        unless something else owns them. The records of the requests of a turn remain: they hold no texts.
        """

    def keep_texts(self, texts: Mapping[str, str]) -> None:
        """Store the texts that a request needs, hash -> text, unless they are stored already. Requests that are
        appended later in this transaction own them. From this call to the end of the transaction, also without texts,
        no other transaction erases a text or removes a memo."""

    def create_agent(
        self, record: AgentRecord, born: Fold | None = None, start: Size = NOTHING, *, at: int | None = None
    ) -> None:
        """Add an agent as it was created, without events, with its initial fold and the size of that fold. Raises
        StoreError if its name is taken.

        `at` is the place that it had among all agents of another store, from 1; it gets that place if nobody has it.
        """

    def save_fold(self, fold: Fold, beside: Size) -> None:
        """Store the segment cache of an agent.

        `beside` is the size of the visible messages minus the size of all messages of the agent itself. An append
        changes both sizes by the same amount, so `beside` stays valid.
        """

    def lend(self, agent_id: str, lease: Lease | None) -> None:
        """Store a lease in place of the agent's previous one, which the caller has read in the same transaction; with
        None, nobody runs the agent any longer."""

    def renew(self, holder: str, until: str) -> list[Lease]:
        """Extend all leases of a runtime and return them."""


class Store(Maintenance, Protocol):
    """The log of many agents. Every method raises StoreError when the database fails."""

    address: str
    """Address that opens the same store again, in this or another process."""

    @property
    def sandbox(self) -> SqlSandbox | None:
        """The sandbox for a model's SQL; None if the store has none."""

    @property
    def vectors(self) -> Vectors | None:
        """The vectors of messages; None if the store keeps none, so that searches use words alone."""

    def read(self) -> AbstractContextManager[Snapshot]:
        """Open one consistent moment. Inside another block of the same thread it is the moment of that block, or the
        state that its transaction sees. Other threads of the process may have to wait. Inside the block nothing can be
        written; after it the moment must not be read."""

    def write(self) -> AbstractContextManager[Transaction]:
        """Open one transaction, which is committed at the end of the block and rolled back if the block raises. Inside
        another `write` block of the same thread it joins that transaction. Raises StoreError inside a `read` block."""

    def watch(self) -> Watch:
        """Watch for commits by any process from now on. Close the watch after use."""

    def close(self) -> None:
        """Release the database and end all watches. The store cannot be used afterwards."""


class Provider(Protocol):
    """A language model."""

    def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer to a request; closing the iterator ends the request. Raises ProviderError."""

    async def count(self, request: Request) -> int:
        """Return the number of tokens of a request as counted by the provider. Raises ProviderError, also if the
        provider cannot count."""
