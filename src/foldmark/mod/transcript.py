"""The transcript of a session whose edits the client itself installs [SPEC 8].

The client then no longer sends what has left, and sends again what a person brings back, in a form of its own. Neither
is new: what has left has its operation already, and what comes back has its events.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from foldmark.core.assembly.eviction import client_placeholder
from foldmark.core.events import Event
from foldmark.core.segments import contains
from foldmark.live.clients.dialect import ClientMessage
from foldmark.live.leaving_out import KnownMessage
from foldmark.live.sizes import PassedOn
from foldmark.live.transcript import ClientTranscript
from foldmark.mod.rows import OPENING, text_of
from foldmark.request.client_sizes import LOCAL
from foldmark.sessions.conversion.content import result_block
from foldmark.sessions.messages import CallMessage, Part, ResultMessage, TextMessage

_EVICTED = client_placeholder(0).partition("0")[0]
"""The beginning of a placeholder."""


class ModTranscript(ClientTranscript):
    """The messages of a session that its own client edits, and their recording."""

    _back: dict[int, dict[int, int]]

    def _take(
        self, places: Sequence[int | None], messages: Sequence[ClientMessage], passed: PassedOn | None = None
    ) -> None:
        self._back = self._put_back(places, messages)
        super()._take(places, messages, passed)

    def gone(self, kept: Container[int | None]) -> list[int]:
        """Return the events of the known messages that left without an operation."""
        at, back = self.standing(), {id for blocks in self._back.values() for id in blocks.values()}
        return [
            id
            for id in super().gone(kept)
            if id not in back and at is not None and contains(at.visible, at.record.id, id)
        ]

    def whole_results(
        self, messages: Sequence[Mapping[str, Any]], known: Sequence[KnownMessage]
    ) -> dict[tuple[int, int], dict[str, Any]]:
        """Return the results that the client sends as placeholders, as they are recorded, by message and block. They
        may have come back."""
        ids = {
            (place, at): own.ids[at]
            for place, (message, own) in enumerate(zip(messages, known, strict=True))
            if len(own.ids) == len(message["content"])
            for at, block in enumerate(message["content"])
            if block.get("type") == "tool_result" and own.ids[at] > 0 and text_of(block).startswith(_EVICTED)
        }
        if not ids:
            return {}
        with self.agent.reading() as (moment, _):
            events = {each.id: each for each in moment.events(sorted(set(ids.values())))}
        found: dict[tuple[int, int], dict[str, Any]] = {}
        for (place, at), id in ids.items():
            block, event = messages[place]["content"][at], events.get(id)
            if event is not None and text_of(block) == client_placeholder(len(event.content)):
                found[place, at] = {**block, **result_block(event, str(block.get("tool_use_id")))}
        return found

    def _append(self, message: ClientMessage, local: Sequence[int] = ()) -> tuple[int, ...]:
        back = self._back.get(id(message), {})
        if not back:
            return super()._append(message, local)
        is_new = any(part is not None and block not in back for block, part in enumerate(self.dialect.parts(message)))
        parts = self._opened(message, local) if is_new else [None for _ in message.blocks]
        own = [None if block in back else part for block, part in enumerate(parts)]
        ids = self._append_parts(own, local)
        self._closed(own)
        return tuple(back.get(block, id) for block, id in enumerate(ids))

    def _put_back(self, places: Sequence[int | None], messages: Sequence[ClientMessage]) -> dict[int, dict[int, int]]:
        """Return the events of the blocks that an edit has put back or rewritten, by the identity of their messages."""
        new = [message for message, place in zip(messages, places, strict=True) if place is None]
        if not new or any(map(self.dialect.is_compacted, new)):
            return {}  # what the client keeps behind its own summary counts as new
        rewritten = {id for at, each in enumerate(self.known) if at not in places for id in each.ids if id > 0}
        with self.agent.reading() as (moment, at):
            summaries = [each.id for each in moment.operations(self.agent.id) if each.kind == "summary"]
            wanted = {*rewritten, *self.left, *summaries}
            ids = sorted(id for id in wanted if contains(at.visible, self.agent.id, id))
            finder = _PutBack(moment.events(ids))
        found: dict[int, dict[int, int]] = {}
        for message in new:
            blocks: dict[int, int] = {}
            for block, part in enumerate(self.dialect.parts(message)):
                if part is None:
                    continue
                event = finder.event_of(part)
                if event is not None:
                    blocks[block] = event.id
                elif isinstance(part, TextMessage) and part.text.strip() == OPENING:
                    blocks[block] = LOCAL  # Foldmark's own
            if blocks:
                found[id(message)] = blocks
        return found


class _PutBack:
    """Finds the events of contents that the client sends again: calls and results by their ids, texts in order."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._calls = {each.call_id: each for each in events if each.kind == "tool_call"}
        self._results = {each.call_id: each for each in events if each.kind == "tool_result"}
        self._texts = [each for each in events if each.kind not in ("tool_call", "tool_result")]

    def event_of(self, part: Part) -> Event | None:
        """Return the event of a content; None for a new one."""
        if isinstance(part, CallMessage):
            return self._calls.pop(part.call_id, None)
        if isinstance(part, ResultMessage):
            found = self._results.get(part.call_id)
            if found is None or part.text.strip() not in _forms(found):
                return None
            return self._results.pop(part.call_id)
        text = part.text.strip()
        at = next((at for at, each in enumerate(self._texts) if each.content.strip() == text), None)
        return None if at is None else self._texts.pop(at)


def _forms(result: Event) -> tuple[str, str]:
    """Return the texts with which a result may be sent."""
    return result.content.strip(), client_placeholder(len(result.content))


def answered_message(message: Any, usage: Any, model: str) -> bytes:
    """Return an answer in the form in which the provider sends it, as JSON."""
    import msgspec

    return msgspec.json.encode(
        {
            "id": "msg_mod",
            "type": "message",
            "role": "assistant",
            "content": message["content"],
            "model": model,
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": usage,
        }
    )
