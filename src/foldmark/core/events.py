"""Events: the facts that the log records, and the operations among them [SPEC 1, 2].

An `Event` is a recorded fact with the identity and the time that the store gave it. A `Draft` is an event that is not
yet recorded. An `Operation` is the meaning of an event that changes a context. Operations form one tagged union and are
resolved when they are recorded: a rewind stores its position, a drop its ranges. So their meaning never changes,
whatever is recorded later, and replay needs to read nothing else.
"""

from typing import Any, ClassVar, Literal, TypeAlias, get_args

from msgspec import Struct

from foldmark.core.segments import Segment, Segments, normal, subtract

ROLES = {
    "system": "system",
    "user": "user",
    "client": "user",
    "assistant": "assistant",
    "tool_call": "assistant",
    "tool_result": "tool",
    "tool": "tool",
    "summary": "assistant",
}
"""Conversation kind -> the role in which it may be sent to a model."""

MESSAGE_KINDS = tuple(ROLES)
OPENING_KINDS = ("user", "client")
"""The kinds of messages on the user's side. `client` is what a coding agent told its model by itself, such as a changed
file, a hook's output or the output of a command."""

ANSWER_KINDS = ("assistant", "tool_call")
"""The kinds of messages that record a model's answer."""

FATE_KINDS = ("renamed", "archived", "unarchived", "killed", "deleted")
"""The kinds of events that say what became of an agent."""

OUTSIDE_KINDS = ("mail", *FATE_KINDS)
"""The kinds of metadata that others record in an agent's log: mail to it, and what became of it. They belong to no
turn."""

REQUEST_KINDS = ("request", "usage")
"""The kinds of events that say what was sent to a model, and what it cost."""

METADATA_KINDS = (*REQUEST_KINDS, *OUTSIDE_KINDS)
"""The kinds of the class *metadata*: what was sent to a model, what it cost, mail, and what became of an agent. Anyone
may append them at any time. They never move the head that a writer expects, and no context depends on them. All other
kinds are of the class *timeline*: who appends one names the head that they know, the newest event of the timeline."""

RECORD_KINDS = ("state", "scratchpad", "config", "command", "window_summary", "record", *METADATA_KINDS)
"""Kinds of events that are neither messages nor operations nor the end of a turn. `window_summary` summarizes turns
that the window has passed; `record` is a line of an imported file that is not a message."""

ACTORS = ("human", "model", "system")
DIALECTS = ("anthropic", "openai", "gemini", "gemini_gca")


class Event(Struct, frozen=True):
    """A recorded fact [SPEC 2].

    `id` is unique in the database and increases in commit order; `turn_id` is the id of the event that opened the turn,
    or None outside of turns; `tokens` is ceil(UTF-8 bytes of content and data / 4), fixed at append; `created_at` is
    UTC in ISO 8601 with microseconds; in a tool result, `answers` is the id of its call. In a `tool_call`, `content`
    holds the arguments as JSON text and `data` the name and the call id. `erased_by` is the redact operation that
    erased the content. A `damaged` event differs from the recorded one: U+FFFD replaces bytes that are not UTF-8, and
    `data` is None if it is not JSON.
    """

    id: int
    agent_id: str
    turn_id: int | None
    kind: str
    content: str
    data: dict[str, Any] | None
    dialect: str | None
    actor: str
    tokens: int
    created_at: str
    interrupted: bool
    answers: int | None = None
    erased_by: int | None = None
    damaged: bool = False

    @property
    def role(self) -> str | None:
        """The role that a provider sees; None for kinds that are never sent."""
        own = (self.data or {}).get("role") if self.kind == "summary" else None
        return "user" if own == "user" else ROLES.get(self.kind)

    @property
    def call_id(self) -> str | None:
        """The provider's id of this tool call, or of the call that this result answers."""
        return (self.data or {}).get("call_id") if self.kind in ("tool_call", "tool_result") else None

    @property
    def reason(self) -> str | None:
        """The reason given for an operation or a change of settings; None if none was given."""
        return (self.data or {}).get("reason") if self.kind in (*OPERATION_KINDS, "config", "scratchpad") else None


class Draft(Struct, frozen=True, kw_only=True):
    """An event before the store gives it an id, a turn and its sums. `created_at` is already normalized (see
    `Event`)."""

    kind: str
    created_at: str
    content: str = ""
    data: dict[str, Any] | None = None
    dialect: str | None = None
    actor: str = "human"
    interrupted: bool = False
    answers: int | None = None


class _Operation(Struct, frozen=True, tag_field="kind", tag=str.lower, omit_defaults=True):
    """Base class of the operations. The tag is the kind of the event; everything specific to a kind is in its class.

    `changes` says whether the operation changes the context, only the request made from the context, or nothing that
    the agent's own model gets [SPEC 5.7]. `restorable` is True if `/restore` can undo it.
    """

    changes: ClassVar[Literal["context", "request", "nothing"]] = "context"
    restorable: ClassVar[bool] = True


def _place(mark: str | None, turn: int | None) -> str:
    return f"'{mark}'" if turn is None else f"turn {turn}"


class Mark(_Operation, frozen=True):
    """A named position, which is that of its own event."""

    changes: ClassVar = "nothing"

    name: str


class Clear(_Operation, frozen=True):
    """Empties the context and removes all marks."""


class Rewind(_Operation, frozen=True):
    """Cuts this agent's own events with ids above `position`, and the `inherited` ranges; marks set after event
    `mark_id` are removed. The summaries `kept`, which replace nothing after the position, stay.

    The place is a `mark`, the beginning of a `turn`, or the question of the turn, if the position is not before it.
    """

    mark: str | None
    mark_id: int
    position: int
    kept: tuple[int, ...] = ()
    turn: int | None = None
    inherited: Segments = ()

    @property
    def place(self) -> str:
        """The place in words: `'X'`, `turn 12`, `the question of turn 12`."""
        question = self.turn is not None and self.position >= self.turn
        return f"the question of turn {self.turn}" if question else _place(self.mark, self.turn)

    def cut(self, agent: str, event_id: int) -> Segments:
        """Return the ranges that leave if event `event_id` of `agent` records this."""
        own = subtract((Segment(agent, self.position + 1, event_id),), [Segment(agent, id, id) for id in self.kept])
        return normal((*self.inherited, *own))


class Fork(_Operation, frozen=True):
    """The birth of `child`, recorded in its parent, with its complete start. A child reads no other event of its
    parent."""

    changes: ClassVar = "nothing"
    restorable: ClassVar = False

    child: str
    start: Segments
    mark: str | None = None
    position: int | None = None
    pins: tuple[int, ...] = ()
    evicted: tuple[int, ...] = ()
    settings: dict[str, Any] = {}
    scratchpad: str | None = None
    turn: int | None = None

    @property
    def is_full(self) -> bool:
        """True if the child inherits the whole context; False if it inherits what follows a mark, or begins with a
        turn."""
        return self.position is None

    @property
    def place(self) -> str:
        """The place from which the child inherits, in words; empty for a full fork."""
        return "" if self.is_full else _place(self.mark, self.turn)


class Filter(_Operation, frozen=True):
    """`/forget` or `/remember`: `ranges` leave the context, including the planning conversation.

    `planning` is (first, last) of the planning conversation. Without a last event it lasts to the end of the turn, and
    the ranges reach `END` until the end of the turn closes it. `before` and `after` count the messages in the context
    without the planning conversation; `widened` lists the ids that only the closure over exchanges added.
    """

    mode: str
    ranges: Segments
    criteria: str | None = None
    planning: tuple[int, int | None] | None = None
    widened: tuple[int, ...] = ()
    before: int = 0
    after: int = 0


class Drop(_Operation, frozen=True):
    """Removes whole turns from the context: `turn`, and the `others` named with it."""

    turn: int
    ranges: Segments
    widened: tuple[int, ...] = ()
    others: tuple[int, ...] = ()

    @property
    def turns(self) -> tuple[int, ...]:
        """The ids of all dropped turns."""
        return (self.turn, *self.others)


class Undo(_Operation, frozen=True):
    """Drops the newest turn."""

    turn: int
    ranges: Segments
    widened: tuple[int, ...] = ()

    @property
    def turns(self) -> tuple[int, ...]:
        """The id of the dropped turn, as in `Drop`."""
        return (self.turn,)


class Summary(_Operation, frozen=True):
    """Replaces `ranges` with its own event, an assistant message; `state` is the block then in force, which stays in
    force with it. `native` is a summary made by another program, in that program's form and under its name [SPEC 5.7]:
    a whole history if an imported compaction goes on with one.
    `span` is the span as the user named it, such as "12..M", and `widened` lists the ids that the closure over
    exchanges added. `kept` is the event that opened the first turn that a provider's summary leaves unchanged.
    `role` is "user" for the compaction of a coding agent, which sends its summary as the user's text. `last`: it stands
    in its own place, behind the messages that it keeps, and not where the first message stood that it replaces."""

    ranges: Segments
    mark: str | None = None
    state: str | None = None
    native: dict[str, Any] | None = None
    span: str | None = None
    widened: tuple[int, ...] = ()
    kept: int | None = None
    role: Literal["user"] | None = None
    last: bool = False


class Restore(_Operation, frozen=True):
    """Undoes operation `target`, which no longer counts."""

    target: int


class Pin(_Operation, frozen=True):
    """Keeps a turn in the request after the window has passed it."""

    changes: ClassVar = "request"

    turn: int


class Unpin(_Operation, frozen=True):
    """Removes a pin."""

    changes: ClassVar = "request"

    turn: int


class Evict(_Operation, frozen=True):
    """Sends a one-line placeholder in place of each of these tool results."""

    changes: ClassVar = "request"

    results: tuple[int, ...]


class Redact(_Operation, frozen=True):
    """Records that the turn's events (for turn 0, all of the agent's) were erased from the database. The segments stay,
    but for the `ranges` of a turn that the client of a live session still sends: they leave the context for good."""

    restorable: ClassVar = False

    turn: int
    ranges: Segments = ()


class PlanningEnded(_Operation, frozen=True, tag="turn_ended"):
    """The end of the turn that applied or cancelled a filter: later messages are visible again [SPEC 4.2].

    No command requests this operation: it is the meaning of a `turn_ended` event if a planning conversation was open.
    It cannot be restored.
    """

    restorable: ClassVar = False

    closes: int


Operation: TypeAlias = (
    Mark
    | Clear
    | Rewind
    | Fork
    | Filter
    | Drop
    | Undo
    | Summary
    | Restore
    | Pin
    | Unpin
    | Evict
    | Redact
    | PlanningEnded
)

_ASKED_FOR = tuple(each for each in get_args(Operation) if each is not PlanningEnded)

OPERATION_KINDS: tuple[str, ...] = tuple(each.__struct_config__.tag for each in _ASKED_FOR)
BESIDE_KINDS = tuple(each.__struct_config__.tag for each in _ASKED_FOR if each.changes == "nothing")
"""Operations that do not change the requests of the agent itself [SPEC 5.7]."""

CONTEXT_KINDS = tuple(each.__struct_config__.tag for each in _ASKED_FOR if each.changes == "context")
"""Operations that change which messages are visible, or the content of visible ones."""

IDLE = {"changes": "nothing"}
"""In the receipt of an operation that could have changed the context, and did not."""


def shapes(event: Event) -> bool:
    """Return True if this operation changed what the agent's own model gets [SPEC 5.7]. The end of a planning
    conversation counts as one."""
    receipt = (event.data or {}).get("receipt")
    idle = isinstance(receipt, dict) and IDLE.items() <= receipt.items()
    return event.kind not in (*BESIDE_KINDS, *RECORD_KINDS) and not idle


KINDS = frozenset((*MESSAGE_KINDS, *OPERATION_KINDS, *RECORD_KINDS, "turn_ended"))


def is_replayed(kind: str, data: str | None) -> bool:
    """Return True if the replay reads an event with this stored data: an operation, or the end of a planning
    conversation."""
    return kind in OPERATION_KINDS or (kind == "turn_ended" and data is not None)
