"""`Operable`: the context and the request of an agent, and operations on them with their receipts [SPEC 2-5]."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from foldmark.core import codec, selections
from foldmark.core.agents import AgentRecord, Size, check_limit
from foldmark.core.errors import CommandError, ConflictError
from foldmark.core.events import (
    BESIDE_KINDS,
    CONTEXT_KINDS,
    Event,
    Fork,
    Operation,
    PlanningEnded,
    Redact,
    Restore,
    Summary,
)
from foldmark.core.ports import Snapshot, Transaction
from foldmark.core.replay import Fold, advance, birth, recorded, replay
from foldmark.core.request import Request, ToolSpec
from foldmark.core.segments import END, Segments, subtract, until
from foldmark.core.wording import is_ephemeral
from foldmark.log.context import Context
from foldmark.log.timeline import Timeline
from foldmark.operations.changes import CONSENT, SCRATCHPAD
from foldmark.operations.receipts import (
    CachedPrefix,
    Outcome,
    Receipt,
    changed_results,
    changes_nothing,
    context_change,
    in_requests_of,
    request_change,
)
from foldmark.request.client_requests import NextRequest
from foldmark.request.passed_requests import client_record
from foldmark.request.planning import passed, shown_while_leaving, talk
from foldmark.request.standing import AGREED_AT, Standing, as_of
from foldmark.settings.given import machine

if TYPE_CHECKING:
    from foldmark.operations.redaction import Erasure
    from foldmark.request.planned import Before


class Operable(Timeline):
    """A timeline with its context, its request, and the operations on it."""

    _erasure: "tuple[Standing, Erasure] | None" = None

    def context(self) -> Context:
        """Return the current context. It reads stored segments; messages are read on demand."""
        at = self.standing()
        if not self._batching and self._head != at.record.head:
            self._head, self._speaks = at.record.head, None  # others may have changed the settings
        return Context(self._store, at)

    def request(
        self,
        provider: str | None = None,
        model: str | None = None,
        *,
        limit: int | None = None,
        at: Standing | None = None,
    ) -> Request:
        """Return the request to send now, by default to this agent's own model [SPEC 5]; nothing is sent or written.

        If the next event is a model's answer, it counts as the answer to this request, which is then recorded as sent,
        so that the next one begins with the whole of it [SPEC 5.7].

        In a planning conversation under high pressure it holds only that conversation, nothing else of the context
        [SPEC 4.2]. `limit` is the maximum number of tokens; older turns are left out to meet it. The default is the
        model's limit, or no limit without a budget. `at` is another standing of this agent, by default the current one.
        Raises CommandError for an unknown provider.
        """
        request = self.next_request(provider, model, limit=limit, at=at)
        self.answers(request if at is None else None)
        return request

    def asked(self, provider: str | None = None, model: str | None = None) -> Request:
        """Return the request that an answer of this model would answer: the last one that `request` returned, if
        nothing else was recorded since, otherwise the next one."""
        if self._requested is not None and self._requested[1] == self._head:
            known = self._requested[0]
            if (provider or known.provider, model or known.model) == (known.provider, known.model):
                return known
        return self.next_request(provider, model)

    def next_request(
        self,
        provider: str | None = None,
        model: str | None = None,
        *,
        limit: int | None = None,
        at: Standing | None = None,
        before: "Before | None" = None,
    ) -> Request:
        """Return the request that would be sent now, as `request` does, to look at it: the next answer does not count
        as one to it. `before` returns the request that it goes on with, by default the newest recorded one."""
        if not isinstance(provider, str | None) or not isinstance(model, str | None):
            raise CommandError(f"a provider and a model must be texts, not {provider!r} and {model!r}")
        from foldmark.request.prepare import prepare, whole  # takes 20 ms, and only requests need it

        with self._store.read() as moment:
            at = self.standing_in(moment) if at is None else at
            config = at.config
            own_provider, _, own_model = config.model.partition("/")
            provider = provider or own_provider
            model = model or own_model or provider
            known, planned = self.log.model_named(f"{provider}/{model}"), talk(moment, at)
            full = is_ephemeral(whole(at, provider, model), known.window)
            at = shown_while_leaving(moment, at)
            # Without a budget the request holds the whole context, even if that is too long for the model.
            if limit is None and config.sliding_context_tokens:
                limit = known.window - known.answer
            prepared = partial(prepare, tools=self.tools_in(moment, at), limit=limit, output=known.answer)
            prepared = prepared if before is None else partial(prepared, before=before)
            if not (planned and full):
                request = prepared(moment, at, config, provider, model)
                if not (planned and is_ephemeral(request.tokens, known.window)):
                    return request
            return prepared(moment, at, config, provider, model, only=planned)

    def tools(self) -> list[ToolSpec]:
        """Return the tools offered to this agent's model: those in its setting `tools`, those that an open planning
        conversation needs if that is not `none`, and `slash` with the commands in `model_commands`; `slash` and `evict`
        only if that setting allows any command."""
        with self.reading() as (moment, at):
            return self.tools_in(moment, at)

    def tools_in(self, moment: Snapshot, at: Standing) -> list[ToolSpec]:
        """Return the tools offered to the agent's model in a moment."""
        config, tools = at.config, self.log.tools()
        if (wanted := config.tools) != "all":
            planned = wanted != "none" and talk(moment, at)
            names = {*wanted.split(", "), *(["filter_context"] if planned else [])}
            tools = [spec for spec in tools if spec.name in names]
        commands = config.model_commands
        if commands == "none":
            return [spec for spec in tools if spec.name not in ("slash", "evict")]
        return tools if commands == "all" else [_with_commands(spec, commands.split(", ")) for spec in tools]

    @property
    def window(self) -> int:
        """The window of this agent's model, in tokens."""
        return self.log.model_named(self.standing().config.model).window

    def events(self, after: int = 0, limit: int = 100) -> list[Event]:
        """Return up to `limit` (1 to 1000) of the agent's own events of all kinds with ids above `after`, oldest first.

        The id of the last one is `after` for the next page, even after new events were committed. Inherited events
        belong to the parent. An erased event keeps its id, kind, time and actor. Raises CommandError.
        """
        if not isinstance(after, int) or not 0 <= after < END:
            raise CommandError(f"after must be an event's id, or 0 for the beginning, not {str(after)[:40]}")
        check_limit(limit)
        with self._store.read() as moment:
            return selections.events_after(moment, self.id, after, limit)

    def at(self, event_id: int) -> Context:
        """Return the context as it was after event `event_id` of any agent. Erased messages stay erased.

        Raises CommandError for an id that does not exist yet, or from before this agent was born.
        """
        with self._store.read() as moment:
            return Context(self._store, self.stood(moment, event_id))

    def stood(self, moment: Snapshot, event_id: int) -> Standing:
        """Return the agent's standing after event `event_id`. Raises the same errors as `at`."""
        now = self.standing_in(moment)
        if not isinstance(event_id, int):
            raise CommandError(f"an event's id must be a number, not {event_id!r}")
        if event_id > now.last:
            raise CommandError(f"there is no event {event_id} of this agent yet; its newest is {now.last}")
        if event_id < 1:
            raise CommandError(f"there is no event {event_id}; events are numbered from 1")
        if event_id < now.record.fork_event:
            raise CommandError(f"this agent was born with event {now.record.fork_event}, after event {event_id}")
        return self.stood_at(moment, event_id)

    def stood_at(self, moment: Snapshot, event_id: int) -> Standing:
        """Return the agent's standing after an event that it knows; 0 is before its first one."""
        now = self.standing_in(moment)
        event_id = min(event_id, now.newest)  # metadata behind the newest event of the timeline changes nothing
        fold = replay(now.origin, recorded(selections.operations(moment, self.id, until=event_id)))
        then = as_of(moment, now, event_id)
        record = replace(then.record, open_turn=None)
        return replace(then, record=record, fold=fold, size=moment.size(until(fold.segments, event_id)))

    # Operations

    def end_turn(self, *, created_at: str | datetime | None = None, interrupted: bool = False) -> int | None:
        """End the open turn and return the event's id; None if no turn is open.

        If the person moved on from a planning conversation in this turn, that conversation ends too, before the message
        that moved on [SPEC 4.2].
        """
        at = self.standing()
        if at.record.open_turn is None:
            return None
        with self.batch() as moment:
            if at.record.head != self._head:  # another thread has appended meanwhile
                at = self.standing_in(moment)
            # Most agents never had a planning conversation, and need no further read.
            if "command" in at.newest_of and self.end_planning(created_at=created_at) is not None:
                at = self.standing_in(moment)
            ended = None if at.fold.closing is None else PlanningEnded(at.fold.closing[0])
            data = None if ended is None else codec.operation_data(ended)
            event_id = self._append("turn_ended", "", data, created_at, actor="system", interrupted=interrupted)
            if ended is not None:
                fold = advance(at.fold, [(event_id, ended)])
                moment.save_fold(fold, moment.size(until(fold.segments, event_id)).less(at.record.own))
        return event_id

    def end_planning(self, *, created_at: str | datetime | None = None) -> int | None:
        """End a planning conversation that a person has moved on from, just before the message that did so; return the
        operation's id, or None if there is none to end."""
        with self.reading() as (moment, at):
            past = passed(moment, at)
        if past is None:
            return None
        from foldmark.operations import decide

        return self.operate(
            lambda moment, at: decide.ended_before(moment, at, *past), actor="system", created_at=created_at
        ).event_id

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
        """Forget or remember these ids and return the operation's id [SPEC 4.2]. The ids need not come from a preview.

        `planning` is (first, last) of the conversation that led to the filter; it leaves the context as well. If last
        is None, it extends to the end of the open turn. The ids are widened to whole exchanges. Raises CommandError for
        a wrong mode or ids of other conversations.
        """
        from foldmark.operations import decide  # takes 3 ms

        decision = partial(decide.filter, mode=mode, ids=ids, planning=planning, criteria=criteria)
        return self.operate(decision, actor=actor, reason=reason).event_id

    def operate(
        self,
        decision: Callable[[Snapshot, Standing], Operation],
        *,
        actor: str = "human",
        content: str = "",
        erasing: Segments = (),
        created_at: str | datetime | None = None,
        reason: str | None = None,
    ) -> Receipt:
        """Record the operation that `decision` returns for the agent's standing, and return its receipt.

        The event also stores the receipt and the `reason`. `content` is the text of a summary, `erasing` the segments
        that a redaction is about to erase; `created_at` defaults to now. Raises CommandError, ConflictError.
        """
        reason = None if reason is None else codec.checked_reason(reason)
        while True:
            with self.reading() as (moment, at):
                if at.record.head != self._head:
                    raise ConflictError(self.id, self._head, at.record.head)
                operation = decision(moment, at)
                data = codec.checked_data(operation)
                # The effect is computed before the transaction: the cost in thinking takes two requests to compute.
                # The event has no id yet; any id above all recorded ones gives the same context.
                likely_id = at.record.next_possible
                outcome = self.outcome(moment, at, operation, likely_id, erasing)
            with self.batch() as transaction:
                if self._head == at.record.head:
                    # The size after recording is not known here: a summary would have to contain its own size.
                    receipt = {key: value for key, value in outcome.data().items() if key != "after"}
                    data = {**data, "receipt": receipt, **({} if reason is None else {"reason": reason})}
                    event_id = self._append(codec.operation_kind(operation), content, data, created_at, actor=actor)
                    if event_id != likely_id:
                        outcome = replace(outcome, fold=self._after(at.fold, event_id, operation))
                    after = self._keep(transaction, at, outcome, event_id)
                    break
            # Another thread has appended meanwhile: decide again.
        if isinstance(operation, Fork):
            self.log.tell("born", operation.child)
        return Receipt(event_id, outcome, actor, reason).after(after)

    def _keep(self, transaction: Transaction, at: Standing, outcome: Outcome, event_id: int) -> Size:
        """Store the agent's fold after an operation, and a forked child; return the size of the agent's context."""
        operation, after, own = outcome.operation, outcome.context, at.record.own
        if isinstance(operation, Redact):  # `erase` stores the folds of all agents that it changes
            return after
        if isinstance(operation, Summary):  # a summary is a message too
            after = transaction.size(until(outcome.fold.segments, event_id))
            own = transaction.head(self.id).record.own
        transaction.save_fold(outcome.fold, after.less(own))
        if isinstance(operation, Fork):
            record = AgentRecord(operation.child, None, self.id, event_id, self.log.clock())
            born = birth(record.id, event_id, operation.start, operation.pins, operation.evicted)
            size = at.size if operation.start == at.visible else transaction.size(operation.start)
            transaction.create_agent(record, born, size)
        return after

    def outcome(
        self, moment: Snapshot, at: Standing, operation: Operation, event_id: int, erasing: Segments = ()
    ) -> Outcome:
        """Return the effect of `operation` on the context of `at` if event `event_id` records it. Writes nothing."""
        fold = self._after(at.fold, event_id, operation)
        visible = subtract(until(fold.segments, at.newest), erasing)
        changed = context_change(at.visible, visible, at.size, moment.size)
        out, back = changed_results(moment, at, fold, visible)
        evicted, whole = (Size(len(each), sum(event.tokens for event in each)) for each in (out, back))
        idle = codec.operation_kind(operation) in CONTEXT_KINDS and changes_nothing(moment, at, fold, visible, changed)
        outcome = Outcome(operation, fold, changed.after, changed, None, evicted, whole, idle=idle)
        if at.config.caches_prompts and (client := NextRequest.of(moment, at)) is not None:
            return in_requests_of(client.compared(at.fold, fold), outcome)
        if not at.config.caches_prompts:
            return outcome
        if idle or codec.operation_kind(operation) in BESIDE_KINDS:
            return replace(outcome, cached_prefix=CachedPrefix(at.size.tokens, at.size.tokens))
        left = replace(fold, segments=subtract(fold.segments, erasing))
        after = replace(at, fold=left, size=changed.after)
        found = request_change(moment, lambda place: self.next_request(at=place), at, after, operation)
        if found is None:
            return outcome
        own = {"cached_prefix": found.prefix, "thoughts": found.thoughts, "shortened": found.shortened}
        return replace(outcome, **own, requests=found)

    def redact(self, turn_id: int, *, actor: str = "human", reason: str | None = None) -> Receipt:
        """Erase a turn for good, in every agent that inherited it, and return the receipt [SPEC 3].

        Afterwards the database no longer contains the erased content, only who erased it and when. Scratchpads, memos,
        mail and summaries may still mention it. Raises CommandError for a turn that is neither this agent's nor
        inherited, or that is another agent's open turn.
        """
        if not isinstance(turn_id, int):
            raise CommandError(f"a turn's id must be a number, not {turn_id!r}")
        from foldmark.operations.redaction import erase

        with self.batch() as transaction:
            if self.open_turn == turn_id:
                self.end_turn(interrupted=True)
            erasure = self.erasable(transaction, self.standing_in(transaction), turn_id)
            live = client_record(transaction, self.id) is not None  # its client sends the turn again
            redaction = Redact(turn_id, erasure.ranges if live else ())
            receipt = self.operate(lambda *_: redaction, actor=actor, erasing=erasure.ranges, reason=reason)
            erase(transaction, erasure.owner, erasure.turn, erasure.last, receipt.event_id, receipt.outcome)
            return receipt

    def erasable(self, moment: Snapshot, at: Standing, turn_id: int) -> "Erasure":
        """Return the erasure of a turn (see `redaction.erasable`); that of the agent's own turn is cached until
        something changes."""
        from foldmark.operations.redaction import erasable

        kept = self._erasure
        if kept is None or kept[0] is not at or kept[1].turn != turn_id:
            kept = at, erasable(moment, at, turn_id)
            # The standing does not cover another agent, which may continue in the meantime.
            self._erasure = kept if kept[1].owner == self.id else None
        return kept[1]

    def redact_all(self, *, actor: str = "human") -> None:
        """Erase everything that this agent ever recorded; its children must no longer need it [SPEC 4, `delete`]."""
        with self.batch() as transaction:
            self.end_turn(interrupted=True)
            by = self._append("redact", "", codec.operation_data(Redact(0)), None, actor=actor)
            transaction.erase(self.id, 0, by, by)
            transaction.save_fold(self.standing_in(transaction).fold, Size(0, 0))

    def configure(self, key: str, value: Any, *, actor: str = "human") -> int:
        """Set one of this agent's own settings, already checked (`core.config.checked`), and return the event's id."""
        return self.change({key: value}, actor=actor)

    def change(
        self, values: Mapping[str, Any], *, actor: str = "human", restores: int | None = None, reason: str | None = None
    ) -> int:
        """Record one event that sets some of this agent's own settings, or its scratchpad, and return its id.

        The `values` are already checked; `UNSET` removes a setting. The newest `config` event holds all settings.
        `restores` is the change that is taken back (`operations.changes`).
        """
        own: dict[str, Any] = {} if restores is None else {"restores": restores}
        own |= {} if reason is None else {"reason": codec.checked_reason(reason)}
        if SCRATCHPAD in values:
            return self.record("scratchpad", values[SCRATCHPAD], data=own or None, actor=actor)
        with self.batch() as transaction:
            settings = {**self.standing_in(transaction).settings, **values}
            settings = {key: value for key, value in settings.items() if value is not UNSET}
            if CONSENT in values:
                settings[AGREED_AT] = machine()
            text = ", ".join(f"{key} = {value}" for key, value in values.items())
            return self.record("config", text, data={"settings": settings, "names": [*values], **own}, actor=actor)

    def _after(self, fold: Fold, event_id: int, operation: Operation) -> Fold:
        if isinstance(operation, Restore):
            return self.past.followed_by(event_id, operation)
        return advance(fold, [(event_id, operation)])


def _with_commands(spec: ToolSpec, commands: list[str]) -> ToolSpec:
    """Return `slash` restricted to these commands; any other tool unchanged."""
    if spec.name != "slash":
        return spec
    properties = spec.parameters["properties"]
    narrowed = {**properties, "command": {**properties["command"], "enum": commands}}
    return replace(spec, parameters={**spec.parameters, "properties": narrowed})
