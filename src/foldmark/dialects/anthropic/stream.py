"""A streamed answer of Anthropic's Messages API, and its refusals.

Unknown kinds of events, blocks and deltas are ignored, as the API requires of its clients
(platform.claude.com/docs/en/build-with-claude/streaming). The kinds of errors: platform.claude.com/docs/en/api/errors.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from foldmark.core.errors import ProviderError
from foldmark.core.request import Piece, Thought
from foldmark.dialects.anthropic.blocks import NAME
from foldmark.dialects.anthropic.messages import parse
from foldmark.dialects.anthropic.thinking import bind
from foldmark.dialects.bodies import Json
from foldmark.dialects.errors import broken_off, not_understood, overflow, refused, retry_after
from foldmark.wires.lenient_json import arguments, as_object, as_text

_GROWING = ("text", "thinking")
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_CHANGES = ("stop_reason", "container", "input_transformations", "context_management")


class MessageReader:
    """Reads a streamed message; `body` is the request that it answers."""

    def __init__(self, body: Json) -> None:
        self.over = False
        self._body = body
        self._message: Json | None = None
        self._blocks: dict[int, Json] = {}
        self._open: dict[int, list[str]] = {}

    def add(self, event: Json) -> Iterator[str | Thought]:
        """Process an event, and yield the pieces to show at once. Raises ProviderError (`answer`)."""
        try:
            yield from self._add(event)
        except (AttributeError, KeyError, TypeError, ValueError) as odd:
            raise not_understood(NAME, f"its {as_text(event.get('type'))} does not fit ({odd})") from None

    def pieces(self) -> tuple[Piece, ...]:
        """Return the pieces of the whole message. Raises the same errors as `message`."""
        return tuple(each for each in bind(lambda: self._body, parse(self.message())) if not isinstance(each, str))

    def message(self) -> Json:
        """Return the whole message in the form of an answer that was not streamed. Raises ProviderError: `network` if
        it broke off, `answer` if it never began."""
        if self._message is None:
            raise not_understood(NAME, "no message came")
        if not self.over:
            raise broken_off(NAME)
        return {**self._message, "content": [self._blocks[index] for index in sorted(self._blocks)]}

    def _add(self, event: Json) -> Iterator[str | Thought]:
        kind = event["type"]
        if kind == "message_start":
            if self._message is not None:
                raise ValueError("a second beginning")
            self._message = {**event["message"]}
        elif kind in ("content_block_start", "content_block_delta", "content_block_stop"):
            yield from self._add_block(kind, int(event["index"]), event)
        elif kind == "message_delta":
            self._change(event)
        elif kind == "message_stop":
            if self._message is None or self._open:
                raise ValueError("no message, or one with an open block")
            self.over = True

    def _add_block(self, kind: str, index: int, event: Json) -> Iterator[str | Thought]:
        if self._message is None or (index in self._blocks) == (kind == "content_block_start"):
            raise ValueError("not in its place")
        if kind == "content_block_start":
            self._blocks[index], self._open[index] = {**event["content_block"]}, []
            block = self._blocks[index]
            if block.get("type") in _GROWING:
                yield from self._more(index, block["type"], block.get(block["type"]))
        elif kind == "content_block_delta":
            yield from self._grow(index, event["delta"])
        else:
            block, whole = self._blocks[index], "".join(self._open.pop(index))
            if block.get("type") in _GROWING:
                block[block["type"]] = whole
            elif whole:
                block["input"] = arguments(whole)

    def _grow(self, index: int, delta: Json) -> Iterator[str | Thought]:
        block, kind = self._blocks[index], delta.get("type")
        if kind in _DELTAS:
            yield from self._more(index, _DELTAS[kind], delta.get(_DELTAS[kind]))
        elif kind == "signature_delta":
            block["signature"] = delta.get("signature")
        elif kind == "citations_delta" and isinstance(delta.get("citation"), dict):
            before = block.get("citations")
            block["citations"] = [*(before if isinstance(before, list) else ()), delta["citation"]]
        elif kind == "compaction_delta":
            block.update({name: value for name, value in delta.items() if name != "type" and value is not None})

    def _more(self, index: int, field: str, new: Any) -> Iterator[str | Thought]:
        """Add text to a block: to its growing field, or to the arguments of a call."""
        own = self._blocks[index].get("type")
        if not isinstance(new, str) or (own if own in _GROWING else "partial_json") != field:
            raise TypeError("not of the block's kind")
        self._open[index].append(new)
        if new and field != "partial_json":
            yield new if field == "text" else Thought(new)

    def _change(self, event: Json) -> None:
        """Apply a change to the message. Missing and null fields keep their values; token counts are cumulative."""
        if self._message is None:
            raise ValueError("no message")
        changes = {**event, **event["delta"]}
        self._message.update({name: changes[name] for name in _CHANGES if changes.get(name) is not None})
        known = {name: value for name, value in as_object(event.get("usage")).items() if value is not None}
        self._message["usage"] = {**as_object(self._message.get("usage")), **known}


_KINDS = {
    "authentication_error": "key",
    "permission_error": "key",
    "billing_error": "key",
    "rate_limit_error": "rate",
    "overloaded_error": "busy",
    "api_error": "busy",
    "timeout_error": "busy",
    "request_too_large": "overflow",
}
_STATUSES = {401: "key", 402: "key", 403: "key", 408: "busy", 413: "overflow", 429: "rate"}
_BOUND = "bound to a different conversation"
_KEY = "Check the key in ANTHROPIC_API_KEY, and what its account may use."


def refusal(status: int, body: Any, headers: Mapping[str, str], hidden: Callable[[str], str]) -> ProviderError:
    """Return the error for a refusal, by its HTTP status; a status below 400 is that of a stream, and is ignored.
    `hidden` removes the key from a text."""
    about = as_object(as_object(body).get("error"))
    words = hidden(as_text(about.get("message")) or as_text(body))
    named, status = as_text(about.get("type")), status if status >= 400 else 0
    is_busy = status >= 500 if status else named not in ("invalid_request_error", "not_found_error")
    kind = _KINDS.get(named) or _STATUSES.get(status) or ("busy" if is_busy else "request")
    sizes = overflow(words)
    if kind == "request" and (sizes or _BOUND in words):
        kind = "overflow" if sizes else "bound"
    tokens, limit = sizes or (None, None)
    hint = _KEY if kind == "key" else ""
    after = retry_after(headers, words)
    return refused(NAME, kind, words, status, hint=hint, after=after, tokens=tokens, limit=limit)
