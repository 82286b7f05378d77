"""Records of the requests sent to models, and the reasons for cache misses [SPEC 5.6, 5.7].

A record names the messages of a request, how they were shortened, and hashes of everything else, which is enough to
rebuild the request byte for byte. Records stand beside the log, so they change no context and no event id. They never
contain texts of messages: these stand in the log only, where `/message remove` erases them.

To explain a cache miss, a request is compared with the answered request before it, for which the provider has reported
the tokens read from the cache and written to it. A deliberate change in between explains a miss: another model, an
operation, a setting. Otherwise the policy may have changed something.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from foldmark.core.events import Event
from foldmark.core.request import Edge, Family, Usage
from foldmark.core.segments import END, Segments
from foldmark.core.wording import count, listing

if TYPE_CHECKING:  # every start of a program imports this module, and the rules of caches take some ms
    from foldmark.core.assembly.caching import Rules


class MessageSet(Struct, frozen=True, omit_defaults=True):
    """A set of messages: all inside `ranges`, or, where ranges would include others, those with these `ids`."""

    ranges: Segments = ()
    ids: tuple[int, ...] = ()


class RequestRecord(Struct, frozen=True, omit_defaults=True):
    """The inputs of a recorded request, beside the columns of its row.

    `purpose` is `Request.purpose`; `speaks` the built-in provider whose format it has; `output` the maximum tokens of
    the answer. `window` and `pinned` name the messages, sent or left out; `layers` the events in front of them by
    layer, 0 for a scratchpad that a fork handed down; `edge` is where the window began. `truncated` is event id ->
    characters kept of a tool result, `evicted` event id -> the operation that evicted it, `left_out` why -> event ids.
    `hashes` are the SHA-256 of texts: `config` (the settings as JSON), `tools` (their specs as JSON), `guidelines`,
    `instruction` (a last message of Foldmark's own). `question` is an instruction in a person's words, `quoted` the
    messages that stand in front of it in the same message. For memos, `layers` has the ids and `hashes` the texts, as
    `memo 3`, unless one was removed since. `digests` are layer -> SHA-256 of the texts sent in it. `told` is the
    content of the layer `children`, as in the manifest (`family` in older records: the present `told[0]`); `later` are
    the layers in front of a later message. `thoughtless` is True if thinking was left out because the provider refused
    it; `cache_ttl` is how long the provider was asked to cache it (`Options`). `upto` is the event that opened the turn
    in front of which a compaction ends, 0 for none.
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
        """True if it held a planning conversation and nothing else of the context [SPEC 4.2]."""
        return self.purpose == "answer" and self.edge.why == "planning"


class SentRequest(Struct, frozen=True):
    """A request that went to a model: `event` is the agent's newest event then, `turn` the open turn, `bytes` the
    length of `Request.bytes` and `sha256` its hash, `tokens` the estimate; `id` is 0 before it is recorded."""

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
        """Return a request that this agent sent; None for another agent's."""

    def newest_sent(self, agent_id: str, limit: int, until: int = END) -> list[SentRequest]:
        """Return the newest requests that the agent sent, newest first, at most `limit`; none with an id above
        `until`."""

    def answered_last(self, agent_id: str) -> SentRequest | None:
        """Return the newest request that the agent sent for an answer, not for a summary or a filter."""

    def kept_text(self, sha256: str) -> str:
        """Return the text with this hash. Raises DamagedError if it is missing."""

    def tombstones(self, segments: Segments) -> list[Event]:
        """Return the erased messages inside `segments`, without content, by id."""


class Sent(SentView, Protocol):
    """The part of `Transaction` that records sent requests. Rows never change; `Transaction.erase` erases."""

    def add_sent(self, request: SentRequest, texts: Mapping[str, str]) -> int:
        """Record a request and its texts, hash -> text, where they are missing; return its id."""


NEGLIGIBLE = 256
"""Tokens that may be missing without a reason: caches keep beginnings in steps, and counts are slightly off."""

NAMED = 3
"""Maximum number of operations that are named; earlier ones are only counted."""


class Answered(Struct, frozen=True):
    """A request that was answered: when it was sent (seconds), and its cost."""

    sent: SentRequest
    moment: float
    usage: Usage


class Between(Struct, frozen=True):
    """The changes between two requests.

    `operations` are those that change what is sent: their events, and their descriptions. The other two are called only
    when needed: `settings` returns the names of changed settings, `begins` returns True if the later request begins
    with the whole earlier one (None if one of them cannot be rebuilt).
    """

    operations: Sequence[tuple[int, str]]
    settings: Callable[[], Sequence[str]]
    begins: Callable[[], bool | None]


class Reason(Struct, frozen=True):
    """The reason why something was not read from the cache.

    `why` is `first`, `pause`, `model`, `operation`, `settings`, `system`, `tools`, `planning`, `window`, `results`,
    `layers`, `older`, `provider` or `unknown`; `event` is the operation's.
    """

    why: str
    text: str
    event: int | None = None


class Missed(Struct, frozen=True):
    """The number of tokens that a cache `held` before the request, the number of those that it missed, and the reasons;
    no reasons without a miss."""

    held: int
    tokens: int
    reasons: tuple[Reason, ...] = ()


def missed(before: Answered | None, now: Answered, between: Between, rules: "Rules", lifetime: float) -> Missed:
    """Return what the cache missed of request `now`, and why. `before` is the previous request, None for the first.

    `rules` are the cache's, `lifetime` the seconds that it keeps a request.
    """
    if before is None:
        return Missed(0, 0, (Reason("first", "the first request"),))
    held = min(_held(before.usage, rules), now.usage.input)
    tokens = held - now.usage.cache_read
    if tokens <= max(NEGLIGIBLE, held // 20):
        return Missed(held, 0)
    pause = now.moment - before.moment
    found = []
    if pause > lifetime:
        minutes, hours = round(pause / 60), round(pause / 3600)
        long = f"{minutes} min" if minutes < 120 else f"{hours} h" if hours < 48 else f"{round(hours / 24)} days"
        found = [Reason("pause", f"a pause of {long}; the cache keeps a request for {round(lifetime / 60)} min")]
    found += _chosen(before.sent, now.sent, between)
    found = found or list(_policy(before.sent, now.sent)) or [_AT_LAST[between.begins()]]
    return Missed(held, tokens, tuple(found))


_AT_LAST = {
    True: Reason("provider", "nothing changed; the provider did not keep it"),
    False: Reason("older", "older messages were sent in another form than before"),
    None: Reason("unknown", "unknown: the earlier request cannot be rebuilt as it was sent"),
}


def _held(usage: Usage, rules: "Rules") -> int:
    """Return the tokens of a request that the cache had once it was answered."""
    if rules.step:
        return usage.input if usage.input >= rules.least else 0
    return usage.cache_read + usage.cache_write


def _chosen(before: SentRequest, now: SentRequest, between: Between) -> Iterator[Reason]:
    """Yield deliberate changes."""
    was, then, operations = before.record, now.record, between.operations
    if (before.provider, before.model) != (now.provider, now.model):
        yield Reason("model", f"another model; the previous request went to {before.provider}/{before.model}")
    if (more := len(operations) - NAMED) > 0:
        span = f"events {operations[0][0]} to {operations[more - 1][0]}"
        yield Reason("operation", f"{count(more, 'operation')} ({span})")
    for event, words in operations[-NAMED:]:
        yield Reason("operation", f"{words} (event {event})", event)
    if was.planning != then.planning:
        yield Reason("planning", f"{'only' if then.planning else 'no longer only'} a planning conversation is sent")
    if _hash(was, "config") != _hash(then, "config") and (changed := between.settings()):
        yield Reason("settings", f"changed settings: {listing(changed)}")
    if _names(was, "system") != _names(then, "system") or _hash(was, "guidelines") != _hash(then, "guidelines"):
        yield Reason("system", "another system prompt or other guidelines")
    if _hash(was, "tools") != _hash(then, "tools"):
        yield Reason("tools", "other tools")


def _policy(before: SentRequest, now: SentRequest) -> Iterator[Reason]:
    """Yield changes made by policy."""
    was, then = before.record, now.record
    if then.edge.first != was.edge.first:
        yield Reason("window", f"a step of the window: it begins at event {then.edge.first}, not {was.edge.first}")
    elif then.edge.settled != was.edge.settled:
        yield Reason("window", f"a step of the window as of event {then.edge.settled}")
    if then.edge.settled != was.edge.settled:
        return  # the rest is part of the step
    old = [each for each in {*was.truncated, *then.truncated} if each <= before.event]
    if cut := [each for each in old if was.truncated.get(each) != then.truncated.get(each)]:
        yield Reason("results", f"{count(len(cut), 'older tool result')} cut to another length")
    if other := [name for name in _LAYERS if _names(was, name) != _names(then, name)]:
        yield Reason("layers", f"a new {listing(_LAYERS[name] for name in other)}")


_LAYERS = {
    "state": "state block",
    "scratchpad": "scratchpad",
    "memos": "choice of memos",
    "window_summary": "window summary",
}


def _names(record: RequestRecord, layer: str) -> Sequence[int]:
    return record.layers.get(layer, ())


def _hash(record: RequestRecord, name: str) -> str | None:
    return record.hashes.get(name)
