"""OpenAI's Responses API: a prompt in its wire format, and what a response says.

Nothing is stored there. What a model thought comes back encrypted and is sent again in front of what it said or called
then, without its id: an id is looked up among what is stored, and is checked against the item that followed. Codex does
the same. `max_output_tokens` is not sent: thinking counts, and would use them up; the model's own limit holds.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from foldmark.core.answer import Kept, Piece, Stopped, Usage, distinct
from foldmark.core.errors import ProviderError
from foldmark.core.media import Document, Medium
from foldmark.core.prompt import Prompt
from foldmark.core.request import PLAIN, Options, ToolCall, ToolSpec
from foldmark.core.view import Calls, Said, Used
from foldmark.core.wire import tool_name
from foldmark.providers.openai_models import breakpoints, effort, marked, own, reasons, takes_documents
from foldmark.providers.openai_reading import arguments, spent, tokens

APART = "\n\n"
"""Stands between the messages of one response."""

PHASES = ("commentary", "final_answer")
"""What a message of a model can be."""

_WHY = {"max_output_tokens": "length", "content_filter": "refused"}


def encode(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> dict[str, Any]:
    """The body of a request to /v1/responses; nothing is stored there.

    For models whose cache goes by breakpoints (`openai_models`) these stand where `openai.encode` sets them. The
    `instructions` cannot carry one: there the system text is a message of the developer, which is the same to a model.
    """
    steps = [_calls(model, step) if isinstance(step, Calls) else _said(model, step) for step in prompt.steps]
    if own(model) and not reasons(model):  # the API refuses reasoning of another model then
        steps = [[item for item in step if item.get("type") != "reasoning"] for step in steps]
    items = list(chain(*steps))
    if breakpoints(model):
        for end in (prompt.earlier, prompt.settled):
            _mark(list(chain(*steps[:end])))
        items[:0] = _developer(prompt)
    body: dict[str, Any] = {"model": model, "store": False}
    if reasons(model):
        body["include"] = ["reasoning.encrypted_content"]
        wanted = effort(model, options.thinking)
        if wanted is not None:
            body["reasoning"] = {"effort": wanted, "summary": "auto"}
    if prompt.system and not breakpoints(model):
        body["instructions"] = prompt.system
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    body["input"] = items
    return body


def _developer(prompt: Prompt) -> list[dict[str, Any]]:
    parts = [*map(marked, _text(prompt.stable)), *_text(prompt.system[len(prompt.stable) :])]
    return [{"role": "developer", "content": parts}] if parts else []


def _mark(items: list[dict[str, Any]]) -> None:
    """Set a breakpoint on the newest item that can carry one: a user's message, or the output of a call unless it is
    an empty text."""
    for item in reversed(items):
        field = "output" if item.get("type") == "function_call_output" else "content"
        if field == "output" or item.get("role") == "user":
            parts = _text(item[field]) if isinstance(item[field], str) else item[field]
            if parts:
                item[field] = [*parts[:-1], marked(parts[-1])]
                return


def _said(model: str, step: Said) -> list[dict[str, Any]]:
    if step.role == "assistant":
        # Thinking is refused without what followed it.
        return [*_kept(step.kept), _answer(step.text, step.kept)] if step.text else []
    if step.media:
        return [{"role": step.role, "content": [*_text(step.text), *_media(step.media, model)]}]
    return [{"role": step.role, "content": step.text}] if step.text else []


def _calls(model: str, step: Calls) -> list[dict[str, Any]]:
    items = [*_kept(step.kept), *([_answer(step.text, step.kept)] if step.text else [])]
    items += [
        {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}
        for call in step.calls
    ]
    return items + [
        {"type": "function_call_output", "call_id": call.call_id, "output": _output(model, call)} for call in step.calls
    ]


def _answer(text: str, kept: Iterable[dict[str, Any]]) -> dict[str, Any]:
    phases = [block.get("phase") for block in kept if block.get("type") == "phase" and block.get("phase") in PHASES]
    phase = {"phase": phases[-1]} if phases else {}
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **phase}


def _kept(blocks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the model thought, in the form in which it is taken back."""
    found = []
    for block in blocks:
        encrypted, summary = block.get("encrypted_content"), block.get("summary")
        if block.get("type") == "reasoning" and isinstance(encrypted, str) and encrypted.strip():
            texts = (
                [part.get("text") for part in summary if isinstance(part, dict)] if isinstance(summary, list) else []
            )
            parts = [{"type": "summary_text", "text": text} for text in texts if isinstance(text, str)]
            found.append({"type": "reasoning", "summary": parts, "encrypted_content": encrypted})
    return found


def _output(model: str, call: Used) -> str | list[dict[str, Any]]:
    return [*_text(call.result), *_media(call.media, model)] if call.media else call.result


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "input_text", "text": text}] if text.strip() else []


def _media(media: Iterable[Medium], model: str) -> list[dict[str, Any]]:
    return [_medium(each, model) for each in media]


def _medium(each: Medium, model: str) -> dict[str, Any]:
    if not isinstance(each, Document):
        return {"type": "input_image", "image_url": each.data_url, "detail": "auto"}
    if takes_documents(model):
        return {"type": "input_file", **each.file}
    return {"type": "input_text", "text": each.note}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    about: dict[str, Any] = {"type": "function", "name": tool_name(tool.name)}
    if tool.description.strip():
        about["description"] = tool.description
    about["parameters"] = {"type": "object", "properties": {}, **tool.parameters}
    about["strict"] = False
    return about


def parse(answer: dict[str, Any]) -> tuple[Piece, ...]:
    """What a response says: kept blocks, text, calls, usage, and why it ended [S2].

    Names are as on the wire. Arguments that are not JSON stay text. Calls of a response that was cut off or filtered
    are left out. Raises ProviderError for one that failed, and for what is no response.
    """
    output, status = answer.get("output"), answer.get("status")
    if not isinstance(output, list) or status not in ("completed", "incomplete"):
        known = status if status in ("failed", "cancelled", "queued", "in_progress") else "unknown"
        raise ProviderError("answer", f"The model's server answered without a whole response (status: {known}).")
    items = [item for item in output if isinstance(item, dict)]
    details = answer.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    said = reason if status == "incomplete" and isinstance(reason, str) else status
    messages = [_message(item) for item in items if item.get("type") == "message"]
    refused = any(refusal for _, refusal in messages)
    why = _WHY.get(said, "length" if status == "incomplete" else "refused" if refused else "end")
    calls = distinct(_call(item) for item in items if item.get("type") == "function_call") if why == "end" else []
    pieces: list[Piece] = [Kept(block) for item in items for block in _blocks(item)]
    text = APART.join(text for text, _ in messages if text)
    pieces += [text] if text else []
    pieces += calls
    usage = answer.get("usage")
    if isinstance(usage, dict):
        pieces.append(_usage(usage))
    pieces.append(Stopped("calls" if calls else why, said))
    return tuple(pieces)


def _message(item: dict[str, Any]) -> tuple[str, bool]:
    """The text of a message, and whether the model refused in it."""
    content = item.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part.get("refusal" if part.get("type") == "refusal" else "text") for part in parts]
    refused = any(part.get("type") == "refusal" for part in parts)
    return "".join(text for text in texts if isinstance(text, str)), refused


def _blocks(item: dict[str, Any]) -> list[dict[str, Any]]:
    """What the provider wants to see again of an item besides its text: thinking that it can read again, and whether a
    message was a remark on the way or the answer ("preserve and resend phase on all assistant messages")."""
    if item.get("type") == "reasoning" and isinstance(item.get("encrypted_content"), str):
        return [item] if item["encrypted_content"] else []
    if item.get("type") == "message" and isinstance(item.get("phase"), str):
        return [{"type": "phase", "phase": item["phase"]}]
    return []


def _call(item: dict[str, Any]) -> ToolCall:
    call_id, name = item.get("call_id"), item.get("name")
    return ToolCall(
        call_id if isinstance(call_id, str) else "",
        name if isinstance(name, str) else "",
        arguments(item.get("arguments")),
    )


def _usage(usage: dict[str, Any]) -> Usage:
    read = tokens(usage, "input_tokens_details", "cached_tokens")
    written = tokens(usage, "input_tokens_details", "cache_write_tokens")
    return spent(tokens(usage, "input_tokens"), read, written, tokens(usage, "output_tokens"))
