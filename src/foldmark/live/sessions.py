"""The sessions that pass through a gateway: recorded in the log, and sent on as the log shows them [SPEC 5.7].

One thread reads and writes. A request is first edited, then passed on, and its new messages are recorded while the
provider answers. So recording never delays a request, and every request sees everything that earlier requests recorded.
Any failure here is logged, and the client's own bytes are passed on.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import NamedTuple, TypeVar

import httpx2 as httpx

from foldmark.core.errors import FoldmarkError, ProviderError
from foldmark.core.request import Request
from foldmark.live import prompts
from foldmark.live.clients.anthropic import ANTHROPIC
from foldmark.live.clients.dialect import ClientDialect, ClientMessage, ClientRequest, MisplacedError
from foldmark.live.clients.gemini import GEMINI
from foldmark.live.clients.openai import OPENAI
from foldmark.live.clients.reading import RequestReader
from foldmark.live.leaving_out import ContextView, EditedMessages, KnownMessage, edited, repeated
from foldmark.live.other_programs import Asked, OtherPrograms
from foldmark.live.transcript import ClientTranscript
from foldmark.live.unnamed import UnnamedSessions, UnnamedSubAgents
from foldmark.live.upstreams import question_client
from foldmark.log import Agent, Log
from foldmark.log.live_session import client_session
from foldmark.request.standing import Standing
from foldmark.sessions.messages import TextMessage

LOG = logging.getLogger(__name__)

LONGEST = 32 << 20
"""Maximum bytes of a body that is read (the API's own limit) and of an answer that is recorded."""

PATIENCE = 5.0
"""Seconds that a request waits for the log before it is passed on unchanged."""

_LENGTHS = (8, 13, 18)
"""Numbers of characters of a session's id used in its conversation's name: up to a hyphen of a UUID."""

T = TypeVar("T")

DIALECTS: tuple[ClientDialect, ...] = (ANTHROPIC, OPENAI, GEMINI)
"""The wires that are recorded."""

_ASKING: ContextVar[Asked] = ContextVar("asking")
"""The headers and the request of the client whose command is being executed."""


class Answering(NamedTuple):
    """The outcome for a request: the body to pass on, or a `reply` (media type and body) to give without asking a
    provider.

    `taken` is called with a complete answer's bytes and True if they are a stream; None if the answer is not needed.
    `ended` is called after that, and also if no complete answer arrived.
    """

    body: bytes
    reply: tuple[str, bytes] | None = None
    taken: Callable[[bytes, bool], object] | None = None
    ended: Callable[[], object] = lambda: None


class Prepared(NamedTuple):
    """A request, its transcript (None outside a conversation), its command if it is one, and its edited messages."""

    request: ClientRequest
    transcript: ClientTranscript | None
    command: prompts.AskedCommand | None
    made: EditedMessages


class Sessions:
    """The sessions of one client in a folder.

    `upstream` is a base URL, or one for each wire by its name. `run` is the same for all gateways of one run of the
    client. `others` manages the information for other programs and their questions; `environment` locates their files,
    and without it there are none. It also names certificates to trust."""

    def __init__(
        self,
        log: Log,
        folder: str,
        upstream: str | Mapping[str, str] = "",
        environment: Mapping[str, str] | None = None,
        *,
        run: str = "",
    ) -> None:
        self._log, self._folder, self._upstream, self._sign = log, folder, upstream, log.given.live_sign
        self._environment = environment or {}
        self.others = OtherPrograms(self._environment, self._asked)
        log.complete = lambda asked: self._asked(_ASKING.get(), asked)
        self._reader = RequestReader()
        self._transcripts: dict[str, ClientTranscript] = {}
        self._unnamed = UnnamedSessions(log, folder, run or log.new_id())
        self._sub_agents = UnnamedSubAgents()
        self._worker = ThreadPoolExecutor(1, "foldmark-recording")

    def close(self) -> None:
        """Wait until everything that has passed is recorded, and stop."""
        self._worker.shutdown()
        self.others.close()

    def settle(self) -> None:
        """Wait until everything that has passed so far is recorded."""
        self._worker.submit(lambda: None).result()

    def reads(self, target: str) -> bool:
        """Return True if a target (path and query) is that of a conversation's requests."""
        return _dialect_of(target) is not None

    async def pass_on(self, target: str, headers: Mapping[str, str], body: bytes) -> Answering:
        """Return the outcome for a request. On any failure, the request is passed on unchanged."""
        try:
            return await self._pass_on(target, headers, body)
        except Exception as error:
            # The text of the error may quote the client's messages.
            LOG.warning("a request is passed on as it came: %s", type(error).__name__, exc_info=_DEBUG)
            self._later(partial(self._prevented, target, headers, body))
            return Answering(body)

    async def _pass_on(self, target: str, headers: Mapping[str, str], body: bytes) -> Answering:
        request, transcript, command, made = await self._soon(partial(self._prepared, target, headers, body))
        if transcript is None:
            return Answering(request.with_messages(made.messages) if made.changed else body)
        if command is not None:
            return await self._command(headers, request, transcript, command)
        messages = request.messages
        self._later(lambda: self._take(transcript, request.head.model, messages))
        self._tell(transcript, headers, request)
        raw = made.messages
        if self._sign.encode() * 2 in body:
            raw = [prompts.without_escape(request, each, self._sign) for each in raw]
        sent = request.with_messages(raw) if made.changed or raw != made.messages else body
        prefix = made.prefix if made.changed or transcript.bound else None
        ended = partial(self._later, lambda: self._sub_agents.end_answer(transcript, request))
        return Answering(sent, None, partial(self._answer_came, transcript, messages, prefix), ended)

    async def _command(
        self,
        headers: Mapping[str, str],
        request: ClientRequest,
        transcript: ClientTranscript,
        command: prompts.AskedCommand,
    ) -> Answering:
        """Execute a command in a separate thread: it may ask a model, and other requests must not wait for that."""
        messages = request.messages
        prompt = messages.pop(command.place[0])
        await self._soon(lambda: self._take(transcript, request.head.model, messages, asks=False))
        _ASKING.set((headers, request))
        text = await asyncio.to_thread(prompts.carried_out, transcript.agent, command.line)
        key = request.dialect.reply_key(text)
        await self._soon(lambda: transcript.take_local(command.place, prompt, key))
        self._tell(transcript, headers, request)
        return Answering(request.body, request.dialect.reply(text, request))

    def _asked(self, by: Asked, asked: Request) -> str:
        """Return the model's answer to one of Foldmark's own questions, asked with the credentials of the request `by`.
        Raises ProviderError."""
        headers, request = by
        dialect = request.dialect
        kept = {name: value for name, value in headers.items() if name in dialect.credentials}
        target, body = dialect.question(asked, request)
        try:
            with question_client(self._environment) as client:
                upstream = self._upstream if isinstance(self._upstream, str) else self._upstream[dialect.name]
                url = f"{upstream.rstrip('/')}{target}"
                came = client.post(url, content=body, headers={**kept, "content-type": "application/json"})
        except httpx.HTTPError as error:
            raise ProviderError("network", f"the model could not be asked: {type(error).__name__}") from None
        answer = dialect.answer(came.content, streamed=True) if came.status_code == 200 else None
        if answer is None:
            raise ProviderError("answer", f"the model could not be asked: status {came.status_code}")
        return "".join(part.text for part in answer.parts if isinstance(part, TextMessage))

    def _answer_came(
        self,
        transcript: ClientTranscript,
        after: list[ClientMessage],
        prefix: str | None,
        answer: bytes,
        streamed: bool,
    ) -> None:
        def take() -> None:
            found = transcript.dialect.answer(answer, streamed=streamed)
            if found is not None:
                transcript.take_answer(after, found, prefix)
                self.others.tell(transcript)

        self._later(take)

    def _soon(self, act: Callable[[], T]) -> Awaitable[T]:
        return asyncio.wait_for(asyncio.wrap_future(self._worker.submit(act)), PATIENCE)

    def _later(self, act: Callable[[], object]) -> None:
        def told(done: "Future[object]") -> None:
            if (error := done.exception()) is not None:
                LOG.warning("a message was not recorded: %s", type(error).__name__, exc_info=error if _DEBUG else None)

        self._worker.submit(act).add_done_callback(told)

    def _tell(self, transcript: ClientTranscript, headers: Mapping[str, str], request: ClientRequest) -> None:
        """Notify other programs of a session once everything that has passed so far is recorded."""
        self.others.note(transcript, headers, request)
        self._later(lambda: self.others.tell(transcript))

    # In the worker's thread

    def _prevented(self, target: str, headers: Mapping[str, str], body: bytes) -> None:
        """Count a request that was passed on unchanged, if it can be read and its session is known."""
        dialect = _dialect_of(target)
        with suppress(ValueError):
            assert dialect is not None
            request = self._reader.read(dialect, target, headers, body)
            head = request.head
            named = head.agent or head.session
            transcript = self._transcripts.get(named) if head.session else self._unnamed.continued(request)
            if transcript is not None:
                transcript.note_prevented()
                self.others.tell(transcript)

    def _prepared(self, target: str, headers: Mapping[str, str], body: bytes) -> Prepared:
        """Read a request, find its transcript, and edit it unless it is a command."""
        dialect = _dialect_of(target)
        assert dialect is not None
        request = self._reader.read(dialect, target, headers, body)
        transcript = self._transcript(request)
        command = prompts.asked_command(request, self._sign)
        if transcript is None:
            return Prepared(request, None, command, self._beside(request))
        if command is not None:
            return Prepared(request, transcript, command, _AS_IT_CAME)
        made = self._edited(request, transcript)
        self._sub_agents.begin_answer(transcript, request)
        return Prepared(request, transcript, None, made)

    def _transcript(self, request: ClientRequest) -> ClientTranscript | None:
        """Return the transcript that a request continues; None for a request outside the conversation."""
        head = request.head
        if head.aside:
            return None
        root = self._transcripts.get(head.session) if head.session else self._unnamed.continued(request)
        first = request.sent[0].message.key if request.sent else ""
        same = root is not None and root.known and root.known[0].key == first
        begun = any(each.dialect is request.dialect for each in self._transcripts.values())
        if not head.tools and (head.session or begun) and not same:
            return None  # titles, quota probes
        if root is None and head.session:
            root = ClientTranscript(self._conversation(head.session), head.session, request.dialect)
        elif root is None:
            root = self._unnamed.begin(request.dialect)
        self._transcripts[root.session] = root
        if not head.agent:
            return root
        if not head.session:
            found = self._sub_agents.continued(root, request)
            self._transcripts[found.agent.id] = found
            return found
        if head.agent not in self._transcripts:
            self._transcripts[head.agent] = ClientTranscript(root.child(head.agent), root.session, request.dialect)
        return self._transcripts[head.agent]

    def _beside(self, request: ClientRequest) -> EditedMessages:
        """Return the messages of a request outside the conversation: any part of a conversation that it repeats is sent
        as the log shows it, without the commands to Foldmark."""
        raw, dialect = [each.raw for each in request.sent], request.dialect
        if not request.head.session and (found := self._unnamed.repeated(request)) is not None:
            self._transcripts[found.session] = found
        for transcript in reversed(self._transcripts.values()):
            if transcript.dialect is not dialect or not self._is_edited(transcript):
                continue
            known = repeated(transcript.known, [message.key for message in request.messages[:-1]])
            known += [KnownMessage("") for _ in request.messages[-1:]]  # the question itself
            with suppress(MisplacedError):
                shown = self._shown(request, transcript, known, inserts=False)
                if shown.changed:
                    raw = shown.messages
                    break
        made = [clean for each in raw if (clean := prompts.without_repeated(dialect, each, self._sign))]
        return EditedMessages(made, "", changed=made != [each.raw for each in request.sent])

    def _conversation(self, session: str) -> Agent:
        """Return the conversation of a session, named after the folder and the beginning of the session's id, as long
        as needed to distinguish it from other sessions, since ids may begin with the time."""
        for length in (*_LENGTHS, len(session)):
            agent = self._log.agent(f"{self._folder} · {session[:length]}")
            if client_session(agent) in (None, session):
                break
        return agent

    def _is_edited(self, transcript: ClientTranscript, at: Standing | None = None) -> bool:
        """Return True if the log may show something different from what the client sends."""
        at = transcript.agent.standing() if at is None else at
        changed = at.fold.segments != at.origin.segments or bool(at.fold.evicted)
        return changed or transcript.edited or bool(transcript.left)

    def _take(
        self, transcript: ClientTranscript, model: str, messages: list[ClientMessage], *, asks: bool = True
    ) -> None:
        """Record messages. Those with `asks` False preceded a command, whose author no longer expects an answer to
        them."""
        agent, named = transcript.agent, f"{transcript.dialect.provider}/{model}"
        if model and agent.standing().config.model != named:
            with suppress(FoldmarkError):
                agent.context()
                agent.configure("model", named, actor="system")
        transcript.take(messages, asks=asks)
        if not asks:
            transcript.end_turn()

    def _edited(self, request: ClientRequest, transcript: ClientTranscript) -> EditedMessages:
        """Return the messages of a request as the log shows them."""
        model, messages = request.head.model, request.messages
        places = transcript.places(messages, asks=True)
        new = [message for message, place in zip(messages, places, strict=True) if place is None]
        if transcript.commands(new) or (self._is_edited(transcript) and any(each.results for each in new)):
            # Commands and the replies to them are never sent on. A result whose call has left is recorded as a notice,
            # which is sent instead.
            self._take(transcript, model, messages)
            places = list(range(len(messages)))
        known = [
            KnownMessage(message.key) if place is None else transcript.known[place]
            for message, place in zip(messages, places, strict=True)
        ]
        return self._shown(request, transcript, known)

    def _shown(
        self, request: ClientRequest, transcript: ClientTranscript, known: list[KnownMessage], *, inserts: bool = True
    ) -> EditedMessages:
        """Return the messages of a request as the log shows them; `known` has an entry for each."""
        agent, dialect, model = transcript.agent, request.dialect, request.head.model
        with agent.reading() as (moment, at):
            fold = at.fold
            if not self._is_edited(transcript, at):
                return EditedMessages([each.raw for each in request.sent], "", changed=False)
            own = [segment for segment in fold.segments if segment.agent == agent.id]
            firsts, lasts = [segment.first for segment in own], [segment.last for segment in own]

            def shows(event_id: int) -> bool:
                at = bisect_right(firsts, event_id) - 1
                return at >= 0 and event_id <= lasts[at]

            evicted = transcript.placeholders(moment, fold.evicted)
            inserted = list(transcript.inserted(moment, at, known)) if inserts else []
        bound = agent.log.model_named(f"{dialect.provider}/{model}").binds
        bound = dialect.binds(model) if bound is None else bound

        def notice(event_id: int) -> str:
            with agent.log.store.read() as moment:
                event = moment.event(event_id)
            return event.content if event is not None and event.kind == "user" else ""

        return edited(
            dialect, request.sent, known, ContextView(shows, evicted, inserted, bound, transcript.bound, notice)
        )


def _dialect_of(target: str) -> ClientDialect | None:
    """Return the wire of a request by its path; None if it does not belong to a conversation."""
    path = target.partition("?")[0]
    return next((dialect for dialect in DIALECTS if dialect.reads(path)), None)


_AS_IT_CAME = EditedMessages([], "", changed=False)

_DEBUG = False
"""True to log failures with their tracebacks, which may quote messages: for tests."""
