"""Records of requests (see `foldmark.core.assembly.sent`)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from foldmark.core.assembly.sent import RequestRecord, SentRequest
from foldmark.core.errors import DamagedError
from foldmark.core.events import Event
from foldmark.core.segments import END, Segments
from foldmark.stores.reader import Bindings, Run, SqlReader, SqlWriter

_COLUMNS = ("event", "turn", "created_at", "provider", "model", "sha256", "bytes", "tokens")


class SqlSentView(SqlReader):
    """Reads recorded requests."""

    def sent(self, agent_id: str, sent_id: int) -> SentRequest | None:
        return next((_sent(agent_id, row) for row in self._run("sent", **self._of(agent_id), sent=sent_id)), None)

    def newest_sent(self, agent_id: str, limit: int, until: int = END) -> list[SentRequest]:
        found = self._run("newest_sent", **self._of(agent_id), until=until, limit=limit)
        return [_sent(agent_id, row) for row in found]

    def answered_last(self, agent_id: str) -> SentRequest | None:
        return next((_sent(agent_id, row) for row in self._run("answered_last", **self._of(agent_id))), None)

    def kept_text(self, sha256: str) -> str:
        for (text,) in self._run("kept_text", hash=sha256):
            return str(text)
        raise DamagedError(f"the text with the hash {sha256[:12]} is not there; run `foldmark doctor`")

    def tombstones(self, segments: Segments) -> list[Event]:
        found = self._events("tombstones", **self._within(segments)) if segments else []
        return sorted(found, key=lambda event: event.id)


class SqlSent(SqlSentView, SqlWriter):
    """Records requests."""

    def add_sent(self, request: SentRequest, texts: Mapping[str, str]) -> int:
        with self.whole():
            for sha256, text in sorted(texts.items()):
                self._write("keep_text", hash=sha256, text=text)
            row = {name: getattr(request, name) for name in _COLUMNS}
            return self._record_sent({**self._of(request.agent), **row, **self._made(request.record)})

    def _record_sent(self, row: Bindings) -> int:
        """Add a request and return its id."""
        ((sent_id,),) = self._run("record_sent", **row)
        return int(sent_id)

    def _made(self, record: RequestRecord) -> Bindings:
        """Return the columns of a request's record."""
        return {"data": msgspec.json.encode(record).decode()}


def damage(run: Run) -> Iterator[str]:
    """Yield the faults of these records."""
    for agent_id, sent_id, missing in run("wrong_sent"):
        what = "belongs to a deleted agent" if missing is None else f"needs {missing} that are not there"
        yield f"agent {agent_id[:8]}: request {sent_id}, which it sent, {what}"


def _sent(agent_id: str, row: Sequence[Any]) -> SentRequest:
    sent_id, *fields, data, question = row
    try:
        record = msgspec.json.decode(data, type=RequestRecord)
        if question is not None:
            record = msgspec.structs.replace(record, question=question)
        return SentRequest(agent_id, *fields, record, sent_id)  # type: ignore[call-arg]
    except (msgspec.MsgspecError, RecursionError):
        raise DamagedError(f"what request {sent_id} of {agent_id[:8]} was made of is not readable") from None
