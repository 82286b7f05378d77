"""A request to a provider, the manifest with the origin of each part, and the pieces of the answer [SPEC 5, 5.6].

These types are the same for all providers. A dialect encodes a prompt as the body of a `Request` and turns the
provider's answer into pieces.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.segments import END


class Child(Struct, frozen=True, omit_defaults=True):
    """A living child as its parent's model sees it: its uuid, its state, the event that holds its task (0: do not quote
    it) and the mark or the turn that it was forked from."""

    agent: str
    state: str
    goal: int = 0
    mark: str | None = None
    turn: int | None = None


class Family(Struct, frozen=True, omit_defaults=True):
    """The report about other agents in a request.

    It has the newest living children, the number of `more` children, the uuids of those `killed` last, and the senders
    of unread mail.
    """

    children: tuple[Child, ...] = ()
    more: int = 0
    killed: tuple[str, ...] = ()
    mail: tuple[str, ...] = ()


Layers: TypeAlias = Mapping[str, tuple[int, ...]]
"""Layer -> its events: for the identity of a child the fork that made it, 0 for a handed-down scratchpad; for memos,
their ids."""


class Plan(Struct, frozen=True, omit_defaults=True):
    """How a request is made from the log. It holds ids and hashes, never words of a person."""

    first: int = 0
    """The position (`eviction.begins`) of the oldest message of the window, 0 without messages."""

    settled: int = END
    """The boundary: everything up to this event is sent as it was then. END if each request is made afresh."""

    results: int = 0
    """The results of the active turn up to this event are cut as if the turn were over."""

    bare: int = 0
    """The results of the active turn up to this event are cut to nothing but the place where they can be read."""

    pins: tuple[int, ...] = ()
    """The pinned turns that are sent before the window, unless they are in it."""

    layers: Layers = {}
    """The layers placed at the boundary: before the active turn, or in the system field."""

    later: Mapping[int, Layers] = {}
    """The layers before messages that opened a turn after the boundary, by the message."""

    told: Mapping[int, Family] = {}
    """The reports about children and mail, by the message that they precede (0: at the place of `layers`)."""

    ratio: float = 0.0
    """The calibrated ratio of the ruler that measured the request; 0 if it was not calibrated. A newer calibration is
    no boundary."""

    head: str = ""
    """The hash of all that precedes the messages, and of the settings that shape them."""

    def placed(self, layer: str) -> list[int]:
        """Return everything that is sent in a layer, in order."""
        every = (self.layers, *(self.later[at] for at in sorted(self.later)))
        return [id for layers in every for id in layers.get(layer, ())]


class ToolSpec(Struct, frozen=True):
    """A tool that the model may call; `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolCall(Struct, frozen=True):
    """A tool call by a model: `args` is any JSON value, as received; `signature` is Gemini's, for its thinking."""

    call_id: str
    name: str
    args: Any
    signature: str | None = None


ERROR = "Error: "
"""Prefix of an error result, because not every format has a field for errors."""

ANSWER, COMPACTION = "answer", "compaction"
"""Purposes of a request: to continue the conversation, or to have the provider summarize it."""


class Options(Struct, frozen=True):
    """Options of a request: the maximum tokens of the answer; the thinking effort, `default` (the model's own choice),
    `off`, `low`, `medium` or `high`; and the lifetime of the request in the provider's cache, `5m` or `1h`, if it can
    be chosen. `binds` is True if the model accepts its thinking only after the messages that it was bound to, None if
    the table of models does not say. `editing` are the edits that the provider should apply (`config.provider_edits`);
    `compact` asks it for a summary in its own form instead of an answer."""

    output: int = 8192
    thinking: str = "default"
    binds: bool | None = None
    cache_ttl: str = "5m"
    editing: str = "off"
    compact: bool = False


PLAIN = Options()
"""Default options."""


class Part(Struct, frozen=True):
    """One piece of the request: a message, or the text of a layer. `event` is the event that it came from, None for
    Foldmark's own text.

    `layer` is `system`, `guidelines`, `state`, `scratchpad`, `memos`, `window_summary`, `children`, `pinned` or
    `window`; `how` is `whole`, `truncated`, `evicted`, `interrupted` or `synthetic`, `detail` adds details for a
    person. `text` is the text that is sent: for a call, its name and arguments. `memo` is the id of its memo; a layer
    that was added later than the others precedes event `before`. Of a truncated result, `kept` of `of` characters are
    sent; `failed` is True for a result that is an error.
    """

    layer: str
    event: int | None
    turn: int | None
    kind: str
    how: str = "whole"
    detail: str = ""
    text: str = ""
    memo: int | None = None
    before: int | None = None
    kept: int = 0
    of: int = 0
    failed: bool = False

    @property
    def about(self) -> str:
        """Further details for a person: `300 of 12,345 characters`; empty for none."""
        cut = f"{self.kept:,} of {self.of:,} characters" if self.of else ""
        return "; ".join(filter(None, (cut, self.detail)))


class LeftOut(Struct, frozen=True):
    """A message inside the window (or a pinned turn) that is not sent; `why` is `isolation`, `pairing`, `empty`, `pins`
    or `kept` (it stays after the requested summary)."""

    event: int
    turn: int | None
    why: str
    detail: str


class Edge(Struct, frozen=True, omit_defaults=True):
    """The beginning of the window: `first` is its oldest event; `why` is the reason that it does not begin earlier,
    `budget`, `turns` or `planning`, None if the window holds the whole context; `before` is the number of visible
    messages before it.

    `limit` is the maximum number of tokens, or of turns, in the request. Under the policy `eager`, `turn` is the next
    older turn, which would exceed the limit (0: messages outside of turns); under `steady` it is None.
    """

    first: int | None
    why: str | None
    before: int
    limit: int = 0
    turn: int | None = None

    @property
    def reason(self) -> str:
        """The reason, for a person, that the window does not begin earlier; empty if it holds the whole context."""
        if self.why is None:
            return ""
        if self.why == "planning":
            return "only the messages that are being matched"
        if self.why == "turns":
            return f"context_size is {self.limit}"
        if self.turn is not None:
            return f"turn {self.turn or '-'} does not fit: the request would exceed {self.limit:,} tokens"
        return f"the whole context would exceed {self.limit:,} tokens: older turns left in one step, down to low water"


class Manifest(Struct, frozen=True):
    """The origin of everything in a request, the omitted messages with the reasons, and the plan that the request was
    made from."""

    parts: tuple[Part, ...]
    left_out: tuple[LeftOut, ...]
    edge: Edge
    plan: Plan = Plan()


class Request(Struct, frozen=True):
    """A request to a provider: `body` is its JSON value, `bytes` is that value serialized, `tokens` the estimate.

    `purpose` is `answer` (to continue the conversation), `match` (to find the messages of a filter), `summary`,
    `compaction` (a summary in the provider's own form) or `state`. `names` maps names on the wire to the tools whose
    names differ from these. `size` is the basis of the estimate, before any calibration. `thinking` holds marks of
    those of its thinking blocks that the model reads. `thoughtless` is True if thinking was left out because the
    provider refused it. `cache_ttl` is that of its `Options`; `cache_key` is the same for all requests of an agent, so
    that a cache finds them. `event` was the newest event of its agent when it was made, and `tools` are those that it
    offers.
    """

    provider: str
    model: str
    dialect: str
    body: dict[str, Any]
    bytes: bytes
    tokens: int
    manifest: Manifest
    purpose: str = "answer"
    size: int = 0
    names: dict[str, str] = {}
    thinking: frozenset[str] = frozenset()
    thoughtless: bool = False
    cache_ttl: str = "5m"
    cache_key: str = ""
    event: int = 0
    tools: tuple[ToolSpec, ...] = ()


class Thought(Struct, frozen=True):
    """A piece of a model's thinking as it streams. An interface shows it; it is not recorded."""

    text: str


AFTER = "after"
"""Key in a kept block, never sent: the number of characters of the answer's text before the block; omitted for 0."""

LENGTH = "length"
"""Key in a kept block, never sent: the number of characters of the answer's text, from `AFTER` on, that the block is
about."""

CARRIED = "carried"
"""Type of a kept block that contains a provider's own block, of any type, to be sent back unchanged."""

BOUND = "bound"
"""Key in a kept thinking block, never sent: the text that the block is bound to."""


class Kept(Struct, frozen=True):
    """A block that the provider expects back, in the provider's own form: thinking with its signature, calls and
    results of tools that the provider runs itself, citations.

    It is recorded with the answer and sent back at its position, only in its own dialect; thinking is sent only while
    its turn lasts [SPEC 5.2].
    """

    block: dict[str, Any]


def carry(block: dict[str, Any], after: int, of: str) -> Kept:
    """Keep a block of provider `of` unchanged."""
    return Kept({"type": CARRIED, "of": of, "block": block, **({AFTER: after} if after else {})})


def block_in(block: dict[str, Any], of: str) -> dict[str, Any] | None:
    """Return the block of provider `of` that a kept block carries; None if it carries none."""
    inner = block.get("block") if block.get("type") == CARRIED and block.get("of") == of else None
    return dict(inner) if isinstance(inner, dict) else None


def block_position(block: dict[str, Any], done: int, text: str) -> int:
    """Return the position of a kept block in an answer's text, at least `done`."""
    return min(max(_number(block, AFTER, done), done), len(text))


def shifted(kept: Sequence[dict[str, Any]], done: int) -> list[dict[str, Any]]:
    """Return kept blocks with their positions counted from character `done` of the text."""
    return [{**block, AFTER: block[AFTER] - done} if block.get(AFTER) and done else block for block in kept]


def block_span(block: dict[str, Any], done: int, text: str) -> tuple[int, int]:
    """Return the beginning and the end of the part of an answer's text that a kept block is about; by default, the
    whole text."""
    begin = block_position(block, done, text)
    return begin, min(begin + _number(block, LENGTH, len(text)), len(text))


def _number(block: dict[str, Any], name: str, default: int) -> int:
    found = block.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else default


class Compacted(Struct, frozen=True):
    """The provider replaced everything before this point with a summary of its own [SPEC 5.7].

    `items` are the blocks of the summary, in the provider's form; `text` is its readable part, empty if it has none. It
    also replaces the first `after` characters of the answer's text and the first `kept` kept blocks.
    """

    items: tuple[dict[str, Any], ...]
    text: str = ""
    after: int = 0
    kept: int = 0


class Usage(Struct, frozen=True):
    """The token usage of a request, as reported by the provider. Input is the sum of `fresh`, `cache_read` and
    `cache_write`; no token is counted twice. `output` includes the model's thinking. `altered` lists the provider's
    removals from the request before its model saw it, in the provider's own form."""

    fresh: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    altered: tuple[dict[str, Any], ...] = ()
    cache_known: bool = True
    """False if the provider reports nothing about its cache: the input may have been read from one."""
    last_input: int = 0
    """The input of the last of several calls of the model that the provider made for this request; 0 for one call."""

    @property
    def size(self) -> int:
        """The size of the request as its provider counts it: the input of one call of the model."""
        return self.last_input or self.input

    @property
    def input(self) -> int:
        """All input tokens of the request."""
        return self.fresh + self.cache_read + self.cache_write

    @property
    def cleared(self) -> int:
        """The tokens that the provider removed from the request. They are not part of the input."""
        counts = [entry.get("cleared_input_tokens") for entry in self.altered]
        return sum(count for count in counts if isinstance(count, int) and count > 0)


class Stopped(Struct, frozen=True):
    """The end of an answer. `why` is `end`, `calls` (tools must be run), `length` (the limit of an answer, or of the
    model, was reached), `refused` or `compacted` (the answer is yet to come); `said` is the provider's own term."""

    why: str
    said: str


class Waiting(Struct, frozen=True):
    """The provider could not answer and will be asked again in `seconds` (0: at once). An interface shows this; it is
    not recorded."""

    seconds: float
    reason: str


Piece: TypeAlias = str | Thought | Kept | Compacted | ToolCall | Usage | Stopped | Waiting
"""Text arrives as it streams. Calls, kept blocks, usage and the end each arrive when complete."""


def distinct(calls: Iterable[ToolCall]) -> list[ToolCall]:
    """Return the calls of one answer with distinct ids. Models omit ids or use one twice."""
    used: set[str] = set()
    found = []
    for number, call in enumerate(calls):
        own_id = call_id = call.call_id or f"call_{number}"
        again = 1
        while call_id in used:
            again += 1
            call_id = f"{own_id}-{again}"
        used.add(call_id)
        found.append(replace(call, call_id=call_id))
    return found
