"""OpenAI's two protocols as a server speaks them: Chat Completions and Responses.

Sources: developers.openai.com/api (chat-streaming, responses-streaming, guides/error-codes), the event types of the
`openai` 3.54 SDK, and the API's own error messages as users report them. Both are served with and without a leading
`/v1`, because the SDK requests either, depending on its `base_url`. OpenAI's own Chat Completions do not show a
model's thinking.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from plan import Fail, Http, Part, Reply, Say, Think, Use
from request_validators import VALIDATORS

_STATUS = {"key": 401, "rate": 429, "busy": 500, "request": 400, "overflow": 400}
_SORRY = "The server had an error while processing your request. Sorry about that!"
_COUNTED = ("model", "input", "instructions", "tools", "tool_choice", "reasoning", "text", "truncation")
_FIRST_PIECES = 7
"""Characters in each piece of a call's arguments; huge arguments come in larger pieces."""


class _OpenAIWire:
    """The common part of both protocols: paths, keys, errors."""

    provider: str
    model: str
    path: str
    count_path = ""

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        known = [self.path, *([self.count_path] if self.count_path else [])]
        if _own(path) not in known:
            return _error(404, f"Invalid URL (POST {path})")
        if not headers.get("authorization", "").startswith("Bearer "):
            return _error(
                401,
                "You didn't provide an API key. You need to provide your API key in an Authorization header using "
                "Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
            )
        wrong = self.violations(body)
        if not wrong and self.is_count(path):
            wrong = [f"Unknown parameter: '{name}'." for name in body if name not in _COUNTED]
        elif not wrong and body.get("stream") is not True:
            wrong = ["stream: this server does nothing but stream"]
        return _error(400, "; ".join(wrong)) if wrong else None

    def violations(self, body: dict[str, Any]) -> list[str]:
        """Return the faults of a body."""
        return VALIDATORS[self.provider](body)

    def is_count(self, path: str) -> bool:
        return _own(path) == self.count_path

    def counted(self, tokens: int) -> Http:
        return _http(200, {"object": "response.input_tokens", "input_tokens": tokens})

    def failure(self, fail: Fail) -> Http:
        status = fail.status or _STATUS[fail.kind]
        match fail.kind:
            case "key":
                message = (
                    "Incorrect API key provided: test-key*****91c2. You can find your API key at "
                    "https://platform.openai.com/account/api-keys."
                )
                return _error(status, message, code="invalid_api_key")
            case "rate":
                wait = fail.retry_after
                again = "" if wait is None else f" Please try again in {wait:g}s."
                message = f"Rate limit reached for {self.model} in organization org-1 on tokens per min (TPM).{again}"
                headers = {} if wait is None else {"retry-after": f"{wait:g}"}
                return _error(status, message, type_="tokens", code="rate_limit_exceeded", headers=headers)
            case "busy":
                overloaded = "The engine is currently overloaded, please try again later"
                return _error(status, _SORRY if status == 500 else overloaded, type_="server_error")
            case "overflow":
                return _error(status, *self._too_long(fail), code="context_length_exceeded")
        if status == 404:
            message = f"The model `{self.model}` does not exist or you do not have access to it."
            return _error(404, message, code="model_not_found")
        return _error(status, "Invalid value for 'model': expected a string, got null.", "model")

    def _too_long(self, fail: Fail) -> tuple[str, str]:
        raise NotImplementedError


class OpenAIWire(_OpenAIWire):
    """POST /chat/completions."""

    provider, model, path = "openai", "gpt-5", "/chat/completions"

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        yield from self.unfinished(reply.parts, body)
        stop = {"end": "stop", "calls": "tool_calls", "length": "length", "refused": "content_filter"}[reply.stop]
        yield self._chunk(body, [_choice({}, stop)])
        if (body.get("stream_options") or {}).get("include_usage"):
            yield self._chunk(body, [], _chat_usage(reply))
        yield b"data: [DONE]\n\n"

    def unfinished(self, parts: tuple[Part, ...], body: dict[str, Any]) -> Iterator[bytes]:
        yield self._chunk(body, [_choice({"role": "assistant", "content": "", "refusal": None})])
        index = 0
        for part in parts:
            match part:
                case Say(pieces):
                    for piece in pieces:
                        yield self._chunk(body, [_choice({"content": piece})])
                case Use():
                    head = {"index": index, "id": part.call_id, "type": "function"}
                    function = {"name": part.name, "arguments": ""}
                    yield self._chunk(body, [_choice({"tool_calls": [{**head, "function": function}]})])
                    for piece in _pieces(part):
                        call = {"index": index, "function": {"arguments": piece}}
                        yield self._chunk(body, [_choice({"tool_calls": [call]})])
                    index += 1

    def error_event(self) -> bytes | None:
        error = {"message": _SORRY, "type": "server_error", "param": None, "code": None}
        return b"data: " + _json({"error": error}) + b"\n\n"

    def texts(self, body: dict[str, Any]) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for message in body["messages"]:
            role = {"tool": "result", "developer": "system"}.get(message["role"], message["role"])
            found += _parts(role, message.get("content"))
            found += [("call", call["function"]["name"]) for call in message.get("tool_calls", ())]
        return found

    def _too_long(self, fail: Fail) -> tuple[str, str]:
        most = f"This model's maximum context length is {fail.limit} tokens."
        message = (
            f"{most} However, your messages resulted in {fail.tokens} tokens. Please reduce the length of the messages."
        )
        return message, "messages"

    def _chunk(self, body: dict[str, Any], choices: list[Any], usage: dict[str, Any] | None = None) -> bytes:
        chunk = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": body["model"],
            "service_tier": "default",
            "system_fingerprint": None,
            "choices": choices,
            "usage": usage,
        }
        return b"data: " + _json(chunk) + b"\n\n"


class ResponsesWire(_OpenAIWire):
    """POST /responses and /responses/input_tokens."""

    provider, model, path = "openai_responses", "gpt-5.1", "/responses"
    count_path = "/responses/input_tokens"

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        events = _Events(body)
        yield from events.parts(reply.parts)
        reason = {"length": "max_output_tokens", "refused": "content_filter"}.get(reply.stop)
        yield events.end(reply, reason)

    def unfinished(self, parts: tuple[Part, ...], body: dict[str, Any]) -> Iterator[bytes]:
        yield from _Events(body).parts(parts)

    def error_event(self) -> bytes | None:
        event = {"type": "error", "code": "server_error", "message": _SORRY, "param": None, "sequence_number": 99}
        return b"event: error\ndata: " + _json(event) + b"\n\n"

    def texts(self, body: dict[str, Any]) -> list[tuple[str, str]]:
        found = _parts("system", body.get("instructions"))
        for item in body["input"]:
            match item.get("type", "message"):
                case "message":
                    found += _parts({"developer": "system"}.get(item["role"], item["role"]), item["content"])
                case "function_call":
                    found.append(("call", item["name"]))
                case "function_call_output":
                    found += _parts("result", item["output"])
                case "reasoning":
                    found.append(("thinking", item["encrypted_content"]))
        return found

    def _too_long(self, fail: Fail) -> tuple[str, str]:
        return "Your input exceeds the context window of this model. Please adjust your input and try again.", "input"


class _Events:
    """The numbered events of one response, and the items that they make."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body, self._number, self._items = body, 0, list[dict[str, Any]]()

    def parts(self, parts: tuple[Part, ...]) -> Iterator[bytes]:
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, response=self._response("in_progress"))
        for part in parts:
            match part:
                case Say(pieces):
                    yield from self._message(pieces)
                case Think(text, signature):
                    yield from self._reasoning(text, signature)
                case Use():
                    yield from self._call(part)

    def end(self, reply: Reply, reason: str | None) -> bytes:
        usage = {
            "input_tokens": reply.usage.input,
            "input_tokens_details": {
                "cached_tokens": reply.usage.cache_read,
                "cache_write_tokens": reply.usage.cache_write,
            },
            "output_tokens": reply.usage.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.usage.input + reply.usage.output,
        }
        status = "incomplete" if reason else "completed"
        whole = {**self._response(status), "usage": usage, "incomplete_details": {"reason": reason} if reason else None}
        return self._event(f"response.{status}", response=whole)

    def _message(self, pieces: tuple[str, ...]) -> Iterator[bytes]:
        place = len(self._items)
        item = {"id": f"msg_{place}", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        at = {"item_id": item["id"], "output_index": place, "content_index": 0}
        yield self._event("response.output_item.added", output_index=place, item=item)
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        yield self._event("response.content_part.added", **at, part=part)
        for piece in pieces:
            yield self._event("response.output_text.delta", **at, delta=piece, logprobs=[])
        part = {**part, "text": "".join(pieces)}
        yield self._event("response.output_text.done", **at, text=part["text"], logprobs=[])
        yield self._event("response.content_part.done", **at, part=part)
        yield self._done({**item, "status": "completed", "content": [part]})

    def _reasoning(self, text: str, signature: str) -> Iterator[bytes]:
        place = len(self._items)
        item: dict[str, Any] = {"id": f"rs_{place}", "type": "reasoning", "summary": []}
        if "reasoning.encrypted_content" in (self._body.get("include") or ()):
            item["encrypted_content"] = signature
        at = {"item_id": item["id"], "output_index": place, "summary_index": 0}
        yield self._event("response.output_item.added", output_index=place, item={**item, "encrypted_content": "…"})
        part = {"type": "summary_text", "text": ""}
        yield self._event("response.reasoning_summary_part.added", **at, part=part)
        yield self._event("response.reasoning_summary_text.delta", **at, delta=text)
        part = {**part, "text": text}
        yield self._event("response.reasoning_summary_text.done", **at, text=text)
        yield self._event("response.reasoning_summary_part.done", **at, part=part)
        yield self._done({**item, "summary": [part]})

    def _call(self, use: Use) -> Iterator[bytes]:
        place = len(self._items)
        item = {
            "id": f"fc_{place}",
            "type": "function_call",
            "status": "in_progress",
            "call_id": use.call_id,
            "name": use.name,
            "arguments": "",
        }
        at = {"item_id": item["id"], "output_index": place}
        yield self._event("response.output_item.added", output_index=place, item=item)
        for piece in _pieces(use):
            yield self._event("response.function_call_arguments.delta", **at, delta=piece)
        item = {**item, "status": "completed", "arguments": "".join(_pieces(use))}
        yield self._event("response.function_call_arguments.done", **at, name=use.name, arguments=item["arguments"])
        yield self._done(item)

    def _done(self, item: dict[str, Any]) -> bytes:
        self._items.append(item)
        return self._event("response.output_item.done", output_index=len(self._items) - 1, item=item)

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self._body["model"],
            "output": list(self._items) if status != "in_progress" else [],
            "store": self._body.get("store", True),
            "usage": None,
        }

    def _event(self, kind: str, **more: Any) -> bytes:
        event = {"type": kind, "sequence_number": self._number, **more}
        self._number += 1
        return b"event: " + kind.encode() + b"\ndata: " + _json(event) + b"\n\n"


def _own(path: str) -> str:
    return path.removeprefix("/v1")


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _chat_usage(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _pieces(use: Use) -> list[str]:
    """Return the text of a call's arguments in its streamed pieces."""
    text = json.dumps(use.args, ensure_ascii=False) if use.raw is None else use.raw
    step = max(_FIRST_PIECES, len(text) // 50)
    return [text[at : at + step] for at in range(0, len(text), step)]


def _parts(role: str, content: Any) -> list[tuple[str, str]]:
    """Return the kinds and texts of a content, which is a string or a list of parts."""
    if not isinstance(content, list):
        return [(role, content)] if content else []
    found = []
    for part in content:
        url = part.get("image_url")
        url = url.get("url") if isinstance(url, dict) else url
        file = part.get("file", part).get("file_data")
        if isinstance(file, str):
            found.append(("document", file[5:].partition(";")[0]))
        elif isinstance(url, str):
            found.append(("image", url[5:].partition(";")[0] if url.startswith("data:") else url))
        else:
            found.append((role, part["text"]))
    return found


def _error(
    status: int,
    message: str,
    param: str | None = None,
    *,
    type_: str = "invalid_request_error",
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Http:
    return _http(status, {"error": {"message": message, "type": type_, "param": param, "code": code}}, headers)


def _http(status: int, body: dict[str, Any], headers: Mapping[str, str] | None = None) -> Http:
    head = {"content-type": "application/json", "x-request-id": "req_1", **(headers or {})}
    return Http(status, head, _json(body))


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
