"""What the library asks of the outside: a place to store events, a model to answer, a clock."""

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from msgspec import Struct

from foldmark.core.answer import Piece
from foldmark.core.changes import ChangesView, Watch
from foldmark.core.copying import Copying, CopyingView
from foldmark.core.events import Draft, Event
from foldmark.core.inbox import Inbox, InboxView
from foldmark.core.leases import Leases, LeasesView
from foldmark.core.lineage import Lineage, LineageView
from foldmark.core.maintenance import Maintenance
from foldmark.core.memos import Memos, MemosView
from foldmark.core.sql_sandbox import SqlSandbox
from foldmark.core.search import Index, SearchScope
from foldmark.core.replay import Fold
from foldmark.core.request import Request
from foldmark.core.segments import END, Segments
from foldmark.core.sent import Sent, SentView
from foldmark.core.turns import Message
from foldmark.core.vectors import Vectors

Clock = Callable[[], str]
"""The present, as `Event.created_at` is written."""

NewId = Callable[[], str]
"""A fresh uuid for an agent."""

Progress = Callable[[int, int], None]
"""Told how much is done and how much there is in all."""


class AgentRecord(Struct, frozen=True):
    """An agent as the store knows it.

    A root agent has a name and no parent; a fork has a parent and `fork_event`, the parent's event that stores its
    start. `head` is the id of its newest event (0: none), `open_turn` the turn that has not ended. A `deleted` one is
    there only for its uuid to be explained.
    """

    id: str
    name: str | None
    parent: str | None
    fork_event: int
    created_at: str
    head: int = 0
    open_turn: int | None = None
    messages: int = 0
    tokens: int = 0
    deleted: bool = False

    @property
    def newest(self) -> int:
        """The id of the newest event there is for it: its own, or the fork that it was born from."""
        return max(self.head, self.fork_event)

    @property
    def own(self) -> "Size":
        """The size of all messages that it appended itself, visible or not."""
        return Size(self.messages, self.tokens)


class Size(NamedTuple):
    """How much there is of something: messages, and their tokens as fixed at append."""

    messages: int
    tokens: int

    def plus(self, other: "Size") -> "Size":
        """Both together."""
        return Size(self.messages + other.messages, self.tokens + other.tokens)

    def less(self, other: "Size") -> "Size":
        """This without the other."""
        return Size(self.messages - other.messages, self.tokens - other.tokens)


ANCHORS = ("config", "command", "state", "scratchpad", "summary", "system")
"""Kinds of which a `Head` holds the newest event."""


BESIDE = ("memos", "mail", "children")
"""What a request may have to tell of that stands beside the agent's own events: memos and mail of anybody's, forks of
its own."""


class Head(NamedTuple):
    """Where an agent stands: its row, its stored segment cache with the size beside it (None if there is none), the
    newest event of each of `ANCHORS` that it recorded itself and nobody erased, and which of `BESIDE` there ever were.
    """

    record: AgentRecord
    cache: tuple[Fold, Size] | None
    newest: Mapping[str, Event]
    beside: frozenset[str]


class Since(NamedTuple):
    """What an agent recorded behind event `after` that is no message: operations, and events of some of `ANCHORS` that
    nobody erased, in order; and its newest ones of these kinds up to `after`."""

    after: int
    anchors: Mapping[str, Event]
    events: Sequence[Event]


class Overview(NamedTuple):
    """An agent in a list of all: when its newest event was recorded, or else when it was made; since when it is
    archived; and the size of its context, None for a fork and where that has to be counted."""

    record: AgentRecord
    last_used: str
    archived: str | None
    size: Size | None


class Hit(Struct, frozen=True):
    """A message that a search found [SPEC 9].

    `agent_name` is the conversation's, None for a fork; `turn_id` is None outside of turns. `score` is the higher the
    better: above 1 if the message holds every term, otherwise below. `snippet` is one line, a piece of the message in
    which the terms stand, with nothing added but `…` where it is cut. `visible` says whether the message is in the
    context of the agent that wrote it. `tool` is the tool of a call, or whose result it is; `highlights` are
    the places in the snippet where the terms stand, from and up to.
    """

    event_id: int
    agent_id: str
    agent_name: str | None
    kind: str
    turn_id: int | None
    created_at: str
    score: float
    snippet: str
    visible: bool = False
    tool: str | None = None
    highlights: tuple[tuple[int, int], ...] = ()


class LogIndex(Index, Protocol):
    """The messages of a log, to be searched."""

    def hits(self, event_ids: Sequence[int]) -> list[Hit]:
        """Messages that `around` has given, in the order asked for; without score and snippet."""


class Surroundings(NamedTuple):
    """Where a message that was found stands in the log of its agent.

    `asked` is the beginning of what the person said: the message itself, or else what its turn begins with, "" if that
    is nobody's. `before` is how many messages its agent wrote before its turn, or before itself outside of turns.
    `behind` are the agent's next turns, each with the messages before it; in the end all there are, with `END`.
    """

    hit: Hit
    asked: str
    before: int
    behind: Sequence[tuple[int, int]]


class Outline(NamedTuple):
    """What a search has to know of an agent: its stored segment cache, None if there is none that can be read; if it
    ever had a planning conversation, also its operations and the `command` events that say where one begins, in
    order."""

    fold: Fold | None
    planning: Sequence[Event] = ()


class Snapshot(ChangesView, CopyingView, InboxView, LeasesView, MemosView, SentView, LineageView, Protocol):
    """What can be read of one moment [SPEC 9]. Every method raises StoreError when the database fails.

    It is used inside the block of `Store.read` only. Ids increase along a conversation and its forks, in the order of
    commits; there may be gaps, and nothing follows from the ids of two conversations.
    """

    @property
    def committed(self) -> bool:
        """Whether all that it shows is committed; inside a transaction some of it may never be."""

    def on_rollback(self, undo: Callable[[], None]) -> None:
        """Have `undo` called if what this moment shows is rolled back, for whoever keeps something of it; where all is
        committed that never happens."""

    def now(self) -> str:
        """The present by the database's clock, as `Event.created_at` is written: all processes of the database have it
        in common. Leases run by it, and nothing else."""

    def head(self, agent_id: str) -> Head:
        """Where an agent stands, as of one moment. Raises DamagedError."""

    def anchors(self, agent_id: str, until: int) -> Mapping[str, Event]:
        """The newest event up to id `until` of each of `ANCHORS` that an agent recorded itself and nobody erased."""

    def since(self, agent_id: str, after: int, kinds: Collection[str] = ANCHORS) -> Since:
        """What an agent recorded behind an event, but for messages: operations, and events of these of `ANCHORS`."""

    def agents(self) -> list[AgentRecord]:
        """All agents, oldest first."""

    def overview(self) -> list[Overview]:
        """All agents, oldest first, in one statement. Raises DamagedError."""

    def agent(self, agent_id: str) -> AgentRecord | None:
        """The agent with this uuid."""

    def root_of(self, agent_id: str) -> str:
        """The uuid of the root agent above this one, which may be itself."""

    def named(self, name: str) -> AgentRecord | None:
        """The root agent with this name."""

    def children(self, agent_id: str) -> list[AgentRecord]:
        """The agents forked from this one, oldest first."""

    def unstarted(self) -> list[AgentRecord]:
        """The living forks without a message of their own whose model was never asked, oldest first."""

    def event(self, event_id: int) -> Event | None:
        """The event with this id, whosever it is."""

    def events(self, event_ids: Sequence[int]) -> list[Event]:
        """The events with these ids, as far as they exist, whosever they are, in the order of the log."""

    def events_after(self, agent_id: str, after: int, limit: int) -> list[Event]:
        """The agent's own events with ids above `after`, of all kinds, oldest first, at most `limit`."""

    def operations(self, agent_id: str, *, after: int = 0, until: int = END) -> list[Event]:
        """The operations of an agent with ids above `after` and up to `until` in order; among them the ends of turns
        that closed a planning conversation."""

    def outlines(self, agent_ids: Sequence[str]) -> dict[str, Outline]:
        """What a search has to know of those of these agents that exist."""

    def messages(self, segments: Segments, *, newest_first: bool = False, expected: int = 8) -> Iterator[Event]:
        """The messages inside `segments`, read as they are consumed: first about as many as are `expected` to be."""

    def newest(self, kind: str, segments: Segments) -> Event | None:
        """The newest event of a kind inside `segments`; none that was erased. The kinds are `state`, `scratchpad`,
        `system`, `config`, `command`, `usage`, `window_summary`, and `summary` for one that carries a state."""

    def recent(self, kind: str, agent_id: str, until: int, limit: int) -> list[Event]:
        """The agent's own newest events of a kind up to event `until`, newest first, at most `limit`; none that was
        erased. The kinds are those of `newest`."""

    def of_kind(self, kind: str, segments: Segments) -> list[int]:
        """Ids of all events of a kind inside `segments`; kinds as for `newest`."""

    def size(self, segments: Segments) -> Size:
        """How many messages and tokens lie inside `segments`, from stored sums."""

    def weight(self, segments: Segments) -> int:
        """The bytes that the messages inside `segments` weigh (`core.weight`), from stored sums."""

    def weights(self, segments: Segments, *, expected: int = 256) -> Iterator[tuple[int, int]]:
        """The id and the weight of every message inside `segments`, newest first, read as they are consumed."""

    def bounds(self, segments: Segments) -> Segments:
        """`segments`, each from its oldest message to its newest; without those that hold none."""

    def message_before(self, agent_id: str, event_id: int) -> Message | None:
        """The agent's newest message with an id up to and including `event_id`."""

    def message_after(self, agent_id: str, event_id: int) -> Message | None:
        """The agent's oldest message with an id above `event_id`."""

    def turns(self, turn_ids: Sequence[int]) -> dict[int, list[Message]]:
        """The messages of each of these turns in order; none for what is no turn."""

    def results(self, calls: Sequence[Message], *, erased: bool = False) -> list[Message]:
        """The results of `calls` in order, wherever they stand and whosever they are; with `erased` those erased since,
        too."""

    def next_to(self, places: Sequence[Message], count: int) -> list[list[Message]]:
        """For each of these events the messages next to it, of the same agent and in order: up to `count` that end with
        it, and up to `count` behind it."""

    def apart_results(self, agent_id: str, event_id: int) -> list[Message]:
        """Results after `event_id` that answer a call before it and stand apart from it (`Draft.apart`)."""

    def waiting(self, agent_id: str) -> list[Message]:
        """The calls of the agent's open turn that have no result yet."""

    def waiting_call(self, agent_id: str, turn: int, call_id: str) -> Message | None:
        """The newest call with a provider's call id among those that wait in the agent's open `turn`."""

    def calls(self, agent_id: str, call_id: str) -> list[Message]:
        """The agent's newest calls with a provider's call id, newest first."""

    def lookup(self, event_ids: Iterable[int]) -> list[Message]:
        """The events with these ids, as far as they exist, in the order asked for."""

    def erased_by(self, event_id: int) -> Event | None:
        """The redact operation that erased this event's content; None if nothing did."""

    def index(self, scope: SearchScope) -> LogIndex:
        """The messages of all agents as far as they lie in `scope`, to be searched; never what was erased."""

    def surroundings(self, event_ids: Sequence[int], turns: int) -> list[Surroundings]:
        """Where each of these messages stands, as far as they exist, in the order asked for, with up to `turns` turns
        behind it; without score, snippet and whether they are visible."""

    def opened(self, segments: Segments) -> list[int]:
        """The ids of the turns that were opened inside `segments`, in order."""


class Transaction(Snapshot, Copying, Inbox, Leases, Memos, Sent, Lineage, Protocol):
    """What is recorded in one go: all of it or, if the block of `Store.write` raises, nothing [SPEC 2].

    Transactions on one conversation and its forks take place one after another, whichever process they are of; in
    which order those on different ones do, nothing says. What is read in one shows what was recorded in it. A part
    that fails after it has recorded something fails the transaction as a whole: whoever catches its error and goes on
    gets StoreError. Every method raises StoreError when the database fails.
    """

    def append(
        self, agent_id: str, expected: int | None, drafts: Sequence[Draft], *, key: str | None = None
    ) -> list[int]:
        """Append events to an agent and return their ids; one transaction may append to any number of agents.

        `key` is the caller's own, for an append that may be repeated when nobody knows what became of it: if there was
        one to this agent with this key, nothing is appended, and the ids are those of then.

        Raises ConflictError unless the agent's head is `expected` (None: do not check), ValueError if data is not
        JSON, CommandError if the agent has ended (`inbox.refused`).
        """

    def next_id(self, agent_id: str) -> int:
        """The id that the next event appended to this agent gets, and no other."""

    def stands_apart(self, agent_id: str, call: int) -> bool:
        """Whether a result of this call, appended now, would not directly follow its calls (`Draft.apart`)."""

    def erase(self, owner: str, turn: int, last: int, by: int) -> None:
        """Erase the content of the events of a turn of `owner` up to id `last`, for the redact operation `by`; of all
        its events, scratchpads and what its forks handed down included, for turn 0.

        What remains of each is its id, kind, time and actor, and `by`; it is a message no more. The stored
        segments' sizes of all agents that inherited from `owner` need `save_fold` afterwards. With a turn go the
        questions that were asked in it (`sent.RequestRecord.question`), with all of an agent every record of what it sent.
        """

    def create_agent(self, record: AgentRecord, born: Fold, start: Size) -> None:
        """Add an agent with what it is born with and the size of that. Raises StoreError if its name is taken."""

    def save_fold(self, fold: Fold, beside: Size) -> None:
        """Store the segment cache of an agent.

        `beside` is the size of what is visible less that of all the agent's own messages; both grow alike.
        """


class Store(Maintenance, Protocol):
    """The log of many agents. Every method raises StoreError when the database fails."""

    address: str
    """What opens the same store again, also in another process."""

    @property
    def sandbox(self) -> SqlSandbox | None:
        """What answers a model's SQL; None where nothing does."""

    @property
    def vectors(self) -> Vectors | None:
        """Where vectors of messages are kept; None where nobody keeps any, and a search goes by words alone."""

    def read(self) -> AbstractContextManager[Snapshot]:
        """One consistent moment. Inside another block of the same thread it is the moment of that, or what its
        transaction sees. Other threads of the process may have to wait; nothing can be written inside, and nothing is
        read from it behind the block."""

    def write(self) -> AbstractContextManager[Transaction]:
        """One transaction, which is committed at the end of the block and rolled back if that raises. Inside another
        block of `write` of the same thread it is a part of that one's. Raises StoreError inside a block of `read`."""

    def watch(self) -> Watch:
        """Wait for commits from here on, whichever process they are of. Close it after use."""

    def close(self) -> None:
        """Release the database and end all watches; the store is not used afterwards."""


class Provider(Protocol):
    """A language model that can be asked."""

    def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer to a request; closing the iterator ends the request. Raises ProviderError."""

    async def count(self, request: Request) -> int:
        """The tokens of a request as the provider itself counts them. Raises ProviderError, also where it cannot."""
