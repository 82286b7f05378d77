"""The sessions that pass through a gateway: recorded in the log, and sent on as the log shows them [SPEC 5.7].

One thread reads requests and edits them, another one records. A request is first edited, then passed on, and its new
messages are recorded while the provider answers. So recording never delays a request, and every request sees everything
that earlier requests recorded. While another program locks the database, only recording waits: the operations recorded
so far and the commands to Foldmark are known without it. Any other failure here is logged, and the client's own bytes
are passed on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from foldmark.core.request import Request
from foldmark.live import notices, prompts
from foldmark.live.answering import Answering
from foldmark.live.asking import AskedFor, asked_in_request
from foldmark.live.clients.dialect import ClientDialect, ClientRequest
from foldmark.live.clients.reading import RequestReader
from foldmark.live.evicting import Evictor
from foldmark.live.executing import Executor
from foldmark.live.live_agent import AnyProgram, LiveAgent
from foldmark.live.other_programs import Asked, OtherPrograms, answer_of
from foldmark.live.quoted import LeftMessages
from foldmark.live.recording import Recorder
from foldmark.live.sizes import PassedOn
from foldmark.live.tally import Tally
from foldmark.live.transcript import ClientTranscript, binds, named_transcript, sub_agent
from foldmark.live.unnamed import UnnamedSessions, UnnamedSubAgents
from foldmark.live.wires import wires_of
from foldmark.log import Log
from foldmark.overlay.edit import EditedMessages, edited, without_own
from foldmark.overlay.ledger import KnownMessage, repeated
from foldmark.overlay.pieces import MisplacedError
from foldmark.request.client_sizes import LOCAL
from foldmark.sending.models import CLIENT
from foldmark.wires.parts import TextMessage

LOG = logging.getLogger(__name__)

LONGEST = 32 << 20
"""Maximum bytes of a body that is read (the API's own limit) and of an answer that is recorded."""

LONGEST_EDIT = 10.0
"""Maximum seconds until a request is passed on unchanged."""

T = TypeVar("T")


class Prepared(NamedTuple):
    """A request, its transcript (None outside a conversation), the commands in it, and its edited messages unless there
    are commands."""

    request: ClientRequest
    transcript: ClientTranscript | None
    asked: AskedFor
    made: EditedMessages


class Sessions:
    """The sessions of one client in a folder. `client` is its agent, by default any program.

    `upstream` is a base URL, or one for each dialect. `run` is the same for all gateways of one run of the
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
        client: LiveAgent | None = None,
    ) -> None:
        self._wires = wires_of(client or AnyProgram())
        self._log, self._folder, self._upstream, self._sign = log, folder, upstream, log.given.live_sign
        self._environment = environment or {}
        self.others = OtherPrograms(self._environment, self._asked)
        self._line, self._escape = b"\\n" + self._sign.encode(), self._sign.encode() * 2
        self._reader = RequestReader((self._line, self._escape))
        self._transcripts: dict[str, ClientTranscript] = {}
        self._unnamed = UnnamedSessions(log, folder, run or log.new_id())
        self._sub_agents = UnnamedSubAgents()
        self._editor, self._worker = ThreadPoolExecutor(1, "foldmark-editing"), Recorder()
        self.tally = Tally()
        self._evictor = Evictor(log, self._worker)
        self._executor = Executor(log, self._worker, self._later)
        self._is_command = partial(prompts.is_command, sign=self._sign)

    def close(self) -> None:
        """Wait until everything that has passed is recorded, and stop (see `Recorder.close`)."""
        self._editor.shutdown()
        self._worker.close()
        self.others.close()

    def settle(self) -> None:
        """Wait until everything that has passed so far is recorded."""
        self._editor.submit(lambda: None).result()
        self._worker.submit(lambda: None).result()

    def reads(self, target: str) -> bool:
        """Return True if a target (path and query) is that of a conversation's requests."""
        return self._dialect_of(target) is not None

    async def pass_on(self, target: str, headers: Mapping[str, str], body: bytes) -> Answering:
        """Return the outcome for a request. On any failure, the request is passed on unchanged."""
        try:
            return await self._pass_on(target, headers, body)
        except Exception as error:
            # The text of the error may quote the client's messages.
            LOG.warning("a request is passed on as it came: %s", type(error).__name__, exc_info=_DEBUG)
            self._edits_later(partial(self._prevented, target, headers, body))
            return Answering(body)

    async def _pass_on(self, target: str, headers: Mapping[str, str], body: bytes) -> Answering:
        request, transcript, asked, made = await self._soon(partial(self._prepared, target, headers, body))
        if transcript is None:
            return Answering(request.with_messages(made.messages) if made.changed else body)
        if asked.commands:
            said, goes_on = await self._executed(headers, request, transcript, asked)
            if not goes_on:
                return self._replied(headers, request, transcript, transcript.with_unsaid(said))
            made = await self._soon(partial(self._edited, request, transcript))
            said = transcript.with_unsaid(said)
            self._sub_agents.begin_answer(transcript, request)
        else:
            said = transcript.unsaid if transcript.shows else ""
        prefix = made.prefix if made.changed or transcript.bound else None
        passed = PassedOn.of(request, prefix, 0 if made.whole else transcript.seen)._replace(said=said)
        taken = self._later(partial(self._take, transcript, request, passed, asks=not asked.commands))
        if not asked.commands:
            taken.add_done_callback(partial(self.tally.recorded, transcript, True))
        if said:
            transcript.note_said(said)
            self._later(partial(transcript.take_note, "said", said))
        transcript.note_sent(asked)
        self._tell(transcript, headers, request)
        raw = made.messages
        if self._escape in request.texts:
            raw = prompts.without_escapes(request, raw, self._sign)
        sent = request.with_messages(raw) if made.changed or raw != made.messages else body
        came = partial(self._answer_came, transcript, passed)
        over = partial(self._ended, transcript, request, passed, asked)
        weaver = (lambda streamed: request.dialect.weaver(said, request, streamed=streamed)) if said else None
        return Answering(sent, None, came, over, weaver)

    async def _executed(
        self, headers: Mapping[str, str], request: ClientRequest, transcript: ClientTranscript, asked: AskedFor
    ) -> tuple[str, bool]:
        """Execute the commands in a request. Return the replies, and True if the request asks something else."""
        messages = request.messages
        take = partial(transcript.take, model=request.head.model, asks=False)
        CLIENT.set(partial(self._asked, Asked(headers, request, transcript)))
        replies = await self._executor.executed(transcript, messages, asked, take)
        goes_on = asked.goes_on and await self._executor.still_asks(transcript, messages, asked.first)
        unshown = transcript.unshown(messages[asked.first :], replies)
        replies = unshown if goes_on else unshown or replies
        recorded = self._later(lambda: transcript.agent)
        recorded.add_done_callback(partial(self.tally.recorded, transcript, goes_on))
        return "\n\n".join(replies), goes_on

    def _replied(
        self, headers: Mapping[str, str], request: ClientRequest, transcript: ClientTranscript, text: str
    ) -> Answering:
        """Answer a request with Foldmark's own text."""
        reply = request.dialect.reply(text, request)
        answer = request.dialect.answer(reply[1], streamed="event-stream" in reply[0])
        assert answer is not None
        transcript.note_local(answer.key, 1, (0,))
        transcript.note_answered()
        transcript.unsaid = ""
        transcript.note_idle()
        self._later(transcript.end_turn)
        self._later(partial(transcript.take_reply, answer.key))
        self._tell(transcript, headers, request)
        return Answering(request.body, reply)

    def _asked(self, by: Asked, asked: Request) -> str:
        answer = answer_of(self._upstream, self._environment, by, asked)
        self._later(partial(by.transcript.note_question, answer))
        return "".join(part.text for part in answer.parts if isinstance(part, TextMessage))

    def _answer_came(
        self, transcript: ClientTranscript, passed: PassedOn, answer: bytes, streamed: bool, whole: bool
    ) -> None:
        def read() -> None:
            of, found = transcript.read(passed, answer, streamed=streamed)
            if found is None:
                if whole:
                    transcript.note_failed(transcript.unanswered)
                return
            transcript.note_answered()
            if of.said:
                transcript.unsaid = ""
                transcript.note_local(found.key, len(found.parts), (0,))
            if passed.prefix is not None:
                transcript.note_bound(found.key, passed.prefix)
            self._later(partial(transcript.take_answer, of, found))
            self._later(partial(self.others.tell, transcript))

        self._edits_later(read)

    def _take(self, transcript: ClientTranscript, request: ClientRequest, passed: PassedOn, *, asks: bool) -> None:
        """Record a request that is passed on."""
        passed = passed._replace(lives=request.lifetime(self._log.model_named))
        transcript.take(passed.messages, request.head.model, asks=asks, passed=passed)

    def _ended(
        self, transcript: ClientTranscript, request: ClientRequest, passed: PassedOn, asked: AskedFor, status: int
    ) -> None:
        transcript.note_idle()
        if status != 200:
            self._edits_later(partial(transcript.note_failed, asked))
        self._edits_later(partial(self._later, partial(self._sub_agents.end_answer, transcript, request)))
        if status >= 400:
            self._later(partial(transcript.note_refused, passed, status))

    def _soon(self, act: Callable[[], T]) -> Awaitable[T]:
        return asyncio.wait_for(asyncio.wrap_future(self._editor.submit(act)), LONGEST_EDIT)

    def _edits_later(self, act: Callable[[], object]) -> None:
        self._editor.submit(act).add_done_callback(_logged)

    def _later(self, act: Callable[[], T]) -> "Future[T]":
        future = self._worker.submit(act)
        future.add_done_callback(_logged)
        return future

    def _tell(self, transcript: ClientTranscript, headers: Mapping[str, str], request: ClientRequest) -> None:
        """Notify other programs of a session once everything that has passed so far is recorded."""
        self._later(partial(self.others.note, transcript, headers, request))
        self._later(partial(self.others.tell, transcript))

    def _dialect_of(self, target: str) -> ClientDialect | None:
        """Return the wire of a request by its path; None if it does not belong to a conversation."""
        path = target.partition("?")[0]
        for dialect in self._wires:
            try:
                if dialect.reads(path):
                    return dialect
            except Exception as error:  # of another package: the request is passed on
                LOG.warning("the wire '%s' fails: %s", dialect.name, type(error).__name__, exc_info=_DEBUG)
        return None

    # In the editor's thread

    def _prevented(self, target: str, headers: Mapping[str, str], body: bytes) -> None:
        """Count and record a request that was passed on unchanged, if it can be read and its session is known."""
        dialect = self._dialect_of(target)
        with suppress(ValueError):
            assert dialect is not None
            request = self._reader.read(dialect, target, headers, body)
            head = request.head
            named = head.agent or head.session
            transcript = self._transcripts.get(named) if head.session else self._unnamed.continued(request)
            if transcript is not None:
                request = transcript.divided(transcript.recognized(request), self._sign, asks=False)
                self._later(transcript.note_prevented)
                if not asked_in_request(request, self._sign).commands:  # these may be half recorded
                    self._later(partial(self._take, transcript, request, PassedOn.of(request, None, 0), asks=True))
                self._later(lambda: self.others.tell(transcript))

    def _prepared(self, target: str, headers: Mapping[str, str], body: bytes) -> Prepared:
        """Read a request, find its transcript, and edit it unless there are commands in it."""
        dialect = self._dialect_of(target)
        assert dialect is not None
        request = self._reader.read(dialect, target, headers, body)
        if self._line in request.texts:
            request = replace(request, sent=tuple(dialect.separated(request.sent, self._is_command)))
        if not asked_in_request(request, self._sign).commands:
            self._worker.caught_up()
        transcript = self._transcript(request)
        if transcript is None:
            return Prepared(request, None, AskedFor(), self._beside(request))
        request = transcript.recognized(request)
        for name in notices.note(transcript, headers, request, self._environment, self._sign):
            self._later(partial(transcript.take_note, "noted", name))
        request = transcript.divided(request, self._sign, asks=True)
        asked = asked_in_request(request, self._sign, transcript.unanswered, failed=transcript.failed)
        transcript.note_asked(asked, request.messages)
        if asked.commands:
            return Prepared(request, transcript, asked, _AS_IT_CAME)
        made = self._edited(request, transcript)
        self._sub_agents.begin_answer(transcript, request)
        return Prepared(request, transcript, asked, made)

    def _transcript(self, request: ClientRequest) -> ClientTranscript | None:
        """Return the transcript that a request continues; None for a request outside the conversation."""
        head = request.head
        if head.aside:
            return None
        root = self._transcripts.get(head.session) if head.session else self._unnamed.continued(request)
        first = request.sent[0].message.key if request.sent else ""
        same = root is not None and root.shares([first]) > 0
        begun = any(each.dialect is request.dialect for each in self._transcripts.values())
        if not head.tools and (head.session or begun) and not same:
            return None  # titles, quota probes
        if root is None and head.session:
            root = named_transcript(
                self._log, self._folder_of(request), head.session, request.dialect, ClientTranscript
            )
        elif root is None:
            root = self._unnamed.begin(request.dialect)
        self._transcripts[root.session] = root
        if not head.agent:
            return root
        if not head.session:
            found = self._sub_agents.continued(root, request)
            self._transcripts[f"{root.session} {found.named}"] = found
            return found
        if head.agent not in self._transcripts:
            self._transcripts[head.agent] = sub_agent(root, head.agent)
        return self._transcripts[head.agent]

    def _folder_of(self, request: ClientRequest) -> str:
        """Return the name of the client's working folder; by default that of the gateway."""
        return Path(request.head.folder).name or self._folder

    def _beside(self, request: ClientRequest) -> EditedMessages:
        """Return the messages of a request outside the conversation: any part of a conversation that it repeats is sent
        as the log shows it, without the commands to Foldmark."""
        raw, dialect = [each.raw for each in request.sent], request.dialect
        if not request.head.session and (found := self._unnamed.repeated(request)) is not None:
            self._transcripts[found.session] = found
        for transcript in reversed(self._transcripts.values()):
            if transcript.dialect is not dialect or not transcript.is_edited(transcript.standing()):
                continue
            known = repeated(transcript.known, [message.key for message in request.messages[:-1]])
            known = [each if each.ids else KnownMessage(each.key, transcript.local.get(each.key, ())) for each in known]
            known += [KnownMessage("") for _ in request.messages[-1:]]  # the question itself
            with suppress(MisplacedError):
                divided = transcript.divided(request, self._sign, asks=False)
                shown = self._shown(divided, transcript, known, inserts=False)
                if shown.changed:
                    raw = shown.messages
                    break
        left = LeftMessages(self._log, self._folder_of(request), dialect)
        made = [clean for each in raw if (clean := prompts.without_repeated(dialect, each, self._sign, left))]
        return EditedMessages(made, "", changed=made != [each.raw for each in request.sent])

    def _edited(self, request: ClientRequest, transcript: ClientTranscript) -> EditedMessages:
        """Return the messages of a request as the log shows them."""
        self._evictor.evict(request, transcript)
        messages = request.messages
        known = transcript.expected(messages, self._sign)
        new = [message for message, each in zip(messages, known, strict=True) if not each.ids]
        if any(each.results for each in new) and transcript.is_edited(transcript.standing()):
            # A result whose call has left is recorded as a notice, which is sent instead.
            self._later(partial(transcript.take, messages, request.head.model))
            self._worker.caught_up()
            known = transcript.expected(messages, self._sign)
        return self._shown(request, transcript, known)

    def _shown(
        self, request: ClientRequest, transcript: ClientTranscript, known: list[KnownMessage], *, inserts: bool = True
    ) -> EditedMessages:
        """Return the messages of a request as the log shows them; `known` has an entry for each."""
        dialect, model = request.dialect, request.head.model
        seen = transcript.look(known, inserts=inserts)
        at = None if seen is None else seen.at
        if not transcript.is_edited(at) and not any(LOCAL in each.ids for each in known):
            return EditedMessages([each.raw for each in request.sent], "", changed=False)
        view = transcript.context_view(seen, request.messages, binds(self._log, dialect, model))
        try:
            made = edited(dialect, request.sent, known, view, transcript.edit_memory if inserts else None)
        except MisplacedError as error:
            if not inserts:
                raise
            LOG.warning("a request goes out without the edits: %s", error, exc_info=_DEBUG)
            self._later(transcript.note_prevented)
            notices.note_whole(transcript, error, self._sign)
            return without_own(dialect, request.sent, known, view)
        transcript.whole = transcript.whole and not inserts
        return made


def _logged(done: "Future[Any]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        LOG.warning("a message was not recorded: %s", type(error).__name__, exc_info=error if _DEBUG else None)


_AS_IT_CAME = EditedMessages([], "", changed=False)

_DEBUG = False
"""True to log failures with their tracebacks, which may quote messages: for tests."""
