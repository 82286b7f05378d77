"""What was sent to models, in SQLite (see `foldmark.core.sent`)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from foldmark.core.errors import DamagedError
from foldmark.core.events import Event
from foldmark.core.segments import END, Segments
from foldmark.core.sent import Makings, SentRequest
from foldmark.stores.sqlite.reader import Reader, Run, Writer


class SentView(Reader):
    """Reads what was sent."""

    def sent(self, agent_id: str, sent_id: int) -> SentRequest | None:
        return next((_sent(agent_id, row) for row in self._run("sent", self._key(agent_id), sent_id)), None)

    def newest_sent(self, agent_id: str, limit: int, until: int = END) -> list[SentRequest]:
        return [_sent(agent_id, row) for row in self._run("newest_sent", self._key(agent_id), until, limit)]

    def answered_last(self, agent_id: str) -> SentRequest | None:
        return next((_sent(agent_id, row) for row in self._run("answered_last", self._key(agent_id))), None)

    def kept_text(self, sha256: str) -> str:
        for (text,) in self._run("kept_text", sha256):
            return str(text)
        raise DamagedError(f"the text with the hash {sha256[:12]} is not there; run `foldmark doctor`")

    def tombstones(self, segments: Segments) -> list[Event]:
        found = self._events(self._sql["tombstones"], (self._keyed(segments),)) if segments else []
        return sorted(found, key=lambda event: event.id)


class Sent(SentView, Writer):
    """Records what is sent."""

    def add_sent(self, request: SentRequest, texts: Mapping[str, str]) -> int:
        with self.whole():
            for sha256, text in texts.items():
                self._run("keep_text", sha256, text)
            ((sent_id,),) = self._run(
                "record_sent",
                self._key(request.agent),
                request.event,
                request.turn,
                request.created_at,
                request.provider,
                request.model,
                request.sha256,
                request.bytes,
                request.tokens,
                msgspec.json.encode(request.makings).decode(),
            )
        return int(sent_id)


def damage(run: Run) -> Iterator[str]:
    """What is wrong with these records."""
    for agent_id, sent_id, missing in run("wrong_sent"):
        what = "belongs to a deleted agent" if missing is None else f"needs {missing} that are not there"
        yield f"agent {agent_id[:8]}: request {sent_id}, which it sent, {what}"


def _sent(agent_id: str, row: Sequence[Any]) -> SentRequest:
    sent_id, *fields, data = row
    try:
        return SentRequest(agent_id, *fields, msgspec.json.decode(data, type=Makings), sent_id)  # type: ignore[call-arg]
    except (msgspec.MsgspecError, RecursionError):
        raise DamagedError(f"what request {sent_id} of {agent_id[:8]} was made of is not readable") from None
