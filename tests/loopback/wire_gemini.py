"""Gemini's API and Code Assist as a server speaks them: their events, refusals and errors in their own words.

Sources: ai.google.dev (api/generate-content, api/tokens, thought-signatures), code_assist/server.ts and converter.ts of
google-gemini/gemini-cli, and answers that users quoted: google-gemini/gemini-cli#4231 (too long), #12214 (as a list),
gke-labs/gemini-for-kubernetes-development#1215 (quota).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from plan import Fail, Http, Part, Reply, Say, Think, Use
from rules_gemini import gemini, gemini_gca

_STOPS = {"end": "STOP", "calls": "STOP", "length": "MAX_TOKENS", "refused": "SAFETY"}
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
}
_SAID = {
    "key": (400, "API key not valid. Please pass a valid API key."),
    "rate": (429, "You exceeded your current quota, please check your plan and billing details."),
    "busy": (503, "The model is overloaded. Please try again later."),
    "request": (400, "Request contains an invalid argument."),
}
_NO_KEY = (
    "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other "
    "form of API consumer identity to call this API."
)
_NO_TOKEN = (
    "Request is missing required authentication credential. Expected OAuth 2 access token, login cookie or other valid "
    "authentication credential."
)
_INFO = "type.googleapis.com/google.rpc."


class GeminiWire:
    """A Gemini 3 model, whose calls have ids and whose signatures are required."""

    provider = "gemini"
    model = "gemini-3.8-flash"

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        address, _, query = path.partition("?")
        model = address.removeprefix("/v1beta/models/").partition(":")[0]
        if address == f"/v1beta/models/{model}:countTokens":
            wrong = self._uncountable(model, body)
        elif address == f"/v1beta/models/{model}:streamGenerateContent" and query == "alt=sse":
            wrong = gemini(body, model=model)
        else:
            return self.error(404, f"models/{model} is not found for API version v1beta")
        if not headers.get("x-goog-api-key"):
            return self.error(403, _NO_KEY)
        return self.error(400, "; ".join(wrong)) if wrong else None

    def is_count(self, path: str) -> bool:
        return path.endswith(":countTokens")

    def counted(self, tokens: int) -> Http:
        details = [{"modality": "TEXT", "tokenCount": tokens}]
        return Http(200, _JSON, json.dumps({"totalTokens": tokens, "promptTokensDetails": details}).encode())

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        yield from self.unfinished(reply.parts, body)
        usage = _usage(reply)
        if reply.stop == "refused" and not reply.parts:
            yield self.event({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": usage})
            return
        candidate = {
            "content": {"parts": [{"text": ""}], "role": "model"},
            "finishReason": _STOPS[reply.stop],
            "index": 0,
        }
        yield self.event({"candidates": [candidate], "usageMetadata": usage})

    def unfinished(self, parts: tuple[Part, ...], body: dict[str, Any]) -> Iterator[bytes]:
        for part in parts:
            for streamed in _streamed(part, ids=self._ids()):
                candidate = {"content": {"parts": [streamed], "role": "model"}, "index": 0}
                begun = {"promptTokenCount": 100, "totalTokenCount": 100}
                yield self.event({"candidates": [candidate], "usageMetadata": begun})

    def failure(self, fail: Fail) -> Http:
        if fail.kind == "overflow":
            count = (
                f"The input token count ({fail.tokens}) exceeds the maximum number of tokens allowed ({fail.limit})."
            )
            return self.error(fail.status or 400, count)
        usual, words = _SAID[fail.kind]
        status = fail.status or usual
        details: list[dict[str, Any]] = []
        if status == 404:
            words = "models/gemini-nobody is not found for API version v1beta, or is not supported for generateContent."
        if fail.kind == "key":
            details.append({"@type": f"{_INFO}ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"})
        if fail.kind == "rate":
            details.append(
                {"@type": f"{_INFO}Help", "links": [{"url": "https://ai.google.dev/gemini-api/docs/rate-limits"}]}
            )
        if fail.retry_after is not None:
            details.append({"@type": f"{_INFO}RetryInfo", "retryDelay": f"{fail.retry_after:g}s"})
        return self.error(status, words, details)

    def error_event(self) -> bytes | None:
        return b"data: " + json.dumps(_error(503, _SAID["busy"][1])).encode() + b"\r\n\r\n"

    def texts(self, body: dict[str, Any]) -> list[tuple[str, str]]:
        request = self._request(body)
        found = [("system", part["text"]) for part in request.get("systemInstruction", {}).get("parts", [])]
        for content in request.get("contents", []):
            for part in content["parts"]:
                found += _said("user" if content["role"] == "user" else "assistant", part)
        return found

    def event(self, response: dict[str, Any]) -> bytes:
        """Return an event as bytes."""
        whole = {**response, "modelVersion": self.model, "responseId": "q83vEjRWeJA"}
        return f"data: {json.dumps(self._wrapped(whole), ensure_ascii=False)}\r\n\r\n".encode()

    def error(self, status: int, words: str, details: list[dict[str, Any]] | None = None) -> Http:
        """Return an error in the form of the API."""
        return Http(status, _JSON, json.dumps(_error(status, words, details), indent=2).encode())

    def _uncountable(self, model: str, body: dict[str, Any]) -> list[str]:
        asked = body.get("generateContentRequest")
        if set(body) != {"generateContentRequest"} or not isinstance(asked, dict):
            return ["generateContentRequest: missing, or not alone"]
        named = [] if asked.get("model") == f"models/{model}" else ["generateContentRequest.model: not the address's"]
        return [*named, *_thoughts(asked), *gemini(asked, model=model)]

    def _ids(self) -> bool:
        return True

    def _request(self, body: dict[str, Any]) -> dict[str, Any]:
        return body

    def _wrapped(self, response: dict[str, Any]) -> dict[str, Any]:
        return response


class GcaWire(GeminiWire):
    """A Gemini 2.5 model behind Code Assist, whose calls have no ids; errors come in a list."""

    provider = "gemini_gca"
    model = "gemini-2.5-pro"
    project = "loopback-project"

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        method = path.removeprefix("/v1internal:")
        if path == method or method not in ("streamGenerateContent?alt=sse", "countTokens", "loadCodeAssist"):
            return self.error(404, "Requested entity was not found.")
        if not headers.get("authorization", "").removeprefix("Bearer ").strip() or "x-goog-api-key" in headers:
            return self.error(401, _NO_TOKEN)
        if method == "loadCodeAssist":
            answer = {"currentTier": {"id": "free-tier"}, "cloudaicompanionProject": self.project}
            return Http(200, _JSON, json.dumps(answer).encode())
        if method == "countTokens":
            wrong = self._uncountable_here(body)
        else:
            wrong = [*gemini_gca(body), *([] if body.get("project") else ["project: missing"])]
        return self.error(400, "; ".join(wrong)) if wrong else None

    def counted(self, tokens: int) -> Http:
        return Http(200, _JSON, json.dumps({"totalTokens": tokens}).encode())

    def error(self, status: int, words: str, details: list[dict[str, Any]] | None = None) -> Http:
        return Http(status, _JSON, json.dumps([_error(status, words, details)], indent=2).encode())

    def _uncountable_here(self, body: dict[str, Any]) -> list[str]:
        asked = body.get("request")
        if set(body) != {"request"} or not isinstance(asked, dict):
            return ['Unknown name: only "request" is known']
        unknown = sorted(set(asked) - {"model", "contents", "systemInstruction", "tools"})
        wrong = [f"Unknown name \"{name}\" at 'request': Cannot find field." for name in unknown]
        return [*wrong, *_thoughts(asked), *gemini(asked, model=str(asked.get("model")))]

    def _ids(self) -> bool:
        return False

    def _request(self, body: dict[str, Any]) -> dict[str, Any]:
        request = body.get("request")
        return request if isinstance(request, dict) else {}

    def _wrapped(self, response: dict[str, Any]) -> dict[str, Any]:
        return {"response": response, "traceId": "5d41402abc4b2a76"}


_JSON = {"content-type": "application/json; charset=UTF-8"}


def _error(status: int, words: str, details: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    about = {"code": status, "message": words, "status": _STATUSES.get(status, "UNAVAILABLE")}
    return {"error": {**about, "details": details} if details else about}


def _usage(reply: Reply) -> dict[str, Any]:
    """Return the usage fields: zeroes are omitted, and a part of the output is thinking."""
    usage = reply.usage
    thoughts = usage.output // 3
    counts = {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output - thoughts,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": usage.input + usage.output,
    }
    return {**{name: count for name, count in counts.items() if count}, "serviceTier": "standard"}


def _streamed(part: Part, *, ids: bool) -> Iterator[dict[str, Any]]:
    """Yield the streamed parts of a part. The signature of a thought follows it, without text."""
    match part:
        case Say(pieces):
            yield from ({"text": piece} for piece in pieces)
        case Think(text, signature):
            half = len(text) // 2
            yield from ({"text": piece, "thought": True} for piece in (text[:half], text[half:]) if piece)
            yield {"text": "", "thought": True, "thoughtSignature": signature}
        case Use(call_id, name, args, signature):
            call = {"name": name, "args": args, **({"id": call_id} if ids else {})}
            yield {"functionCall": call, **({"thoughtSignature": signature} if signature else {})}


def _said(role: str, part: dict[str, Any]) -> list[tuple[str, str]]:
    if "functionCall" in part:
        return [("call", part["functionCall"]["name"])]
    if "functionResponse" in part:
        response = part["functionResponse"]["response"]
        inside = [said for each in part["functionResponse"].get("parts", []) for said in _said(role, each)]
        return [("result", response.get("output", response.get("error"))), *inside]
    if "inlineData" in part:
        media = part["inlineData"]["mimeType"]
        return [("document" if media == "application/pdf" else "image", media)]
    if "fileData" in part:
        return [("image", part["fileData"]["fileUri"])]
    if "thoughtSignature" in part:
        return [("thinking", part["thoughtSignature"])]
    return [(role, part["text"])]


def _thoughts(asked: dict[str, Any]) -> list[str]:
    """Return the errors of parts that counting rejects, according to code_assist/converter.ts."""
    return [
        f"contents[{index}].parts[{place}].data: required oneof field 'data' must have one initialized field"
        for index, content in enumerate(asked.get("contents", []))
        for place, part in enumerate(content.get("parts", []))
        if part.get("thought") or part.get("text") == ""
    ]
