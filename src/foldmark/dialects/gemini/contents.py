"""Gemini's generateContent, directly and through Code Assist: encodes a prompt in its wire format, and parses
responses.

The API wants thought signatures back. A call carries its own (`ToolCall.signature`). Any other signed part is kept
unchanged, but without the text, which is recorded anyway (`gemini.signed`): it follows the text, a thought precedes it.
Thoughts without a signature are not sent again: the model would not read them. Other parts, such as code that Google
ran, are sent back unchanged at their positions.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from foldmark.core.assembly import caching
from foldmark.core.assembly.media import GIF
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.view import AnsweredCall, Calls
from foldmark.core.errors import ProviderError
from foldmark.core.request import PLAIN, Kept, Options, Piece, Stopped, ToolCall, ToolSpec, Usage, carry
from foldmark.dialects.bodies import Json, described, tokens
from foldmark.dialects.dialect import Dialect
from foldmark.wires import gemini
from foldmark.wires.lenient_json import as_object, as_text, objects_in
from foldmark.wires.parts import CallMessage

_BUDGETS = {"off": 0, "low": 1024, "medium": 8192, "high": 24576}
"""Thinking budgets of Gemini 2.5 in tokens; its Pro model cannot switch thinking off and needs at least 128."""

_REFUSED = (
    *("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "LANGUAGE"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    *("MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED"),
)
_TOO_LONG = ("MAX_TOKENS", "CONTINUATION")


def encode(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> Json:
    """Return the body of a request to models/{model}:generateContent; consecutive contents of one role become one.

    Calls carry ids from Gemini 3 on, which checks them; earlier models match results by the order of their calls. The
    maximum tokens of the answer are sent only if they were set: the model's own limit is larger than the default.
    """
    contents: list[Json] = []
    third = _version(model) >= (3, 0)
    for step in prompt.steps:
        if isinstance(step, Calls):
            _add(contents, "model", gemini.answer_parts(step.text, step.kept))
            for index, call in enumerate(step.calls):
                own, must_sign = call.call_id if third else None, third and index == 0
                part = gemini.call_part(own, call.name, call.arguments, call.signature, must_sign=must_sign)
                _add(contents, "model", [part])
            _add(contents, "user", _results(step.calls, model))
        elif step.role == "user":
            _add(contents, "user", [*gemini.media_parts(step.media, _version(model)), *gemini.text_parts(step.text)])
        else:
            _add(contents, "model", gemini.answer_parts(step.text, step.kept))
    body: Json = {}
    if prompt.system:
        body["systemInstruction"] = {"parts": gemini.text_parts(prompt.system)}
    if tools:
        body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in tools]}]
    body["contents"] = contents
    generation: Json = {} if options.output == PLAIN.output else {"maxOutputTokens": options.output}
    if thinking := _thinking(model, options.thinking):
        generation["thinkingConfig"] = thinking
    if generation:
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
        said = gemini.answered(part, as_text((gemini.held(part, gemini.CALL) or {}).get("id")))
        if isinstance(said, CallMessage):
            if not said.name:
                raise ProviderError("answer", "Gemini answered with a tool call that has no name. Ask again.")
            pieces.append(ToolCall(said.call_id, said.name, said.args, gemini.signature_of(part)))
        elif said is not None and not said.text:
            pieces.append(carry(part, sum(len(piece) for piece in pieces if isinstance(piece, str)), gemini.READER))
        else:
            if said is not None:
                pieces.append(said.text)
            if kept := gemini.signed({"text": "", **part}):
                pieces.append(Kept(kept))
    if isinstance(usage := message.get("usageMetadata"), dict):
        pieces.append(_usage(usage))
    calls = any(isinstance(piece, ToolCall) for piece in pieces)
    return (*pieces, *_stopped(message, candidate, calls=calls))


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


def _results(calls: Iterable[AnsweredCall], model: str) -> list[Json]:
    """Return the results of calls. Images and documents are inside them for Gemini 3, and after all of them for other
    models."""
    third = _version(model) >= (3, 0)
    results, behind = [], []
    for call in calls:
        media = gemini.media_parts(call.media, _version(model))
        inside = [part for part in media if third and gemini.INLINE in part]
        behind += [part for part in media if not third or gemini.INLINE not in part]
        own = call.call_id if third else None
        results.append(gemini.response_part(own, call.name, call.result, call.failed, inside))
    return [*results, *behind]


def _tool(tool: ToolSpec) -> Json:
    about = described(tool)
    if tool.parameters.get("properties"):
        about["parametersJsonSchema"] = {"type": "object", **tool.parameters}
    return about


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
    return gemini.LATEST if re.search(r"gemini-[a-z-]+-latest", model) else (0, 0)


# Responses


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
