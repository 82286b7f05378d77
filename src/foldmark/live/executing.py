"""Execute the commands to Foldmark in a request [SPEC 5.7].

Commands wait for what precedes them to be recorded, and each acts on exactly that. They run in threads of their own:
one may ask a model, and other requests must not wait for it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from foldmark.core.segments import contains
from foldmark.live import prompts
from foldmark.live.asking import AskedCommand, AskedFor, in_doubt
from foldmark.live.recording import Recorder
from foldmark.live.transcript import ClientTranscript
from foldmark.log import Log
from foldmark.overlay.pieces import ClientMessage
from foldmark.rendering import harmless
from foldmark.stores.waiting import PATIENCE
from foldmark.wires.parts import Part

LOG = logging.getLogger(__name__)

COMMAND_SECONDS, COMMAND_LONGEST = 1.0, 30.0
"""Maximum seconds that a command waits for what precedes it to be recorded: while the database is locked, and while the
recorder is at work."""

Take = Callable[[list[ClientMessage]], None]
"""Records messages."""


class PartialRecording:
    """The recording of a request up to each of its commands in turn, so that every command acts on what precedes it.

    `first` is the first message with a command. `take` records the messages up to the last known one, and those that
    the client has left out or rewritten."""

    def __init__(
        self,
        transcript: ClientTranscript,
        messages: Sequence[ClientMessage],
        first: int,
        take: Take,
    ) -> None:
        self._transcript, self._messages, self._take = transcript, messages, take
        self._first, self._at = first, -1
        self._local: dict[int, tuple[int, ...]] = {}
        self._parts: list[Part | None] | None = None  # those of the message that is being recorded
        self._ids: tuple[int, ...] = ()

    def begin(self) -> None:
        """Record everything before what is asked."""
        if self._at >= 0:
            return
        transcript = self._transcript
        places = transcript.places(self._messages, asks=False, known=transcript.known)
        known = [at for at, place in enumerate(places) if place is not None]
        start = self._first if len(known) == len(places) else known[-1] + 1 if known else 0
        self._take(list(self._messages[:start]))
        commands = transcript.commands(self._messages[start:], transcript.agent.log.given.live_sign)
        self._local = {at + start: own for at, own in commands.items()}
        self._at = start

    def until(self, message: int, block: int = 0) -> None:
        """Record everything before a block of a message."""
        self.begin()
        transcript = self._transcript
        while self._at < message:
            self._add(len(self._messages[self._at].blocks))
            assert self._parts is not None
            transcript.close_message(self._messages[self._at], self._ids, self._parts)
            self._at, self._parts, self._ids = self._at + 1, None, ()
        if block and self._at == message:
            self._add(block)

    def finish(self) -> None:
        """Record the rest."""
        self.until(len(self._messages))

    def _add(self, block: int) -> None:
        local = self._local.get(self._at, ())
        if self._parts is None:
            self._parts = self._transcript.open_message(self._messages[self._at], local)
        if block > len(self._ids):
            self._ids += self._transcript.add_parts(self._parts, len(self._ids), block, local)


class Executor:
    """Executes the commands to a log. `later` gives a task to the recorder."""

    def __init__(self, log: Log, recorder: Recorder, later: Callable[[Callable[[], Any]], "Future[Any]"]) -> None:
        self._log, self._recorder, self._later, self._sign = log, recorder, later, log.given.live_sign

    async def executed(
        self,
        transcript: ClientTranscript,
        messages: Sequence[ClientMessage],
        asked: AskedFor,
        take: Take,
    ) -> list[str]:
        """Execute the commands of a request, and return the replies. A request that is sent again gets the same ones.
        `take` records its first messages."""
        self._note_local(transcript, messages, asked.first)
        if all(each.key in transcript.executed for each in asked.commands):
            self._later(partial(take, list(messages)))
            return [transcript.executed[each.key] for each in asked.commands]
        recording = PartialRecording(transcript, messages, asked.commands[0].place[0], take)
        queued = asked.goes_on or len(asked.commands) > 1
        typed_at = await asyncio.to_thread(self._newest, transcript, self._later(recording.begin)) if queued else None
        replies: list[str] = []
        for command in asked.commands:
            reply = transcript.executed.get(command.key)
            if reply is None:
                # The first one, if it is an answer, refers to the preview that was open before anything else was said.
                place = None if not replies and prompts.is_answer(command.line) else command.place
                before = self._later(partial(_reach, recording, place, transcript, ends=not asked.goes_on))
                act = partial(prompts.carried_out, line=command.line, while_working=asked.goes_on, typed_at=typed_at)
                reply = await asyncio.to_thread(self._carried_out, transcript, command, act, before)
                transcript.note_executed(command.key, reply)
                self._later(partial(transcript.take_note, "executed", [command.key, reply]))
            replies.append(reply)
        self._later(recording.finish)
        return replies

    async def still_asks(self, transcript: ClientTranscript, messages: Sequence[ClientMessage], first: int) -> bool:
        """Return True unless everything that a request asks, from its message `first` on, has left the context."""
        done = self._later(lambda: None)
        await asyncio.to_thread(self._recorder.is_done, done, COMMAND_SECONDS, COMMAND_LONGEST)
        known, at = transcript.expected(messages, self._sign), transcript.standing()
        ids = [id for each in known[first:] for id in each.ids if id > 0]
        return at is None or not ids or any(contains(at.visible, at.record.id, id) for id in ids)

    def _note_local(self, transcript: ClientTranscript, messages: Sequence[ClientMessage], first: int) -> None:
        for at, own in transcript.commands(messages[first:], self._sign).items():
            message = messages[first + at]
            transcript.note_local(message.key, len(message.blocks), own)

    def _newest(self, transcript: ClientTranscript, before: "Future[Any]") -> int | None:
        """Return the newest event once everything `before` is recorded; None if that takes too long."""
        if not self._recorder.is_done(before, COMMAND_SECONDS, COMMAND_LONGEST) or before.exception() is not None:
            return None
        return transcript.agent.standing().newest

    def _carried_out(
        self, transcript: ClientTranscript, command: AskedCommand, act: Callable[..., str], before: "Future[Any]"
    ) -> str:
        """Execute a command once everything `before` it is recorded, and return the reply. If that cannot be recorded,
        the command is not executed: it could act on other messages than its author sees."""
        line = command.line
        if line.split() == ["help"]:
            return prompts.help_text(self._sign)
        if refused := in_doubt(line, self._sign):
            return harmless(refused)
        try:
            waits = [before] if prompts.only_shows(line) else [before, self._recorder.submit(self._check_writable)]
            for each in waits:
                if not self._recorder.is_done(each, COMMAND_SECONDS, COMMAND_LONGEST):
                    why = self._recorder.blocked or "earlier messages are still being recorded; repeat it in a moment"
                    return prompts.not_done(line, str(why), self._sign)
                each.result()
            PATIENCE.set(COMMAND_SECONDS)
            return act(transcript.agent)
        except Exception as error:
            LOG.warning("a command failed: %s", type(error).__name__)
            return prompts.not_done(line, f"it failed ({type(error).__name__})", self._sign)

    def _check_writable(self) -> None:
        with self._log.store.write():
            pass


def _reach(
    recording: PartialRecording, place: tuple[int, int] | None, transcript: ClientTranscript, *, ends: bool
) -> None:
    """Record everything before a command at `place`, or before all that is asked; end the turn if `ends`."""
    if place is None:
        recording.begin()
    else:
        recording.until(*place)
    if ends:  # the author of the command no longer expects an answer to what precedes it
        transcript.end_turn()
