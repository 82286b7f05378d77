"""Put a text of Foldmark's own at the beginning of a provider's answer, while it arrives [SPEC 5.7]. Pure.

So a person reads the reply to a command that was typed while the agent worked. The rest of the answer keeps its
content; only the numbers of its blocks or items change.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from foldmark.dialects.gemini.contents import first_candidate, parts_of
from foldmark.live.clients.answers import named_event, text_block_events, text_item, text_item_events
from foldmark.wires.lenient_json import objects_in

Members = dict[str, Raw]

BEHIND = "\n\n"
"""What stands between the text and the answer where they are one text."""


class Weaver:
    """Changes one answer. `text` is the text to put before it."""

    def __init__(self, text: str, *, streamed: bool) -> None:
        self.text, self._streamed = text, streamed
        self._waiting = b""

    def add(self, piece: bytes) -> bytes:
        """Return what the client gets once this piece of the answer has arrived."""
        self._waiting += piece
        if not self._streamed:
            return b""
        made = b""
        while found := _end_of_event(self._waiting):
            event, self._waiting = self._waiting[:found], self._waiting[found:]
            made += self._changed(event)
        return made

    def end(self) -> bytes:
        """Return the rest, once the answer has ended."""
        rest, self._waiting = self._waiting, b""
        if self._streamed or not rest:
            return rest
        try:
            return msgspec.json.encode(self.whole(msgspec.json.decode(rest, type=Members)))
        except (msgspec.MsgspecError, KeyError):
            return rest

    def _changed(self, event: bytes) -> bytes:
        lines = event.replace(b"\r\n", b"\n").split(b"\n")
        data = b"".join(line[5:].strip() for line in lines if line.startswith(b"data:"))
        try:
            members = msgspec.json.decode(data, type=Members)
            kind = msgspec.json.decode(members["type"], type=str)
            return b"".join(
                named_event(kind, each) if isinstance(each, dict) else each
                for each in self.events(kind, members, event)
            )
        except (msgspec.MsgspecError, KeyError):
            return event

    def events(self, kind: str, members: Members, event: bytes) -> Iterator[Members | bytes]:
        """Yield the events to send for an event of the stream: bytes, or the members of one of the same kind."""
        raise NotImplementedError

    def whole(self, body: Members) -> Members:
        """Return the body to send for an answer that is not a stream."""
        raise NotImplementedError


class MessageWeaver(Weaver):
    """Anthropic's Messages API: a block before the others."""

    def events(self, kind: str, members: Members, event: bytes) -> Iterator[Members | bytes]:
        if kind.startswith("content_block_"):
            yield {**members, "index": _shifted(members["index"], 1)}
            return
        yield event
        if kind == "message_start":
            yield text_block_events(self.text)

    def whole(self, body: Members) -> Members:
        return {**body, "content": _after({"type": "text", "text": self.text}, body["content"])}


class ResponseWeaver(Weaver):
    """OpenAI's Responses API: an item before the others. `id` is that of the item."""

    def __init__(self, text: str, id: str, *, streamed: bool) -> None:
        super().__init__(text, streamed=streamed)
        self._item, self._shift = text_item(text, id), 0

    def events(self, kind: str, members: Members, event: bytes) -> Iterator[Members | bytes]:
        if "sequence_number" in members:
            members = {**members, "sequence_number": _shifted(members["sequence_number"], self._shift)}
        if "output_index" in members:
            members = {**members, "output_index": _shifted(members["output_index"], 1)}
        if kind in ("response.completed", "response.incomplete"):
            members = {**members, "response": _raw(self.whole(msgspec.json.decode(members["response"], type=Members)))}
        yield members
        if kind == "response.created":
            first = msgspec.json.decode(members.get("sequence_number", Raw(b"0")), type=int) + 1
            made = text_item_events(self._item, first)
            self._shift = len(made)
            yield b"".join(made)

    def whole(self, body: Members) -> Members:
        return {**body, "output": _after(self._item, body["output"])}


class TextWeaver(Weaver):
    """A wire whose client would join two texts: the text is put into the first chunk of the answer that has a place for
    it. A stream has chunks without a name, and `blank` behind each."""

    blank: ClassVar[bytes] = b"\n\n"
    _said = False

    def end(self) -> bytes:
        rest, self._waiting = self._waiting, b""
        if self._streamed or not rest:
            return rest
        try:
            found = msgspec.json.decode(rest)
        except msgspec.DecodeError:
            return rest
        for each in found if isinstance(found, list) else [found]:
            self._weave(each)
        return msgspec.json.encode(found) if self._said else rest

    def _changed(self, event: bytes) -> bytes:
        try:
            chunk = msgspec.json.decode(event.strip().removeprefix(b"data:"))
        except msgspec.DecodeError:
            return event
        return b"data: " + msgspec.json.encode(chunk) + self.blank if self._weave(chunk) else event

    def _weave(self, chunk: Any) -> bool:
        """Put the text into a chunk. Return True if this was done."""
        if self._said or not isinstance(chunk, dict):
            return False
        self._said = self.put(chunk)
        return self._said

    def put(self, chunk: dict[str, Any]) -> bool:
        """Put the text into a chunk. Return False if that has no place for it."""
        raise NotImplementedError


class CompletionWeaver(TextWeaver):
    """OpenAI's Chat Completions: at the beginning of the text of the answer."""

    def put(self, chunk: dict[str, Any]) -> bool:
        member = "delta" if self._streamed else "message"
        first = [each for each in objects_in(chunk.get("choices")) if each.get("index") in (0, None)]
        made = objects_in([each.get(member) for each in first])
        for each in made:
            each["content"] = self.text + BEHIND + (each.get("content") or "")
        return bool(made)


class ContentsWeaver(TextWeaver):
    """Gemini's generateContent: at the beginning of the first text, which keeps its signature, or before a call. The
    client would lose the signature of a second text."""

    blank = b"\r\n\r\n"

    def put(self, chunk: dict[str, Any]) -> bool:
        if not chunk.get("candidates"):
            return False
        candidate = first_candidate(chunk)
        parts = list(parts_of(candidate))
        at = next((place for place, part in enumerate(parts) if part.get("thought") is not True), len(parts))
        if at == len(parts) and "finishReason" not in candidate:
            return False
        own = self.text + BEHIND
        if at < len(parts) and isinstance(parts[at].get("text"), str):
            parts[at] = {**parts[at], "text": own + parts[at]["text"]}
        else:
            parts.insert(at, {"text": own})
        content = candidate.get("content") or {"role": "model"}
        chunk["candidates"] = [{**candidate, "content": {**content, "parts": parts}}, *chunk["candidates"][1:]]
        return True


def _end_of_event(waiting: bytes) -> int:
    """Return where the first event of a stream ends; 0 if it is not complete."""
    ends = [found + len(blank) for blank in (b"\n\n", b"\r\n\r\n") if (found := waiting.find(blank)) >= 0]
    return min(ends, default=0)


def _shifted(number: Raw, by: int) -> Raw:
    return _raw(msgspec.json.decode(number, type=int) + by)


def _after(first: Any, rest: Raw) -> Raw:
    return _raw([first, *msgspec.json.decode(rest, type=list[Raw])])


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))
