"""OpenAI's two protocols on the loopback interface, with clients. They also serve whole answers, as the Agents SDK
requests them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from plan import Answer, Http, Reply, Say, Use
from server import Loopback
from wire_openai import OpenAIWire, ResponsesWire

if TYPE_CHECKING:
    from agents import Model


class _Whole:
    """Accepts requests for whole answers as well as for streams."""

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        found: Http | None = super().refuse(path, headers, {**body, "stream": True})  # type: ignore[misc]
        return found


class WholeResponses(_Whole, ResponsesWire):
    """POST /responses. Every id is unique, and a request without the reasoning of an item is refused: "Item 'fc_1' of
    type 'function_call' was provided without its required 'reasoning' item: 'rs_1'" (openai/openai-python and the
    Agents SDK have many reports of it)."""

    def __init__(self) -> None:
        self._answers, self._needs = 0, dict[str, str]()

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        found = super().refuse(path, headers, body)
        ids: set[str] = {str(item.get("id")) for item in body.get("input", ()) if isinstance(item, dict)}
        missing = [
            f"{each} without {self._needs[each]}" for each in ids & self._needs.keys() if self._needs[each] not in ids
        ]
        return found or (Http(400, {"content-type": "text/plain"}, "; ".join(missing).encode()) if missing else None)

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        self._answers += 1
        own = re.compile(rb'"(rs|msg|fc)_(?=[0-9]+")')
        events = [own.sub(rb'"\1_%dx' % self._answers, event) for event in super().stream(reply, body)]
        thought = None
        for item in _response(events[-1])["output"]:
            thought = item["id"] if item["type"] == "reasoning" else thought
            if thought and item["type"] != "reasoning":
                self._needs[item["id"]] = thought
        yield from events

    def whole(self, reply: Reply, body: dict[str, Any]) -> Http:
        *_, end = self.stream(reply, body)
        return _json(_response(end))


class WholeChat(_Whole, OpenAIWire):
    """POST /chat/completions."""

    def whole(self, reply: Reply, body: dict[str, Any]) -> Http:
        text = "".join(piece for part in reply.parts if isinstance(part, Say) for piece in part.pieces)
        calls = [
            {
                "id": part.call_id,
                "type": "function",
                "function": {"name": part.name, "arguments": json.dumps(part.args)},
            }
            for part in reply.parts
            if isinstance(part, Use)
        ]
        message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
        return _json({**head, "choices": [choice], "usage": usage})


def loopback(wire: WholeResponses | WholeChat, answers: Iterable[Answer]) -> Loopback:
    """Return a server that plays the answers in order, whole or as streams, as each request asks."""
    coming = iter(answers)

    def answer(body: dict[str, Any]) -> Answer | Http:
        wanted = next(coming)
        return wanted if body.get("stream") or not isinstance(wanted, Reply) else wire.whole(wanted, body)

    return Loopback(wire, answer)


WIRES: dict[str, type[WholeResponses | WholeChat]] = {"responses": WholeResponses, "chat": WholeChat}


@asynccontextmanager
async def asking(name: str, url: str) -> AsyncIterator[Model]:
    """Yield the SDK's own model for a protocol, as a client of the server at `url`."""
    from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel
    from openai import AsyncOpenAI

    made = OpenAIResponsesModel if name == "responses" else OpenAIChatCompletionsModel
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="test-key", max_retries=0) as client:
        yield made(WIRES[name].model, client)


def _response(event: bytes) -> Any:
    return json.loads(event.partition(b"data: ")[2])["response"]


def _json(value: Any) -> Http:
    return Http(200, {"content-type": "application/json"}, json.dumps(value).encode())
