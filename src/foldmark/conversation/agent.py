"""`Agent`: one timeline. Everything that happens to it is appended; its context is what comes out [SPEC 2, 3, 9]."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from foldmark.conversation import decide
from foldmark.conversation.context import Context
from foldmark.conversation.receipts import Change, Result, change
from foldmark.conversation.standing import Standing, origin
from foldmark.core import codec
from foldmark.core.errors import CommandError, ConflictError, FoldmarkError
from foldmark.core.events import ACTORS, DIALECTS, RECORD_KINDS, Draft, Fork, Operation, Restore
from foldmark.core.ports import AgentRecord, Appender, Size
from foldmark.core.replay import Fold, advance, birth, replay
from foldmark.core.segments import Segments, contains, until
from foldmark.core.turns import Message

if TYPE_CHECKING:
    from foldmark.conversation.log import Log

QUOTED = 1000
"""Characters of a result that is quoted in a notice because its call has left the context [SPEC 3]."""


class Receipt(Struct, frozen=True):
    """What was recorded for an operation, where the agent stood before, and how the context changed."""

    at: Standing
    event_id: int
    operation: Operation
    actor: str
    change: Change

    def data(self) -> dict[str, Any]:
        """As JSON, for `Result.data`."""
        return {"operation": codec.operation_kind(self.operation), "actor": self.actor, **self.change.data()}


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
        at, call_id = self._standing(), codec.well_formed(call_id)
        waiting = self._store.waiting_call(self.id, call_id)
        call, answered = (waiting, False) if waiting else self._call(call_id, at.lineage)
        if call is not None and not contains(at.fold.segments, call.agent_id, call.id):
            notice = (
                f"[Foldmark: the result of call {call_id} arrived after the call had left the context. It begins:]\n"
                + codec.well_formed(text)[:QUOTED]
            )
            return self._append("user", notice, None, created_at, actor="system")
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
        return self._append("turn_ended", "", None, created_at, actor="system", interrupted=interrupted)

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
        return self._batch.open_turn if self._batch else self._standing().record.open_turn

    # Operations

    def do(self, line: str, *, actor: str = "human") -> Result:
        """Carry out a command as it is typed, "/mark BEFORE". Raises CommandError; nothing was written then."""
        return self.log.commands(self, line, actor)

    def apply_filter(
        self,
        mode: str,
        ids: Iterable[int],
        planning: tuple[int, int] | None = None,
        criteria: str | None = None,
        *,
        actor: str = "human",
    ) -> int:
        """Forget or remember these ids and return the operation's id [SPEC 4.2]. The caller is trusted with the ids.

        `planning` is (first, last) of the conversation that led to the filter; it leaves the context as well. What is
        named is widened to whole exchanges. Raises CommandError for a wrong mode or ids of other conversations.
        """
        return self.operate(lambda at: decide.filter(at, mode, ids, planning, criteria), actor=actor).event_id

    def operate(self, decision: Callable[[Standing], Operation], *, actor: str = "human") -> Receipt:
        """Record the operation that `decision` makes of where the agent stands; its receipt says what changed."""
        at = self._standing()
        if self._batch is None and at.record.head != self._head:
            raise ConflictError(self.id, self._head, at.record.head)
        operation = decision(at)
        kind, data = codec.operation_kind(operation), codec.operation_data(operation)
        with self.batch():
            event_id = self._append(kind, "", data, None, actor=actor)
            fold = self._after(at.fold, event_id, operation)
            changed = change(at.visible, until(fold.segments, event_id), at.size, self._store.size)
            assert self._batch is not None
            self._store.save_fold(fold, changed.after.less(self._batch.own))
            if isinstance(operation, Fork):
                self._bear(at, operation, event_id)
        return Receipt(at, event_id, operation, actor, changed)

    # Reading

    def context(self) -> Context:
        """What the agent's lineage shows now; reads its stored segments, no message before it is asked for."""
        at = self._standing()
        if self._batch is None:
            self._head = at.record.head
        return Context(at)

    def request(self, provider: str | None = None, model: str | None = None) -> Any:
        """The request that would go to a provider [SPEC 5]: not yet."""
        raise FoldmarkError("requests to providers are not there yet; `context()` shows what they will be made from")

    def call_tool(self, name: str, args: Mapping[str, Any]) -> str:
        """Run a tool as the model would [SPEC 4.1]: not yet."""
        raise FoldmarkError(f"the model's tools are not there yet, {name} among them; `do` runs commands")

    # Inside

    @cached_property
    def _origin(self) -> Fold:
        return origin(self._store, self.id, self._birth)

    def _standing(self) -> Standing:
        record, cache = self._store.standing(self.id)
        if self._batch is not None:
            own = self._batch.own
            record = msgspec.structs.replace(
                record, head=self._batch.head, open_turn=self._batch.open_turn, messages=own.messages, tokens=own.tokens
            )
        if cache is not None:
            fold, beside = cache
            return Standing(self._store, record, fold, self._origin, beside.plus(record.own))
        fold = self.replay()
        size = self._store.size(until(fold.segments, record.newest))
        return Standing(self._store, record, fold, self._origin, size)

    def replay(self) -> Fold:
        """The fold of all operations in the log, without the stored segment cache."""
        recorded = [(event.id, codec.operation_of(event)) for event in self._store.operations(self.id)]
        return replay(self._origin, recorded)

    def beside(self, fold: Fold) -> Size:
        """The size of what a fold shows less that of all the agent's own messages, counted anew."""
        record = self._store.agent(self.id) or self._record
        return self._store.size(until(fold.segments, record.newest)).less(record.own)

    def _after(self, fold: Fold, event_id: int, operation: Operation) -> Fold:
        if isinstance(operation, Restore):
            return self.replay()
        return advance(fold, [(event_id, operation)])

    def _bear(self, at: Standing, operation: Fork, event_id: int) -> None:
        record = AgentRecord(operation.child, None, self.id, event_id, self.log.clock())
        born = birth(record.id, event_id, operation.start, operation.pins)
        start = change(at.visible, operation.start, at.size, self._store.size).after
        self._store.create_agent(record, born, start)

    def _call(self, call_id: str, lineage: Segments) -> tuple[Message | None, bool]:
        """The newest unanswered call with this id in the lineage, or else the newest; and whether it is answered."""
        newest: Message | None = None
        for agent_id in dict.fromkeys((self.id, *(segment.agent for segment in reversed(lineage)))):
            for call in self._store.calls(agent_id, call_id):
                if not contains(lineage, call.agent_id, call.id):
                    continue
                if not any(contains(lineage, r.agent_id, r.id) for r in self._store.results([call])):
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
