"""Execute the commands to Foldmark in a request [SPEC 5.7].

Commands wait for what precedes them to be recorded, and each acts on exactly that. They run in threads of their own:
one may ask a model, and other requests must not wait for it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from foldmark.core.segments import contains
from foldmark.live import prompts
from foldmark.live.asking import AskedCommand, AskedFor
from foldmark.live.clients.dialect import ClientMessage
from foldmark.live.recording import Recorder
from foldmark.live.transcript import ClientTranscript, PartialRecording
from foldmark.stores.waiting import PATIENCE

LOG = logging.getLogger(__name__)

COMMAND_SECONDS, COMMAND_LONGEST = 1.0, 30.0
"""Maximum seconds that a command waits for what precedes it to be recorded: while the database is locked, and while the
recorder is at work."""

T = TypeVar("T")


class Executor:
    """Executes commands that begin with `sign`. `later` gives a task to the recorder."""

    def __init__(
        self,
        sign: str,
        recorder: Recorder,
        later: Callable[[Callable[[], Any]], "Future[Any]"],
        writable: Callable[[], object],
    ) -> None:
        self._sign, self._recorder, self._later, self._writable = sign, recorder, later, writable

    async def executed(
        self,
        transcript: ClientTranscript,
        messages: Sequence[ClientMessage],
        asked: AskedFor,
        take: Callable[[int], None],
    ) -> list[str]:
        """Execute the commands of a request, and return the replies. A request that is sent again gets the same ones.
        `take` records that many of its messages."""
        self._note_local(transcript, messages, asked.first)
        if all(each.key in transcript.executed for each in asked.commands):
            self._later(partial(take, len(messages)))
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
                if asked.goes_on:
                    transcript.note_executed(command.key, reply)
                    self._later(partial(transcript.take_executed, command.key, reply))
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
        try:
            waits = [before] if prompts.only_shows(line) else [before, self._recorder.submit(self._writable)]
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
