"""Anthropic's Messages API as a server speaks it: its events, its refusals, and its errors in its own words.

Sources: platform.claude.com/docs (build-with-claude/streaming, api/errors, token counting), and answers of the API that
its users quoted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from plan import Fail, Http, Part, Reply, Say, Think, Use
from rules_anthropic import anthropic, between, manual_thinking

_ANSWER, _COUNT = "/v1/messages", "/v1/messages/count_tokens"
_STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refused": "refusal"}
_BINDING = "thinking-binding-controls-2026-08-01"
SYSTEM_MESSAGES = "mid-conversation-system-2026-04-07"
_TOOL_CHANGES = "mid-conversation-tool-changes-2026-07-01"
"""Claude Code 2.1.332 names this one alone, and sends system messages as well."""
_ASKED = {
    "context_management": "context-management-2025-06-27",
    "compaction": "compact-2026-09-04",
    "safeguards": "dangerous-tool-use-2026-09-03",
}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_SAID = {
    "key": (401, "invalid x-api-key"),
    "rate": (429, "This request would exceed your organization's rate limit of 50 requests per minute."),
    "busy": (529, "Overloaded"),
    "request": (400, "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens"),
}


def misplaced_systems(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return what the API says of a system message at a wrong place; an empty text if there is none. One follows a
    user's message, or an answer that ends with the call of a server's tool, and precedes an answer or ends the list."""
    for at, message in enumerate(messages):
        if message.get("role") != "system" or not message.get("content"):
            continue
        before, after = messages[at - 1] if at else {}, messages[at + 1 : at + 2]
        last = before["content"][-1] if isinstance(before.get("content"), list) and before["content"] else {}
        waits = before.get("role") == "assistant" and last.get("type") == "server_tool_use"
        if before.get("role") not in ("user", "system") and not waits:
            return f"messages.{at}: role 'system' must follow a user message"
        if after and after[0]["role"] not in ("assistant", "system"):
            return f"messages.{at}: role 'system' must precede an 'assistant' message or end the array"
    return ""


class AnthropicWire:
    """A server that knows the thinking and the compactions that it signed, and refuses changed ones. Asked for a
    compaction, it turns the text of the reply into one, or sends none if the reply stops for another reason. A server
    whose messages need not alternate merges neighbours of one role, as the API does."""

    provider = "anthropic"
    alternates = True
    model = "claude-opus-5-5"

    def __init__(self) -> None:
        self._signed: dict[str, str] = {}
        self._ids = count(1)

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        path = path.removesuffix("?beta=true")
        if path not in (_ANSWER, _COUNT):
            return error(404, "Not Found")
        if not (headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ").strip()):
            return error(401, "x-api-key header is required")
        if not headers.get("anthropic-version"):
            return error(400, "anthropic-version: header is required")
        if not {SYSTEM_MESSAGES, _TOOL_CHANGES}.isdisjoint(headers.get("anthropic-beta", "").split(",")):
            if misplaced := misplaced_systems(body.get("messages", ())):
                return error(400, misplaced)
            if wrong := between(body):
                return error(400, "; ".join(wrong))
            body = {**body, "messages": [each for each in body.get("messages", ()) if each.get("role") != "system"]}
        if path == _COUNT:
            extra = [name for name in ("max_tokens", "stream") if name in body]
            wrong = [f"{name}: Extra inputs are not permitted" for name in extra] or anthropic(
                {**body, "max_tokens": 10**9}
            )
        elif body.get("stream") is not True:
            return error(400, "stream: this server streams only")
        else:
            wrong = anthropic(body, alternates=self.alternates)
        wrong += manual_thinking(body)
        thinking = body.get("thinking")
        if (
            isinstance(thinking, dict)
            and "block_binding" in thinking
            and _BINDING not in headers.get("anthropic-beta", "")
        ):
            wrong.append(f"thinking.{thinking.get('type')}.block_binding: Extra inputs are not permitted")
        clears = any(edit["type"].startswith("clear_") for edit in body.get("context_management", {}).get("edits", ()))
        asked = [name for name in _ASKED if name in body and (name != "context_management" or clears)]
        wrong += [
            f"{name}: Extra inputs are not permitted"
            for name in asked
            if _ASKED[name] not in headers.get("anthropic-beta", "").split(",")
        ]
        return error(400, "; ".join(wrong)) if wrong else self._forged(body)

    def is_count(self, path: str) -> bool:
        return path.removesuffix("?beta=true") == _COUNT

    def counted(self, tokens: int) -> Http:
        return Http(200, _HEADERS, json.dumps({"input_tokens": tokens}).encode())

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        usage = {
            "input_tokens": reply.usage.fresh,
            "cache_creation_input_tokens": reply.usage.cache_write,
            "cache_read_input_tokens": reply.usage.cache_read,
            "output_tokens": reply.usage.output,
        }
        if "compaction" in body:
            yield from self._compacted(reply, body)
            return
        cut = reply.stop == "length" and bool(reply.parts) and isinstance(reply.parts[-1], Use)
        yield self._start({**usage, "output_tokens": 1}, body)
        for index, part in enumerate(reply.parts):
            yield from self._block(index, part, cut=cut and index == len(reply.parts) - 1)
            yield self.event("content_block_stop", index=index)
        delta = {"stop_reason": _STOPS[reply.stop], "stop_sequence": None}
        edited = {"context_management": {"applied_edits": list(reply.usage.altered)}} if reply.usage.altered else {}
        yield self.event("message_delta", delta=delta, usage=usage, **edited)
        yield self.event("message_stop")

    def _compacted(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        """Yield a compaction: the block comes whole, alone and without a delta; its cost is in `iterations`."""
        said = "".join(piece for part in reply.parts if isinstance(part, Say) for piece in part.pieces)
        made = reply.stop == "end" and bool(said)
        counts = {"input_tokens": reply.usage.fresh, "output_tokens": reply.usage.output}
        usage = {"input_tokens": 0, "output_tokens": 0, "iterations": [{"type": "compaction", **counts}]}
        yield self._start(usage, body)
        if made:
            signature = f"signed {len(self._signed)}"
            self._signed[signature] = said
            yield self._begin(0, {"type": "compaction", "content": said, "signature": signature})
            yield self.event("content_block_stop", index=0)
        stop = "compaction" if made else _STOPS[reply.stop]
        yield self.event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=usage)
        yield self.event("message_stop")

    def unfinished(self, parts: tuple[Part, ...], body: dict[str, Any]) -> Iterator[bytes]:
        yield self._start({"input_tokens": 100, "output_tokens": 1}, body)
        for index, part in enumerate(parts):
            yield from self._block(index, part)
            if index < len(parts) - 1:
                yield self.event("content_block_stop", index=index)

    def failure(self, fail: Fail) -> Http:
        if fail.kind == "overflow":
            return error(fail.status or 400, f"prompt is too long: {fail.tokens} tokens > {fail.limit} maximum")
        usual, words = _SAID[fail.kind]
        status = fail.status or usual
        if status == 404:
            words = "model: claude-nobody"
        elif status == 500:
            words = "Internal server error"
        http = error(status, words)
        if fail.retry_after is None:
            return http
        return http._replace(headers={**http.headers, "retry-after": f"{fail.retry_after:g}"})

    def error_event(self) -> bytes | None:
        return self.event("error", error={"type": "overloaded_error", "message": "Overloaded"}, request_id=_REQUEST)

    def texts(self, body: dict[str, Any]) -> list[tuple[str, str]]:
        found = [("system", text) for kind, text in _said("system", body.get("system", []))]
        for message in body.get("messages", []):
            found += _said(message["role"], message["content"])
        return found

    def event(self, kind: str, **fields: Any) -> bytes:
        """Return an event as bytes; the API writes its name before its data."""
        data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
        return f"event: {kind}\ndata: {data}\n\n".encode()

    def _start(self, usage: dict[str, Any], body: dict[str, Any]) -> bytes:
        message: dict[str, Any] = {
            "id": f"msg_{next(self._ids):024}",  # clients merge answers that have the same id
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return self.event("message_start", message=message) + self.event("ping")

    def _block(self, index: int, part: Part, *, cut: bool = False) -> Iterator[bytes]:
        """Yield the start of a block and its pieces. A call's arguments come as text; `cut` omits their second half."""
        match part:
            case Say(pieces):
                yield self._begin(index, {"type": "text", "text": ""})
                yield from (self._piece(index, "text_delta", text=piece) for piece in pieces)
            case Think(text, signature):
                self._signed[signature] = text
                yield self._begin(index, {"type": "thinking", "thinking": "", "signature": ""})
                half = len(text) // 2
                for piece in filter(None, (text[:half], text[half:])):
                    yield self._piece(index, "thinking_delta", thinking=piece)
                yield self._piece(index, "signature_delta", signature=signature)
            case Use(call_id, name, args, _, raw):
                yield self._begin(index, {"type": "tool_use", "id": call_id, "name": name, "input": {}})
                data = raw if raw is not None else json.dumps(args, ensure_ascii=False) if args else ""
                data = data[: len(data) // 2] if cut else data
                for at in range(0, len(data) + 1, 1000):
                    yield self._piece(index, "input_json_delta", partial_json=data[at : at + 1000])

    def _begin(self, index: int, block: dict[str, Any]) -> bytes:
        return self.event("content_block_start", index=index, content_block=block)

    def _piece(self, index: int, kind: str, **fields: str) -> bytes:
        return self.event("content_block_delta", index=index, delta={"type": kind, **fields})

    def _forged(self, body: dict[str, Any]) -> Http | None:
        """Return the refusal of a body with a block that changed since this server signed it, or None."""
        for at, message in enumerate(body["messages"]):
            for place, block in enumerate(message["content"] if isinstance(message["content"], list) else []):
                signed = self._signed.get(block.get("signature", ""))
                if block["type"] == "compaction" and block.get("signature") and signed != block.get("content"):
                    return error(400, f"messages.{at}.content.{place}: compaction_content_mismatch")
                if block["type"] == "thinking" and signed not in (None, block["thinking"]):
                    return error(400, f"messages.{at}.content.{place}: Invalid `signature` in `thinking` block")
        return None


_REQUEST = "req_011CSHoEeqs5C35K2UUqR7Fy"
_HEADERS = {"content-type": "application/json", "request-id": _REQUEST}


def error(status: int, words: str) -> Http:
    """Return an error in the form of the API."""
    about = {"type": _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error"), "message": words}
    return Http(status, _HEADERS, json.dumps({"type": "error", "error": about, "request_id": _REQUEST}).encode())


def _said(role: str, content: Any) -> list[tuple[str, str]]:
    if isinstance(content, str):
        return [(role, content)]
    found = []
    for block in content:
        match block["type"]:
            case "text":
                found.append((role, block["text"]))
            case "thinking":
                found.append(("thinking", block["signature"]))
            case "redacted_thinking":
                found.append(("thinking", block["data"]))
            case "image":
                found.append(("image", block["source"].get("media_type") or block["source"]["url"]))
            case "document":
                found.append(("document", block["source"]["media_type"]))
            case "tool_use":
                found.append(("call", block["name"]))
            case "tool_result":
                found += [
                    ("result" if kind == "user" else kind, text) for kind, text in _said("user", block["content"])
                ]
    return found
