"""The transcript of one agent of a client, and its agent in the log [SPEC 5.7].

A client sends its whole transcript with each request. This module compares it with the log: new messages are appended,
and messages that the client no longer sends leave the context, by an operation of actor `system` that can be restored.
The mapping from blocks to events is kept in the log too, as `record` events with the data `live`, so that another
gateway can continue where this one ended.
"""

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from foldmark.core.assembly.eviction import begins, in_place, placeholder
from foldmark.core.errors import ConflictError
from foldmark.core.events import Event, Fork
from foldmark.core.ports import Snapshot
from foldmark.core.segments import contains
from foldmark.live.clients.dialect import ClientAnswer, ClientDialect, ClientMessage
from foldmark.live.leaving_out import LOCAL, KnownMessage, aligned, asked_in
from foldmark.live.prompts import command_in
from foldmark.log import Agent
from foldmark.log.live_session import LEFT, gateway_record
from foldmark.operations.decide import exactly
from foldmark.request.planning import talk
from foldmark.request.standing import Standing
from foldmark.request.usage import usage_data
from foldmark.sessions.messages import CallMessage, Part, ResultMessage, TextMessage

T = TypeVar("T")

CHILD = "a sub-agent of the client"
"""The reason recorded with the fork that creates the agent of a sub-agent."""

_ATTEMPTS, _PAGE = 10, 1000


class ClientTranscript:
    """The messages of one agent of a client. `known` are those that it sends, `left` the events of those that it no
    longer sends. `bound` maps an answer's key to the prefix that its thinking is bound to, where that differs from what
    the client sent.

    `children` are the agents of the client's sub-agents, by the ids that the client gave them. `prevented` counts the
    requests that were passed on unchanged because an edit failed.
    """

    def __init__(self, agent: Agent, session: str, dialect: ClientDialect) -> None:
        self.agent, self.dialect, self.session = agent, dialect, session
        self.prevented = 0
        self.known: list[KnownMessage] = []
        self.left: dict[int, None] = {}
        self.bound: dict[str, str] = {}
        self.children: dict[str, str] = {}
        self._pending: list[dict[str, Any]] = []
        self._placeholders: dict[int, tuple[int, str]] = {}
        begun, after = False, 0
        while page := agent.events(after, _PAGE):
            after = page[-1].id
            for about in filter(None, map(gateway_record, page)):
                begun = True
                self._follow(about)
        if not begun:
            self._retried(lambda: self._begin(session))

    @property
    def edited(self) -> bool:
        """True if a request may have to differ from what the client sends, regardless of the context."""
        return bool(self.bound) or any(LOCAL in each.ids for each in self.known)

    def placeholders(self, moment: Snapshot, evicted: Mapping[int, int]) -> dict[int, str]:
        """Return the placeholder sent for each evicted result; `evicted` is result -> operation, as in a fold."""
        new = [id for id in evicted if self._placeholders.get(id, (0, ""))[0] != evicted[id]]
        if new:
            found = {
                event.id: (evicted[event.id], placeholder(event, evicted[event.id])) for event in moment.events(new)
            }
            self._placeholders.update(found)
        return {id: self._placeholders[id][1] for id in evicted if id in self._placeholders}

    def inserted(self, moment: Snapshot, at: Standing, known: Sequence[KnownMessage]) -> Iterator[tuple[int, bytes]]:
        """Yield the messages that the context shows but the client does not send: summaries, and messages that the
        client left out and a person restored. `known` are the messages of a request."""
        agent, planned = at.record.id, talk(moment, at)
        sent = {id for each in known for id in each.ids}
        gone = sorted({id for each in self.known for id in each.ids if id > 0} - sent)
        wanted = {id for id in self.left if id not in sent}
        if "summary" in at.newest_of:
            wanted |= {event.id for event in moment.operations(agent) if event.kind == "summary"}
        wanted -= set(gone)  # these are about to leave, because the client no longer sends them
        wanted = {id for id in wanted if contains(at.visible, agent, id) and not contains(planned, agent, id)}
        if not wanted:
            return
        places = sorted(id for id in sent if id > 0)
        run: list[tuple[int, Event]] = []

        def flushed() -> Iterator[tuple[int, bytes]]:
            if run:
                for raw in self.dialect.messages_of(event for _, event in run):
                    yield run[0][0], raw

        for event in in_place(moment.events(sorted(wanted))):
            place = begins(event)
            if run and bisect_left(places, run[0][0]) != bisect_left(places, place):
                yield from flushed()
                run.clear()
            run.append((place, event))
        yield from flushed()

    def places(self, messages: Sequence[ClientMessage], *, asks: bool) -> list[int | None]:
        """Return the place in `known` of each of the client's messages, None for a new one. With `asks`, they are a
        request: a prompt that has left the context counts as new if it is asked again."""
        asked = asked_in(messages) if asks else len(messages)
        places = aligned(self.known, messages, asked)
        place = places[asked] if asked < len(messages) else None
        if place is None or messages[asked].results:
            return places
        agent, ids = self.agent, [id for id in self.known[place].ids if id > 0]
        visible = agent.standing().visible
        if ids and not any(contains(visible, agent.id, id) for id in ids):
            places[asked:] = [None] * (len(messages) - asked)
        return places

    def take(self, messages: Sequence[ClientMessage], *, asks: bool) -> None:
        """Record the client's new messages and those that it has left out; `asks` as in `places`."""
        places = self.places(messages, asks=asks)
        if places != list(range(len(self.known))):
            self._retried(partial(self._take, places, messages))

    def take_answer(self, after: Sequence[ClientMessage], answer: ClientAnswer, prefix: str | None) -> None:
        """Record the answer to the messages `after`, unless the client has sent more since then. `prefix` is the prefix
        that its thinking is bound to, None if that is what the client sent."""
        if len(self.known) == len(after):
            joined = self.dialect.continued(after[-1], answer) if after else None
            self._retried(partial(self._take_answer, answer, prefix, joined))

    def take_local(self, place: tuple[int, int], prompt: ClientMessage, reply: str) -> None:
        """Note a command to Foldmark at a place (message, block), and the key of its reply; neither is recorded as a
        message. Messages that the client adds after a prompt precede the reply."""
        at, local = place
        own = {local} | ({local - 1} if local and self.dialect.announces(prompt.blocks[local - 1]) else set())

        def noted() -> None:
            asked = KnownMessage(prompt.key, self._append_parts(self.dialect.parts(prompt), own))
            self._note(range(at), [asked, *self.known[at:], KnownMessage(reply, (LOCAL,))])

        self._retried(noted)

    def end_turn(self) -> None:
        """End the open turn, if any, as interrupted."""
        if self.agent.open_turn is not None:
            self._retried(lambda: self.agent.end_turn(interrupted=True))

    def note_prevented(self) -> None:
        """Count a request that was passed on unchanged because an edit failed."""
        self._retried(lambda: self._record({"prevented": self.prevented + 1}))

    def child(self, named: str) -> Agent:
        """Return the agent of a sub-agent of the client, creating it if needed. It inherits no messages."""
        log = self.agent.log
        if named not in self.children:
            own = log.new_id()

            def born() -> None:
                self.agent.operate(
                    lambda _, at: Fork(own, (), settings=at.settings),
                    actor="system",
                    reason=CHILD,
                )
                self._record({"child": [named, own]})

            self._retried(born)
            self.children[named] = own
        return log.agent(self.children[named])

    def _begin(self, session: str) -> None:
        self._record({"session": session, "wire": self.dialect.name})
        if self.agent.standing().config.sliding_context_tokens:
            # The client decides how far back its requests reach; a chat on this conversation must not show another
            # window.
            self.agent.configure("sliding_context_tokens", 0, actor="system")

    def _take(self, places: Sequence[int | None], messages: Sequence[ClientMessage]) -> None:
        kept = set(places)
        gone = [id for place, each in enumerate(self.known) if place not in kept for id in each.ids if id > 0]
        if gone:
            self._leave(gone)
        first = places.index(None) if None in kept else len(places)
        new = messages[first:]
        commands = self.commands(new)
        added = [
            KnownMessage(message.key, self._append(message, commands.get(at, ())))
            if place is None
            else self.known[place]
            for at, (message, place) in enumerate(zip(new, places[first:], strict=True))
        ]
        self._note([place for place in places[:first] if place is not None], added)

    def commands(self, new: Sequence[ClientMessage]) -> dict[int, tuple[int, ...]]:
        """Return the messages that are certainly commands to Foldmark or its replies, with the numbers of their blocks.
        A client may repeat them in another transcript, such as a sub-agent's, and may leave out the replies there."""
        found: dict[int, tuple[int, ...]] = {}
        for place, message in enumerate(new):
            if message.role == "user" and (block := self._command(message, new[place + 1 :])) is not None:
                found[place] = (block,)
            elif self.dialect.is_reply(message):
                found[place] = tuple(range(len(message.blocks)))
                asked = next((at for at in range(place - 1, -1, -1) if new[at].role == "user"), None)
                prompt = None if asked is None else self.dialect.prompt(new[asked])
                if asked is not None and prompt is not None:
                    found[asked] = (prompt.block,)
        return found

    def _command(self, message: ClientMessage, following: Sequence[ClientMessage]) -> int | None:
        """Return the block of a command that is not followed by a model's answer; None for any other message."""
        prompt = self.dialect.prompt(message)
        if prompt is None or command_in(prompt.text, self.agent.log.given.live_sign) is None:
            return None
        answer = next((each for each in following if each.role != "system"), None)
        return prompt.block if answer is None or answer.role != "assistant" else None

    def _leave(self, gone: list[int]) -> None:
        """Remove exactly these events from the context: whole exchanges could include messages still being sent."""
        self.agent.end_turn(interrupted=True)
        self.agent.operate(lambda moment, at: exactly(moment, at, gone), actor="system", reason=LEFT)

    def _append(self, message: ClientMessage, local: Sequence[int] = ()) -> tuple[int, ...]:
        """Record a message except for the blocks `local`, and return the event of each block."""
        agent, parts = self.agent, self.dialect.parts(message)
        parts = [None if block in local else part for block, part in enumerate(parts)]
        typed = [part for part in parts if isinstance(part, TextMessage) and part.kind == "user"]
        interrupted = any(map(self.dialect.is_interruption, typed))
        if any(map(self.dialect.opens, typed)) and not message.results and not interrupted:
            agent.end_turn(interrupted=True)  # no answer ended the previous turn
        ids = self._append_parts(parts, local)
        if interrupted:
            agent.end_turn(interrupted=True)
        return ids

    def _append_parts(self, parts: Iterable[Part | None], local: Container[int] = ()) -> tuple[int, ...]:
        """Record the content of a message's blocks, except for the blocks `local`; return the event of each block."""
        return tuple(
            LOCAL if block in local else 0 if part is None else self._append_part(part)
            for block, part in enumerate(parts)
        )

    def _append_part(self, part: Part) -> int:
        agent, dialect = self.agent, self.dialect.name
        if isinstance(part, CallMessage):
            return agent.append_tool_call(part.name, part.args, call_id=part.call_id, dialect=dialect, data=part.data)
        if isinstance(part, ResultMessage):
            return agent.append_tool_result(
                part.call_id, part.text, dialect=dialect, is_error=part.is_error, data=part.data
            )
        # Verbatim: a state block at the end of a message does not come from a model of this conversation.
        return agent.append(part.kind, part.text, data=part.data, dialect=dialect, verbatim=True)

    def _take_answer(self, answer: ClientAnswer, prefix: str | None, joined: str | None) -> None:
        """Record an answer; `joined` is the key of the message that it forms together with the newest one."""
        agent = self.agent
        ids = self._append_parts(answer.parts)
        if answer.usage is not None:
            agent.record("usage", data=usage_data(self.dialect.provider, answer.model, answer.usage, answer.stopped))
        if not any(isinstance(part, CallMessage) for part in answer.parts):
            agent.end_turn()
        bound = {} if prefix is None else {answer.key: prefix}
        if joined is None:
            self._note(range(len(self.known)), [KnownMessage(answer.key, ids)], bound)
        else:
            self._note(range(len(self.known) - 1), [KnownMessage(joined, (*self.known[-1].ids, *ids))], bound)

    def _note(self, places: Sequence[int], added: Iterable[KnownMessage], bound: dict[str, str] | None = None) -> None:
        about: dict[str, Any] = {"kept": _ranges(places), "added": [[each.key, *each.ids] for each in added]}
        if bound:
            about["bound"] = bound
        self._record(about)

    def _record(self, about: dict[str, Any]) -> None:
        if self.prevented:
            about = {"prevented": self.prevented, **about}  # the newest record carries the count
        self.agent.record("record", data={"live": about})
        self._pending.append(about)

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
            for about in self._pending:
                self._follow(about)
            return done
        raise AssertionError

    def _follow(self, about: dict[str, Any]) -> None:
        """Apply a recorded change to this object."""
        if "child" in about:
            named, own = about["child"]
            self.children[named] = own
        self.prevented = about.get("prevented", self.prevented)
        if "added" not in about:
            return
        before = self.known
        self.known = [before[place] for first, last in about["kept"] for place in range(first, last + 1)]
        self.known += [KnownMessage(key, tuple(ids)) for key, *ids in about["added"]]
        if sum(last - first + 1 for first, last in about["kept"]) < len(before):
            sent = {id for each in self.known for id in each.ids}
            self.left.update(dict.fromkeys(id for each in before for id in each.ids if id > 0 and id not in sent))
        self.bound.update(about.get("bound", {}))


def _ranges(places: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for place in places:
        if found and found[-1][1] == place - 1:
            found[-1][1] = place
        else:
            found.append([place, place])
    return found
