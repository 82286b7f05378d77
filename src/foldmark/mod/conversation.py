"""The conversation of one session of Claude Code: what the client sends, and what it is to send instead [SPEC 8]."""

import re
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from foldmark.chat.display.turns import ContextTurns, context_turns
from foldmark.cost.spending import lifetime_of
from foldmark.live import prompts
from foldmark.live.clients.anthropic import ANTHROPIC
from foldmark.live.clients.dialect import ClientRequest, RequestHead
from foldmark.live.sizes import PassedOn
from foldmark.live.transcript import binds, named_transcript
from foldmark.log import Agent, Log
from foldmark.mod.rows import ASKED, Row, Rows, without_asked, without_repeated
from foldmark.mod.transcript import ModTranscript, answered_message
from foldmark.overlay.edit import EditedMessages, edited
from foldmark.overlay.ledger import KnownMessage
from foldmark.overlay.pieces import ClientMessage, SentMessage
from foldmark.request.client_sizes import LOCAL
from foldmark.request.standing import Standing
from foldmark.settings.given import Value

SIGN = "/fm "
"""The sign before a command, as it is typed in the client."""

HELP = prompts.help_text(SIGN).rpartition("\n")[0]
"""The help. Its last line is about prompts, and no prompt is a command here."""

_UP_TO_NOW = ("undo", "clear", "rewind", "summarize")
"""Commands that take out what the agent said last. While it works, it goes on to say the rest of that."""

Message = Mapping[str, Any]
"""A message in the form of the Messages API: `role` and `content`, a list of blocks."""


def carried_out(agent: Agent, line: str, *, while_working: bool) -> str:
    """Execute a command as typed behind `SIGN`, and return the reply."""
    return HELP if line.split() == ["help"] else prompts.carried_out(agent, line, while_working=while_working)


def open_for_mod(log: Log) -> None:
    """Prepare a log for the mod: commands are typed behind `SIGN`, and no prompt is one."""
    log.given = replace(log.given, overrides={**log.given.overrides, "live_sign": Value(SIGN, "the plugin")})


class SessionConversation:
    """The conversation of a session. By default it runs under `foldmark live`: its gateway records it, and edits its
    requests."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def agent(self) -> Agent:
        """The agent in the log."""
        return self._agent

    def take(
        self, messages: Sequence[Message], model: str, usage: Mapping[str, Any] | None = None, besides: int = 0
    ) -> None:
        """Do nothing: the gateway has recorded the messages."""

    def installed(self, rows: Sequence[Row], messages: Sequence[Message], model: str) -> list[dict[str, Any]] | None:
        """Return None: the client keeps its transcript."""
        return None

    def is_pending(self, messages: Sequence[Message], model: str) -> bool:
        """Return False: an operation acts on the next request."""
        return False

    def turns(self) -> ContextTurns:
        """Return the turns of the next request."""
        return context_turns(self.agent, {"out": 0})

    def do(self, line: str, *, while_working: bool = False) -> str:
        """Execute a command as typed behind `SIGN`, and return the reply."""
        return carried_out(self.agent, line, while_working=while_working)


class ModConversation(SessionConversation):
    """The conversation of a session in a folder, whose client installs the edits. It is created once something of it is
    recorded."""

    def __init__(self, log: Log, session: str, folder: str) -> None:
        self._log = log
        self._transcript = named_transcript(log, Path(folder).name or "/", session, ANTHROPIC, ModTranscript)
        self._read: dict[bytes, ClientMessage] = {}
        self._turns: tuple[Standing, ContextTurns] | None = None
        self._pending: tuple[Standing | None, list[bytes], bool] | None = None

    @property
    def agent(self) -> Agent:
        """The agent in the log. Raises LookupError if nothing is recorded yet."""
        return self._transcript.agent

    def turns(self) -> ContextTurns:
        """Return the turns of the next request. They are kept until something is recorded."""
        at = self.agent.standing()  # the same object until somebody commits
        if self._turns is None or self._turns[0] is not at:
            self._turns = at, context_turns(self.agent, {"out": 0})
        return self._turns[1]

    def take(
        self, messages: Sequence[Message], model: str, usage: Mapping[str, Any] | None = None, besides: int = 0
    ) -> None:
        """Record the client's new messages, and those that it no longer sends.

        `usage` is what the provider counted for the newest answer, in the form of the Messages API; then that answer is
        the last message. `besides` are the tokens of everything in that request but the messages.
        """
        messages = without_repeated(messages)
        transcript, sent = self._transcript, self._request(messages, model)
        if not sent.sent:
            return
        if usage is None or not transcript.ends_with_new_answer(sent.messages):
            transcript.take(sent.messages, model, asks=False)
            return
        before = sent.messages[:-1]
        known = self._log.model_named(f"{ANTHROPIC.provider}/{model}")
        passed = PassedOn(
            before, None, transcript.seen, _bytes(before, usage, besides), lives=lifetime_of(known, 0.0), installs=True
        )
        transcript.take(before, model, asks=True, passed=passed)
        answer = ANTHROPIC.answer(answered_message(messages[-1], usage, model), streamed=False)
        if answer is not None:
            transcript.take_answer(passed, answer)

    def installed(self, rows: Sequence[Row], messages: Sequence[Message], model: str) -> list[dict[str, Any]] | None:
        """Return the rows that the client is to install in place of its own, so that it sends what the context shows;
        None if it does. Raises MisplacedError if the provider would refuse the result."""
        messages = without_repeated(messages)
        own = Rows(rows, messages)
        return own.installed(self._edited(own, messages, model))

    def is_pending(self, messages: Sequence[Message], model: str) -> bool:
        """Return True if the client sends something else than the context shows. Raises MisplacedError."""
        messages = without_repeated(messages)
        at, raws = self._transcript.standing(), _encoded(messages)
        if self._pending is None or self._pending[0] is not at or self._pending[1] != raws:
            own = Rows((), messages)
            self._pending = at, raws, own.changes(self._edited(own, messages, model))
        return self._pending[2]

    def _edited(self, own: Rows, messages: Sequence[Message], model: str) -> EditedMessages:
        """Return what the client is to send."""
        transcript = self._transcript
        request = self._request(messages, model)
        known = transcript.expected(request.messages, SIGN)
        seen = transcript.look(known, inserts=True)
        if seen is None:
            return EditedMessages([each.raw for each in own.marked(request.sent)], "", changed=False)
        view = transcript.context_view(seen, request.messages, binds(self._log, ANTHROPIC, model))
        with self.agent.reading() as (moment, at):
            stands = transcript.stands(moment, at)
        view = view._replace(evicted=transcript.rewritten(known, request.messages, seen), stands=stands)
        sent, own_known = [*own.marked(request.sent), ASKED], [*known, KnownMessage("")]
        # What comes back behind everything else is put before the prompt that is asked.
        shows = view.shows
        opened = view._replace(shows=lambda event: event == LOCAL or shows(event))
        made = without_asked(edited(ANTHROPIC, sent, own_known, opened))
        if own.has_stray_opening(made):
            made = without_asked(edited(ANTHROPIC, sent, own_known, view))
        return made

    def do(self, line: str, *, while_working: bool = False) -> str:
        """Execute a command as typed behind `SIGN`, and return the reply."""
        if not self._transcript.exists:
            return "This session has no messages yet."
        if while_working and self._splits(line):
            return f"foldmark: {prompts.AT_WORK}"
        return carried_out(self.agent, line, while_working=while_working)

    def _splits(self, line: str) -> bool:
        """Return True for a command that would take a part of the running turn out: the client sends what it has said
        until now together with what it says next."""
        word, *rest = line.split() or [""]
        running = self.agent.open_turn or 0
        named = re.findall(r"(\d+)(?:-(\d+))?", " ".join(rest)) if word == "drop" else ()
        return word in _UP_TO_NOW or any(int(first) <= running <= int(last or first) for first, last in named)

    def _request(self, messages: Sequence[Message], model: str) -> ClientRequest:
        """Return what the client sends as a request, with its messages as they are known."""
        raws = _encoded(messages)
        self._read = {raw: self._read.get(raw) or ANTHROPIC.read(raw) for raw in raws}
        sent = [SentMessage(raw, copy(self._read[raw])) for raw in raws]  # equal messages are told apart
        head = RequestHead(model, stream=True, tools=True, session=self._transcript.session)
        request = ClientRequest(ANTHROPIC, "/v1/messages", b"", 0, 0, tuple(sent), head)
        return self._transcript.recognized(request)


def _encoded(messages: Sequence[Message]) -> list[bytes]:
    return [msgspec.json.encode(each) for each in messages]


def _bytes(messages: Sequence[Any], usage: Mapping[str, Any], besides: int) -> int:
    """Return the bytes of everything in a request but the messages, given its tokens: as many for each token as the
    messages have."""
    counted = sum(
        int(usage.get(name) or 0) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    size = sum(len(block) for each in messages for block in each.blocks)
    return round(size * besides / max(1, counted - besides)) if counted > besides else besides * 4
