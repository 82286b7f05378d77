"""`Agent`: one timeline. Everything that happens to it is appended; its context is what comes out [SPEC 2, 3, 9]."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from foldmark.conversation import decide
from foldmark.conversation.answers import append_answer
from foldmark.conversation.asking import NOBODY, Asking
from foldmark.conversation.context import Context
from foldmark.conversation.decide import recorded
from foldmark.conversation.effects import Result
from foldmark.conversation.planning import passed, talk
from foldmark.conversation.receipts import Outcome, Receipt, Thoughts, cached_prefix, change, results_changed
from foldmark.conversation.redaction import Erasure, erasable, heirs
from foldmark.conversation.standing import AGREED_AT, Standing
from foldmark.conversation.timeline import Timeline
from foldmark.conversation.usage import usage_data
from foldmark.core import codec
from foldmark.core.answer import Compacted, Kept, Stopped, Usage, distinct
from foldmark.core.errors import CommandError, ConflictError, ProviderError
from foldmark.core.events import BESIDE_KINDS, Event, Fork, Operation, Redact, Restore, Summary
from foldmark.core.ports import AgentRecord, Size
from foldmark.core.pressure import is_ephemeral
from foldmark.core.replay import Fold, advance, birth, replay
from foldmark.core.request import Request, ToolCall, ToolSpec
from foldmark.core.segments import Segments, normal, subtract, until
from foldmark.core.wording import listing
from foldmark.settings.machine import machine

if TYPE_CHECKING:
    from foldmark.conversation.log import Log


class Agent(Timeline):
    """The owner of one timeline: a conversation, or a fork of one.

    One agent has one writer at a time: an append fails with ConflictError when somebody else has appended since this
    object last appended or read the context; `context()` takes note of what is there now. Agents compare by id, also
    with a plain uuid.
    """

    def __init__(self, log: "Log", record: AgentRecord) -> None:
        super().__init__(log, record)
        self.name, self._parent = record.name, record.parent

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

    # Answers

    def append_answer(self, provider: str, answer: Mapping[str, Any]) -> list[int]:
        """Record a provider's whole answer as its API gave it, and return the events' ids: what the model said, with
        the blocks that go back to it, its calls, and a summary for each place where the provider compacted what stood
        in front [S2, SPEC 5.7].

        `answer` is what its SDK's object is as JSON (`.model_dump(mode="json", exclude_unset=True)`; for Gemini in
        camelCase). It is read by what `provider` speaks and never guessed at, and counts as given to `request()`.
        Raises CommandError for an unknown provider, ProviderError for what is no answer of it.
        """
        from foldmark.providers.wires import wire_of

        if not isinstance(provider, str) or not isinstance(answer, Mapping):
            raise CommandError(
                f"an answer is a provider's name and a mapping, as of .model_dump(), not {type(answer).__name__}"
            )
        wire = wire_of(provider, self.log.given.dialects)
        own, model = self.standing().config.model.partition("/"), answer.get("model")
        asked = (None, None) if own[0] == provider else (provider, model if isinstance(model, str) else None)
        parsed = wire.parse({str(key): value for key, value in answer.items()})
        pieces = wire.bind(lambda: self.request(*asked).body, parsed)
        if not pieces:
            raise ProviderError(
                "answer", f"this is no answer of {provider}'s API, or an empty one; nothing was recorded"
            )
        calls = [piece for piece in pieces if isinstance(piece, ToolCall)]
        with self.batch():
            named = [replace(c, call_id=c.call_id or f"call-{self.standing().newest}") for c in calls]
            text = "".join(piece for piece in pieces if isinstance(piece, str))
            kept = [piece.block for piece in pieces if isinstance(piece, Kept)]
            made = [piece for piece in pieces if isinstance(piece, Compacted)]
            found = append_answer(self, text, kept, distinct(named), wire.dialect, compacted=made, reader=wire.reads)
            for usage in (piece for piece in pieces if isinstance(piece, Usage)):
                stopped = next((piece for piece in pieces if isinstance(piece, Stopped)), None)
                self.record("usage", data=usage_data(provider, str(answer.get("model", "")), usage, stopped))
        return found

    def end_turn(self, *, created_at: str | datetime | None = None, interrupted: bool = False) -> int | None:
        """End the open turn and return the event's id; None if no turn is open.

        A planning conversation that this turn talked past ends with it, before the message that did so [SPEC 4.2].
        """
        with self._store.exclusive():
            if self.open_turn is None:
                return None
            with self.batch():
                self.end_planning(created_at=created_at)
                return super().end_turn(created_at=created_at, interrupted=interrupted)

    def end_planning(self, *, created_at: str | datetime | None = None) -> int | None:
        """End a planning conversation that a person has talked past, just before that message; the operation's id."""
        past = passed(self.standing())
        if past is None:
            return None
        return self.operate(lambda at: decide.ended_before(at, *past), actor="system", created_at=created_at).event_id

    # Operations

    def do(self, line: str, *, actor: str = "human", asking: Asking = NOBODY) -> Result:
        """Carry out a command as it is typed, "/mark BEFORE". Raises CommandError; nothing was written then.

        `asking` reaches whoever typed it: a command that erases asks first, one that takes long says how far it is.
        A provider's key in it is taken for its name, also where an error repeats the line.
        """
        line = self.log.secrets.hidden(line) if isinstance(line, str) else line
        return self.log.commands(self, line, actor, asking)

    def apply_filter(
        self,
        mode: str,
        ids: Iterable[int],
        planning: tuple[int, int | None] | None = None,
        criteria: str | None = None,
        *,
        actor: str = "human",
        reason: str | None = None,
    ) -> int:
        """Forget or remember these ids and return the operation's id [SPEC 4.2]. The caller is trusted with the ids.

        `planning` is (first, last) of the conversation that led to the filter; it leaves the context as well. Without
        a last it goes on to the end of the open turn. What is named is widened to whole exchanges. Raises CommandError
        for a wrong mode or ids of other conversations.
        """
        decision = partial(decide.filter, mode=mode, ids=ids, planning=planning, criteria=criteria)
        return self.operate(decision, actor=actor, reason=reason).event_id

    def operate(
        self,
        decision: Callable[[Standing], Operation],
        *,
        actor: str = "human",
        content: str = "",
        erasing: Segments = (),
        created_at: str | datetime | None = None,
        reason: str | None = None,
    ) -> Receipt:
        """Record the operation that `decision` makes of where the agent stands; its receipt says what changed.

        The event carries the receipt and the `reason`, too. `content` is the text of a summary, `erasing` what a
        redaction is about to erase; `created_at` is by default now. Raises CommandError, ConflictError.
        """
        reason = None if reason is None else codec.checked_reason(reason)
        with self._store.exclusive():
            receipt = self._operate(decision, actor, content, erasing, created_at, reason)
        if isinstance(receipt.operation, Fork):
            self.log.tell("born", receipt.operation.child)
        return receipt

    def _operate(
        self,
        decision: Callable[[Standing], Operation],
        actor: str,
        content: str,
        erasing: Segments,
        created_at: str | datetime | None,
        reason: str | None,
    ) -> Receipt:
        at = self.standing()
        if self._batch is None and at.record.head != self._head:
            raise ConflictError(self.id, self._head, at.record.head)
        operation = decision(at)
        kind, data = codec.operation_kind(operation), codec.checked_data(operation)
        with self.batch():
            assert self._batch is not None
            event_id = self._batch.next_id
            outcome = self.outcome(at, operation, event_id, erasing)
            # Not what is left afterwards: a summary would have to know its own size.
            told = {key: value for key, value in outcome.data().items() if key != "after"}
            said = {} if reason is None else {"reason": reason}
            self._append(kind, content, {**data, "receipt": told, **said}, created_at, actor=actor)
            # A summary is a message itself, and what is to be erased is still there.
            known = None if erasing or isinstance(operation, Summary) else outcome.change.after
            after = self._save(outcome.fold, known)
            if isinstance(operation, Fork):
                self._bear(at, operation, event_id)
        return Receipt(event_id, outcome, actor, reason).after(after)

    def outcome(self, at: Standing, operation: Operation, event_id: int, erasing: Segments = ()) -> Outcome:
        """What `operation` does to the context of `at` when event `event_id` records it. Writes nothing."""
        fold = self._after(at.fold, event_id, operation)
        seen = subtract(until(fold.segments, at.newest), erasing)
        changed = change(at.visible, seen, at.size, self._store.size)
        out, back = results_changed(at, fold, seen)
        prefix = cached_prefix(at, seen, [*out, *back])
        evicted, whole = (Size(len(each), _tokens(each)) for each in (out, back))
        thoughts = Thoughts()
        if at.config.provider != "offline" and codec.operation_kind(operation) not in BESIDE_KINDS:
            from foldmark.conversation import thinking  # 20 ms, and only some models need it

            left = msgspec.structs.replace(fold, segments=subtract(fold.segments, erasing))
            there = msgspec.structs.replace(at, fold=left, size=changed.after)
            thoughts = thinking.changed(self, at, there, operation)
        return Outcome(operation, fold, changed, prefix, evicted, whole, thoughts)

    def redact(self, turn_id: int, *, actor: str = "human", reason: str | None = None) -> Receipt:
        """Erase a turn for good, in every agent that inherited it, and return the receipt [SPEC 3].

        What is erased is found nowhere in the database afterwards; who erased it and when stays. Scratchpads, memos,
        mail and summaries may still speak of it. Raises CommandError for a turn that is not this agent's or inherited,
        or is another agent's open one.
        """
        if not isinstance(turn_id, int):
            raise CommandError(f"a turn's id is a number, not {turn_id!r}")
        with self.batch():
            if self.open_turn == turn_id:
                self.end_turn(interrupted=True)
            erasure = erasable(self.standing(), turn_id)
            receipt = self.operate(lambda _: Redact(turn_id), actor=actor, erasing=erasure.ranges, reason=reason)
            self._erase(erasure, receipt.event_id)
        return receipt.after(self.standing().size)

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
            record, cache, *_ = self._store.head(agent_id)
            if cache is not None:
                visible = self._store.size(until(cache[0].segments, max(record.newest, by)))
                own = self._batch.own if agent_id == self.id else record.own
                self._store.save_fold(cache[0], visible.less(own))

    def configure(self, key: str, value: Any, *, actor: str = "human") -> int:
        """Set one of this agent's own settings, checked already (`core.config.checked`), and return the event's id.

        The newest `config` event holds them all.
        """
        with self._store.exclusive():
            settings = {**self.standing().settings, key: value}
            if key == "tool_approval":
                settings[AGREED_AT] = machine()
            return self.record("config", f"{key} = {value}", data={"settings": settings}, actor=actor)

    # Reading

    def context(self) -> Context:
        """What the agent's lineage shows now; reads its stored segments, no message before it is asked for."""
        with self._store.exclusive():
            at = self.standing()
            if self._batch is None and self._head != at.record.head:
                self._head, self._speaks = at.record.head, None  # others may have changed the settings
        return Context(at)

    def request(
        self,
        provider: str | None = None,
        model: str | None = None,
        *,
        limit: int | None = None,
        at: Standing | None = None,
    ) -> Request:
        """The request that would go out now, by default to this agent's own model [SPEC 5]; nothing is sent or written.

        In a planning conversation under high pressure it holds that conversation and nothing else of the context
        [SPEC 4.2]. `limit` is a number of tokens that older turns have to make room for, by default what the model
        takes unless there is no budget; `at` another place where this agent might stand, by default where it stands.
        Raises CommandError for an unknown provider.
        """
        from foldmark.conversation.fullness import whole
        from foldmark.conversation.request import prepare  # 20 ms, and only requests need it

        if not isinstance(provider, str | None) or not isinstance(model, str | None):
            raise CommandError(f"a provider and a model are texts, not {provider!r} and {model!r}")
        at = self.standing() if at is None else at
        config = at.config
        own = config.model.partition("/")
        provider, model = provider or own[0], model or own[2] or provider or own[0]
        known, planned = self.log.model_named(f"{provider}/{model}"), talk(at)
        window, output = known.window, known.answer
        full = is_ephemeral(whole(at, provider, model), window)
        if at.fold.leaving is not None:
            # The model still has to say that it is done: to the end of the turn it sees what leaves with the turn.
            fold = msgspec.structs.replace(at.fold, segments=normal((*at.fold.segments, *planned)))
            size = self._store.size(until(fold.segments, at.newest))
            at = msgspec.structs.replace(at, fold=fold, size=size)
        # With the budget off the request is the context and nothing else, whatever the model takes [SPEC 5].
        most = limit if limit is not None else window - output if config.sliding_context_tokens else None
        made = partial(prepare, at, config, provider, model, tools=self.tools(at), limit=most, output=output)
        request = made(only=planned if planned and full else None)
        if planned and not full and is_ephemeral(request.tokens, window):
            return made(only=planned)
        return request

    def tools(self, at: Standing | None = None) -> list[ToolSpec]:
        """The tools that this agent's model is offered where it stands, or `at` another place: those of its setting
        `tools`, what an open planning conversation needs, and `slash` with the commands of `model_commands` only,
        `evict` unless these are none."""
        at, there = self.standing() if at is None else at, self.log.tools()
        config = at.config
        if (wanted := config.tools) != "all":
            names = {*wanted.split(", "), *(["filter_context"] if talk(at) else [])}
            there = [spec for spec in there if spec.name in names]
        commands = config.model_commands
        if commands == "none":
            return [spec for spec in there if spec.name not in ("slash", "evict")]
        return there if commands == "all" else [_with_commands(spec, commands.split(", ")) for spec in there]

    @property
    def window(self) -> int:
        """The tokens that this agent's model takes."""
        return self.log.model_named(self.standing().config.model).window

    def call_tool(self, name: str, args: Mapping[str, Any], *, asking: Asking = NOBODY) -> str:
        """Run a tool as the model would, and return what it is told [SPEC 4.1].

        Raises CommandError for an unknown tool or wrong arguments, in words that are meant for the model.
        """
        offered = [spec.name for spec in self.tools()]
        if name not in offered:
            raise CommandError(f"there is no tool '{str(name)[:40]}'; there is: {listing(offered, 40) or 'none'}")
        answer: Any = self.log.call_tool(self, name, args, asking)
        if not isinstance(answer, str):  # a tool of somebody's own
            raise CommandError(f"{name} answered with a {type(answer).__name__} and not with a text")
        return self.log.secrets.hidden(answer)

    def at(self, event_id: int) -> Context:
        """The context as it was after event `event_id`, whosever it is. What was erased since stays erased.

        Raises CommandError for an id that there is not yet, or from before this agent was born.
        """
        return Context(self.stood(event_id))

    def stood(self, event_id: int) -> Standing:
        """Where the agent stood after event `event_id`; raises as `at`."""
        now = self.standing()
        if not isinstance(event_id, int):
            raise CommandError(f"an event's id is a number, not {event_id!r}")
        if event_id > now.newest:
            raise CommandError(f"there is no event {event_id} of this agent yet; its newest is {now.newest}")
        if event_id < 1:
            raise CommandError(f"events are numbered from 1, and there is no event {event_id}")
        if event_id < now.record.fork_event:
            raise CommandError(f"this agent was born with event {now.record.fork_event}, after event {event_id}")
        fold = replay(self._origin, recorded(self._store.operations(self.id, until=event_id)))
        record = msgspec.structs.replace(now.record, head=event_id, open_turn=None)
        size = self._store.size(until(fold.segments, event_id))
        return msgspec.structs.replace(now, record=record, fold=fold, size=size)

    def _after(self, fold: Fold, event_id: int, operation: Operation) -> Fold:
        if isinstance(operation, Restore):
            return self.past.followed_by(event_id, operation)
        return advance(fold, [(event_id, operation)])

    def _bear(self, at: Standing, operation: Fork, event_id: int) -> None:
        record = AgentRecord(operation.child, None, self.id, event_id, self.log.clock())
        born = birth(record.id, event_id, operation.start, operation.pins, operation.evicted)
        size = at.size if operation.start == at.visible else self._store.size(operation.start)
        self._store.create_agent(record, born, size)


def _tokens(events: Iterable[Event]) -> int:
    return sum(event.tokens for event in events)


def _with_commands(spec: ToolSpec, commands: list[str]) -> ToolSpec:
    """`slash` with these commands; any other tool as it is."""
    if spec.name != "slash":
        return spec
    properties = spec.parameters["properties"]
    narrowed = {**properties, "command": {**properties["command"], "enum": commands}}
    return replace(spec, parameters={**spec.parameters, "properties": narrowed})
