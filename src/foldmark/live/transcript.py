"""The transcript of one agent of a client, and its agent in the log [SPEC 5.7].

A client sends its whole transcript with each request. This module compares it with the log: new messages are appended,
and messages that the client no longer sends leave the context, by an operation of actor `system` that can be restored.
The mapping from blocks to events is kept in the log too, as `record` events with the data `live`, so that another
gateway can continue where this one ended.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from msgspec import to_builtins
from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.errors import ConflictError, FoldmarkError
from foldmark.core.events import Fork
from foldmark.core.segments import END
from foldmark.cost.ledger import EditShares, Ledger, answered, counted, ledger_in, shares_in
from foldmark.editing.evicting import evict
from foldmark.live.clients.dialect import ClientAnswer, ClientDialect
from foldmark.live.prompts import as_sent
from foldmark.live.recognizing import forms_data, forms_in
from foldmark.live.sizes import PassedOn, sizes
from foldmark.live.status import taken_out
from foldmark.live.view import TranscriptView
from foldmark.log import Agent, Log, Result
from foldmark.log.live_session import client_session
from foldmark.overlay.ledger import TOLD, KnownMessage, append_part, followed, leave, ledger_data
from foldmark.overlay.pieces import ClientMessage
from foldmark.request.client_requests import LEFT
from foldmark.request.client_sizes import LOCAL, REFUSED, SENT
from foldmark.request.passed_requests import gateway_record
from foldmark.request.usage import usage_data, usage_of
from foldmark.wires.parts import CallMessage, Part, TextMessage

T = TypeVar("T")
C = TypeVar("C", bound="ClientTranscript")

CHILD = "a sub-agent of the client"
"""The reason recorded with the fork that creates the agent of a sub-agent."""

_LENGTHS = (8, 13, 18)
"""Numbers of characters of a session's id used in its conversation's name: up to a hyphen of a UUID."""

_ATTEMPTS, _PAGE = 10, 1000


class ClientTranscript(TranscriptView):
    """The messages of one agent of a client, and their recording. `create` creates the agent of a new session. `named`
    is the id that the client gave to a sub-agent.

    `children` are the agents of the client's sub-agents, by the ids that the client gave them. `ledger` has the sums
    over all requests, and `edit_shares` the part of each operation in them. `filled` are the tokens of the newest
    request and its answer. `resumed` is True if messages are known that another gateway has recorded, and no request of
    this one has come yet. `noted` are the notices that were given once for all. `idle_limit` are the tokens from which
    the client compacts the session by itself while it is idle; None if it does not.
    """

    def __init__(
        self,
        agent: Agent | None,
        session: str,
        dialect: ClientDialect,
        create: Callable[[], Agent] | None = None,
        named: str = "",
    ) -> None:
        super().__init__(agent, session, dialect)
        self.ledger, self.edit_shares, self.named = Ledger(), EditShares(), named
        self.children: dict[str, str] = {}
        self.filled, self.noted = 0, frozenset[str]()
        self.idle_limit: int | None = None
        self._create, self._begun = create, False
        self._replied = False  # a text of Foldmark's own stands before the next answer
        self._pending: list[tuple[int, dict[str, Any]]] = []
        self._measured: Sequence[KnownMessage] = ()
        self._passed: dict[int, PassedOn] = {}  # since the newest answer, by their records
        self._uncounted = False  # the newest answer had no usage: then no sizes follow from any
        self._out = 0, 0  # the newest operation, and the tokens that operations take out
        self._priced = 0  # the newest event that the edit of the newest answer knew
        if agent is not None:
            self._load(agent)
        self.resumed = bool(self.known)

    def begin(self) -> None:
        """Create the agent if needed, and record that a gateway records it."""
        if self._agent is None:
            assert self._create is not None
            agent = self._create()
            self._load(agent)
            self._agent = agent
        if not self._begun:
            self._retried(self._begin)
            self._begun = True

    def _load(self, agent: Agent) -> None:
        after = 0
        while page := agent.events(after, _PAGE):
            after = page[-1].id
            for event in page:
                if (about := gateway_record(event)) is not None:
                    self._begun = True
                    self._follow(event.id, about)
                    self._remember(about)
                elif event.kind == "usage" and SENT in (event.data or {}):  # the sums are in a record
                    self._passed = {}
                    self.ledger = counted(self.ledger, event, agent.log.model_named)
                    usage = usage_of(event.data)
                    self.filled = self.filled if usage is None else usage.input + usage.output

    def _remember(self, about: Mapping[str, Any]) -> None:
        """Remember what another gateway has recorded of commands that were typed while the agent worked."""
        if "executed" in about:
            self.note_executed(*about["executed"])
        if "said" in about:
            self.note_said(about["said"])
        self.noted |= {about["noted"]} if "noted" in about else set()
        if "answered" in about:
            self.note_answered()

    def take(
        self, messages: Sequence[ClientMessage], model: str, *, asks: bool = True, passed: PassedOn | None = None
    ) -> None:
        """Record the client's new messages, the messages that it no longer sends, the model if there is a name, and the
        request if it is `passed` on. `asks` has the same meaning as in `places`."""
        self.begin()
        agent, named = self.agent, f"{self.dialect.provider}/{model}"
        if model and agent.standing().config.model != named:
            with suppress(FoldmarkError):
                agent.context()
                agent.configure("model", named, actor="system")
        places = self.places(messages, asks=asks, known=self.known)
        self.known = self.as_sent(messages, places)
        passed = None if self._uncounted else passed
        if passed is not None or places != list(range(len(self.known))):
            self._retried(partial(self._take, places, messages, passed))
        if passed is not None:
            self._passed[max(self._passed)] = passed

    def take_answer(self, passed: PassedOn, answer: ClientAnswer) -> None:
        """Record the answer to a request, unless the client has sent more since then."""
        if len(self.known) == len(passed.messages):
            self._retried(partial(self._take_answer, passed, answer))
            self._uncounted = answer.usage is None
            if answer.usage is not None:
                self._measured, self.filled = self.known, answer.usage.input + answer.usage.output
                self._passed = {}

    def take_reply(self, reply: str) -> None:
        """Note that Foldmark's own reply, by its key, is the newest message. It is not recorded as one."""
        self._retried(lambda: self._note(range(len(self.known)), [KnownMessage(reply, (LOCAL,))]))

    def take_note(self, name: str, about: Any) -> None:
        """Note what another gateway has to know: that a command was `executed` (its key and its reply), that a text was
        `said` before an answer, or that a notice was given (`noted`)."""
        self.begin()
        self._retried(lambda: self._record({name: about}))

    def open_message(self, message: ClientMessage, local: Container[int]) -> list[Part | None]:
        """Begin to record a message in several steps: return the content of its blocks but for the blocks `local`."""
        return self._retried(lambda: self._opened(message, local))

    def add_parts(self, parts: Sequence[Part | None], first: int, end: int, local: Container[int]) -> tuple[int, ...]:
        """Record the content of the blocks `first` to `end` (exclusive), and return the event of each."""
        own = {block - first for block in range(first, end) if block in local}
        return self._retried(lambda: self._append_parts(parts[first:end], own))

    def close_message(self, message: ClientMessage, ids: Sequence[int], parts: Sequence[Part | None]) -> None:
        """End the recording of a message, whose blocks have these events."""

        def noted() -> None:
            self._closed(parts)
            more = forms_data(self.dialect, [message])
            self._note(range(len(self.known)), [KnownMessage.of(message.key, ids)], more)

        self._retried(noted)

    def end_turn(self) -> None:
        """End the open turn, if any, as interrupted."""
        if self.agent.open_turn is not None:
            self._retried(lambda: self.agent.end_turn(interrupted=True))

    def evict(self, results: Sequence[int], reason: str) -> Result:
        """Evict these results."""
        return self._retried(lambda: evict(self.agent, results, reason=reason))

    def note_prevented(self) -> None:
        """Count a request that was passed on unedited because an edit failed."""
        self.begin()
        self._retried(lambda: self._record({}, replace(self.ledger, prevented=self.ledger.prevented + 1)))

    def note_refused(self, passed: PassedOn, status: int) -> None:
        """Note that the provider refused a request or never got it. Those that it refused for good are counted."""
        self.begin()
        ledger, own = replace(self.ledger, refused=self.ledger.refused + (status < 500)), self._passed_as(passed)
        self._retried(lambda: self._record({} if own is None else {REFUSED: own}, ledger))

    def note_question(self, answer: ClientAnswer) -> None:
        """Count a question of Foldmark's own. The next record has the sum: one now would make the command that asked it
        begin again."""
        if answer.usage is not None:
            known = self.agent.log.model_named(f"{self.dialect.provider}/{answer.model}")
            self.ledger = self.ledger.asked(answer.usage, known)

    def edits(self) -> tuple[int, int]:
        """Return the tokens that were taken out, and the number of operations by people and models. The tokens are
        computed when the operations have changed: messages that are added since are all sent."""
        with self.agent.reading() as (moment, at):
            operations = selections.operations(moment, self.agent.id)
            newest = operations[-1].id if operations else 0
            if newest != self._out[0]:
                self._out = newest, taken_out(moment, at)
        return self._out[1], sum(event.actor != "system" for event in operations)

    def _passed_as(self, passed: PassedOn) -> int | None:
        """Return the record of a request that was passed on."""
        return next((id for id, each in self._passed.items() if each.messages is passed.messages), None)

    def child(self, named: str) -> Agent:
        """Return the agent of a sub-agent of the client, creating it if needed. It inherits no messages."""
        self.begin()
        log = self.agent.log
        if named not in self.children:
            own = log.new_id()

            def born() -> None:
                self.agent.operate(lambda _, at: Fork(own, (), settings=at.settings), actor="system", reason=CHILD)
                self._record({"child": [named, own]})

            self._retried(born)
        return log.agent(self.children[named])

    def _begin(self) -> None:
        self._record({"session": self.session, "wire": self.dialect.name})
        if self.agent.standing().config.sliding_context_tokens:
            # The client decides how far back its requests reach; a chat on this conversation must not show another
            # window.
            self.agent.configure("sliding_context_tokens", 0, actor="system")

    def _take(
        self, places: Sequence[int | None], messages: Sequence[ClientMessage], passed: PassedOn | None = None
    ) -> None:
        kept = set(places)
        if gone := self.gone(kept):
            self._leave(gone)
        first = places.index(None) if None in kept else len(places)
        new = messages[first:]
        commands = self.commands(new, self.agent.log.given.live_sign)
        added = [
            KnownMessage.of(message.key, self._append(message, commands.get(at, ())))
            if place is None
            else self.known[place]
            for at, (message, place) in enumerate(zip(new, places[first:], strict=True))
        ]
        more = forms_data(self.dialect, (each for each, at in zip(new, places[first:], strict=True) if at is None))
        at = [place for place in places[:first] if place is not None]
        if passed is not None:
            more |= sizes(self.dialect, self._measured, [*(self.known[place] for place in at), *added], passed)
        self._note(at, added, more)

    def _leave(self, gone: list[int]) -> None:
        """Remove these events from the context, and end the turn of a person's or a model's message among them."""
        told = {id for each in self.known for id in each.told}
        if not told.issuperset(gone):
            self.agent.end_turn(interrupted=True)
        leave(self.agent, gone, LEFT)

    def _append(self, message: ClientMessage, local: Sequence[int] = ()) -> tuple[int, ...]:
        """Record a message except for the blocks `local`, and return the event of each block."""
        parts = self._opened(message, local)
        ids = self._append_parts(parts, local)
        self._closed(parts)
        return ids

    def _opened(self, message: ClientMessage, local: Container[int]) -> list[Part | None]:
        """Begin a turn if a message begins one, and return the content of its blocks except for the blocks `local`."""
        sent = as_sent(self.dialect, message, self.agent.log.given.live_sign)
        both = enumerate(zip(self.dialect.parts(sent), self.dialect.told(sent), strict=True))
        parts = [None if block in local else part or told for block, (part, told) in both]
        opens = any(
            isinstance(part, TextMessage) and part.kind == "user" and self.dialect.opens(part) for part in parts
        )
        if opens and not message.results and not any(map(self.dialect.is_interruption, parts)) and self._has_begun():
            self.agent.end_turn(interrupted=True)  # no answer ended the previous turn
        return parts

    def _has_begun(self) -> bool:
        """Return True if the open turn holds more than what the client told before the prompt."""
        turn = self.agent.open_turn
        if turn is None:
            return False
        with self.agent.reading() as (moment, _):
            return any(each.kind != "client" for each in moment.turns([turn])[turn])

    def _closed(self, parts: Iterable[Part | None]) -> None:
        if any(map(self.dialect.is_interruption, parts)):
            self.agent.end_turn(interrupted=True)

    def _append_parts(self, parts: Iterable[Part | None], local: Container[int] = ()) -> tuple[int, ...]:
        """Record the content of a message's blocks, except for the blocks `local`; return the event of each block, as
        `KnownMessage.of` reads them."""
        return tuple(
            LOCAL if block in local else 0 if part is None else self._append_part(part)
            for block, part in enumerate(parts)
        )

    def _append_part(self, part: Part) -> int:
        event_id = append_part(self.agent, part, self.dialect.dialect)
        return TOLD - event_id if part.kind == "client" else event_id

    def _take_answer(self, passed: PassedOn, answer: ClientAnswer) -> None:
        agent, ledger, shares = self.agent, self.ledger, self.edit_shares
        # The key of the message that the answer forms together with the newest one.
        joined = self.dialect.continued(passed.messages[-1], answer) if passed.messages else None
        ids = self._append_parts(answer.parts, (0,) if passed.said else ())
        if joined is None:
            kept, added, blocks = self.known, KnownMessage(answer.key, ids), answer.blocks
        else:
            kept, added = self.known[:-1], replace(self.known[-1], key=joined, ids=(*self.known[-1].ids, *ids))
            blocks = (*passed.messages[-1].blocks, *answer.blocks)
        if answer.usage is not None:
            known = agent.log.model_named(f"{self.dialect.provider}/{answer.model}")
            own, before, self._priced = self._passed_as(passed), self._priced, passed.known
            ledger, shares = answered(agent, ledger, shares, answer.usage, known, before, passed.known, own or END)
            unanswered = [id for id in self._passed if id != own]
            passed = passed if own is None else self._passed[own]
            about = sizes(self.dialect, self._measured, [*kept, added], passed, answer, unanswered)
            data = usage_data(self.dialect.provider, answer.model, answer.usage, answer.stopped)
            agent.record("usage", data={**data, **about})
        if not any(isinstance(part, CallMessage) for part in answer.parts):
            agent.end_turn()
        more = forms_data(self.dialect, [ClientMessage("assistant", tuple(blocks), added.key, thinks=True)])
        if passed.prefix is not None:
            more["bound"] = {answer.key: passed.prefix}
        if self._replied:
            more["answered"] = True  # the replies to commands have been shown with it
        if shares is not self.edit_shares:
            more["shares"] = to_builtins(shares)
        self._note(range(len(kept)), [added], more, ledger)

    def _note(
        self,
        places: Sequence[int],
        added: Sequence[KnownMessage],
        more: Mapping[str, Any] | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._record({**ledger_data(places, added), **(more or {})}, ledger)

    def _record(self, about: dict[str, Any], ledger: Ledger | None = None) -> None:
        about = {**about, "sums": (ledger or self.ledger).data()}  # the newest record carries the sums
        self._pending.append((self.agent.record("record", data={"live": about}), about))

    def _retried(self, change: Callable[[], T]) -> T:
        """Make a change in one transaction; retry after other writers' appends, since a gateway holds no lease."""
        for attempt in range(_ATTEMPTS):
            self._pending = []
            try:
                with self.agent.batch():
                    done = change()
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
                self.agent.context()
                continue
            for event_id, about in self._pending:
                self._follow(event_id, about)
            return done
        raise AssertionError

    def _follow(self, event_id: int, about: dict[str, Any]) -> None:
        """Apply a recorded change to this object."""
        if "child" in about:
            named, own = about["child"]
            self.children = {**self.children, named: own}
        self.ledger = ledger_in(about) or self.ledger
        if (shares := shares_in(about)) is not None:
            self.edit_shares, self.ledger = shares, replace(self.ledger, shares=event_id)
        if SENT in about:
            self._passed[event_id] = PassedOn([])
        self._passed.pop(about.get(REFUSED, 0), None)
        self._replied = ("executed" in about or "said" in about or self._replied) and "answered" not in about
        if "added" not in about:
            return
        if forms := forms_in(about):
            self.forms = {**self.forms, **forms}
        before, known = self.known, followed(self.known, about)
        if len(known) - len(about["added"]) < len(before):
            sent = {id for each in known for id in each.ids}
            gone = (id for each in before for id in each.ids if id > 0 and id not in sent)
            self.left = {**self.left, **dict.fromkeys(gone)}
        if about.get("bound"):
            self.bound = {**self.bound, **about["bound"]}
        self.known = known


def sub_agent(root: ClientTranscript, named: str) -> ClientTranscript:
    """Return the transcript of a sub-agent of the client. A new one is created in the log once it is recorded."""
    agent = root.agent.log.agent(root.children[named]) if named in root.children else None
    return ClientTranscript(agent, root.session, root.dialect, partial(root.child, named), named)


def named_transcript(log: Log, folder: str, session: str, dialect: ClientDialect, kind: type[C]) -> C:
    """Return the transcript of a session that the client names, of this `kind`; its conversation is created once it is
    recorded."""
    name = session_name(log, folder, session)
    agent = log.agent(name) if log.exists(name) else None
    return kind(agent, session, dialect, lambda: log.agent(session_name(log, folder, session)))


def session_name(log: Log, folder: str, session: str) -> str:
    """Return the name of a session's conversation: the folder and the beginning of the session's id, as long as needed
    to distinguish it from other sessions, since ids may begin with the time."""
    for length in (*_LENGTHS, len(session)):
        name = f"{folder} · {session[:length]}"
        if not log.exists(name) or client_session(log.agent(name)) in (None, session):
            break
    return name


def binds(log: Log, dialect: ClientDialect, model: str) -> bool:
    """Return True if a model binds its thinking to what precedes it."""
    known = log.model_named(f"{dialect.provider}/{model}").binds
    return dialect.binds(model) if known is None else known
