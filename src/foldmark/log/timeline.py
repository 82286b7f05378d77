"""The parts of an agent: `Timeline` appends to its events, `StandingReader` reads what they add up to [SPEC 2, 3]."""

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import get_ident, local

from foldmark.core import selections
from foldmark.core.agents import AgentRecord, Size
from foldmark.core.events import METADATA_KINDS, Draft
from foldmark.core.ports import Head, Snapshot, Store, Transaction
from foldmark.core.replay import Fold, History, birth, recorded, replay
from foldmark.core.request import Request
from foldmark.core.segments import until
from foldmark.request.standing import Birth, Standing, birth_of
from foldmark.settings.given import Settings

WRITTEN = 1000
"""Number of events of an agent for which this process remembers that it recorded them: the newest."""

_HIDES_NOTHING = frozenset(("user", "assistant", "system", "tool", "client", "tool_call", "tool_result", "record"))
"""Kinds of events after which a call that waits in the context still does."""


class _Batch(local):
    """The open batch of a thread; another thread has a transaction of its own."""

    transaction: Transaction | None = None
    kept: Snapshot | None = None

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        """Calls that this object appended in the open batch and that wait for their result, as long as `asked_at` is
        the newest event: then no operation and no other program can have hidden one."""
        self.asked_at: int | None = None


class Timeline:
    """Appends to one agent's events, alone or in batches.

    An append fails with ConflictError when another writer has appended since this object last appended, or since
    `head` was last updated.
    """

    def __init__(self, store: Store, record: AgentRecord) -> None:
        self._store, self._record = store, record
        self.head = record.head
        self.requested: tuple[Request, int | None] | None = None
        """The last request that a program asked for, and the newest event then: the next answer counts as one to it."""
        self._written: deque[int] = deque(maxlen=WRITTEN)
        self._batch = _Batch()
        self._batches = set[int]()
        """The threads in which a batch is open."""

    @property
    def batching(self) -> bool:
        """True while a batch of any thread is open, whose events `head` may name."""
        return bool(self._batches)

    @contextmanager
    def batch(self, *, newborn: bool = False) -> Iterator[Transaction]:
        """Record everything appended inside the block in one transaction (see `Agent.batch`)."""
        batch, thread = self._batch, get_ident()
        with self._store.write() as transaction:
            if batch.transaction is not None:
                yield transaction
                return
            self.keep_until_rollback(transaction)
            try:
                batch.transaction = transaction
                self._batches.add(thread)
                if newborn:
                    transaction.create_agent(self._record, birth(self._record.id), Size(0, 0))
                # Raises if another writer has appended in the meantime.
                transaction.append(self._record.id, self.head, [])
                yield transaction
            finally:
                self._batches.discard(thread)
                batch.transaction = None
                batch.asked.clear()

    def writing(self) -> AbstractContextManager[Transaction]:
        """Return the open batch, otherwise a new transaction."""
        transaction = self._batch.transaction
        return nullcontext(transaction) if transaction is not None else self._store.write()

    def keep_until_rollback(self, transaction: Transaction) -> None:
        """Reset `head` and `requested` if the transaction is rolled back."""
        if self._batch.kept is transaction:
            return
        self._batch.kept, head, requested = transaction, self.head, self.requested

        def undo() -> None:
            self.head, self.requested = head, requested

        transaction.on_rollback(undo)

    def append(self, transaction: Transaction, draft: Draft, key: str | None) -> int:
        """Append an event in a transaction that `writing` returned, and return its id; that of an earlier append with
        this key, if there is one."""
        (event_id,) = transaction.append(self._record.id, self.head, [draft], key=key)
        self._written.append(event_id)
        if draft.kind in METADATA_KINDS:
            return event_id
        batch = self._batch
        if draft.kind not in _HIDES_NOTHING or batch.asked_at != self.head:
            batch.asked.clear()
        if draft.kind == "tool_call" and draft.data and batch.transaction is not None:
            batch.asked[draft.data["call_id"]] = event_id
        self.head = batch.asked_at = max(self.head or 0, event_id)  # the message with this key may be an old one
        return event_id

    def waiting_call(self, call_id: str) -> int | None:
        """Return the call with this id that certainly waits in the context, which the caller is about to answer: one
        of the open batch. None if that has to be looked up."""
        batch = self._batch
        if batch.transaction is None or batch.asked_at != self.head:
            return None
        return batch.asked.pop(call_id, None)

    def wrote(self, event_id: int) -> bool:
        """Return True if this process recorded the event, as one of its newest for this agent."""
        return event_id in self._written


class StandingReader:
    """Reads an agent's standing, and the birth and the operations that it is made of; each is read only once."""

    def __init__(self, record: AgentRecord) -> None:
        self._record = record
        self._birth: Birth | None = None
        self._standing: tuple[Head, Standing] | None = None
        self._past: History | None = None
        self._kept: Snapshot | None = None

    def standing(self, moment: Snapshot, given: Settings) -> Standing:
        """Return the agent's standing in a moment, under the given settings. Raises DamagedError."""
        head = moment.head(self._record.id)
        kept = self._standing
        if kept is not None and kept[0] is head and kept[1].given is given:
            return kept[1]  # a store returns the same head until somebody commits
        record, cache, newest_of, beside = head
        born = self.born(moment)
        if cache is not None and cache[0].grows:
            fold, size = cache[0], cache[1].plus(record.own)
        else:
            fold = cache[0] if cache is not None else self.replay(moment)
            size = moment.size(until(fold.segments, record.newest))
        at = Standing(record, fold, born.fold, size, newest_of, given, born.handed_down, beside)
        self._standing = head, at
        return at

    def born(self, moment: Snapshot) -> Birth:
        """Return the agent's birth."""
        if self._birth is None:
            self._birth = birth_of(moment, self._record.id, self._record.fork_event)
        return self._birth

    def replay(self, moment: Snapshot) -> Fold:
        """Return the fold of all operations in the log, without using the stored segments."""
        return replay(self.born(moment).fold, recorded(selections.operations(moment, self._record.id)))

    def past(self, moment: Snapshot) -> History:
        """Return all operations of the agent; later calls read only the new ones."""
        if self._kept is not moment:
            self._kept = moment
            moment.on_rollback(self._forget)
        if self._past is None:
            self._past = History(self.born(moment).fold)
        for each in recorded(selections.operations(moment, self._record.id, after=self._past.at)):
            self._past.add(*each)
        return self._past

    def _forget(self) -> None:
        self._past = None

    def beside(self, moment: Snapshot, fold: Fold) -> Size:
        """Return the size of a fold's visible messages minus that of all the agent's own messages, without stored
        segments."""
        record = moment.agent(self._record.id) or self._record
        return moment.size(until(fold.segments, record.newest)).less(record.own)
