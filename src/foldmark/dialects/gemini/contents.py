"""Gemini's generateContent, directly and through Code Assist: encodes a prompt in its wire format, and parses
responses.

The API wants thought signatures back. A call carries its own (`ToolCall.signature`). Any other signed part is kept
unchanged, but without the text, which is recorded anyway: `{"text": "", "thoughtSignature": "..."}` follows the
text, `{"text": "...", "thought": true, "thoughtSignature": "..."}` precedes it. Thoughts without a signature are not
sent again: the model would not read them. Other parts, such as code that Google ran, are sent back unchanged at their
positions. Sources: ai.google.dev, thought-signatures, function-calling and code-execution.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from foldmark.core.assembly import caching
from foldmark.core.assembly.media import GIF, PDF, Document, Image, Medium
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.view import AnsweredCall, Calls, ViewMessage
from foldmark.core.errors import ProviderError
from foldmark.core.request import (
    PLAIN,
    Kept,
    Options,
    Piece,
    Stopped,
    ToolCall,
    ToolSpec,
    Usage,
    block_in,
    block_position,
    carry,
)
from foldmark.dialects.bodies import Json, described, tokens
from foldmark.dialects.dialect import Dialect
from foldmark.wires.lenient_json import as_object, as_text, objects_in

UNSIGNED = "skip_thought_signature_validator"
"""The signature that Google documents for a call without a thought signature, such as one from another model; Gemini 3
requires a signature."""

MEDIA = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp"}
"""The image types that Gemini accepts, by the extension of an address; GIF is not among them."""

MOST_PAGES = 1000
"""Maximum number of pages of a document."""

_LATEST = (3, 8)
"""The version assumed for names without one, such as gemini-flash-latest."""

_BUDGETS = {"off": 0, "low": 1024, "medium": 8192, "high": 24576}
"""Thinking budgets of Gemini 2.5 in tokens; its Pro model cannot switch thinking off and needs at least 128."""

_SAID = {"text", "thought", "thoughtSignature"}
_PICTURES = {"inlineData", "fileData"}
"""Parts that are not sent again: images drawn by a model are not part of a context."""

_REFUSED = (
    *("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "LANGUAGE"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    *("MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED"),
)
_TOO_LONG = ("MAX_TOKENS", "CONTINUATION")

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


def encode(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> Json:
    """Return the body of a request to models/{model}:generateContent; consecutive contents of one role become one.

    Calls carry ids from Gemini 3 on, which checks them; earlier models match results by the order of their calls. The
    maximum tokens of the answer are sent only if they were set: the model's own limit is larger than the default.
    """
    contents: list[Json] = []
    third = _version(model) >= (3, 0)
    for step in prompt.steps:
        if isinstance(step, Calls):
            calls = [_call(call, third=third, first=index == 0) for index, call in enumerate(step.calls)]
            _add(contents, "model", [*_message_parts(step), *calls])
            _add(contents, "user", _results(step.calls, model))
        elif step.role == "user":
            _add(contents, "user", [*_media(step.media, model), *_text(step.text)])
        else:
            _add(contents, "model", _message_parts(step))
    body: Json = {}
    if prompt.system:
        body["systemInstruction"] = {"parts": _text(prompt.system)}
    if tools:
        body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in tools]}]
    body["contents"] = contents
    if generation := _generation(model, options):
        body["generationConfig"] = generation
    return body


def encode_gca(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> Json:
    """Return the same body, wrapped as Code Assist expects it; the provider adds the project."""
    return {"model": model, "request": encode(model, prompt, tools, options)}


def parse(message: Json) -> tuple[Piece, ...]:
    """Return the pieces of a whole GenerateContentResponse in order, then its usage and the reason for its end [S2].

    A call without an id gets an empty one. There is no `Stopped` if the response does not report that it is complete.
    Raises ProviderError for a call without a name; anything else that is malformed is ignored.
    """
    candidate = first_candidate(message)
    pieces: list[Piece] = []
    for part in parts_of(candidate):
        call, text, signature = part.get("functionCall"), part.get("text"), part.get("thoughtSignature")
        thought = part.get("thought") is True
        if isinstance(call, dict):
            pieces.append(_called(call, signature))
            continue
        if not isinstance(text, str) and _is_other(part):
            pieces.append(carry(part, sum(len(piece) for piece in pieces if isinstance(piece, str)), "gemini"))
            continue
        if isinstance(text, str) and text and not thought:
            pieces.append(text)
        if kept := _signed({"text": text or "", "thought": thought, "thoughtSignature": signature}):
            pieces.append(Kept(kept))
    if isinstance(usage := message.get("usageMetadata"), dict):
        pieces.append(_usage(usage))
    calls = any(isinstance(piece, ToolCall) for piece in pieces)
    return (*pieces, *_stopped(message, candidate, calls=calls))


def _is_other(part: Json) -> bool:
    """Return True if a part is of an unknown kind, such as code that the API ran, and can be sent again."""
    others = part.keys() - _SAID
    if not others or others & _PICTURES or not all(isinstance(part[name], dict) for name in others) or "text" in part:
        return False
    signature = part.get("thoughtSignature", "")
    signed = isinstance(signature, str) and (not signature or _BASE64.fullmatch(signature) is not None)
    return signed and isinstance(part.get("thought", False), bool)


def parse_gca(message: Json) -> tuple[Piece, ...]:
    """Return the pieces of a response that Code Assist wrapped."""
    return parse(unwrapped(message))


def unwrapped(message: Json) -> Json:
    """Return the response inside Code Assist's wrapping, empty if there is none."""
    return as_object(message.get("response"))


def first_candidate(message: Json) -> Json:
    """Return the only candidate that was asked for, empty if there is none."""
    candidates = message.get("candidates")
    return as_object(candidates[0]) if isinstance(candidates, list) and candidates else {}


def parts_of(candidate: Json) -> list[Json]:
    """Return the parts of a candidate's content."""
    return objects_in(as_object(candidate.get("content")).get("parts"))


# Requests


def _add(contents: list[Json], role: str, parts: list[Json]) -> None:
    if not parts:
        return
    if contents and contents[-1]["role"] == role:
        contents[-1]["parts"].extend(parts)
    else:
        contents.append({"role": role, "parts": parts})


def _text(text: str) -> list[Json]:
    return [{"text": text}] if text else []


def _message_parts(step: ViewMessage | Calls) -> list[Json]:
    signed = [part for block in step.kept if (part := _signed(block))]
    thoughts = [part for part in signed if "thought" in part]
    parts: list[Json] = []
    done = 0
    for block in step.kept:
        if part := block_in(block, "gemini"):
            end = block_position(block, done, step.text)
            parts += [*_text(step.text[done:end]), part]
            done = end
    return [*thoughts, *parts, *_text(step.text[done:]), *(part for part in signed if "thought" not in part)]


def _signed(block: Json) -> Json | None:
    """Return a signed part without its text, unless it is a thought; None for a part without a signature."""
    text, signature, thought = block.get("text"), block.get("thoughtSignature"), block.get("thought") is True
    if not isinstance(text, str) or not isinstance(signature, str) or not _BASE64.fullmatch(signature):
        return None
    said = {"text": text, "thought": True} if thought else {"text": ""}
    return {**said, "thoughtSignature": signature}


def _call(call: AnsweredCall, *, third: bool, first: bool) -> Json:
    own = {"id": call.call_id} if third else {}
    part: Json = {"functionCall": {**own, "name": call.name, "args": msgspec.json.decode(call.arguments)}}
    if call.signature is not None and _BASE64.fullmatch(call.signature):
        part["thoughtSignature"] = call.signature
    elif third and first:
        part["thoughtSignature"] = UNSIGNED
    return part


def _results(calls: Iterable[AnsweredCall], model: str) -> list[Json]:
    """Return the results of calls. Images and documents are inside them for Gemini 3, and after all of them for other
    models."""
    third = _version(model) >= (3, 0)
    results, behind = [], []
    for call in calls:
        inside = _media(call.media, model)
        if third:
            behind += [part for part in inside if "inlineData" not in part]
            inside = [part for part in inside if "inlineData" in part]
        else:
            behind += inside
            inside = []
        response: Json = {"id": call.call_id} if third else {}
        response |= {"name": call.name, "response": {"error" if call.failed else "output": call.result}}
        results.append({"functionResponse": {**response, "parts": inside} if inside else response})
    return [*results, *behind]


def _media(media: Iterable[Medium], model: str) -> list[Json]:
    found: list[Json] = []
    for each in media:
        if not isinstance(each, Document):
            found.append(_image(each, model))
        elif each.pages > MOST_PAGES or _version(model) < (1, 5):
            found.append({"text": each.note})
        else:
            found.append({"inlineData": {"mimeType": PDF, "data": each.data}})
    return found


def _image(image: Image, model: str) -> Json:
    """Return the part of an image, or a text instead if the API would refuse the whole request because of it. The API
    fetches https addresses for Gemini 2.5 and later, and needs the type of the content."""
    if not image.url:
        if image.media in MEDIA.values():
            return {"inlineData": {"mimeType": image.media, "data": image.data}}
        return {"text": f"[An image of type {image.media} is not shown: Gemini does not take it.]"}
    media = MEDIA.get(urlsplit(image.url).path.rpartition(".")[2].lower())
    if media and _version(model) >= (2, 5):
        return {"fileData": {"mimeType": media, "fileUri": image.url}}
    return {"text": f"[Image: {image.url}]"}


def _tool(tool: ToolSpec) -> Json:
    about = described(tool)
    if tool.parameters.get("properties"):
        about["parametersJsonSchema"] = {"type": "object", **tool.parameters}
    return about


def _generation(model: str, options: Options) -> Json:
    found: Json = {}
    if options.output != PLAIN.output:
        found["maxOutputTokens"] = options.output
    if thinking := _thinking(model, options.thinking):
        found["thinkingConfig"] = thinking
    return found


def _thinking(model: str, wanted: str) -> Json:
    """Return the thinking configuration: a level from Gemini 3 on, where thinking can only be lowered, not switched
    off; a budget for 2.5. Earlier models refuse the field, so it is left out."""
    version = _version(model)
    if wanted == "default" or version < (2, 5):
        return {}
    shown = {} if wanted == "off" else {"includeThoughts": True}
    if version < (3, 0):
        return {**shown, "thinkingBudget": max(_BUDGETS[wanted], 128 if "pro" in model else 0)}
    if wanted == "off":
        # Flash models later than 3.6 and all Pro models answer MINIMAL with a 400.
        return {"thinkingLevel": "MINIMAL" if "flash" in model and version <= (3, 6) else "LOW"}
    if wanted == "medium" and version == (3, 0) and "pro" in model:
        return {**shown, "thinkingLevel": "HIGH"}  # it has only two levels
    return {**shown, "thinkingLevel": wanted.upper()}


def _version(model: str) -> tuple[int, int]:
    """Return `(3, 1)` for gemini-3.1-pro; `(0, 0)` for a name without a version."""
    found = re.search(r"gemini-(\d{1,6})(?:\.(\d{1,6}))?", model)
    if found:
        return int(found[1]), int(found[2] or 0)
    return _LATEST if re.search(r"gemini-[a-z-]+-latest", model) else (0, 0)


# Responses


def _called(call: Json, signature: Any) -> ToolCall:
    name, args, signed = as_text(call.get("name")), call.get("args"), as_text(signature)
    if not name:
        raise ProviderError("answer", "Gemini answered with a tool call that has no name. Ask again.")
    signed = signed if _BASE64.fullmatch(signed) else ""
    return ToolCall(as_text(call.get("id")), name, {} if args is None else args, signed or None)


def _usage(found: Json) -> Usage:
    """Return the usage. The tokens of the prompt include cached ones; results of Google's own tools are counted
    separately."""
    prompt, cached, tools, answer, thoughts = (
        tokens(found, f"{name}TokenCount")
        for name in ("prompt", "cachedContent", "toolUsePrompt", "candidates", "thoughts")
    )
    return Usage(fresh=max(0, prompt - cached) + tools, cache_read=cached, output=answer + thoughts)


def _stopped(message: Json, candidate: Json, *, calls: bool) -> tuple[Stopped, ...]:
    word = candidate.get("finishReason")
    if blocked := as_text(as_object(message.get("promptFeedback")).get("blockReason")):
        return (Stopped("refused", blocked),)
    if not isinstance(word, str):
        nothing = not candidate and isinstance(message.get("usageMetadata"), dict)
        return (Stopped("end", "no candidates"),) if nothing else ()
    why = "calls" if calls and word == "STOP" else "end"
    return (Stopped("refused" if word in _REFUSED else "length" if word in _TOO_LONG else why, word),)


# The blocks that a cache sees


def cache_blocks(body: Json) -> Iterator[caching.Block]:
    """Yield the blocks of a body, wrapped or not: system, tools, contents."""
    body = body.get("request", body)
    for part in body.get("systemInstruction", {}).get("parts", ()):
        yield caching.block("system", part)
    for tool in body.get("tools", ()):
        yield caching.block("tools", tool)
    for content in body.get("contents", ()):
        for part in content["parts"]:
            yield caching.block(content["role"], part)


GEMINI = Dialect(
    name="gemini",
    recorded="gemini",
    also=("gemini_gca",),
    refused=(GIF,),
    encode=encode,
    parse=parse,
    blocks=cache_blocks,
    on_the_wire="the same JSON as the SDK serializes it once more: white space and escapes differ",
)

CODE_ASSIST = replace(
    GEMINI,
    name="gemini_gca",
    recorded="gemini_gca",
    also=("gemini",),
    encode=encode_gca,
    parse=parse_gca,
    on_the_wire="the same JSON with the account's project and a prompt id, as the SDK serializes it once more",
)
