"""Records of the requests that were sent to models [SPEC 5.6].

A record holds the ids of a request's messages, how they were shortened, and hashes of everything else, which is enough
to rebuild the request byte for byte. Records are kept beside the log, so they change no context and no event id. They
never contain texts of messages, which are only in the log, where `/message remove` erases them.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from foldmark.core.events import Event
from foldmark.core.request import Edge, Family
from foldmark.core.segments import END, Segments


class MessageSet(Struct, frozen=True, omit_defaults=True):
    """A set of messages: all inside `ranges`, or, if ranges would include others, those with these `ids`."""

    ranges: Segments = ()
    ids: tuple[int, ...] = ()


class RequestRecord(Struct, frozen=True, omit_defaults=True):
    """The inputs of a recorded request that are not columns of its row.

    `purpose` is `Request.purpose`; `speaks` is the built-in provider whose format the request has; `output` is the
    maximum tokens of the answer. `window` and `pinned` are the messages, sent or left out; `layers` is layer -> its
    events, 0 for a scratchpad that a fork handed down; `edge` is the beginning of the window. `truncated` is event id
    -> characters kept of a tool result, `evicted` event id -> the operation that evicted it, `left_out` reason -> event
    ids. `hashes` are the SHA-256 of texts: `config` (the settings as JSON), `tools` (their specs as JSON),
    `guidelines`, `instruction` (a last message by Foldmark itself). `question` is an instruction in a person's words,
    `quoted` are the messages that precede it in the same message. For memos, `layers` has the ids and `hashes` the
    texts, as `memo 3`, unless one has since been removed. `digests` is layer -> SHA-256 of the texts sent in it. `told`
    is the content of the layer `children`, as in the manifest (`family` in older records is today's `told[0]`); `later`
    has the layers before a later message. `thoughtless` is True if thinking was left out because the provider refused
    it; `cache_ttl` is how long the provider was asked to cache the request (`Options`). `upto` is the event that opened
    the turn before which a compaction ends, 0 for none.
    """

    speaks: str
    output: int
    edge: Edge
    hashes: Mapping[str, str]
    digests: Mapping[str, str]
    purpose: str = "answer"
    window: MessageSet = MessageSet()
    pinned: tuple[int, ...] = ()
    layers: Mapping[str, tuple[int, ...]] = {}
    truncated: Mapping[int, int] = {}
    evicted: Mapping[int, int] = {}
    left_out: Mapping[str, tuple[int, ...]] = {}
    question: str | None = None
    quoted: MessageSet | None = None
    family: Family | None = None
    told: Mapping[int, Family] = {}
    later: Mapping[int, Mapping[str, tuple[int, ...]]] = {}
    thoughtless: bool = False
    cache_ttl: str = "5m"
    upto: int = 0

    @property
    def planning(self) -> bool:
        """True if the request held only a planning conversation of the context [SPEC 4.2]."""
        return self.purpose == "answer" and self.edge.why == "planning"


class SentRequest(Struct, frozen=True):
    """A request that was sent to a model: `event` is the agent's newest event at that time, `turn` the open turn,
    `bytes` the length of `Request.bytes` and `sha256` its hash, `tokens` the estimate; `id` is 0 before it is
    recorded."""

    agent: str
    event: int
    turn: int | None
    created_at: str
    provider: str
    model: str
    sha256: str
    bytes: int
    tokens: int
    record: RequestRecord
    id: int = 0


class SentView(Protocol):
    """The part of `Snapshot` that reads sent requests."""

    def sent(self, agent_id: str, sent_id: int) -> SentRequest | None:
        """Return this agent's request with this id, or None."""

    def newest_sent(self, agent_id: str, limit: int, until: int = END) -> list[SentRequest]:
        """Return the newest requests that the agent sent, with ids up to `until`, newest first, at most `limit`."""

    def answered_last(self, agent_id: str) -> SentRequest | None:
        """Return the newest request that the agent sent for an answer, not for a summary or a filter."""

    def kept_text(self, sha256: str) -> str:
        """Return the text with this hash. Raises DamagedError if it is missing."""

    def tombstones(self, segments: Segments) -> list[Event]:
        """Return the erased messages inside `segments`, without content, by id."""


class Sent(SentView, Protocol):
    """The part of `Transaction` that records sent requests. Rows never change; `Transaction.erase` erases."""

    def add_sent(self, request: SentRequest, texts: Mapping[str, str]) -> int:
        """Record a request and those of its texts (hash -> text) that are not stored yet; return its id."""
