"""The events of a streamed answer of Anthropic's Messages API, put together to the message that they are pieces of.

Pure: an event comes in as its JSON value. Kinds of events, blocks and deltas that are not known are passed over, as the
API demands of its readers (platform.claude.com/docs/en/build-with-claude/streaming).
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from foldmark.core.errors import ProviderError
from foldmark.core.request import Thought
from foldmark.dialects.anthropic.messages import not_understood, sound

_GROWING = ("text", "thinking")


class Reading:
    """A message as far as it has come; `over` once its end has come."""

    def __init__(self) -> None:
        self.over = False
        self._message: dict[str, Any] | None = None
        self._blocks: dict[int, dict[str, Any]] = {}
        self._open: dict[int, list[str]] = {}

    def take(self, event: Any) -> Iterator[str | Thought]:
        """Add an event, and say what is new to show. Raises ProviderError (`answer`)."""
        kind = event.get("type") if isinstance(event, dict) else None
        if not isinstance(kind, str):
            raise not_understood("an event has no type")
        if kind == "message_start":
            if self._message is not None:
                raise not_understood("it begins twice")
            self._message = dict(_object(event, "message"))
        elif kind == "content_block_start":
            yield from self._begin(event)
        elif kind == "content_block_delta":
            yield from self._grow(event)
        elif kind == "content_block_stop":
            self._close(_index(event))
        elif kind == "message_delta":
            self._change(event)
        elif kind == "message_stop":
            self._began()
            if self._open:
                raise not_understood("it ends within a block")
            self.over = True

    def message(self) -> dict[str, Any]:
        """The whole message. Raises ProviderError: `network` if it broke off, `answer` if it never began."""
        if self._message is None:
            raise not_understood("no message came")
        if not self.over:
            raise ProviderError("network", "Anthropic's answer broke off before its end. Ask again.")
        return {**self._message, "content": [self._blocks[index] for index in sorted(self._blocks)]}

    def _began(self) -> dict[str, Any]:
        if self._message is None:
            raise not_understood("a part of a message came before its start")
        return self._message

    def _begin(self, event: dict[str, Any]) -> Iterator[str | Thought]:
        self._began()
        index, block = _index(event), dict(_object(event, "content_block"))
        if index in self._blocks:
            raise not_understood("a block begins twice")
        self._blocks[index], self._open[index] = block, []
        if block.get("type") in _GROWING:
            yield from self._more(index, block["type"], block.get(block["type"]))

    def _grow(self, event: dict[str, Any]) -> Iterator[str | Thought]:
        index, delta = _index(event), _object(event, "delta")
        if index not in self._open:
            raise not_understood("a piece came of a block that is not open")
        match delta.get("type"):
            case "text_delta":
                yield from self._more(index, "text", delta.get("text"))
            case "thinking_delta":
                yield from self._more(index, "thinking", delta.get("thinking"))
            case "signature_delta":
                self._blocks[index]["signature"] = delta.get("signature")
            case "citations_delta" if isinstance(delta.get("citation"), dict):
                before = self._blocks[index].get("citations")
                self._blocks[index]["citations"] = [
                    *(before if isinstance(before, list) else ()),
                    delta["citation"],
                ]
            case "compaction_delta":
                changed = {name: value for name, value in delta.items() if name != "type" and value is not None}
                self._blocks[index].update(changed)
            case "input_json_delta":
                yield from self._more(index, "", delta.get("partial_json"))

    def _more(self, index: int, kind: str, text: Any) -> Iterator[str | Thought]:
        """Text of a block of this kind, `""` for the arguments of a call."""
        own = self._blocks[index].get("type")
        if not isinstance(text, str) or (own if own in _GROWING else "") != kind:
            raise not_understood("a piece of a block is not of its kind")
        self._open[index].append(sound(text))
        if kind and text:
            yield sound(text) if kind == "text" else Thought(sound(text))

    def _close(self, index: int) -> None:
        if index not in self._open:
            raise not_understood("a block ends that is not open")
        block, text = self._blocks[index], "".join(self._open.pop(index))
        if block.get("type") in _GROWING:
            block[block["type"]] = text
        elif text:
            block["input"] = _value(text)

    def _change(self, event: dict[str, Any]) -> None:
        """What a change does not say, or says is null, stays; numbers of tokens are sums."""
        message, delta, usage = self._began(), _object(event, "delta"), event.get("usage")
        if delta.get("stop_reason") is not None:
            message["stop_reason"] = delta["stop_reason"]
        if delta.get("container") is not None:
            message["container"] = delta["container"]
        if event.get("input_transformations") is not None:
            message["input_transformations"] = event["input_transformations"]
        if event.get("context_management") is not None:
            message["context_management"] = event["context_management"]
        if isinstance(usage, dict):
            before = message.get("usage")
            known = {name: value for name, value in usage.items() if value is not None}
            message["usage"] = {**(before if isinstance(before, dict) else {}), **known}


def _value(arguments: str) -> Any:
    """The arguments of a call; their text itself if that is no JSON, so that the model is told what it said."""
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError):
        return arguments


def _index(event: dict[str, Any]) -> int:
    index = event.get("index")
    if not isinstance(index, int) or isinstance(index, bool):
        raise not_understood("a block has no number")
    return index


def _object(event: dict[str, Any], name: str) -> dict[str, Any]:
    value = event.get(name)
    if not isinstance(value, dict):
        raise not_understood(f"{event['type']} has no {name}")
    return value
