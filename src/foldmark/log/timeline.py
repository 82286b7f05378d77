"""`Timeline`: one agent's events. It makes all appends and tracks the agent's standing [SPEC 2, 3]."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from msgspec import to_builtins

from foldmark.core import codec, selections
from foldmark.core.agents import AgentRecord, Size
from foldmark.core.assembly.sent import RequestRecord, SentRequest
from foldmark.core.codec import Secrets
from foldmark.core.errors import CommandError
from foldmark.core.events import ACTORS, ANSWER_KINDS, DIALECTS, METADATA_KINDS, OUTSIDE_KINDS, RECORD_KINDS, Draft
from foldmark.core.ports import Clock, Head, Snapshot, Store, Transaction
from foldmark.core.replay import Fold, History, birth, recorded, replay
from foldmark.core.request import Request, ToolSpec
from foldmark.core.segments import until
from foldmark.operations.notices import awaiting, notice, shown
from foldmark.request.standing import Birth, Standing, birth_of
from foldmark.settings.given import Settings

if TYPE_CHECKING:
    from foldmark.tokens.models import Model


WRITTEN = 1000
"""Number of events of an agent for which this process remembers that it recorded them: the newest."""

Happening = Literal["born", "run", "mail", "killed"]
"""Happenings that a runtime must learn of at once: an agent was forked from another, received mail, or was killed."""

TEXTS = ("user", "assistant", "system", "summary")
"""Kinds of messages that are text: they are recorded with the dialect of the agent's model [S2]."""

_HIDES_NOTHING = frozenset(("user", "assistant", "system", "tool", "client", "tool_call", "tool_result", "record"))
"""Kinds of events after which a call that waits in the context still does."""


class Keeper(Protocol):
    """The part of a log that a timeline needs."""

    store: Store
    clock: Clock
    given: Settings
    secrets: Secrets
    record_sent: Callable[[Any, Request], SentRequest] | None
    """Records that a request, made for an agent, was sent."""

    def tools(self) -> list[ToolSpec]:
        """Return all tools."""

    def model_named(self, name: str) -> "Model":
        """Return the known facts about a model."""

    def tell(self, happening: Happening, agent_id: str) -> None:
        """Notify every listener of a happening of an agent."""


class Timeline:
    """The events of one agent, with the appends and the agent's standing after each.

    An append fails with ConflictError when another writer has appended since this object last appended, or since
    `_head` was last updated.
    """

    def __init__(self, log: Keeper, record: AgentRecord) -> None:
        self.log, self._store = log, log.store
        self._record, self._head = record, record.head
        self.id, self._batching = record.id, False
        self._speaks: str | None = None
        self._birth: Birth | None = None
        self._standing: tuple[Head, Standing] | None = None
        self._past: History | None = None
        self._kept: Snapshot | None = None
        self._written: deque[int] = deque(maxlen=WRITTEN)
        self._batch: Transaction | None = None
        self._requested: tuple[Request, int | None] | None = None
        """The last request that a program asked for, and the newest event then: the next answer counts as one to it."""
        self.answered: int | None = None
        """The newest request that was recorded because an answer to it was appended."""
        self._asked: dict[str, int] = {}
        """Calls that this object appended in the open batch and that wait for their result, as long as `_asked_at` is
        the newest event: then no operation and no other program can have hidden one."""
        self._asked_at: int | None = None

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
        verbatim: bool = False,
        key: str | None = None,
        request: Request | None = None,
    ) -> int:
        """Record a message and return its event id. The message is durable when this returns.

        `kind` is "user", "client" (what a coding agent told its model by itself), "assistant", "system" or "tool". A
        message opens a turn if none is open and joins the open one otherwise; a `system` message opens none. A `###
        STATE` block at the end of an assistant's text is recorded as a `state` event after the message, which holds the
        rest, even if that is empty (`text.state`); this does not apply to `interrupted` or `verbatim` texts. `data` is
        JSON that goes with the text; `created_at` is ISO 8601 or a datetime, by default now. A text without a `dialect`
        gets that of the agent's model, unless `data` holds blocks, whose form is then unknown. Lone surrogates in texts
        become U+FFFD. `key` is chosen by the caller, for a message that may have to be recorded again because the
        outcome is unknown (a connection was lost): if a message with this key exists, its id is returned and nothing is
        recorded. A model's answer may name the `request` that it answers, by default the last one that `request()`
        returned if nothing else was recorded since; the request is then recorded as sent. Raises CommandError for a
        wrong kind, time or data, ConflictError, StoreError.
        """
        if kind not in ("user", "client", "assistant", "system", "tool"):
            raise CommandError(
                f"append takes 'user', 'assistant', 'system', 'tool' or 'client', not {kind!r}; "
                "append_tool_call, append_tool_result and record take the rest"
            )
        self.answers(request)
        actor = actor or {"user": "human", "assistant": "model"}.get(kind, "system")
        block, may_hold = None, kind == "assistant" and not interrupted and not verbatim and isinstance(text, str)
        if may_hold and ("STATE" in text or "State" in text):
            from foldmark.text.state import parted  # takes 2 ms, and few answers contain a state block

            text, block = parted(text)
        with nullcontext() if block is None else self.batch():
            event_id = self._append(
                kind, text, data, created_at, dialect=dialect, actor=actor, interrupted=interrupted, key=key
            )
            if block is not None:
                # A key identifies one append, so the block needs another one.
                self._append("state", block, None, created_at, actor=actor, key=key and f"{key}\0state")
        return event_id

    def append_tool_call(
        self,
        name: str,
        args: Any,
        *,
        call_id: str,
        dialect: str | None = None,
        created_at: str | datetime | None = None,
        data: Mapping[str, Any] | None = None,
        request: Request | None = None,
    ) -> int:
        """Record a model's call of a tool; `args` is any JSON value, and `request` is as in `append`. Raises the same
        errors as `append`."""
        self.answers(request)
        _check_call_id(call_id)
        try:
            content = msgspec.json.encode(codec.well_formed(args)).decode()
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise CommandError(f"the arguments of {name} are not JSON: {error}") from None
        data = {**(data or {}), "call_id": call_id, "name": name}
        return self._append("tool_call", content, data, created_at, dialect=dialect, actor="model")

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
        """Record the result of the newest unanswered call with this id. Raises the same errors as `append`.

        If that call has left the context, a notice that quotes the result is recorded instead, as a user message in the
        same turn, so that no result is ever sent without its call [SPEC 3]. A result whose call was never recorded is
        kept unchanged.
        """
        _check_call_id(call_id)
        call_id = self.log.secrets.hidden(codec.well_formed(call_id))
        if self._batch is not None and self._asked_at == self._head and call_id in self._asked:
            data = {**(data or {}), "call_id": call_id, **({"is_error": True} if is_error else {})}
            call = self._asked.pop(call_id)
            return self._append("tool_result", text, data, created_at, dialect=dialect, actor="system", answers=call)
        # One transaction: look-ups stay valid until the result is recorded, and each one starts faster.
        with self.batch() as moment:
            instead, answers = self._answered(moment, call_id, text)
            if instead is not None:
                return self._append("user", instead, None, created_at, actor="system")
            data = {**(data or {}), "call_id": call_id, **({"is_error": True} if is_error else {})}
            return self._append("tool_result", text, data, created_at, dialect=dialect, actor="system", answers=answers)

    def notice_of(self, call_id: str, text: str) -> str | None:
        """Return the notice that `append_tool_result` would record instead of this result; None if it would record the
        result itself."""
        with self._store.read() as moment:
            return self._answered(moment, self.log.secrets.hidden(codec.well_formed(call_id)), text)[0]

    def _answered(self, moment: Snapshot, call_id: str, text: str) -> tuple[str | None, int | None]:
        """Return the notice to record instead of a result, if its call has left, and the call that the result answers,
        if there is one."""
        at = self.standing_in(moment)
        turn = at.record.open_turn
        calls = () if turn is None else moment.calls(self.id, call_id, waiting_since=turn)
        waiting = next(iter(calls), None)
        call, answered = (waiting, False) if waiting else awaiting(moment, at, call_id)
        if call is not None and not shown(moment, at, call, waits=waiting is not None):
            return notice(moment, at, call, call_id, codec.well_formed(text)), None
        return None, call.id if call and not answered else None

    def record(
        self,
        kind: str,
        content: str = "",
        *,
        data: Mapping[str, Any] | None = None,
        created_at: str | datetime | None = None,
        actor: str = "system",
    ) -> int:
        """Record an event that is never sent: a state, scratchpad, config, command, usage or record event.

        A usage is metadata: it is recorded whatever others have appended since, and conflicts with no append of theirs.
        """
        accepted = [each for each in RECORD_KINDS if each not in ("request", *OUTSIDE_KINDS)]
        if kind not in accepted:
            raise CommandError(f"record takes {', '.join(accepted)}, not {kind!r}; a request is recorded by sending it")
        return self._append(kind, content, data, created_at, actor=actor)

    def answers(self, request: Request | None) -> None:
        """Remember a request, to record it as sent if the next event is a model's answer; None changes nothing. Raises
        CommandError if it was made for another agent."""
        if request is None:
            return
        if request.cache_key != self.id:
            raise CommandError(
                f"this request was made for agent {request.cache_key[:8]}; name one of agent {self.id[:8]}"
            )
        self._requested = request, self._head

    def forget_request(self) -> None:
        """Let no answer count as one to the last request that a program asked for."""
        self._requested = None

    def record_request(self, record: RequestRecord, created_at: str) -> int:
        """Record that a request is sent, as metadata; its texts were kept before in the same transaction."""
        return self._append("request", "", to_builtins(record, str_keys=True), created_at, actor="system")

    @contextmanager
    def batch(self, *, newborn: bool = False) -> Iterator[Transaction]:
        """Record everything appended inside the block in one transaction: all of it or, on an error, nothing.

        With `newborn`, the same transaction also creates the agent itself (see `Log.creating`).
        """
        with self._store.write() as transaction:
            if self._batching:
                yield transaction
                return
            self._keep_until_rollback(transaction)
            self._batching = True
            try:
                if newborn:
                    transaction.create_agent(self._record, birth(self.id), Size(0, 0))
                transaction.append(self.id, self._head, [])  # raises if another writer has appended in the meantime
                self._batch = transaction
                yield transaction
            finally:
                self._batching, self._batch = False, None
                self._asked.clear()

    def _keep_until_rollback(self, moment: Snapshot) -> None:
        """Reset the caches of this object if the transaction is rolled back."""
        if self._kept is moment:
            return
        self._kept, head, requested = moment, self._head, self._requested

        def undo() -> None:
            self._head, self._requested, self._speaks, self._past = head, requested, None, None

        moment.on_rollback(undo)

    @property
    def open_turn(self) -> int | None:
        """The id of the open turn; None if no turn is open."""
        return self.standing().record.open_turn

    @property
    def is_behind(self) -> bool:
        """True if another writer has appended since this object last appended or was last updated."""
        return (self.standing().record.head or 0) > (self._head or 0)

    def wrote(self, event_id: int) -> bool:
        """Return True if this process recorded the event, as one of its newest for this agent."""
        return event_id in self._written

    # The standing

    @contextmanager
    def reading(self) -> Iterator[tuple[Snapshot, Standing]]:
        """Yield one moment and the agent's standing in it, which includes the open batch. Nothing can be written in the
        block."""
        with self._store.read() as moment:
            yield moment, self.standing_in(moment)

    def standing(self) -> Standing:
        """Return the agent's current standing, including the open batch."""
        with self._store.read() as moment:
            return self.standing_in(moment)

    def standing_in(self, moment: Snapshot) -> Standing:
        """Return the agent's standing in a moment. Raises DamagedError."""
        head = moment.head(self.id)
        kept = self._standing
        if kept is not None and kept[0] is head and kept[1].given is self.log.given:
            return kept[1]  # a store returns the same head until somebody commits
        record, cache, newest_of, beside = head
        born = self.born(moment)
        if cache is not None and cache[0].grows:
            fold, size = cache[0], cache[1].plus(record.own)
        else:
            fold = cache[0] if cache is not None else self.replay(moment)
            size = moment.size(until(fold.segments, record.newest))
        at = Standing(record, fold, born.fold, size, newest_of, self.log.given, born.handed_down, beside)
        self._standing = head, at
        return at

    def born(self, moment: Snapshot) -> Birth:
        """Return the agent's birth, which is read only once."""
        if self._birth is None:
            self._birth = birth_of(moment, self.id, self._record.fork_event)
        return self._birth

    def replay(self, moment: Snapshot) -> Fold:
        """Return the fold of all operations in the log, without using the stored segments."""
        return replay(self.born(moment).fold, recorded(selections.operations(moment, self.id)))

    @property
    def past(self) -> History:
        """All operations of the agent. Each is read once: later calls read only the new ones."""
        with self._store.read() as moment:
            self._keep_until_rollback(moment)
            if self._past is None:
                self._past = History(self.born(moment).fold)
            for each in recorded(selections.operations(moment, self.id, after=self._past.at)):
                self._past.add(*each)
            return self._past

    def beside(self, moment: Snapshot, fold: Fold) -> Size:
        """Return the size of a fold's visible messages minus that of all the agent's own messages, without stored
        segments."""
        record = moment.agent(self.id) or self._record
        return moment.size(until(fold.segments, record.newest)).less(record.own)

    def _active_dialect(self) -> str | None:
        """Return the dialect of the agent's model, cached until the settings change; None for an unknown provider."""
        if self._speaks is None:
            from foldmark.providers.registry import dialect_of  # a dialect takes some ms

            with suppress(CommandError):
                self._speaks = dialect_of(self.standing().config.provider, self.log.given.dialects).recorded
        return self._speaks

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
        key: str | None = None,
    ) -> int:
        has_blocks = bool(data) and (type(data) is dict or isinstance(data, Mapping)) and bool(data.get("blocks"))
        if kind in TEXTS and dialect is None and not has_blocks:
            dialect = self._active_dialect()
        elif kind == "config":
            self._speaks = None
        if actor not in ACTORS:
            raise CommandError(f"an actor must be one of {', '.join(ACTORS)}, not {actor!r}")
        if dialect is not None and dialect not in DIALECTS:
            dialect = recorded_dialect(dialect)
        if not isinstance(content, str):
            raise CommandError(f"the text of a {kind.replace('_', ' ')} must be a str, not {type(content).__name__}")
        secrets = self.log.secrets
        try:
            if secrets:
                content, data = secrets.hidden(content), secrets.hidden_in(data)
            if has_blocks:
                from foldmark.core.assembly.media import counted  # few messages hold any

                data = counted(data)
            draft = Draft(
                kind=kind,
                created_at=self.log.clock() if created_at is None else codec.timestamp(created_at),
                content=codec.well_formed(content),
                data=codec.well_formed(dict(data)) if data else None,
                dialect=dialect,
                actor=actor,
                interrupted=interrupted,
                answers=answers,
            )
            with nullcontext(self._batch) if self._batch is not None else self._store.write() as transaction:
                if self._batch is None:
                    self._keep_until_rollback(transaction)
                asked, record = self._requested, self.log.record_sent
                if kind not in METADATA_KINDS:
                    self._requested = None  # any other event comes between the request and an answer to it
                if record is not None and asked is not None and kind in ANSWER_KINDS and asked[1] == self._head:
                    self.answered = record(self, asked[0]).id
                return self._record_draft(transaction, draft, key)
        except (ValueError, TypeError, RecursionError) as error:
            raise CommandError(f"this {kind.replace('_', ' ')} cannot be recorded: {error}") from None

    def _record_draft(self, transaction: Transaction, draft: Draft, key: str | None) -> int:
        (event_id,) = transaction.append(self.id, self._head, [draft], key=key)
        self._written.append(event_id)
        if draft.kind in METADATA_KINDS:
            return event_id
        if draft.kind not in _HIDES_NOTHING or self._asked_at != self._head:
            self._asked.clear()
        if draft.kind == "tool_call" and draft.data and self._batch is not None:
            self._asked[draft.data["call_id"]] = event_id
        self._head = self._asked_at = max(self._head or 0, event_id)  # the message with this key may be an old one
        return event_id


def recorded_dialect(dialect: object) -> str:
    """Return the recorded name of a dialect that is not built in. Raises CommandError for an unknown one."""
    from foldmark import plugins
    from foldmark.providers.registry import canonical

    found = canonical(dialect) if isinstance(dialect, str) else None
    if found in DIALECTS or found in (installed := plugins.names(plugins.DIALECTS)):
        return found
    raise CommandError(f"a dialect must be one of {', '.join((*DIALECTS, *installed))}, not {dialect!r}")


def _check_call_id(call_id: object) -> None:
    if not isinstance(call_id, str):
        raise CommandError(f"a call id must be a str, not {call_id!r}")
