"""Operations on one agent, recorded with what they do to its context [SPEC 3, 4]."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from foldmark.core import codec
from foldmark.core.errors import CommandError, ConflictError
from foldmark.core.events import BESIDE_KINDS, Event, Fork, Operation, Redact, Restore, Summary
from foldmark.core.ports import AgentRecord, Size
from foldmark.core.replay import Fold, advance, birth
from foldmark.core.segments import Segments, subtract, until
from foldmark.log.readable import Readable
from foldmark.operations import decide
from foldmark.operations.receipts import Outcome, Receipt, Thoughts, cached_prefix, change, results_changed
from foldmark.operations.redaction import Erasure, erasable, heirs
from foldmark.request.planning import passed
from foldmark.request.standing import AGREED_AT, Standing
from foldmark.settings.machine import machine


class Operable(Readable):
    """An agent's timeline with the operations on it."""

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
        past = passed(moment, self.standing())
        if past is None:
            return None
        return self.operate(
            lambda at: decide.ended_before(moment, at, *past), actor="system", created_at=created_at
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
        out, back = results_changed(moment, at, fold, seen)
        prefix = cached_prefix(moment, at, seen, [*out, *back])
        evicted, whole = (Size(len(each), _tokens(each)) for each in (out, back))
        thoughts = Thoughts()
        if at.config.provider != "offline" and codec.operation_kind(operation) not in BESIDE_KINDS:
            from foldmark.operations.thoughts import changed as thinking_changed  # 20 ms, and only some models need it

            left = msgspec.structs.replace(fold, segments=subtract(fold.segments, erasing))
            there = msgspec.structs.replace(at, fold=left, size=changed.after)
            thoughts = thinking_changed(lambda place: self.request(at=place), at, there, operation)
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
            erasure = erasable(moment, self.standing(), turn_id)
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
