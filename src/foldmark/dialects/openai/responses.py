"""OpenAI's Responses API: encodes a prompt in its wire format, and parses responses.

Nothing is stored on the server. A model's thinking comes back encrypted. It is sent again before the text or the call
that followed it, without its id: the API would look the id up among stored items, and check it against the item that
followed. Codex does the same. `max_output_tokens` is not sent: thinking counts towards it and could use it up; the
model's own limit applies.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from foldmark.core.assembly.eviction import OPAQUE
from foldmark.core.assembly.eviction import RESPONSES as READER
from foldmark.core.assembly.media import Medium
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.view import Calls, ViewMessage
from foldmark.core.errors import ProviderError
from foldmark.core.request import (
    AFTER,
    LENGTH,
    PLAIN,
    Compacted,
    Kept,
    Options,
    Piece,
    Stopped,
    ToolCall,
    ToolSpec,
    block_in,
    block_position,
    block_span,
    carry,
    distinct,
)
from foldmark.dialects.bodies import Json, described
from foldmark.dialects.dialect import Dialect
from foldmark.dialects.openai import models
from foldmark.dialects.openai.chat import KEYED, cache_blocks, spent
from foldmark.wires import responses
from foldmark.wires.lenient_json import arguments, as_object, as_text, objects_in
from foldmark.wires.parts import SEALED
from foldmark.wires.responses import COMPACTION, FUNCTION, FUNCTION_OUTPUT, INPUT_TEXT, MESSAGE, PICTURE, THINKING

APART = "\n\n"
"""Separator between the messages of one response."""

PHASES = ("commentary", "final_answer")
"""Phases of a model's message."""

_OURS = (MESSAGE, FUNCTION, FUNCTION_OUTPUT, THINKING, COMPACTION)
"""Items that are built here and sent in their own form."""

_WHY = {"max_output_tokens": "length", "content_filter": "refused"}


def encode(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> Json:
    """Return the body of a request to /v1/responses; nothing is stored there.

    For models whose cache works by breakpoints (`models`), these are set at the same places as in `chat.encode`. The
    `instructions` cannot carry one, so for these models the system text is a developer message, which has the same
    effect.
    """
    steps = [_called(model, step) if isinstance(step, Calls) else _message_items(model, step) for step in prompt.steps]
    if models.own(model) and not models.reasons(model):  # the API refuses another model's reasoning in this case
        steps = [[item for item in step if not responses.is_thinking(item)] for step in steps]
    unpaired = _unpaired(list(chain(*steps)))
    steps = [[item for item in step if id(item) not in unpaired] for step in steps]
    items = list(chain(*steps))
    if models.breakpoints(model):
        for end in (prompt.earlier, prompt.settled):
            models.mark_newest(chain(*steps[:end]), INPUT_TEXT)
        parts = models.system_parts(prompt, INPUT_TEXT)
        items[:0] = [{"role": "developer", "content": parts}] if parts else []
    body: Json = {"model": model, "store": False}
    if models.reasons(model):
        body["include"] = ["reasoning.encrypted_content"]
        wanted = models.effort(model, options.thinking)
        if wanted is not None:
            body["reasoning"] = {"effort": wanted, "summary": "auto"}
    if prompt.system and not models.breakpoints(model):
        body["instructions"] = prompt.system
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    body["input"] = items
    return body


def _message_items(model: str, step: ViewMessage) -> list[Json]:
    if step.native:
        return [dict(item) for item in step.kept]
    if step.role == "assistant":
        return _answer(step.text, step.kept, called=False)
    content = _content(step.text, step.media, model)
    return [{"role": step.role, "content": content}] if content else []


def _called(model: str, step: Calls) -> list[Json]:
    items = _answer(step.text, step.kept, called=True)
    items += [responses.called(call.call_id, call.name, call.arguments) for call in step.calls]
    return items + [responses.result(call.call_id, _content(call.result, call.media, model)) for call in step.calls]


def _answer(text: str, kept: Sequence[Json], *, called: bool) -> list[Json]:
    """Return the items of an answer in order. The API refuses thinking without the item after it, which may be a
    call."""
    items: list[Json] = []
    done = 0
    phases = [block["phase"] for block in kept if block.get("type") == "phase" and block.get("phase") in PHASES]
    plain = {"phase": phases[-1]} if phases else {}
    for block in kept:
        if block.get("type") == MESSAGE and LENGTH in block:
            begin, end = block_span(block, done, text)
            if text[end:] and not text[end:].startswith(APART):
                continue  # the text is no longer the one that the block was made from
            items += [*_message_of(text[done:begin].removesuffix(APART), plain), *_message_of(text[begin:end], block)]
            done = end + len(APART) * text[end:].startswith(APART)
        elif (item := responses.thinking(block) or _carried(block)) is not None:
            begin = block_position(block, done, text)
            if text[begin:] and not text[begin:].startswith(APART):
                begin = done  # an item cannot be inside a message
            items += [*_message_of(text[done:begin].removesuffix(APART), plain), item]
            done = begin
    items += _message_of(text[done:], plain)
    while items and not called and responses.is_thinking(items[-1]):
        items.pop()
    return items


def _unpaired(items: list[Json]) -> set[int]:
    """Return the carried items, by identity, that the API would refuse: a call without its output, or an output without
    its call."""
    others = [item for item in items if item.get("type") not in _OURS and isinstance(item.get("call_id"), str)]
    known = {(responses.is_output(item), item["call_id"]) for item in others}
    return {id(item) for item in others if (not responses.is_output(item), item["call_id"]) not in known}


def _message_of(text: str, about: Json) -> list[Json]:
    if not text.strip():
        return []
    phase = {"phase": about["phase"]} if about.get("phase") in PHASES else {}
    notes = about.get("annotations")
    noted = {"annotations": notes} if isinstance(notes, list) and notes else {}
    return [{**responses.answered(text, **noted), **phase}]


def _carried(block: Json) -> Json | None:
    """Return an item that is neither text nor a call to one of our tools, unchanged."""
    item = block_in(block, READER)
    kind = item.get("type") if item else None
    return item if isinstance(kind, str) and kind not in _OURS else None


def _content(text: str, media: Sequence[Medium], model: str) -> str | list[Json]:
    return responses.content(text, media, documents=models.takes_documents(model))


def _tool(tool: ToolSpec) -> Json:
    parameters = {"type": "object", "properties": {}, **tool.parameters}
    return {"type": "function", **described(tool), "parameters": parameters, "strict": False}


def parse(answer: Json) -> tuple[Piece, ...]:
    """Return the pieces of a response: kept blocks, compactions, text, calls, usage, and the reason for its end [S2].

    An answer of /responses/compact is one compaction.

    Names are as on the wire. Arguments that are not JSON stay text. Calls of a response that was cut off or filtered
    are left out. Raises ProviderError for a failed response, and for anything that is not a response.
    """
    output, status = answer.get("output"), answer.get("status")
    compact = answer.get("object") == "response.compaction"
    if not isinstance(output, list) or (status not in ("completed", "incomplete") and not compact):
        known = status if status in ("failed", "cancelled", "queued", "in_progress") else "unknown"
        raise ProviderError("answer", f"The model's server answered without a whole response (status: {known}).")
    items, usage = objects_in(output), answer.get("usage")
    spent_on_it = [spent(usage, ("input_tokens", "output_tokens"))] if isinstance(usage, dict) else []
    if compact:
        texts = [f"{item.get('role')}: {responses.said(item)}" for item in items if item.get("type") == MESSAGE]
        return (Compacted(tuple(items), "\n\n".join((*texts, OPAQUE))), *spent_on_it, Stopped("end", "compaction"))
    reason = as_object(answer.get("incomplete_details")).get("reason")
    word = reason if status == "incomplete" and isinstance(reason, str) else str(status)
    refused = any(part.get("type") == "refusal" for item in items for part in objects_in(item.get("content")))
    why = _WHY.get(word, "length" if status == "incomplete" else "refused" if refused else "end")
    calls = distinct(_call(item) for item in items if item.get("type") == FUNCTION) if why == "end" else []
    kept, text = _kept_and_text(items)
    end = Stopped("calls" if calls else why, word)
    return (*kept, *([text] if text else []), *calls, *spent_on_it, end)


def _kept_and_text(items: list[Json]) -> tuple[list[Kept | Compacted], str]:
    """Return the blocks that the provider wants back, each with its place in the text, and the text. For a message
    these are its phase, that is, remark or answer ("preserve and resend phase on all assistant messages"), its
    annotations, and its end if it is one of several messages."""
    found: list[Kept | Compacted] = []
    messages = [item for item in items if item.get("type") == MESSAGE and responses.said(item)]
    several = len(messages) > 1 and any(item.get("phase") or _annotations(item) for item in messages)
    kept, text, apart = 0, "", ""
    for item in items:
        kind, at = item.get("type"), {AFTER: len(text)} if text else {}
        new: Kept | Compacted | None = None
        if kind == MESSAGE:
            own, phase, notes = responses.said(item), item.get("phase"), _annotations(item)
            begin = len(text) + len(apart) if own else len(text)
            labelled = {"phase": phase} if isinstance(phase, str) else {}
            if own and (several or notes):
                noted = {"annotations": notes} if notes else {}
                new = Kept({"type": MESSAGE, **labelled, **noted, AFTER: begin, LENGTH: len(own)})
            elif labelled and not several:
                new = Kept({"type": "phase", **labelled})
            text, apart = (text + apart + own, APART) if own else (text, apart)
        elif kind == THINKING:
            new = Kept({**item, **at}) if as_text(item.get(SEALED)) else None
        elif kind == COMPACTION:
            text, apart = (text + apart, "") if text else (text, apart)
            new = Compacted((item,), "", len(text), kept)
        elif isinstance(kind, str) and kind not in (*_OURS, PICTURE):  # pictures are no part of a context
            new = carry(item, len(text), READER)
        if new is not None:
            found.append(new)
            kept += isinstance(new, Kept)
    return found, text


def _annotations(item: Json) -> list[Any]:
    """Return the annotations of a message with a single text; with several texts their positions would be wrong."""
    parts = objects_in(item.get("content"))
    notes = parts[0].get("annotations") if len(parts) == 1 else None
    return notes if isinstance(notes, list) else []


def _call(item: Json) -> ToolCall:
    return ToolCall(as_text(item.get("call_id")), as_text(item.get("name")), arguments(item.get("arguments")))


RESPONSES = Dialect(
    name="openai_responses",
    recorded="openai",
    reads="openai_responses",
    encode=encode,
    parse=parse,
    blocks=cache_blocks,
    on_the_wire=f'these bytes, with "stream":true as the last field{KEYED}',
)
