"""`Agent`: one timeline. Everything that happens to it is appended; its context is what comes out [SPEC 2, 3, 9]."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from foldmark.conversation import decide
from foldmark.conversation.asking import NOBODY, Asking
from foldmark.conversation.context import Context
from foldmark.conversation.decide import recorded
from foldmark.conversation.notices import notice
from foldmark.conversation.planning import talk
from foldmark.conversation.receipts import CachedPrefix, Change, Result, cached_prefix, change
from foldmark.conversation.redaction import Erasure, erasable, heirs
from foldmark.conversation.standing import Standing, origin
from foldmark.core import codec
from foldmark.core.errors import CommandError, ConflictError
from foldmark.core.events import (
    ACTORS,
    DIALECTS,
    RECORD_KINDS,
    Draft,
    Fork,
    Operation,
    PlanningEnded,
    Redact,
    Restore,
)
from foldmark.core.ports import AgentRecord, Appender, Size
from foldmark.core.pressure import WINDOW, is_ephemeral
from foldmark.core.replay import Fold, advance, birth, replay
from foldmark.core.request import Request
from foldmark.core.segments import Segment, Segments, contains, normal, subtract, until
from foldmark.core.turns import Message

if TYPE_CHECKING:
    from foldmark.conversation.log import Log


class Receipt(Struct, frozen=True):
    """What was recorded for an operation, where the agent stood before, and how the context changed."""

    at: Standing
    event_id: int
    operation: Operation
    actor: str
    change: Change
    cached_prefix: CachedPrefix | None = None

    def data(self) -> dict[str, Any]:
        """As JSON, for `Result.data`."""
        data = {"operation": codec.operation_kind(self.operation), "actor": self.actor, **self.change.data()}
        return data if self.cached_prefix is None else {**data, "cached_prefix": self.cached_prefix.data()}


class Agent:
    """The owner of one timeline: a conversation, or a fork of one.

    One agent has one writer at a time: an append fails with ConflictError when somebody else has appended since this
    object last appended or read the context; `context()` takes note of what is there now. Agents compare by id, also
    with a plain uuid.
    """

    def __init__(self, log: "Log", record: AgentRecord) -> None:
        self.log, self._store = log, log.store
        self._record, self._head = record, record.head
        self.id, self.name, self._parent, self._birth = record.id, record.name, record.parent, record.fork_event
        self._batch: Appender | None = None

    def __eq__(self, other: object) -> bool:
        return self.id == (other.id if isinstance(other, Agent) else other)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<Agent {self.name or self.id}>"

    @property
    def parent(self) -> "Agent | None":
        """The agent that this one was forked from; None for a root agent."""
        return self.log.agent(self._parent) if self._parent else None

    @property
    def children(self) -> "list[Agent]":
        """The agents forked from this one, oldest first."""
        return [self.log.agent(record.id) for record in self._store.children(self.id)]

    # Appending

    def append(
        self,
        kind: str,
        text: str,
        *,
        created_at: str | datetime | None = None,
        data: Mapping[str, Any] | None = None,
        dialect: str | None = None,
        actor: str | None = None,
        interrupted: bool = False,
    ) -> int:
        """Record a message and return its event id; it is durable when this returns.

        `kind` is "user", "assistant", "system" or "tool". A user message opens a turn if none is open and joins it
        otherwise. `data` is JSON that goes with the text; `created_at` is ISO 8601 or a datetime, by default now.
        Lone surrogates in texts become U+FFFD. Raises CommandError for a wrong kind, time or data, ConflictError,
        StoreError.
        """
        if kind not in ("user", "assistant", "system", "tool"):
            raise CommandError(
                f"append takes 'user', 'assistant', 'system' or 'tool', not {kind!r}; "
                "append_tool_call, append_tool_result and record take the rest"
            )
        actor = actor or {"user": "human", "assistant": "model"}.get(kind, "system")
        return self._append(kind, text, data, created_at, dialect=dialect, actor=actor, interrupted=interrupted)

    def append_tool_call(
        self,
        name: str,
        args: Any,
        *,
        call_id: str,
        dialect: str | None = None,
        created_at: str | datetime | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> int:
        """Record a model's request to run a tool; `args` is any JSON value. Raises as `append`."""
        _check_call_id(call_id)
        try:
            content = msgspec.json.encode(codec.well_formed(args)).decode()
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise CommandError(f"the arguments of {name} are not JSON: {error}") from None
        return self._append(
            "tool_call",
            content,
            {**(data or {}), "call_id": call_id, "name": name},
            created_at,
            dialect=dialect,
            actor="model",
        )

    def append_tool_result(
        self,
        call_id: str,
        text: str,
        *,
        dialect: str | None = None,
        is_error: bool = False,
        created_at: str | datetime | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> int:
        """Record what a tool answered to the newest unanswered call with this id. Raises as `append`.

        If that call has left the context, a notice that quotes the result is recorded instead, as a user message of
        the same turn, so that no result is ever sent without its call [SPEC 3]. A result of a call that was never
        recorded is kept as it is.
        """
        # One transaction: what is looked up cannot change before it is recorded, and each look-up begins faster.
        with self.batch():
            return self._append_result(call_id, text, dialect, is_error, created_at, data)

    def _append_result(
        self,
        call_id: str,
        text: str,
        dialect: str | None,
        is_error: bool,
        created_at: str | datetime | None,
        data: Mapping[str, Any] | None,
    ) -> int:
        _check_call_id(call_id)
        at, call_id = self.standing(), codec.well_formed(call_id)
        waiting = self._store.waiting_call(self.id, call_id)
        call, answered = (waiting, False) if waiting else self._call(call_id, at.lineage)
        if call is not None and not self._shown(at, call, waiting is not None):
            told = notice(at, call, call_id, codec.well_formed(text))
            return self._append("user", told, None, created_at, actor="system")
        data = {**(data or {}), "call_id": call_id, **({"is_error": True} if is_error else {})}
        answers = call.id if call and not answered else None
        apart = answers not in (None, at.newest) and (waiting is None or self._store.stands_apart(self.id, waiting.id))
        return self._append(
            "tool_result", text, data, created_at, dialect=dialect, actor="system", answers=answers, apart=apart
        )

    def record(
        self,
        kind: str,
        content: str = "",
        *,
        data: Mapping[str, Any] | None = None,
        created_at: str | datetime | None = None,
        actor: str = "system",
    ) -> int:
        """Record metadata that is never sent: a state, scratchpad, config, command, usage or record event."""
        if kind not in RECORD_KINDS:
            raise CommandError(f"record takes {', '.join(RECORD_KINDS)}, not {kind!r}")
        return self._append(kind, content, data, created_at, actor=actor)

    def end_turn(self, *, created_at: str | datetime | None = None, interrupted: bool = False) -> int | None:
        """End the open turn and return the event's id; None if no turn is open."""
        if self.open_turn is None:
            return None
        at = self.standing()
        if at.fold.closing is None:
            return self._append("turn_ended", "", None, created_at, actor="system", interrupted=interrupted)
        ended = PlanningEnded(at.fold.closing[0])
        with self.batch():
            event_id = self._append(
                "turn_ended", "", codec.operation_data(ended), created_at, actor="system", interrupted=interrupted
            )
            self._save(at, advance(at.fold, [(event_id, ended)]))
        return event_id

    @contextmanager
    def batch(self, *, newborn: bool = False) -> Iterator[None]:
        """Record what is appended inside the block in one transaction: all of it or, on an error, nothing.

        With `newborn` the agent itself is made in it, too (see `Log.creating`).
        """
        if self._batch is not None:
            yield
            return
        try:
            with self._store.appending(self.id, self._head, self._record if newborn else None) as self._batch:
                yield
                head = self._batch.head
            self._head = head
        finally:
            self._batch = None

    @property
    def open_turn(self) -> int | None:
        """The id of the turn that has not ended."""
        return self._batch.open_turn if self._batch else self.standing().record.open_turn

    # Operations

    def do(self, line: str, *, actor: str = "human", asking: Asking = NOBODY) -> Result:
        """Carry out a command as it is typed, "/mark BEFORE". Raises CommandError; nothing was written then.

        `asking` reaches whoever typed it: a command that erases asks first, one that takes long says how far it is.
        """
        return self.log.commands(self, line, actor, asking)

    def apply_filter(
        self,
        mode: str,
        ids: Iterable[int],
        planning: tuple[int, int | None] | None = None,
        criteria: str | None = None,
        *,
        actor: str = "human",
    ) -> int:
        """Forget or remember these ids and return the operation's id [SPEC 4.2]. The caller is trusted with the ids.

        `planning` is (first, last) of the conversation that led to the filter; it leaves the context as well. Without
        a last it goes on to the end of the open turn. What is named is widened to whole exchanges. Raises CommandError
        for a wrong mode or ids of other conversations.
        """
        return self.operate(lambda at: decide.filter(at, mode, ids, planning, criteria), actor=actor).event_id

    def operate(
        self,
        decision: Callable[[Standing], Operation],
        *,
        actor: str = "human",
        content: str = "",
        erasing: Segments = (),
    ) -> Receipt:
        """Record the operation that `decision` makes of where the agent stands; its receipt says what changed.

        The event carries the receipt, too. `content` is the text of a summary, `erasing` what a redaction is about to
        erase.
        """
        at = self.standing()
        if self._batch is None and at.record.head != self._head:
            raise ConflictError(self.id, self._head, at.record.head)
        operation = decision(at)
        kind, data = codec.operation_kind(operation), codec.operation_data(operation)
        with self.batch():
            assert self._batch is not None
            event_id = self._batch.next_id
            fold = self._after(at.fold, event_id, operation)
            seen = subtract(until(fold.segments, at.newest), erasing)
            changed = change(at.visible, seen, at.size, self._store.size)
            prefix = cached_prefix(at, seen)
            receipt = Receipt(at, event_id, operation, actor, changed, prefix)
            # Not what is left afterwards: a summary would have to know its own size.
            told = {key: value for key, value in receipt.data().items() if key not in ("operation", "actor", "after")}
            self._append(kind, content, {**data, "receipt": told}, None, actor=actor)
            after = self._save(at, fold)
            if isinstance(operation, Fork):
                self._bear(at, operation, event_id)
        return msgspec.structs.replace(receipt, change=msgspec.structs.replace(changed, after=after))

    def redact(self, turn_id: int, *, actor: str = "human") -> Receipt:
        """Erase a turn for good, in every agent that inherited it, and return the receipt [SPEC 3].

        What is erased is found nowhere in the database afterwards; who erased it and when stays. Scratchpads, memos,
        mail and summaries may still speak of it. Raises CommandError for a turn that is not this agent's or inherited,
        or is another agent's open one.
        """
        with self.batch():
            if self.open_turn == turn_id:
                self.end_turn(interrupted=True)
            erasure = erasable(self.standing(), turn_id)
            receipt = self.operate(lambda _: Redact(turn_id), actor=actor, erasing=erasure.ranges)
            self._erase(erasure, receipt.event_id)
        return msgspec.structs.replace(
            receipt, change=msgspec.structs.replace(receipt.change, after=self.standing().size)
        )

    def redact_all(self, *, actor: str = "human") -> None:
        """Erase everything that this agent ever recorded; its children must not need it any more [SPEC 4, `delete`]."""
        with self.batch():
            self.end_turn(interrupted=True)
            by = self._append("redact", "", codec.operation_data(Redact(0)), None, actor=actor)
            assert self._batch is not None
            self._batch.erase(self.id, 0, by, by)
            self._store.save_fold(self.standing().fold, Size(0, 0))

    def _erase(self, erasure: Erasure, by: int) -> None:
        """Erase, and bring what is stored beside the segments of everybody who inherited from the owner up to date."""
        assert self._batch is not None
        self._batch.erase(erasure.owner, erasure.turn, erasure.last, by)
        for agent_id in heirs(self._store, erasure.owner):
            record, cache = self._store.standing(agent_id)
            if cache is not None:
                visible = self._store.size(until(cache[0].segments, max(record.newest, by)))
                own = self._batch.own if agent_id == self.id else record.own
                self._store.save_fold(cache[0], visible.less(own))

    # Reading

    def context(self) -> Context:
        """What the agent's lineage shows now; reads its stored segments, no message before it is asked for."""
        at = self.standing()
        if self._batch is None:
            self._head = at.record.head
        return Context(at)

    def request(self, provider: str | None = None, model: str | None = None) -> Request:
        """The request that would go out now, by default to this agent's own model [SPEC 5]; nothing is sent or written.

        In a planning conversation under high pressure it holds that conversation and nothing else of the context
        [SPEC 4.2]. Raises CommandError for an unknown provider.
        """
        from foldmark.conversation.request import prepare  # 20 ms, and only requests need it

        at = self.standing()
        own = at.config.model.partition("/")
        provider, model = provider or own[0], model or own[2] or provider or own[0]
        planned, only = talk(at), None
        if planned and is_ephemeral(at.size.tokens, WINDOW):
            only = planned
        if at.fold.closing is not None:
            # The model still has to say that it is done: to the end of the turn it sees what leaves with the turn.
            fold = msgspec.structs.replace(at.fold, segments=normal((*at.fold.segments, *planned)))
            size = self._store.size(until(fold.segments, at.newest))
            at = msgspec.structs.replace(at, fold=fold, size=size)
        return prepare(at, at.config, provider, model, tools=self.log.tools(), only=only)

    def call_tool(self, name: str, args: Mapping[str, Any], *, asking: Asking = NOBODY) -> str:
        """Run a tool as the model would, and return what it is told [SPEC 4.1].

        Raises CommandError for an unknown tool or wrong arguments, in words that are meant for the model.
        """
        return self.log.call_tool(self, name, args, asking)

    def at(self, event_id: int) -> Context:
        """The context as it was after event `event_id`, whosever it is. What was erased since stays erased.

        Raises CommandError for an id that there is not yet, or from before this agent was born.
        """
        return Context(self.stood(event_id))

    def stood(self, event_id: int) -> Standing:
        """Where the agent stood after event `event_id`; raises as `at`."""
        now = self.standing()
        if event_id > now.newest:
            raise CommandError(f"there is no event {event_id} of this agent yet; its newest is {now.newest}")
        if event_id < 1:
            raise CommandError(f"events are numbered from 1, and there is no event {event_id}")
        if event_id < now.record.fork_event:
            raise CommandError(f"this agent was born with event {now.record.fork_event}, after event {event_id}")
        fold = replay(self._origin, recorded(self._store.operations(self.id, until=event_id)))
        record = msgspec.structs.replace(now.record, head=event_id, open_turn=None)
        return Standing(self._store, record, fold, self._origin, self._store.size(until(fold.segments, event_id)))

    # Inside

    @cached_property
    def _origin(self) -> Fold:
        return origin(self._store, self.id, self._birth)

    def standing(self) -> Standing:
        """Where the agent stands now, what the open batch holds included."""
        record, cache = self._store.standing(self.id)
        if self._batch is not None:
            own = self._batch.own
            record = msgspec.structs.replace(
                record, head=self._batch.head, open_turn=self._batch.open_turn, messages=own.messages, tokens=own.tokens
            )
        if cache is not None and cache[0].grows:
            fold, beside = cache
            return Standing(self._store, record, fold, self._origin, beside.plus(record.own))
        fold = cache[0] if cache is not None else self.replay()
        size = self._store.size(until(fold.segments, record.newest))
        return Standing(self._store, record, fold, self._origin, size)

    def replay(self) -> Fold:
        """The fold of all operations in the log, without the stored segment cache."""
        return replay(self._origin, recorded(self._store.operations(self.id)))

    def beside(self, fold: Fold) -> Size:
        """The size of what a fold shows less that of all the agent's own messages, counted anew."""
        record = self._store.agent(self.id) or self._record
        return self._store.size(until(fold.segments, record.newest)).less(record.own)

    def _after(self, fold: Fold, event_id: int, operation: Operation) -> Fold:
        if isinstance(operation, Restore):
            return replay(self._origin, [*recorded(self._store.operations(self.id)), (event_id, operation)])
        return advance(fold, [(event_id, operation)])

    def _save(self, at: Standing, fold: Fold) -> Size:
        """Store the segment cache inside the batch, and return the size of what it shows."""
        assert self._batch is not None
        after = self._store.size(until(fold.segments, self._batch.head))
        self._store.save_fold(fold, after.less(self._batch.own))
        return after

    def _bear(self, at: Standing, operation: Fork, event_id: int) -> None:
        record = AgentRecord(operation.child, None, self.id, event_id, self.log.clock())
        born = birth(record.id, event_id, operation.start, operation.pins)
        self._store.create_agent(record, born, self._store.size(operation.start))

    def _shown(self, at: Standing, call: Message, waits: bool) -> bool:
        """Whether a call is in the context, or in the planning conversation that ends with this turn."""
        if at.fold.closing is not None and contains(talk(at), call.agent_id, call.id):
            return True
        if not contains(at.fold.segments, call.agent_id, call.id):
            return False
        return waits or self._store.size((Segment(call.agent_id, call.id, call.id),)).messages > 0

    def _call(self, call_id: str, lineage: Segments) -> tuple[Message | None, bool]:
        """The newest unanswered call with this id in the lineage, or else the newest; and whether it is answered.

        One that was erased waits for nothing.
        """
        newest: Message | None = None
        for agent_id in dict.fromkeys((self.id, *(segment.agent for segment in reversed(lineage)))):
            for call in self._store.calls(agent_id, call_id):
                if not contains(lineage, call.agent_id, call.id):
                    continue
                there = self._store.size((Segment(call.agent_id, call.id, call.id),)).messages
                if there and not any(contains(lineage, r.agent_id, r.id) for r in self._store.results([call])):
                    return call, False
                newest = newest or call
        return newest, newest is not None

    def _append(
        self,
        kind: str,
        content: str,
        data: Mapping[str, Any] | None,
        created_at: str | datetime | None,
        *,
        actor: str,
        dialect: str | None = None,
        interrupted: bool = False,
        answers: int | None = None,
        apart: bool = False,
    ) -> int:
        dialect = "gemini" if dialect == "google" else dialect
        if actor not in ACTORS:
            raise CommandError(f"an actor is one of {', '.join(ACTORS)}, not {actor!r}")
        if dialect not in (None, *DIALECTS):
            raise CommandError(f"a dialect is one of {', '.join(DIALECTS)}, not {dialect!r}")
        if not isinstance(content, str):
            raise CommandError(f"the text of a {kind.replace('_', ' ')} is a str, not {type(content).__name__}")
        try:
            draft = Draft(
                kind=kind,
                created_at=self.log.clock() if created_at is None else codec.timestamp(created_at),
                content=codec.well_formed(content),
                data=codec.well_formed(dict(data)) if data else None,
                dialect=dialect,
                actor=actor,
                interrupted=interrupted,
                answers=answers,
                apart=apart,
            )
            if self._batch is not None:
                return self._batch.add(draft)
            with self._store.appending(self.id, self._head) as appender:
                event_id = appender.add(draft)
        except (ValueError, TypeError, RecursionError) as error:
            raise CommandError(f"this {kind.replace('_', ' ')} cannot be recorded: {error}") from None
        self._head = event_id
        return event_id


def _check_call_id(call_id: object) -> None:
    if not isinstance(call_id, str):
        raise CommandError(f"a call id is a str, not {call_id!r}")
