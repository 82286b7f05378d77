"""OpenAI's Chat Completions: encodes a prompt in its wire format, and parses answers. The offline model reads the same
format.

Many servers speak this dialect (OpenRouter, Ollama, vLLM, DeepSeek, ...). Three details may be surprising. The maximum
tokens of an answer are not sent: OpenAI's own models accept `max_completion_tokens`, others only `max_tokens`, and a
model that thinks could use up either before its first word; so the model's own limit applies. Images and documents of
tool results follow in a user message, since a tool message accepts only text. OpenAI's newer models get tools only
without thinking; `openai_responses` gives them both.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from foldmark.core.assembly import caching
from foldmark.core.assembly.media import Document
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.view import AnsweredCall, Calls, ViewMessage
from foldmark.core.errors import ProviderError
from foldmark.core.request import PLAIN, Kept, Options, Piece, Stopped, ToolCall, ToolSpec, Usage, distinct
from foldmark.dialects.bodies import Json, described, tokens
from foldmark.dialects.dialect import Dialect
from foldmark.dialects.openai import models
from foldmark.wires import chat as wire
from foldmark.wires.lenient_json import as_object, as_text, objects_in
from foldmark.wires.parts import text_parts

RESULT_MEDIA = "[Foldmark: images", "[Foldmark: documents"
"""Beginnings of the heading before the images and documents of a tool's result."""

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
    system = models.system_parts(prompt, "text") if models.breakpoints(model) else prompt.system
    messages = [*([wire.asked(system, "system")] if system else []), *chain(*steps)]
    if models.wants_reasoning_content(model) and (tools or any(isinstance(step, Calls) for step in prompt.steps)):
        for message in messages:
            if message["role"] == "assistant" and not message.get("reasoning_content"):
                message["reasoning_content"] = " "
    if models.breakpoints(model):
        for end in (prompt.earlier, prompt.settled):
            models.mark_newest(chain(*steps[:end]), "text")
    body["messages"] = messages
    return body


def _message(model: str, step: ViewMessage) -> list[Json]:
    if step.role == "assistant":
        # Thinking alone, without text or a call, is not a message.
        return [_answer(model, step, [])] if step.text else []
    return [wire.asked([*text_parts(step.text), *_shown(model, step)] if step.media else step.text, step.role)]


def _called(model: str, step: Calls) -> list[Json]:
    calls = [wire.called(call.call_id, call.name, call.arguments) for call in step.calls]
    results = [wire.result(call.call_id, call.result) for call in step.calls]
    shown: list[Json] = []
    for call in step.calls:
        shown += [*text_parts(_heading(call)), *_shown(model, call)] if call.media else []
    return [_answer(model, step, calls), *results, *([wire.asked(shown)] if shown else [])]


def _shown(model: str, step: ViewMessage | AnsweredCall) -> list[Json]:
    return wire.media_parts(step.media, documents=models.takes_documents(model))


def _heading(call: AnsweredCall) -> str:
    documents = any(isinstance(each, Document) for each in call.media)
    return f"{RESULT_MEDIA[documents]} in the result of call {call.call_id} ({call.name}):]"


def _answer(model: str, step: ViewMessage | Calls, calls: list[Json]) -> Json:
    kept = {} if models.own(model) else wire.kept_fields(step.kept)  # OpenAI's own models accept none
    return {**wire.answer(step.text or None, calls), **kept}


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
    refusal = wire.text_of(message.get("refusal"))
    why = _STOPS.get(reason, "refused" if refusal else "end")
    calls = distinct(_call(call) for call in wire.calls_of(message) if wire.is_call(call)) if why == "end" else []
    shown = wire.text_of(message.get("content")) + refusal
    end = [*_usage(answer.get("usage")), Stopped("calls" if calls else why, reason)] if whole else []
    return (*map(Kept, wire.kept_of(message)), *([shown] if shown else []), *calls, *end)


def _call(call: Json) -> ToolCall:
    said = wire.read_call(call)
    return ToolCall(said.call_id, said.name, said.args)


def spent(usage: Any, names: tuple[str, str], read: int | None = None) -> Usage:
    """Return the usage, given the `names` of the fields for input and output. The input includes the tokens read from a
    cache, which some servers report in a separate field (`read`), and the tokens written to it."""
    known = read is not None or "cached_tokens" in as_object(as_object(usage).get(f"{names[0]}_details"))
    input_name, output_name = names
    whole = tokens(usage, input_name)
    read = min(tokens(usage, f"{input_name}_details", "cached_tokens") or read or 0, whole)
    written = min(tokens(usage, f"{input_name}_details", "cache_write_tokens"), whole - read)
    return Usage(whole - read - written, read, written, tokens(usage, output_name), cache_known=known)


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
