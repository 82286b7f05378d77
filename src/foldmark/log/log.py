"""`Agent` and `Log`: one conversation or fork, and all conversations of one database [SPEC 2-5, 9]."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakValueDictionary

import msgspec
from msgspec import UNSET, to_builtins
from msgspec.structs import asdict, replace

from foldmark.core import codec, selections
from foldmark.core.agents import AgentRecord, Changes, Size, check_limit, check_name, is_uuid
from foldmark.core.assembly.sent import SentRequest
from foldmark.core.codec import Secrets
from foldmark.core.errors import CommandError, ConflictError, ProviderError
from foldmark.core.events import (
    ACTORS,
    ANSWER_KINDS,
    BESIDE_KINDS,
    CONTEXT_KINDS,
    DIALECTS,
    METADATA_KINDS,
    OUTSIDE_KINDS,
    RECORD_KINDS,
    Draft,
    Event,
    Fork,
    Operation,
    PlanningEnded,
    Redact,
    Restore,
    Summary,
)
from foldmark.core.ports import Clock, NewId, Snapshot, Store, Transaction
from foldmark.core.replay import Fold, History, advance, birth, recorded, replay
from foldmark.core.request import Compacted, Kept, Request, Stopped, ToolCall, ToolSpec, Usage, distinct, shifted
from foldmark.core.search import ANY, Filters, Hit, LogIndex, Mode, RankedMessage, SearchScope
from foldmark.core.segments import END, Segments, subtract, until
from foldmark.core.wording import is_ephemeral, listing
from foldmark.log.context import Context
from foldmark.log.listening import changes
from foldmark.log.timeline import StandingReader, Timeline
from foldmark.operations.changes import CONSENT, SCRATCHPAD
from foldmark.operations.effects import NOBODY, Asking, Result
from foldmark.operations.notices import awaiting, notice, shown
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
from foldmark.request.standing import AGREED_AT, Standing, as_of, end_of
from foldmark.settings.given import Settings, machine

if TYPE_CHECKING:
    from foldmark.log.outlines import Neighbour, Outlines
    from foldmark.operations.redaction import Erasure
    from foldmark.recall.embeddings.stored import StoredVectors
    from foldmark.recall.query import Query
    from foldmark.request.planned import Before
    from foldmark.tokens.models import Model

Happening = Literal["born", "run", "mail", "killed"]
"""Happenings that a runtime must learn of at once: an agent was forked from another, received mail, or was killed."""

TEXTS = ("user", "assistant", "system", "summary")
"""Kinds of messages that are text: they are recorded with the dialect of the agent's model [S2]."""

_ACTORS = {"user": "human", "assistant": "model"}
"""Kind of message -> who says it by default; the system says any other."""


class Agent:
    """The owner of one timeline: a conversation, or a fork of one.

    An agent has one writer at a time: an append fails with ConflictError when another writer has appended since this
    object last appended or read the context; `context()` brings it up to date. Agents are compared by id, and also
    equal a plain uuid.
    """

    _erasure: "tuple[Standing, Erasure] | None" = None

    def __init__(self, log: "Log", record: AgentRecord) -> None:
        self.log, self._store, self.id = log, log.store, record.id
        self.name, self._parent = record.name, record.parent
        self.timeline, self.reader = Timeline(log.store, record), StandingReader(record)
        self._speaks: str | None = None
        self.answered: int | None = None
        """The newest request that was recorded because an answer to it was appended."""

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
        with self._store.read() as moment:
            return [self.log.agent(record.id) for record in moment.agents(parent=self.id)]

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
        actor = actor or _ACTORS.get(kind, "system")
        block, may_hold = None, kind == "assistant" and not interrupted and not verbatim and isinstance(text, str)
        if may_hold and ("STATE" in text or "State" in text):
            from foldmark.text.state import parted  # takes 2 ms, and few answers contain a state block

            text, block = parted(text)
        message = partial(
            self._append, kind, text, data, created_at, dialect=dialect, actor=actor, interrupted=interrupted, key=key
        )
        if block is None:
            return message()
        with self.batch():
            event_id = message()
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
        data = {**(data or {}), "call_id": call_id, **({"is_error": True} if is_error else {})}
        if (call := self.timeline.waiting_call(call_id)) is not None:
            return self._append("tool_result", text, data, created_at, dialect=dialect, actor="system", answers=call)
        # One transaction: look-ups stay valid until the result is recorded, and each one starts faster.
        with self.batch() as moment:
            instead, answers = self._answered(moment, call_id, text)
            if instead is not None:
                return self._append("user", instead, None, created_at, actor="system")
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

    def append_answer(self, provider: str, answer: Mapping[str, Any], *, request: Request | None = None) -> list[int]:
        """Record a provider's complete answer as its API returned it, and return the events' ids: the model's text,
        with the blocks that go back to it, its calls, and a summary for each place where the provider compacted the
        preceding messages [S2, SPEC 5.7].

        `answer` is the JSON of the SDK's object (`.model_dump(mode="json", exclude_unset=True)`; for Gemini in
        camelCase). It is read in the dialect of `provider`, which is never guessed, and counts as the answer to
        `request`, by default the last one that `request()` returned. Raises CommandError for an unknown provider,
        ProviderError for an invalid answer.
        """
        from foldmark.providers.registry import dialect_of
        from foldmark.request.usage import usage_data

        self.answers(request)
        if not isinstance(provider, str) or not isinstance(answer, Mapping):
            raise CommandError(
                f"an answer must be a provider's name and a mapping, as from .model_dump(), not {type(answer).__name__}"
            )
        dialect = dialect_of(provider, self.log.given.dialects)
        own, model = self.standing().config.model.partition("/"), answer.get("model")
        model_asked = (None, None) if own[0] == provider else (provider, model if isinstance(model, str) else None)
        parsed = dialect.parse({str(key): value for key, value in answer.items()})
        pieces = dialect.thinking.bind(lambda: self.asked(*model_asked).body, parsed)
        if not pieces:
            raise ProviderError(
                "answer", f"this is not an answer of {provider}'s API, or is empty; nothing was recorded"
            )
        calls = [piece for piece in pieces if isinstance(piece, ToolCall)]
        self.answered = None
        with self.batch():
            named = [replace(c, call_id=c.call_id or f"call-{self.standing().newest}") for c in calls]
            text = "".join(piece for piece in pieces if isinstance(piece, str))
            kept = [piece.block for piece in pieces if isinstance(piece, Kept)]
            compacted = [piece for piece in pieces if isinstance(piece, Compacted)]
            found = self.append_pieces(
                text, kept, distinct(named), dialect.recorded, compacted=compacted, reader=dialect.reads
            )
            for usage in (piece for piece in pieces if isinstance(piece, Usage)):
                stopped = next((piece for piece in pieces if isinstance(piece, Stopped)), None)
                data = usage_data(provider, str(answer.get("model", "")), usage, stopped)
                self.record("usage", data=data if self.answered is None else {"request": self.answered, **data})
        return found

    def append_pieces(
        self,
        text: str,
        kept: Sequence[dict[str, Any]],
        calls: Sequence[ToolCall],
        dialect: str | None,
        *,
        interrupted: bool = False,
        compacted: Sequence[Compacted] = (),
        reader: str = "",
    ) -> list[int]:
        """Record an answer as several events and return the ids of its messages; an empty answer records nothing.

        A state block at the end of the text is recorded as a separate event. No dialect repeats text in the blocks that
        go back to it. A block that contains a provider's key is left out: without the key its signature would not
        match. Each of `compacted` becomes a summary of everything before it, in the form of `reader` (`eviction`).
        """
        found, done, before = [], 0, 0
        with self.batch():
            for each in compacted:
                found += self._append_text(text[done : each.after], shifted(kept[before : each.kept], done), dialect)
                done, before = each.after, each.kept
                found.append(self._append_summary(each, reader))
            found += self._append_text(text[done:], shifted(kept[before:], done), dialect, interrupted=interrupted)
            for call in calls:
                signed = {"thought_signature": call.signature} if call.signature else None
                event_id = self.append_tool_call(
                    call.name, call.args, call_id=call.call_id, dialect=dialect, data=signed
                )
                found.append(event_id)
        return found

    def _append_text(
        self, text: str, kept: Sequence[dict[str, Any]], dialect: str | None, *, interrupted: bool = False
    ) -> list[int]:
        secrets = self.log.secrets
        kept = [block for block in kept if not secrets or secrets.hidden_in(block) == block]
        if not (text or kept):
            return []
        data, own = ({"blocks": kept}, dialect) if kept else (None, None)
        return [self.append("assistant", text, interrupted=interrupted, data=data, dialect=own)]

    def _append_summary(self, compacted: Compacted, reader: str) -> int:
        from foldmark.core.assembly.eviction import OPAQUE
        from foldmark.operations.summaries import provider_form, provider_summary  # few answers contain a summary

        form = provider_form(self.log.secrets, compacted, reader)
        receipt = self.operate(
            lambda moment, at: provider_summary(moment, at, form), actor="system", content=compacted.text or OPAQUE
        )
        return receipt.event_id

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
        self.timeline.requested = request, self.timeline.head

    def record_sent(
        self,
        request: Request,
        instruction: str | None = None,
        quoted: Sequence[Event] | None = None,
        upto: int = 0,
    ) -> SentRequest:
        """Record, as metadata, that `request`, just made for this agent, is sent to its model; return it as it is
        recorded.

        `instruction` is the last message if the log does not contain it. With `quoted`, the messages that precede it
        (`quoting`), it contains a person's words and is erased with the turn. `upto` is as for `prepare`. Raises
        StoreError, and CommandError if the agent was deleted in the meantime.
        """
        from foldmark.request.sent import record_of

        with self._store.write() as transaction:
            transaction.keep_texts({})  # from here on nothing that the request needs can be erased by others
            now = self.standing_in(transaction)
            # Others may have recorded something after it was made; the caller may have, if it is sent by other means.
            made = now if request.event == now.newest else self.stood_at(transaction, request.event)
            record = record_of(transaction, now, made, request, instruction, quoted, upto)
            time, turn = self.log.clock(), now.record.open_turn
            self.timeline.requested = None
            event_id = self._append("request", "", to_builtins(record, str_keys=True), time, actor="system")
            return SentRequest(**asdict(record), id=event_id, agent=self.id, turn=turn, created_at=time)

    def batch(self, *, newborn: bool = False) -> AbstractContextManager[Transaction]:
        """Record everything appended inside the block in one transaction: all of it or, on an error, nothing.

        With `newborn`, the same transaction also creates the agent itself (see `Log.creating`).
        """
        return self.timeline.batch(newborn=newborn)

    @property
    def open_turn(self) -> int | None:
        """The id of the open turn; None if no turn is open."""
        return self.standing().record.open_turn

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
            timeline = self.timeline
            with timeline.writing() as transaction:
                timeline.keep_until_rollback(transaction)
                if kind == "config":
                    self._forget_dialect()
                    transaction.on_rollback(self._forget_dialect)
                asked = timeline.requested
                if kind not in METADATA_KINDS:
                    timeline.requested = None  # any other event comes between the request and an answer to it
                if asked is not None and kind in ANSWER_KINDS and asked[1] == timeline.head:
                    self.answered = self.record_sent(asked[0]).id
                return timeline.append(transaction, draft, key)
        except (ValueError, TypeError, RecursionError) as error:
            raise CommandError(f"this {kind.replace('_', ' ')} cannot be recorded: {error}") from None

    def _forget_dialect(self) -> None:
        self._speaks = None

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
        return self.reader.standing(moment, self.log.given)

    @property
    def past(self) -> History:
        """All operations of the agent. Each is read once: later calls read only the new ones."""
        with self._store.read() as moment:
            return self.reader.past(moment)

    # The context and the request

    def context(self) -> Context:
        """Return the current context. It reads stored segments; messages are read on demand."""
        at = self.standing()
        if not self.timeline.batching and self.timeline.head != at.record.head:
            self.timeline.head, self._speaks = at.record.head, None  # others may have changed the settings
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
        """Return the request to which the next answer of this model belongs: the last one that `request` returned,
        if nothing else was recorded since, otherwise the next one."""
        requested = self.timeline.requested
        if requested is not None and requested[1] == self.timeline.head:
            known = requested[0]
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
            if at.record.head != self.timeline.head:  # another thread has appended meanwhile
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
                if at.record.head != self.timeline.head:
                    raise ConflictError(self.id, self.timeline.head, at.record.head)
                operation = decision(moment, at)
                data = codec.checked_data(operation)
                # The effect is computed before the transaction: the cost in thinking takes two requests to compute.
                # The event has no id yet; any id above all recorded ones gives the same context.
                likely_id = at.record.next_possible
                outcome = self.outcome(moment, at, operation, likely_id, erasing)
            with self.batch() as transaction:
                if self.timeline.head == at.record.head:
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

    # Commands and tools

    def do(self, line: str, *, actor: str = "human", asking: Asking = NOBODY) -> Result:
        """Execute a command as typed, for example "/mark BEFORE". If it raises CommandError, nothing was written.

        `asking` reaches the person who typed it: a command that erases asks first, a long one reports progress. A
        provider's key in the line is replaced by its name, even where an error quotes the line.
        """
        line = self.log.secrets.hidden(line) if isinstance(line, str) else line
        return self.log.program.do(self, line, actor, asking)

    def call_tool(self, name: str, args: Mapping[str, Any], *, asking: Asking = NOBODY) -> str:
        """Run a tool as the model would, and return its result [SPEC 4.1].

        Raises CommandError for an unknown tool or wrong arguments, worded for the model.
        """
        offered = [spec.name for spec in self.tools()]
        if name not in offered:
            raise CommandError(f"there is no tool '{str(name)[:40]}'; available: {listing(offered, 40) or 'none'}")
        answer: Any = self.log.call_tool(self, name, args, asking)
        if not isinstance(answer, str):  # a program's own tool
            raise CommandError(f"{name} answered with a {type(answer).__name__} instead of a text")
        return self.log.secrets.hidden(answer)


class ModelTool(Protocol):
    """A tool that models may call: Foldmark's own, the program's, or an MCP server's."""

    @property
    def spec(self) -> ToolSpec:
        """The specification that the model sees."""

    @property
    def together(self) -> bool:
        """True if it may run in parallel with other calls of the same answer: it changes nothing they could see."""

    def __call__(self, agent: Agent, args: Mapping[str, Any], asking: Asking) -> str:
        """Run it. Raises CommandError, worded for the model, for wrong arguments."""


class Program(Protocol):
    """What acts on the agents of a log from above, at the word of a person or a model: the commands and the tools."""

    @property
    def tools(self) -> Mapping[str, ModelTool]:
        """Foldmark's own tools by name."""

    def do(self, agent: Agent, line: str, actor: str, asking: Asking) -> Result:
        """Execute a command (see `Agent.do`)."""


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


def _with_commands(spec: ToolSpec, commands: list[str]) -> ToolSpec:
    """Return `slash` restricted to these commands; any other tool unchanged."""
    if spec.name != "slash":
        return spec
    properties = spec.parameters["properties"]
    narrowed = {**properties, "command": {**properties["command"], "enum": commands}}
    return replace(spec, parameters={**spec.parameters, "properties": narrowed})


class Log:
    """All conversations of one database. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        new_id: NewId,
        program: Program,
        given: Settings = Settings(),  # noqa: B008 - it is frozen
        secrets: Secrets = Secrets(),  # noqa: B008 - it does not change
    ) -> None:
        self.store, self.clock, self.new_id, self.program = store, clock, new_id, program
        self.given, self.secrets, self.vectors = given, secrets, store.vectors
        self.added: dict[str, ModelTool] = {}
        self._meanings: StoredVectors | None = None
        self._loading = Lock()
        self.listeners: list[Callable[[Happening, str], None]] = []
        # One object per agent: all users of an agent in this process share the head that its next append expects.
        self._agents: WeakValueDictionary[str, Agent] = WeakValueDictionary()

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the database."""
        self.store.close()

    def add_tool(self, tool: ModelTool) -> None:
        """Add a tool for the models of all conversations until this log is closed. Raises CommandError if the name is
        taken."""
        if not isinstance(getattr(tool, "spec", None), ToolSpec) or not callable(tool):
            raise CommandError(f"a tool must have a `spec` and be callable, not {tool!r:.80} (docs/library.md)")
        if tool.spec.name in [spec.name for spec in self.tools()]:
            raise CommandError(f"there is a tool '{tool.spec.name}' already; give yours another name")
        self.added[tool.spec.name] = tool

    def remove_tool(self, name: str) -> None:
        """Remove an added tool; do nothing for an unknown name."""
        self.added.pop(name, None)

    def tools(self) -> list[ToolSpec]:
        """Return all tools; `Agent.tools` returns those offered to one agent's model."""
        own = [tool.spec for tool in self.program.tools.values()]
        return [*own, *(self._without_keys(tool.spec) for tool in self.added.values())]

    def call_tool(self, agent: Agent, name: str, args: Mapping[str, Any], asking: Asking) -> str:
        """Run a tool for an agent (see `Agent.call_tool`)."""
        return (self.added.get(name) or self.program.tools[name])(agent, args, asking)

    def tell(self, happening: Happening, agent_id: str) -> None:
        """Notify every listener of a happening of an agent; thread-safe."""
        for listener in tuple(self.listeners):
            listener(happening, agent_id)

    def agent(self, name: str) -> Agent:
        """Return the conversation with this name, creating it if needed; or the agent with this uuid, which must exist.

        Raises CommandError for an unknown or deleted uuid or a name that is empty, too long or not printable.
        """
        with self.store.read() as moment:
            record = moment.agent(name.lower()) if is_uuid(name) else self._named(moment, name)
            if record is None and is_uuid(name):
                raise CommandError(f"there is no agent {name}; {self._there_are(moment)}")
        if record is None:
            check_name(name)
            new = self._root(name)
            with self.store.write() as transaction:
                record = self._named(transaction, name)  # another process may have created it just now
                if record is None:
                    record = new
                    transaction.create_agent(new, birth(new.id), Size(0, 0))
        return self._object(record)

    @contextmanager
    def creating(self, name: str) -> Iterator[Agent]:
        """Create a conversation and record everything appended inside the block in one transaction: all or nothing.

        Raises the same errors as `check_new`.
        """
        self.check_new(name)
        agent = self._object(self._root(name))
        with agent.batch(newborn=True):
            yield agent

    def find(self, name: str, *, create: bool = False) -> Agent:
        """Return the existing agent with this name, uuid or unique beginning of a uuid. Raises CommandError.

        With `create`, a conversation of this name is created if nothing is found.
        """
        with self.store.read() as moment:
            record = self._named(moment, name) or (moment.agent(name.lower()) if name.isprintable() else None)
            if record is not None:
                return self._object(record)
            # With `create`, a short name is never read as the beginning of a uuid, however few agents there are.
            least = 4 if create else 1
            near = [each for each in moment.agents() if len(name) >= least and each.id.startswith(name.lower())]
            near = [each for each in near if not each.deleted] or near[:1]
            if len(near) > 1:
                found = listing(each.id for each in near)
                raise CommandError(f"several uuids begin with '{name}': {found}; type more of it")
            if not near and not create:
                raise CommandError(f"there is no conversation or agent '{name}'; {self._there_are(moment)}")
        return self._object(near[0]) if near else self.agent(name)

    def exists(self, name: str) -> bool:
        """Return True if there is a conversation with this name."""
        with self.store.read() as moment:
            return self._named(moment, name) is not None

    def agents(self) -> list[Agent]:
        """Return all agents that are not deleted, oldest first."""
        with self.store.read() as moment:
            return [self._object(record) for record in moment.agents() if not record.deleted]

    def changes(self, after: str | None = None, limit: int = 100, *, wait: float = 0.0) -> Changes:
        """Return changes by any process after the cursor `after`, by default from now on (see `listening.changes`)."""
        return changes(self.store, after, limit, wait)

    def search(self, query: str, limit: int = 10, filters: Filters = ANY, mode: Mode = "auto") -> list[Hit]:
        """Return the messages of all conversations that match `query`, best first, including forgotten ones [SPEC 7].

        Any text is a query: words in any order, "adjacent words in quotes", prefixes such as `migrat*`, or a whole
        question; messages with all of its words come before those with some. `limit` is 1 to 1000. Writes nothing.
        `mode` is text (words), vector (meanings), both, or auto: both where `meanings` has vectors. Raises CommandError
        if `query` contains no word, or if there are no vectors in mode vector.
        """
        if not isinstance(query, str):
            raise CommandError(f"a query must be a str, not {type(query).__name__}")
        from foldmark.log.outlines import similarities
        from foldmark.recall.query import read  # takes 5 ms, only needed for a search
        from foldmark.recall.searching import MOST_HITS, search

        check_limit(limit, MOST_HITS)
        wanted, alike = read(query), similarities(query, mode, [self])
        with self.store.read() as moment:
            index = self.index(moment, filters)
            return self.hits(index, wanted, search(wanted, limit, [index], alike, by_words=mode != "vector"))

    def meanings(self) -> "StoredVectors":
        """Return the vectors of all messages, made by the model in the setting `recall_model`; `bring_up` adds missing
        ones. Raises EmbeddingError if the model cannot be used."""
        with self._loading:
            if self._meanings is None:
                from foldmark.recall.embeddings.model import kept

                embedder = kept(self.given.recall_model)
                from foldmark.recall.embeddings.stored import StoredVectors

                self._meanings = StoredVectors(self.vectors, embedder)
        return self._meanings

    def index(self, moment: Snapshot, filters: Filters = ANY) -> LogIndex:
        """Return an index of the messages of all conversations that pass `filters`, to search together with other
        indexes; planning conversations are excluded."""
        from foldmark.log.outlines import passing

        agents = passing(moment.agents(), filters) if filters.agent or filters.project else None
        return moment.index(SearchScope(filters, agents, self.outlines(moment)))

    def hits(self, index: LogIndex, query: "Query", places: Sequence[RankedMessage]) -> list[Hit]:
        """Return the hits at these places of an index, in the same order."""
        from foldmark.text.highlights import snippet, spans

        return [
            replace(
                hit,
                score=place.displayed_score,
                snippet=(line := snippet(place.text, query.terms)),
                highlights=tuple(spans(line, query.terms)),
            )
            for hit, place in zip(index.hits([place.id for place in places]), places, strict=True)
        ]

    def outlines(self, moment: Snapshot) -> "Outlines":
        """Return the outlines of agents: their visible messages, and their planning conversations."""
        from foldmark.log.outlines import Outlines

        return Outlines(moment, lambda agent_id: self._object(moment.head(agent_id).record).standing_in(moment).visible)

    def around(self, event_id: int, reach: int = 3) -> "list[Neighbour]":
        """Return a message with up to `reach` messages of its agent on each side, in order: each as `event`, with
        `visible` (whether it is in the agent's context) and `erased`.

        Raises CommandError for an unknown id.
        """
        from foldmark.log.outlines import around

        with self.store.read() as moment:
            return around(moment, lambda agent_id: self.agent(agent_id).standing_in(moment).visible, event_id, reach)

    def check_model(self, name: str) -> None:
        """Raise CommandError unless `name` is `offline` or `provider/model` of a known provider."""
        from foldmark.providers.registry import check_model

        check_model(name, self.given.dialects)

    def model_named(self, name: str) -> "Model":
        """Return the known facts about a model, named as in `Config.model`; the settings override the table [SPEC
        10]."""
        from foldmark.tokens.models import model_of

        provider, _, model = name.partition("/")
        return model_of(provider, model or provider, self.given.models, self.given.dialects)

    def check_new(self, name: str) -> None:
        """Raise CommandError if a conversation with this name already exists or the name is invalid."""
        check_name(name)
        if self.exists(name):
            raise CommandError(
                f"a conversation '{name}' already exists; choose another name (`foldmark import` takes --as)"
            )

    def _named(self, moment: Snapshot, name: str) -> AgentRecord | None:
        # No agent has an unprintable name. Such a name could contain lone surrogates, which no database accepts.
        return next(iter(moment.agents(name=self.secrets.hidden(name))), None) if name.isprintable() else None

    def _root(self, name: str) -> AgentRecord:
        return AgentRecord(self.new_id(), self.secrets.hidden(name), None, 0, self.clock())

    def _without_keys(self, spec: ToolSpec) -> ToolSpec:
        hidden = self.secrets.hidden_in
        return replace(spec, description=hidden(spec.description), parameters=hidden(spec.parameters))

    def _object(self, record: AgentRecord) -> Agent:
        if record.deleted:
            with self.store.read() as moment:
                if (end := end_of(moment, record.id)) is not None:
                    raise CommandError(f"{end.sentence}; {self._there_are(moment)}")
        agent = self._agents.get(record.id)
        if agent is None:
            agent = self._agents[record.id] = Agent(self, record)
        return agent

    @staticmethod
    def _there_are(moment: Snapshot) -> str:
        names = [record.name for record in moment.agents() if record.name]
        return (
            f"conversations: {listing(names)}" if names else "there is no conversation yet. `foldmark chat` starts one"
        )
