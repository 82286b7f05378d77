"""A request as it goes to a provider, and the manifest that says where each part of it came from [SPEC 5, 5.6]."""

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
    """What a model asks to be run: `args` is any JSON value, as it came, `signature` Gemini's for its thinking."""

    call_id: str
    name: str
    args: Any
    signature: str | None = None


ERROR = "Error: "
"""Begins the text of a result that is an error: not every format has a field for that."""

ANSWER, COMPACTION = "answer", "compaction"
"""Purposes of a request: the conversation goes on, or the provider sums it up."""


class Options(Struct, frozen=True):
    """How an answer is asked for: its most tokens; how much the model is to think: `default` (as it does by itself),
    `off`, `low`, `medium` or `high`; and how long the provider keeps the request in its cache, `5m` or `1h`, where it
    can be told. `binds` is whether the model takes its thinking back only behind what stood in front of it, None where
    the table of models does not say. `editing` is what the provider is to leave out (`core.editing`); `compact` asks it
    for a summary in its own form instead of an answer."""

    output: int = 8192
    thinking: str = "default"
    binds: bool | None = None
    cache_ttl: str = "5m"
    editing: str = "off"
    compact: bool = False


PLAIN = Options()
"""What is asked for where nothing is said."""


class Part(Struct, frozen=True):
    """One piece of the request. `event` is the event that it came from, None for what Foldmark itself put in.

    `layer` is `system`, `guidelines`, `state`, `scratchpad`, `memos`, `window_summary`, `children`, `pinned` or
    `window`; `how` is `whole`, `truncated`, `evicted`, `interrupted` or `synthetic`, `detail` says more for a person.
    `text` is what is sent: of a call, its name and arguments. `memo` is the id of the memo that it is; a layer that
    came later than the others stands in front of event `before`. Of a truncated result `kept` characters `of` so many
    are sent; `failed` is whether a result is an error.
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
        """What more there is to say of it, as a person reads it: `300 of 12,345 characters`; empty for nothing."""
        cut = f"{self.kept:,} of {self.of:,} characters" if self.of else ""
        return "; ".join(filter(None, (cut, self.detail)))


class LeftOut(Struct, frozen=True):
    """A message inside the window (or a pinned turn) that is not sent; `why` is `isolation`, `pairing`, `empty`, `pins`
    or `kept` (it stays as it is behind the summary that is asked for)."""

    event: int
    turn: int | None
    why: str
    detail: str


class Edge(Struct, frozen=True):
    """Where the window begins: `first` is its oldest event; `why` it does not begin earlier is `budget`, `turns` or
    `planning`, None if the window holds the whole context; `before` counts the visible messages in front of it.

    `limit` is the tokens, or the turns, that the request may hold. Within a budget the window begins later in steps of
    `step` tokens; with `step` 0 in front of `turn`, which would pass the limit (0: of no turn); without a `turn` in one
    step when what came since would have. `detail` says it in records of versions that knew no such numbers.

    Under the policy `steady` what was sent stays as it was at event `settled`, the boundary, where the active turn's
    `oldest` results, so many, were cut as if the turn were over; 0 where there was no boundary yet, and where every
    request is made afresh [SPEC 5.7].
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
        """Why the window does not begin earlier, as a person reads it; empty if it holds the whole context."""
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
    """Where everything in a request came from, and what was left out and why. `told` is what the layer `children`
    tells, by the message in front of which it stands (0: the person's newest, or that of the active turn)."""

    parts: tuple[Part, ...]
    left_out: tuple[LeftOut, ...]
    edge: Edge
    told: Mapping[int, Family] = {}


class Request(Struct, frozen=True):
    """What goes to a provider: `body` as the wire has it, `bytes` the same serialized, `tokens` their estimate.

    `purpose` is what the answer is for: `answer` (the conversation goes on), `match` (which messages does a filter
    mean), `summary`, `compaction` (a summary in the provider's own form) or `state`. `names` holds the tools whose name
    on the wire differs from their own, by wire name. `size` is what the tokens are estimated from, before any
    calibration. `thinking` holds the thinking blocks in it that the model reads, by marks of their own. `thoughtless`
    is whether thinking was left out since the provider refused it. `cache_ttl` is that of its `Options`; `cache_key` is
    the same for all requests of an agent, for a cache that is to find them.
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
