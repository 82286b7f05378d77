"""OpenAI's Chat Completions: a prompt in its wire format, and what an answer says. The offline model reads the same.

Many servers speak it (OpenRouter, Ollama, vLLM, DeepSeek, ...). Three things are not as one might expect. The most
tokens of an answer are not sent: OpenAI's own models take `max_completion_tokens`, others only `max_tokens`, and with
either a model that thinks may use them up before it says a word, so the model's own limit holds. The images and
documents of tool results follow in a message of the user, since a tool's message takes text alone. And to the newer of
OpenAI's models tools are given only without thinking; `openai_responses` gives both.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from foldmark.core.assembly.media import Document, Medium
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.view import AnsweredCall, Calls, ViewMessage
from foldmark.core.assembly.wire import tool_name
from foldmark.core.errors import ProviderError
from foldmark.core.request import PLAIN, Kept, Options, Piece, Stopped, ToolCall, ToolSpec, distinct
from foldmark.dialects.openai.models import (
    breakpoints,
    effort,
    marked,
    own,
    takes_documents,
    tools_without_thinking,
    wants_reasoning_content,
)
from foldmark.dialects.openai.reading import arguments, spent, text_of, tokens

RESULT_MEDIA = "[Foldmark: images", "[Foldmark: documents"
"""How that begins which stands in front of what a tool's result holds besides its text."""

REASONING = ("reasoning_content", "reasoning")
"""What servers call a model's thinking: DeepSeek and many the one, vLLM, Ollama and OpenRouter the other."""

_STOPS = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refused",
    "sensitive": "refused",
}
_BROKEN = ("error", "abort", "network_error", "insufficient_system_resource")
"""Reasons to finish that mean that the server could not go on."""


def encode(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> dict[str, Any]:
    """The body of a request to /v1/chat/completions.

    For models whose cache goes by breakpoints (`openai_models`) these stand behind what stays the same: the stable
    system text, the turns before the active one, and these as they were a turn ago. The API sets one more at the end.
    """
    body: dict[str, Any] = {"model": model}
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    wanted = "none" if tools and tools_without_thinking(model) else effort(model, options.thinking)
    if wanted is not None:
        body["reasoning_effort"] = wanted
    steps = [_calls(model, step) if isinstance(step, Calls) else _said(model, step) for step in prompt.steps]
    messages = list(chain(_system(model, prompt), *steps))
    if wants_reasoning_content(model) and (tools or any(isinstance(step, Calls) for step in prompt.steps)):
        for message in messages:
            if message["role"] == "assistant" and not message.get("reasoning_content"):
                message["reasoning_content"] = " "
    if breakpoints(model):
        for end in (prompt.earlier, prompt.settled):
            _mark(list(chain(*steps[:end])))
    body["messages"] = messages
    return body


def _system(model: str, prompt: Prompt) -> list[dict[str, Any]]:
    if not breakpoints(model):
        return [{"role": "system", "content": prompt.system}] if prompt.system else []
    parts = [*map(marked, _text(prompt.stable)), *_text(prompt.system[len(prompt.stable) :])]
    return [{"role": "system", "content": parts}] if parts else []


def _mark(messages: list[dict[str, Any]]) -> None:
    """Set a breakpoint on the newest message that can carry one: a message of the model cannot, nor can an empty text.
    A tool's message takes texts as parts, too."""
    for message in reversed(messages):
        if message["role"] in ("user", "tool"):
            content = message["content"]
            parts = _text(content) if isinstance(content, str) else content
            if parts:
                message["content"] = [*parts[:-1], marked(parts[-1])]
                return


def _said(model: str, step: ViewMessage) -> list[dict[str, Any]]:
    if step.role == "assistant":
        # Thinking alone, without a word or a call, is no message.
        return [{"role": "assistant", "content": step.text, **_kept(model, step.kept)}] if step.text else []
    if not step.media:
        return [{"role": step.role, "content": step.text}]
    return [{"role": step.role, "content": [*_text(step.text), *_media(step.media, model)]}]


def _calls(model: str, step: Calls) -> list[dict[str, Any]]:
    calls = [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in step.calls
    ]
    asked = {"role": "assistant", "content": step.text or None, "tool_calls": calls, **_kept(model, step.kept)}
    results = [{"role": "tool", "tool_call_id": call.call_id, "content": call.result} for call in step.calls]
    shown: list[dict[str, Any]] = []
    for call in step.calls:
        if call.media:
            shown += [*_text(_heading(call)), *_media(call.media, model)]
    return [asked, *results, *([{"role": "user", "content": shown}] if shown else [])]


def _heading(call: AnsweredCall) -> str:
    documents = any(isinstance(each, Document) for each in call.media)
    return f"{RESULT_MEDIA[documents]} in the result of call {call.call_id} ({call.name}):]"


def _kept(model: str, blocks: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What a server wants to see again, as it came: a model's thinking, what its text refers to. OpenAI's own models
    take neither here."""
    found: dict[str, Any] = {}
    for block in blocks if not own(model) else ():
        text, details, field = block.get("text"), block.get("details"), block.get("field")
        if block.get("type") == "reasoning_content" and isinstance(text, str) and text:
            found[field if field in REASONING else "reasoning_content"] = text
        elif block.get("type") == "reasoning_details" and isinstance(details, list):
            wanted = [each for each in details if isinstance(each, dict)]
            found |= {"reasoning_details": wanted} if wanted else {}
        elif block.get("type") == "annotations" and isinstance(block.get("annotations"), list):
            found["annotations"] = block["annotations"]
    return found


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _media(media: Iterable[Medium], model: str) -> list[dict[str, Any]]:
    return [_medium(each, model) for each in media]


def _medium(each: Medium, model: str) -> dict[str, Any]:
    if not isinstance(each, Document):
        return {"type": "image_url", "image_url": {"url": each.data_url}}
    if takes_documents(model):
        return {"type": "file", "file": each.file}
    return {"type": "text", "text": each.note}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool_name(tool.name)}
    if tool.description.strip():
        function["description"] = tool.description
    function["parameters"] = {"type": "object", "properties": {}, **tool.parameters}
    return {"type": "function", "function": function}


def parse(answer: dict[str, Any]) -> tuple[Piece, ...]:
    """What a chat completion says, or a message of one [S2]: kept blocks, text, calls, usage, and why it ended.

    Names are as on the wire. Arguments that are not JSON stay text. Calls of an answer that was cut off or filtered are
    left out. A message alone has no usage and no end. Raises ProviderError for what is no answer.
    """
    whole = "choices" in answer
    choice = _choice(answer["choices"]) if whole else {"message": answer}
    message, finish = choice.get("message"), choice.get("finish_reason")
    said = finish if isinstance(finish, str) else ""
    if not isinstance(message, dict):
        raise ProviderError("answer", "The model's server answered without a message. Try again, or another model.")
    if said in _BROKEN:
        raise ProviderError("busy", f"The model's server broke off its answer ({said}).")
    refusal = text_of(message.get("refusal"))
    why = _STOPS.get(said, "refused" if refusal else "end")
    calls = _tool_calls(message.get("tool_calls")) if why == "end" else []
    text = text_of(message.get("content")) + refusal
    end = [*_usage(answer.get("usage")), Stopped("calls" if calls else why, said)] if whole else []
    notes = message.get("annotations")
    noted = [Kept({"type": "annotations", "annotations": notes})] if isinstance(notes, list) and notes else []
    return (*_thinking(message), *noted, *([text] if text else []), *calls, *end)


def _choice(choices: Any) -> dict[str, Any]:
    return next((each for each in choices if isinstance(each, dict)), {}) if isinstance(choices, list) else {}


def _tool_calls(calls: Any) -> list[ToolCall]:
    found = []
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            call_id, name = call.get("id"), function.get("name")
            found.append(
                ToolCall(
                    call_id if isinstance(call_id, str) else "",
                    name if isinstance(name, str) else "",
                    arguments(function.get("arguments")),
                )
            )
    return distinct(found)


def _thinking(message: dict[str, Any]) -> list[Piece]:
    """The details where there are any: they hold the text too, and what is opaque besides."""
    details = message.get("reasoning_details")
    blocks = [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    if blocks:
        return [Kept({"type": "reasoning_details", "details": blocks})]
    for field in REASONING:
        text = message.get(field)
        if isinstance(text, str) and text:
            other = {} if field == "reasoning_content" else {"field": field}
            return [Kept({"type": "reasoning_content", "text": text, **other})]
    return []


def _usage(usage: Any) -> list[Piece]:
    """What the request cost; nothing if the server does not say, which some do not."""
    if not isinstance(usage, dict) or not ({"prompt_tokens", "completion_tokens"} & usage.keys()):
        return []
    read = tokens(usage, "prompt_tokens_details", "cached_tokens") or tokens(usage, "prompt_cache_hit_tokens")
    written = tokens(usage, "prompt_tokens_details", "cache_write_tokens")
    return [spent(tokens(usage, "prompt_tokens"), read, written, tokens(usage, "completion_tokens"))]
