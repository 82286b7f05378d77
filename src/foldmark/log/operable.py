"""Record operations on one agent, with their effect on its context [SPEC 3, 4]."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import replace

from foldmark.core import codec
from foldmark.core.errors import CommandError, ConflictError
from foldmark.core.events import BESIDE_KINDS, Event, Fork, Operation, Redact, Restore, Summary
from foldmark.core.ports import AgentRecord, Size, Snapshot, Transaction
from foldmark.core.replay import Fold, advance, birth
from foldmark.core.segments import Segments, subtract, until
from foldmark.log.readable import Readable
from foldmark.operations import decide
from foldmark.operations.receipts import Outcome, Receipt, ThinkingChange, cached_prefix, change, results_changed
from foldmark.operations.redaction import erasable, erase
from foldmark.request.planning import passed
from foldmark.request.standing import AGREED_AT, Standing
from foldmark.settings.machine import machine


class Operable(Readable):
    """An agent's timeline with the operations on it."""

    def end_turn(self, *, created_at: str | datetime | None = None, interrupted: bool = False) -> int | None:
        """End the open turn and return the event's id; None if no turn is open.

        A planning conversation that this turn talked past ends with it, before the message that did so [SPEC 4.2].
        """
        if self.open_turn is None:
            return None
        with self.batch():
            self.end_planning(created_at=created_at)
            return super().end_turn(created_at=created_at, interrupted=interrupted)

    def end_planning(self, *, created_at: str | datetime | None = None) -> int | None:
        """End a planning conversation that a person has talked past, just before that message; return the operation's
        id."""
        with self.reading() as (moment, at):
            past = passed(moment, at)
        if past is None:
            return None
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

        `planning` is (first, last) of the conversation that led to the filter; it leaves the context as well. Without a
        last it goes on to the end of the open turn. The ids are widened to whole exchanges. Raises CommandError for a
        wrong mode or ids of other conversations.
        """
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
        """Record the operation that `decision` makes of where the agent stands, and return its receipt.

        The event carries the receipt and the `reason`, too. `content` is the text of a summary, `erasing` what a
        redaction is about to erase; `created_at` is by default now. Raises CommandError, ConflictError.
        """
        reason = None if reason is None else codec.checked_reason(reason)
        while True:
            with self.reading() as (moment, at):
                if at.record.head != self._head:
                    raise ConflictError(self.id, self._head, at.record.head)
                operation = decision(moment, at)
                data = codec.checked_data(operation)
                # The effect is computed before the transaction: the thinking that it costs takes two requests.
                outcome = self.outcome(moment, at, operation, at.newest + 1, erasing)
            with self.batch() as transaction:
                if self._head == at.record.head:
                    event_id = transaction.next_id(self.id)
                    outcome = replace(outcome, fold=self._after(at.fold, event_id, operation))
                    # The size after recording is not known here: a summary would have to contain its own size.
                    told = {key: value for key, value in outcome.data().items() if key != "after"}
                    data = {**data, "receipt": told, **({} if reason is None else {"reason": reason})}
                    self._append(codec.operation_kind(operation), content, data, created_at, actor=actor)
                    after = self._keep(transaction, at, outcome, event_id, counted=bool(erasing))
                    break
            # Another thread has appended in between: decide again.
        if isinstance(operation, Fork):
            self.log.tell("born", operation.child)
        return Receipt(event_id, outcome, actor, reason).after(after)

    def _keep(self, transaction: Transaction, at: Standing, outcome: Outcome, event_id: int, *, counted: bool) -> Size:
        """Store where an operation leaves the agent, and return the size of its context."""
        operation, after, own = outcome.operation, outcome.change.after, at.record.own
        # A summary is a message itself; the messages to be erased are still there.
        if counted or isinstance(operation, Summary):
            after = transaction.size(until(outcome.fold.segments, event_id))
            own = transaction.head(self.id).record.own
        transaction.save_fold(outcome.fold, after.less(own))
        if isinstance(operation, Fork):
            self._bear(transaction, at, operation, event_id)
        return after

    def outcome(
        self, moment: Snapshot, at: Standing, operation: Operation, event_id: int, erasing: Segments = ()
    ) -> Outcome:
        """Return the effect of `operation` on the context of `at` when event `event_id` records it. Writes nothing."""
        fold = self._after(at.fold, event_id, operation)
        seen = subtract(until(fold.segments, at.newest), erasing)
        changed = change(at.visible, seen, at.size, moment.size)
        out, back = results_changed(moment, at, fold, seen)
        prefix = cached_prefix(moment, at, seen, [*out, *back])
        evicted, whole = (Size(len(each), _tokens(each)) for each in (out, back))
        thoughts = ThinkingChange()
        if at.config.provider != "offline" and codec.operation_kind(operation) not in BESIDE_KINDS:
            from foldmark.operations.thoughts import changed as thinking_changed  # takes 20 ms

            left = replace(fold, segments=subtract(fold.segments, erasing))
            there = replace(at, fold=left, size=changed.after)
            thoughts = thinking_changed(moment, lambda place: self.request(at=place), at, there, operation)
        return Outcome(operation, fold, changed, prefix, evicted, whole, thoughts)

    def redact(self, turn_id: int, *, actor: str = "human", reason: str | None = None) -> Receipt:
        """Erase a turn for good, in every agent that inherited it, and return the receipt [SPEC 3].

        The erased content is found nowhere in the database afterwards; who erased it and when remains. Scratchpads,
        memos, mail and summaries may still mention it. Raises CommandError for a turn that is neither this agent's nor
        inherited, or is another agent's open one.
        """
        if not isinstance(turn_id, int):
            raise CommandError(f"a turn's id is a number, not {turn_id!r}")
        with self.batch() as transaction:
            if self.open_turn == turn_id:
                self.end_turn(interrupted=True)
            erasure = erasable(transaction, self.standing_in(transaction), turn_id)
            receipt = self.operate(lambda *_: Redact(turn_id), actor=actor, erasing=erasure.ranges, reason=reason)
            erase(transaction, erasure.owner, erasure.turn, erasure.last, receipt.event_id)
            return receipt.after(self.standing_in(transaction).size)

    def redact_all(self, *, actor: str = "human") -> None:
        """Erase everything that this agent ever recorded; its children must no longer need it [SPEC 4, `delete`]."""
        with self.batch() as transaction:
            self.end_turn(interrupted=True)
            by = self._append("redact", "", codec.operation_data(Redact(0)), None, actor=actor)
            transaction.erase(self.id, 0, by, by)
            transaction.save_fold(self.standing_in(transaction).fold, Size(0, 0))

    def configure(self, key: str, value: Any, *, actor: str = "human") -> int:
        """Set one of this agent's own settings, already checked (`core.config.checked`), and return the event's id.

        The newest `config` event holds them all.
        """
        with self.batch() as transaction:
            settings = {**self.standing_in(transaction).settings, key: value}
            if key == "tool_approval":
                settings[AGREED_AT] = machine()
            return self.record("config", f"{key} = {value}", data={"settings": settings}, actor=actor)

    def _after(self, fold: Fold, event_id: int, operation: Operation) -> Fold:
        if isinstance(operation, Restore):
            return self.past.followed_by(event_id, operation)
        return advance(fold, [(event_id, operation)])

    def _bear(self, transaction: Transaction, at: Standing, operation: Fork, event_id: int) -> None:
        record = AgentRecord(operation.child, None, self.id, event_id, self.log.clock())
        born = birth(record.id, event_id, operation.start, operation.pins, operation.evicted)
        size = at.size if operation.start == at.visible else transaction.size(operation.start)
        transaction.create_agent(record, born, size)


def _tokens(events: Iterable[Event]) -> int:
    return sum(event.tokens for event in events)
