"""Streamed answers of OpenAI's two APIs, assembled into whole answers, and refusals.

Servers of Chat Completions differ: calls come without an index, with a wrong one, or with the same one for all; ids and
names are missing, empty or repeated; the arguments come in pieces or at once; usage comes last, in every chunk, or not
at all. They refuse the same request with different statuses and codes.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from foldmark.core.errors import ProviderError
from foldmark.core.request import Piece, Thought
from foldmark.dialects.bodies import Json, tokens
from foldmark.dialects.errors import broken_off, overflow, refused, retry_after
from foldmark.dialects.openai import chat, responses
from foldmark.wires import chat as wire
from foldmark.wires.lenient_json import arguments, as_object, as_text, objects_in

_JOINED = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The field that is joined when pieces of thinking belong together, by their type."""
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class CompletionReader:
    """Reads a streamed chat completion; `server` is the sender's name."""

    over = False

    def __init__(self, server: str) -> None:
        self._server, self._finish = server, ""
        self._message: Json = {"role": "assistant", "content": "", "refusal": ""}
        self._calls: list[dict[str, str]] = []
        self._slots: dict[int, dict[str, str]] = {}
        self._details: list[Json] = []
        self._usage: Json | None = None
        self._model = ""

    def add(self, chunk: Json) -> Iterator[str | Thought]:
        """Process a chunk, and yield the pieces to show at once."""
        self._model = as_text(chunk.get("model")) or self._model
        if isinstance(chunk.get("usage"), dict):
            self._usage = chunk["usage"]
        for choice in objects_in(chunk.get("choices")):
            if choice.get("index") in (0, None):
                self._finish = as_text(choice.get("finish_reason")) or self._finish
                yield from self._add(as_object(choice.get("delta") or choice.get("message")))

    def completion(self) -> Json:
        """Return the completion as without streaming. Raises ProviderError if it broke off."""
        if not self._finish:
            raise broken_off(self._server)
        calls = [wire.called(*(call[name] for name in ("id", "name", "arguments", "type"))) for call in self._calls]
        message = {**self._message, wire.CALLS: calls, "reasoning_details": self._details}
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {"model": self._model, "choices": [choice], "usage": self._usage}

    def pieces(self) -> tuple[Piece, ...]:
        """Return the pieces of the whole completion without its text, which was shown already."""
        return tuple(piece for piece in chat.parse(self.completion()) if not isinstance(piece, str))

    def _add(self, delta: Json) -> Iterator[str | Thought]:
        yield from self._thought(delta)
        for name in ("content", "refusal"):
            if new := wire.text_of(delta.get(name)):
                self._message[name] += new
                yield new
        if isinstance(notes := delta.get("annotations"), list):
            self._message["annotations"] = [*self._message.get("annotations", ()), *notes]
        for call in wire.calls_of(delta):
            self._call(call)

    def _thought(self, delta: Json) -> Iterator[Thought]:
        details = objects_in(delta.get("reasoning_details"))
        for detail in details:
            self._detail(dict(detail))
        field = next((name for name in wire.REASONING if isinstance(delta.get(name), str) and delta[name]), None)
        if field is not None:
            self._message[field] = self._message.get(field, "") + delta[field]
            yield Thought(delta[field])
        else:
            texts = (as_text(detail.get(_JOINED.get(str(detail.get("type")), ""))) for detail in details)
            yield from (Thought(each) for each in texts if each)

    def _detail(self, detail: Json) -> None:
        """Join a piece of thinking to the previous piece if it continues it; opaque pieces always arrive whole."""
        last, joined = self._details[-1] if self._details else {}, _JOINED.get(str(detail.get("type")))
        same = all(last.get(key) == detail.get(key) for key in ("type", "index"))
        if joined is None or detail.get("index") is None or not same:
            self._details.append(detail)
            return
        whole = f"{last.get(joined) or ''}{detail.get(joined) or ''}"
        last.update({key: value for key, value in detail.items() if value is not None})
        last[joined] = whole

    def _call(self, delta: Json) -> None:
        new = {"id": as_text(delta.get("id")), **wire.piece_of(delta)}
        index = delta.get("index")
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        call = self._continued(new, index)
        if call is None:
            call = {**new, "name": "", "id": "", "arguments": ""}
            self._calls.append(call)
        elif new == call and new["id"]:
            return  # the same call, sent twice
        call["id"] = call["id"] or new["id"]
        call["name"] = call["name"] or new["name"]
        call["arguments"] += new["arguments"]
        if index is not None:
            self._slots[index] = call

    def _continued(self, new: dict[str, str], index: int | None) -> dict[str, str] | None:
        """Return the call that a piece belongs to; None if it begins another call."""
        call = None if index is None else self._slots.get(index)
        last = self._calls[-1] if self._calls else None
        if call is None and not new["name"]:
            known = (each for each in self._calls if new["id"] and each["id"] == new["id"])
            call = next(known, None if new["id"] else last)
        elif call is None and index is None and last is not None and new["name"] == last["name"]:
            call = last  # some servers repeat the name in every piece
        if call is None or (new["id"] and call["id"] and new["id"] != call["id"]):
            return None
        whole = new["name"] and _is_whole(call["arguments"]) and _is_whole(new["arguments"])
        return None if whole and not (new == call and new["id"]) else call


def _is_whole(raw: str) -> bool:
    return isinstance(arguments(raw), dict) and bool(raw.strip())


class ResponseReader:
    """Reads a streamed response; `server` is the sender's name."""

    def __init__(self, server: str) -> None:
        self.over = False
        self._server = server
        self._response: Json = {}
        self._text = ""
        self._said_by: object = None
        self._thought_by: object = None
        self._items: dict[int, Any] = {}

    def add(self, event: Json) -> Iterator[str | Thought]:
        """Process an event, and yield the pieces to show at once."""
        kind, delta, place = event.get("type"), as_text(event.get("delta")), event.get("output_index")
        if kind in ("response.output_text.delta", "response.refusal.delta") and delta:
            apart = responses.APART if self._text and place != self._said_by else ""
            self._said_by = place
            self._text += apart + delta
            yield apart + delta
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta") and delta:
            part = (place, event.get("summary_index"))
            apart = responses.APART if self._thought_by not in (None, part) else ""
            self._thought_by = part
            yield Thought(apart + delta)
        elif kind == "response.output_item.done":
            self._items[place if isinstance(place, int) else len(self._items)] = event.get("item")
        elif kind in _ENDS and isinstance(event.get("response"), dict):
            self._end(event["response"])
        elif kind is None and "output" in event:
            self._end(event)  # from a server that does not stream

    def response(self) -> Json:
        """Return the response as without streaming. Raises ProviderError if it broke off."""
        if not self.over:
            raise broken_off(self._server)
        return self._response

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the whole response, and the part of its text that was not shown."""
        for piece in responses.parse(self.response()):
            if not isinstance(piece, str):
                yield piece
            elif piece.startswith(self._text) and piece != self._text:
                yield piece[len(self._text) :]

    def _end(self, response: Json) -> None:
        # Codex continues with the items that were finished, and some servers omit them at the end.
        done = [self._items[index] for index in sorted(self._items)]
        self._response, self.over = {**response, "output": done or response.get("output")}, True


_OVERFLOW = ("context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded")
_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_credits")
_WRONG = re.compile(r"invalid|policy|image|unsupported|not_found|mismatch|too_large|^4\d\d$")
_PIECE_OF_KEY = re.compile(r"sk-[\w*.…-]{4,}")
_SHORTER = "A smaller /context budget makes requests shorter."
_HINTS = {
    404: "Check the model's name, and the address of the server if it has one of its own.",
    413: _SHORTER,
}


def masked(words: str, hidden: Callable[[str], str]) -> str:
    """Return a text without the key and without anything that looks like a part of a key; OpenAI repeats parts of
    keys."""
    shown = _PIECE_OF_KEY.sub("sk-…", hidden(words))
    return re.sub(r"\S+", lambda word: "…" if "***" in word[0] else word[0], shown)


def failure_in(event: Json) -> Any:
    """Return the error that an event of a stream, or a whole answer, reports; None without one."""
    parts = (event, as_object(event.get("response")), *objects_in(event.get("choices")))
    error = next((part["error"] for part in parts if part.get("error")), None)
    return error or (event if event.get("type") == "error" else None)


def refusal(
    server: str, status: int, body: object, headers: Mapping[str, str], hidden: Callable[[str], str]
) -> ProviderError:
    """Return the error for a refusal: `body` is the `error` of the server's JSON, or the content that it sent instead.

    `status` is 0 for an error in the middle of a stream; its code is then in the body. `hidden` removes keys from a
    text.
    """
    about = as_object(body)
    words = hidden(_words(body))
    code, named = (str(about[key])[:80] if isinstance(about.get(key), str | int) else "" for key in ("code", "type"))
    number = status or (int(code) if re.fullmatch(r"[45]\d\d", code) else 0)
    after = retry_after(headers, words)
    # Codes that name the problem take precedence over statuses, because servers use different statuses for it.
    if code in _QUOTA or named in _QUOTA or number == 402:
        hint = "It seems that the account has no quota or credit left. Waiting does not help."
        return refused(server, "request", words, number, hint=hint)
    if number != 429 and (code in _OVERFLOW or named in _OVERFLOW or overflow(words)):
        size, limit = overflow(words) or (None, None)
        size, limit = tokens(about, "n_prompt_tokens") or size, tokens(about, "n_ctx") or limit
        return refused(server, "overflow", words, number, tokens=size, limit=limit)
    if number in (401, 403) or code == "invalid_api_key":
        return refused(server, "key", words, number, hint="Check the key, OPENAI_API_KEY or that of this server.")
    if (number == 429 or "rate_limit" in code) and "Request too large" in words:
        return refused(server, "request", words, number, hint=_SHORTER)
    if number == 429 or "rate_limit" in code:
        return refused(server, "rate", words, number, after=after)
    if number >= 500 or number in (408, 409) or (not number and not _WRONG.search(code or named)):
        return refused(server, "busy", words, number, after=after)
    return refused(server, "request", words, number, hint=_HINTS.get(number, ""))


def _words(body: object) -> str:
    """Return the server's own words from any of the fields in which servers put them."""
    about = as_object(body)
    found = about.get("message") or about.get("detail") or about.get("error") or ""
    raw = as_object(about.get("metadata")).get("raw")  # the words of the provider behind OpenRouter
    found = f"{found}: {raw}" if isinstance(raw, str) and raw else found or as_text(body)
    return found if isinstance(found, str) else repr(found)
