"""OpenAI's Chat Completions: encodes a prompt in its wire format, and parses answers. The offline model reads the same
format.

Many servers speak this dialect (OpenRouter, Ollama, vLLM, DeepSeek, ...). Three details may be surprising. The maximum
tokens of an answer are not sent: OpenAI's own models accept `max_completion_tokens`, others only `max_tokens`, and a
model that thinks could use up either before its first word; so the model's own limit applies. Images and documents of
tool results follow in a user message, since a tool message accepts only text. OpenAI's newer models get tools only
without thinking; `openai_responses` gives them both.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from foldmark.core.assembly import caching
from foldmark.core.assembly.media import Document, Medium
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.view import AnsweredCall, Calls, ViewMessage
from foldmark.core.errors import ProviderError
from foldmark.core.request import PLAIN, Kept, Options, Piece, Stopped, ToolCall, ToolSpec, Usage, distinct
from foldmark.dialects.bodies import Json, arguments, described, text_parts, tokens
from foldmark.dialects.dialect import Dialect
from foldmark.dialects.openai import models
from foldmark.wires.lenient_json import as_object, as_text, objects_in
from foldmark.wires.responses import TEXTS

RESULT_MEDIA = "[Foldmark: images", "[Foldmark: documents"
"""Beginnings of the heading before the images and documents of a tool's result."""

REASONING = ("reasoning_content", "reasoning")
"""Fields of a model's thinking: DeepSeek and many others use the first; vLLM, Ollama and OpenRouter use the second."""

_STOPS = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refused",
    "sensitive": "refused",
}
_BROKEN = ("error", "abort", "network_error", "insufficient_system_resource")
"""Finish reasons that mean that the server failed."""


def encode(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> Json:
    """Return the body of a request to /v1/chat/completions.

    For models whose cache works by breakpoints (`models`), one follows each part that stays the same: the stable system
    text, the turns before the active one, and those turns as of a turn ago. The API sets one more at the end.
    """
    body: Json = {"model": model}
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    wanted = "none" if tools and models.tools_without_thinking(model) else models.effort(model, options.thinking)
    if wanted is not None:
        body["reasoning_effort"] = wanted
    steps = [_called(model, step) if isinstance(step, Calls) else _message(model, step) for step in prompt.steps]
    messages = list(chain(_system(model, prompt), *steps))
    if models.wants_reasoning_content(model) and (tools or any(isinstance(step, Calls) for step in prompt.steps)):
        for message in messages:
            if message["role"] == "assistant" and not message.get("reasoning_content"):
                message["reasoning_content"] = " "
    if models.breakpoints(model):
        for end in (prompt.earlier, prompt.settled):
            models.mark_newest(chain(*steps[:end]), "text")
    body["messages"] = messages
    return body


def _system(model: str, prompt: Prompt) -> list[Json]:
    content = models.system_parts(prompt, "text") if models.breakpoints(model) else prompt.system
    return [{"role": "system", "content": content}] if content else []


def _message(model: str, step: ViewMessage) -> list[Json]:
    if step.role == "assistant":
        # Thinking alone, without text or a call, is not a message.
        return [{"role": "assistant", "content": step.text, **_kept(model, step.kept)}] if step.text else []
    documents = models.takes_documents(model)
    content = [*text_parts(step.text), *media_parts(step.media, documents=documents)] if step.media else step.text
    return [{"role": step.role, "content": content}]


def _called(model: str, step: Calls) -> list[Json]:
    calls = [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in step.calls
    ]
    answer = {"role": "assistant", "content": step.text or None, "tool_calls": calls, **_kept(model, step.kept)}
    results = [{"role": "tool", "tool_call_id": call.call_id, "content": call.result} for call in step.calls]
    shown: list[Json] = []
    for call in step.calls:
        if call.media:
            media = media_parts(call.media, documents=models.takes_documents(model))
            shown += [*text_parts(_heading(call)), *media]
    return [answer, *results, *([{"role": "user", "content": shown}] if shown else [])]


def _heading(call: AnsweredCall) -> str:
    documents = any(isinstance(each, Document) for each in call.media)
    return f"{RESULT_MEDIA[documents]} in the result of call {call.call_id} ({call.name}):]"


def _kept(model: str, blocks: Iterable[Json]) -> Json:
    """Return the kept fields of an answer that a server wants back: a model's thinking, and annotations of its text.
    OpenAI's own models accept neither here."""
    found: Json = {}
    for block in blocks if not models.own(model) else ():
        kind, field = block.get("type"), block.get("field")
        if kind == "reasoning_content" and as_text(block.get("text")):
            found[field if field in REASONING else "reasoning_content"] = block["text"]
        elif kind == "reasoning_details" and (details := objects_in(block.get("details"))):
            found["reasoning_details"] = details
        elif kind == "annotations" and isinstance(block.get("annotations"), list):
            found["annotations"] = block["annotations"]
    return found


def media_parts(media: Iterable[Medium], *, documents: bool) -> list[Json]:
    """Return images and documents as the API accepts them; without `documents`, a note replaces each document."""
    found: list[Json] = []
    for each in media:
        if not isinstance(each, Document):
            found.append({"type": "image_url", "image_url": {"url": each.data_url}})
        elif documents:
            found.append({"type": "file", "file": each.file})
        else:
            found.append({"type": "text", "text": each.note})
    return found


def _tool(tool: ToolSpec) -> Json:
    parameters = {"type": "object", "properties": {}, **tool.parameters}
    return {"type": "function", "function": {**described(tool), "parameters": parameters}}


def parse(answer: Json) -> tuple[Piece, ...]:
    """Return the pieces of a chat completion, or of a message from one [S2]: kept blocks, text, calls, usage, and the
    reason for its end.

    Names are as on the wire. Arguments that are not JSON stay text. Calls of an answer that was cut off or filtered are
    left out. A message alone has no usage and no end. Raises ProviderError for anything that is not an answer.
    """
    whole = "choices" in answer
    choice = next(iter(objects_in(answer["choices"])), {}) if whole else {"message": answer}
    message, reason = choice.get("message"), as_text(choice.get("finish_reason"))
    if not isinstance(message, dict):
        raise ProviderError("answer", "The model's server answered without a message. Ask again, or ask another model.")
    if reason in _BROKEN:
        raise ProviderError("busy", f"The model's server broke off its answer ({reason}).")
    refusal = text_of(message.get("refusal"))
    why = _STOPS.get(reason, "refused" if refusal else "end")
    calls = _tool_calls(message.get("tool_calls")) if why == "end" else []
    shown = text_of(message.get("content")) + refusal
    end = [*_usage(answer.get("usage")), Stopped("calls" if calls else why, reason)] if whole else []
    notes = message.get("annotations")
    noted = [Kept({"type": "annotations", "annotations": notes})] if isinstance(notes, list) and notes else []
    return (*_thinking(message), *noted, *([shown] if shown else []), *calls, *end)


def text_of(content: Any) -> str:
    """Return the text of a content, which is a string or a list of parts, some of them text."""
    return as_text(content) or "".join(
        as_text(part.get("text")) for part in objects_in(content) if part.get("type") in TEXTS
    )


def spent(usage: Any, names: tuple[str, str], read: int | None = None) -> Usage:
    """Return the usage, given the `names` of the fields for input and output. The input includes the tokens read from a
    cache, which some servers report in a separate field (`read`), and the tokens written to it."""
    known = read is not None or "cached_tokens" in as_object(as_object(usage).get(f"{names[0]}_details"))
    input_name, output_name = names
    whole = tokens(usage, input_name)
    read = min(tokens(usage, f"{input_name}_details", "cached_tokens") or read or 0, whole)
    written = min(tokens(usage, f"{input_name}_details", "cache_write_tokens"), whole - read)
    return Usage(whole - read - written, read, written, tokens(usage, output_name), cache_known=known)


def _tool_calls(calls: Any) -> list[ToolCall]:
    found = [(call, call["function"]) for call in objects_in(calls) if isinstance(call.get("function"), dict)]
    return distinct(
        ToolCall(as_text(call.get("id")), as_text(function.get("name")), arguments(function.get("arguments")))
        for call, function in found
    )


def _thinking(message: Json) -> list[Piece]:
    """Return the thinking of an answer: the details if there are any, since they contain the text and opaque parts."""
    if blocks := objects_in(message.get("reasoning_details")):
        return [Kept({"type": "reasoning_details", "details": blocks})]
    for field in REASONING:
        if thought := as_text(message.get(field)):
            other = {} if field == "reasoning_content" else {"field": field}
            return [Kept({"type": "reasoning_content", "text": thought, **other})]
    return []


def _usage(usage: Any) -> list[Piece]:
    """Return the usage; none if the server does not report it."""
    names = ("prompt_tokens", "completion_tokens")
    if not set(names) & as_object(usage).keys():
        return []
    hit = "prompt_cache_hit_tokens"
    return [spent(usage, names, tokens(usage, hit) if hit in usage else None)]


# The blocks that a cache sees


def cache_blocks(body: dict[str, Any]) -> Iterator[caching.Block]:
    """Yield the blocks of a body: tools, instructions, messages or items."""
    for tool in body.get("tools", ()):
        yield caching.block("tools", tool)
    if instructions := body.get("instructions"):
        yield caching.block("instructions", instructions)
    for message in body.get("messages", body.get("input", ())):
        field = "output" if "output" in message else "content"
        content = message.get(field)
        if not content:
            yield caching.block("", message)
            continue
        head = msgspec.json.encode({key: value for key, value in message.items() if key != field}).decode()
        for part in caching.parts(content):
            # To the model a text is the same, whether it is a plain string or a part that can be marked.
            named = str(part.get("type", "")).endswith("text")
            yield caching.block(head, {**part, "type": "text"} if named else part)
            head = ""


KEYED = ', and "prompt_cache_key", the agent\'s id, behind them if it went to OpenAI itself'

CHAT = Dialect(
    name="openai",
    recorded="openai",
    encode=encode,
    parse=parse,
    blocks=cache_blocks,
    on_the_wire='these bytes, with "stream":true and "stream_options":{"include_usage":true} as the last fields'
    + KEYED,
)

OFFLINE = replace(
    CHAT, name="offline", on_the_wire="nothing; the built-in model reads it in this process", foreign=True
)
