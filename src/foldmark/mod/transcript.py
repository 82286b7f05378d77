"""The transcript of a session whose edits the client itself installs [SPEC 8].

The client then no longer sends what has left, and sends again what a person brings back, in a form of its own. Neither
is new: what has left has its operation already, and what comes back has its events.
"""

from collections.abc import Container, Sequence
from typing import Any

import msgspec

from foldmark.core import selections
from foldmark.core.assembly.eviction import client_placeholder
from foldmark.core.segments import contains
from foldmark.live.sizes import PassedOn
from foldmark.live.transcript import ClientTranscript
from foldmark.live.view import Seen
from foldmark.mod.rows import OPENING, text_of
from foldmark.overlay.ledger import CameBack, KnownMessage
from foldmark.overlay.pieces import ClientMessage, decoded
from foldmark.request.client_sizes import LOCAL
from foldmark.wires.anthropic import result_block
from foldmark.wires.parts import Part, TextMessage

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

    def ends_with_new_answer(self, messages: Sequence[ClientMessage]) -> bool:
        """Return True if the last of the client's messages is an answer that is not recorded yet."""
        newest = messages[-1]
        if newest.role != "assistant":
            return False
        places = self.places(messages, asks=False, known=self.known)
        if places[-1] is not None or not self.exists:
            return places[-1] is None
        back = self._put_back(places, messages).get(id(newest), {})
        said = (at for at, part in enumerate(self.dialect.parts(newest)) if part is not None and not is_thought(part))
        return not back or any(at not in back for at in said)

    def gone(self, kept: Container[int | None]) -> list[int]:
        """Return the events of the known messages that left without an operation."""
        at, back = self.standing(), {id for blocks in self._back.values() for id in blocks.values()}
        return [
            id
            for id in super().gone(kept)
            if id not in back and at is not None and contains(at.visible, at.record.id, id)
        ]

    def rewritten(self, known: Sequence[KnownMessage], messages: Sequence[ClientMessage], seen: Seen) -> dict[int, Any]:
        """Return the content that a result is to have instead of the client's own, by its event: the placeholder of an
        evicted one, and the recorded content of one that the client sends as a placeholder although it has come back.
        """
        cut: dict[int, Any] = {}
        sent = {
            id: text_of(decoded(block))
            for own, message in zip(known, messages, strict=True)
            if message.results and len(own.ids) == len(message.blocks)
            for id, block in zip(own.ids, message.blocks, strict=True)
            if id > 0 and _EVICTED.encode() in block
        }
        if sent:
            with self.agent.reading() as (moment, _):
                events = moment.events(sorted(sent))
            cut = {
                each.id: result_block(each, str(each.call_id))["content"]
                for each in events
                if each.kind == "tool_result" and sent[each.id] == client_placeholder(len(each.content))
            }
        evicted = {id: text for id, text in seen.evicted.items() if id not in cut}
        return evicted | {id: content for id, content in cut.items() if id not in seen.evicted}

    def _append(self, message: ClientMessage, local: Sequence[int] = ()) -> tuple[int, ...]:
        back = self._back.get(id(message), {})
        is_new = any(part is not None and block not in back for block, part in enumerate(self.dialect.parts(message)))
        parts = self._opened(message, local) if is_new else [None for _ in message.blocks]
        own = [None if block in back else part for block, part in enumerate(parts)]
        ids = self._append_parts(own, local)
        self._closed(own)
        return tuple(back.get(block, id) for block, id in enumerate(ids))

    def _put_back(self, places: Sequence[int | None], messages: Sequence[ClientMessage]) -> dict[int, dict[int, int]]:
        """Return the events of the blocks that an edit has put back or rewritten, by the identity of their messages."""
        new = [message for message, place in zip(messages, places, strict=True) if place is None]
        if not new:
            return {}
        rewritten = {id for at, each in enumerate(self.known) if at not in places for id in each.ids if id > 0}
        sent = {id for at, each in enumerate(self.known) if at in places for id in each.ids}
        with self.agent.reading() as (moment, at):
            summaries = (each.id for each in selections.operations(moment, self.agent.id) if each.kind == "summary")
            wanted = {*rewritten, *self.left, *summaries} - sent
            back = CameBack(moment.events(sorted(id for id in wanted if contains(at.visible, self.agent.id, id))))
        found: dict[int, dict[int, int]] = {}
        for message in new:
            blocks: dict[int, int] = {}
            for block, part in enumerate(self.dialect.parts(message)):
                if part is None:
                    continue
                event = back.event_of(part)
                if event is None and isinstance(part, TextMessage) and self.dialect.agent.is_summary(part.text):
                    return {}  # what the client keeps behind its own summary counts as new
                if event is not None:
                    blocks[block] = event.id
                elif isinstance(part, TextMessage) and part.text.strip() == OPENING:
                    blocks[block] = LOCAL  # Foldmark's own
            if blocks:
                found[id(message)] = blocks
        return found


def is_thought(part: Part) -> bool:
    """Return True for a content that only holds thinking."""
    return isinstance(part, TextMessage) and not part.text.strip()


def answered_message(message: Any, usage: Any, model: str) -> bytes:
    """Return an answer in the form in which the provider sends it, as JSON."""
    about = {"id": "msg_mod", "type": "message", "model": model, "stop_reason": "end_turn", "stop_sequence": None}
    return msgspec.json.encode({**message, **about, "usage": usage})
