"""A chat completion that comes in chunks, put together again into the whole that it would have been.

Servers differ: calls come without an index, with a wrong one, or with the same for all; ids and names are missing,
empty or repeated; the arguments come in pieces or at once; usage comes last, in every chunk, or not at all.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from foldmark.core.request import Thought
from foldmark.dialects.openai.chat import REASONING
from foldmark.dialects.openai.reading import arguments, text_of

_JOINED = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""What of the pieces of thinking that belong together is joined, by their type."""


class Whole:
    """The answer so far."""

    def __init__(self) -> None:
        self.finish = ""
        self._message: dict[str, Any] = {"role": "assistant", "content": "", "refusal": ""}
        self._calls: list[dict[str, str]] = []
        self._slots: dict[int, dict[str, str]] = {}
        self._details: list[dict[str, Any]] = []
        self._usage: dict[str, Any] | None = None

    def add(self, chunk: dict[str, Any]) -> Iterator[str | Thought]:
        """Take a chunk, and give what of it is to be shown at once."""
        if isinstance(chunk.get("usage"), dict):
            self._usage = chunk["usage"]
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index") in (0, None):
                if isinstance(choice.get("finish_reason"), str):
                    self.finish = choice["finish_reason"] or self.finish
                delta = choice.get("delta") or choice.get("message")
                if isinstance(delta, dict):
                    yield from self._add(delta)

    def completion(self) -> dict[str, Any]:
        """The chat completion as a server that does not stream would have sent it."""
        calls = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in self._calls
        ]
        message = {**self._message, "tool_calls": calls, "reasoning_details": self._details}
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        return {"choices": [choice], "usage": self._usage}

    def _add(self, delta: dict[str, Any]) -> Iterator[str | Thought]:
        yield from self._thought(delta)
        for name in ("content", "refusal"):
            if text := text_of(delta.get(name)):
                self._message[name] += text
                yield text
        if isinstance(notes := delta.get("annotations"), list):
            self._message["annotations"] = [*self._message.get("annotations", ()), *notes]
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._call(call)

    def _thought(self, delta: dict[str, Any]) -> Iterator[Thought]:
        details = delta.get("reasoning_details")
        details = [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []
        for detail in details:
            self._detail(dict(detail))
        field = next((name for name in REASONING if isinstance(delta.get(name), str) and delta[name]), None)
        if field is not None:
            self._message[field] = self._message.get(field, "") + delta[field]
            yield Thought(delta[field])
        else:
            for detail in details:
                text = detail.get(_JOINED.get(str(detail.get("type")), ""))
                if isinstance(text, str) and text:
                    yield Thought(text)

    def _detail(self, detail: dict[str, Any]) -> None:
        """Join a piece of thinking to the one before, if it continues that; what is opaque always comes whole."""
        last, joined = self._details[-1] if self._details else {}, _JOINED.get(str(detail.get("type")))
        same = all(last.get(key) == detail.get(key) for key in ("type", "index"))
        if joined is None or detail.get("index") is None or not same:
            self._details.append(detail)
            return
        text = f"{last.get(joined) or ''}{detail.get(joined) or ''}"
        last.update({key: value for key, value in detail.items() if value is not None})
        last[joined] = text

    def _call(self, delta: dict[str, Any]) -> None:
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name, raw = delta.get("id"), function.get("name"), function.get("arguments")
        new = {
            "id": call_id if isinstance(call_id, str) else "",
            "name": name if isinstance(name, str) else "",
            "arguments": raw if isinstance(raw, str) else "" if raw is None else _json(raw),
        }
        index = delta.get("index")
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        call = self._continued(new, index)
        if call is None:
            call = {"id": "", "name": "", "arguments": ""}
            self._calls.append(call)
        elif new == call and new["id"]:
            return  # said twice
        call["id"] = call["id"] or new["id"]
        call["name"] = call["name"] or new["name"]
        call["arguments"] += new["arguments"]
        if index is not None:
            self._slots[index] = call

    def _continued(self, new: dict[str, str], index: int | None) -> dict[str, str] | None:
        """The call that a piece belongs to; None if it begins another."""
        call = None if index is None else self._slots.get(index)
        last = self._calls[-1] if self._calls else None
        if call is None and not new["name"]:
            known = (each for each in self._calls if new["id"] and each["id"] == new["id"])
            call = next(known, None if new["id"] else last)
        elif call is None and index is None and last is not None and new["name"] == last["name"]:
            call = last  # servers that name the call with every piece
        if call is None or (new["id"] and call["id"] and new["id"] != call["id"]):
            return None
        whole = new["name"] and _is_whole(call["arguments"]) and _is_whole(new["arguments"])
        return None if whole and not (new == call and new["id"]) else call


def _is_whole(raw: str) -> bool:
    return isinstance(arguments(raw), dict) and bool(raw.strip())


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
