"""A request to a provider, and the manifest that says where each part of it came from [SPEC 5, 5.6]."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from foldmark.core.birth import Family


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
"""Beginning of a result that is an error: not every format has a field for that."""

ANSWER, COMPACTION = "answer", "compaction"
"""Purposes of a request: the conversation goes on, or the provider sums it up."""


class Options(Struct, frozen=True):
    """Options of a request: the maximum tokens of the answer; how much the model is to think: `default` (its own
    choice), `off`, `low`, `medium` or `high`; and how long the provider caches the request, `5m` or `1h`, where that
    can be chosen. `binds` is True if the model accepts its thinking only after the messages that it was bound to, None
    if the table of models does not say. `editing` is what the provider is to leave out (`core.editing`); `compact` asks
    it for a summary in its own form instead of an answer."""

    output: int = 8192
    thinking: str = "default"
    binds: bool | None = None
    cache_ttl: str = "5m"
    editing: str = "off"
    compact: bool = False


PLAIN = Options()
"""Default options."""


class Part(Struct, frozen=True):
    """One piece of the request. `event` is the event that it came from, None for Foldmark's own text.

    `layer` is `system`, `guidelines`, `state`, `scratchpad`, `memos`, `window_summary`, `children`, `pinned` or
    `window`; `how` is `whole`, `truncated`, `evicted`, `interrupted` or `synthetic`, `detail` says more for a person.
    `text` is what is sent: for a call, its name and arguments. `memo` is the id of its memo; a layer that was added
    later than the others stands in front of event `before`. A truncated result sends `kept` of `of` characters;
    `failed` is True for a result that is an error.
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
    or `kept` (it stays after the summary that is asked for)."""

    event: int
    turn: int | None
    why: str
    detail: str


class Edge(Struct, frozen=True):
    """Where the window begins: `first` is its oldest event; `why` it does not begin earlier is `budget`, `turns` or
    `planning`, None if the window holds the whole context; `before` counts the visible messages in front of it.

    `limit` is the tokens, or the turns, that the request may hold. Within a budget the window begins later in steps of
    `step` tokens; with `step` 0 in front of `turn`, which would exceed the limit (0: of no turn); without a `turn` in
    one step when newer messages would have. `detail` has the reason in records of older versions without these numbers.

    Under the policy `steady` everything sent stays as it was at event `settled`, the boundary, with the `oldest` first
    results of the active turn cut as if the turn were over; 0 before the first boundary, and where every request is
    made anew [SPEC 5.7].
    """

    first: int | None
    why: str | None
    before: int
    detail: str = ""
    settled: int = 0
    oldest: int = 0
    limit: int = 0
    step: int = 0
    turn: int | None = None

    @property
    def reason(self) -> str:
        """Why the window does not begin earlier, for a person; empty if it holds the whole context."""
        if self.detail or self.why is None:
            return self.detail
        if self.why == "planning":
            return "only what is being matched"
        if self.why == "turns":
            return f"context_size is {self.limit}"
        if self.step:
            return (
                f"low water: older turns leave in steps of {self.step:,} tokens, so that the request stays within "
                f"{self.limit:,} and begins the same for as long as a step lasts"
            )
        if self.turn is not None:
            return f"with turn {self.turn or '-'} in front the request would pass {self.limit:,} tokens"
        return f"what came since would have passed {self.limit:,} tokens: one step brought it to low water"


class Manifest(Struct, frozen=True):
    """Where everything in a request came from, and what was left out and why. `told` is the content of the layer
    `children`, by the message in front of which it stands (0: the person's newest, or that of the active turn)."""

    parts: tuple[Part, ...]
    left_out: tuple[LeftOut, ...]
    edge: Edge
    told: Mapping[int, Family] = {}


class Request(Struct, frozen=True):
    """A request to a provider: `body` is its JSON value, `bytes` the same serialized, `tokens` the estimate.

    `purpose` is `answer` (the conversation goes on), `match` (which messages does a filter mean), `summary`,
    `compaction` (a summary in the provider's own form) or `state`. `names` maps names on the wire to tools that are
    named differently. `size` is the basis of the estimate, before any calibration. `thinking` holds marks of the
    thinking blocks in it that the model reads. `thoughtless` is True if thinking was left out because the provider
    refused it. `cache_ttl` is that of its `Options`; `cache_key` is the same for all requests of an agent, so that a
    cache finds them.
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
