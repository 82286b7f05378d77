"""Rules of Gemini's generateContent, directly and through Code Assist; slightly stricter where Foldmark demands more.

Sources: ai.google.dev (api/generate-content, function-calling, thought-signatures), the types of the `google-genai` 3.4
SDK, `code_assist/converter.ts` of google-gemini/gemini-cli for the envelope, and the API's own error messages as users
report them, quoted at their rules. Stricter than the API: camel case only (it reads snake case too), a role in every
content, strict alternation that begins and ends with the user, no text of only white space, function responses at the
beginning of their content, ids on both sides or on neither, names of at most 64 characters (the documentation says 128,
servers have said 64), no inline data except images and PDFs, no request for thoughts while thinking is off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rules_common import (
    anything,
    boolean,
    filled,
    json_schema,
    json_value,
    list_of,
    mapping,
    matching,
    nullable,
    number,
    one_of,
    record,
    rows,
    text,
    unique_names,
)
from rules_gemini_schema import parameters, schema

# "Invalid function name. Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores (_),
# dots (.), colons (:), or dashes (-), with a maximum length of 64." (kaitranntt/ccs#25)
_NAME = matching(r"^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$")
_BASE64 = matching(r"^[A-Za-z0-9+/_-]+={0,2}$")
# "MIME type must be image/png, image/jpeg, image/webp, image/heic, or image/heif." (EvanZhouDev/gemini-ai#3); no GIF
# (microsoft/vscode#286628), no image/jpg (ogkalu2/comic-translate#399)
_MEDIA = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
_IMAGE = one_of(*_MEDIA)
# document-processing: PDFs, inline in a content or in a function's response
_BLOB = record({"mimeType": one_of(*_MEDIA, "application/pdf"), "data": _BASE64}, {"displayName": filled})
_DATA = {
    "text": text,
    "inlineData": _BLOB,
    # file-input-methods: a user's own URL needs its MIME type
    "fileData": record({"fileUri": matching(r"^https://[!-~]+$"), "mimeType": _IMAGE}, {"displayName": filled}),
    # "Unknown name "response" …: Proto field is not repeating, cannot start list." (vercel/ai#3589): both are a Struct
    "functionCall": record({"name": _NAME}, {"args": mapping, "id": filled}),
    # api/caching#FunctionResponsePart: it holds only inline data
    "functionResponse": record(
        {"name": _NAME, "response": mapping}, {"id": filled, "parts": list_of(record({"inlineData": _BLOB}), 1)}
    ),
    "executableCode": mapping,
    "codeExecutionResult": mapping,
}
_ABOUT = {
    "thought": boolean,
    "thoughtSignature": _BASE64,
    "videoMetadata": mapping,
    "partMetadata": mapping,
    "mediaResolution": anything,
}
_PART = record({}, {**_DATA, **_ABOUT})


def _part(value: Any, path: str) -> Iterator[str]:
    yield from _PART(value, path)
    if not isinstance(value, dict):
        return
    data = [name for name in _DATA if name in value]
    if len(data) != 1:
        # "parts[0].data: required oneof field 'data' must have one initialized field" (boldsoftware/sketch#68)
        yield f"{path}: must hold exactly one of {', '.join(_DATA)}"
    elif isinstance(value.get("text"), str) and "thoughtSignature" not in value:
        # An empty text is no data either, unless it carries a signature; then it must stay unchanged.
        yield from filled(value["text"], f"{path}.text")


# "Please use a valid role: user, model." (songquanpeng/one-api#1385)
# "contents.parts must not be empty" (vercel/ai#3775)
_CONTENT = record({"role": one_of("user", "model"), "parts": list_of(_part, 1)})
_SYSTEM = record(
    {"parts": list_of(record({"text": filled}), 1)},
    {"role": one_of("system", "user")},
)


def _declaration(value: Any, path: str) -> Iterator[str]:
    yield from record(
        {"name": _NAME},
        {
            "description": filled,
            "parameters": parameters,
            "parametersJsonSchema": json_schema,
            "response": schema,
            "responseJsonSchema": json_schema,
        },
    )(value, path)
    if isinstance(value, dict):
        for field in ("parameters", "response"):
            if field in value and f"{field}JsonSchema" in value:
                yield f"{path}.{field}JsonSchema: not together with {field}"


_TOOL_KINDS = {
    "functionDeclarations": list_of(_declaration, 1),
    "googleSearch": mapping,
    "googleMaps": mapping,
    "codeExecution": mapping,
    "urlContext": mapping,
    "fileSearch": mapping,
    "computerUse": mapping,
}


def _tool(value: Any, path: str) -> Iterator[str]:
    yield from record({}, _TOOL_KINDS)(value, path)
    if value == {}:
        yield f"{path}: must hold a kind of tool"


def _calling(value: Any, path: str) -> Iterator[str]:
    yield from record({}, {"mode": one_of("AUTO", "ANY", "NONE", "VALIDATED"), "allowedFunctionNames": list_of(_NAME)})(
        value, path
    )
    if isinstance(value, dict) and value.get("allowedFunctionNames") and value.get("mode") not in ("ANY", "VALIDATED"):
        # "allowed_function_names should only be set when the Mode is ANY or VALIDATED"
        yield f"{path}.allowedFunctionNames: only with mode ANY or VALIDATED"


_THINKING = record(
    {},
    {
        "includeThoughts": boolean,
        "thinkingBudget": number(-1, whole=True),
        "thinkingLevel": one_of("MINIMAL", "LOW", "MEDIUM", "HIGH"),
    },
)


def _thinking(value: Any, path: str) -> Iterator[str]:
    yield from _THINKING(value, path)
    if isinstance(value, dict):
        if "thinkingBudget" in value and "thinkingLevel" in value:
            # ai.google.dev/gemini-api/docs/gemini-3: both in one request are a 400
            yield f"{path}.thinkingBudget: not together with thinkingLevel"
        if value.get("thinkingBudget") == 0 and value.get("includeThoughts") is True:
            yield f"{path}.includeThoughts: only with thinking"


_GENERATION = record(
    {},
    {
        "temperature": number(0, 2),
        "topP": number(0, 1),
        "topK": number(1),
        "candidateCount": number(1, whole=True),
        # "the supported range is from 1 (inclusive) to 8193 (exclusive)" (stackblitz-labs/bolt.diy#955); since 2.5 the
        # models page says 65,536
        "maxOutputTokens": number(1, 65536, whole=True),
        "stopSequences": list_of(filled),
        "presencePenalty": number(-2, 2),
        "frequencyPenalty": number(-2, 2),
        "seed": number(whole=True),
        "responseLogprobs": boolean,
        "logprobs": number(0, 20, whole=True),
        "responseMimeType": filled,
        "responseSchema": schema,
        "responseJsonSchema": json_schema,
        "responseModalities": list_of(filled),
        "mediaResolution": filled,
        "speechConfig": mapping,
        "imageConfig": mapping,
        "thinkingConfig": _thinking,
    },
)
_REQUEST = {
    "systemInstruction": _SYSTEM,
    "tools": list_of(_tool),
    "toolConfig": record(
        {},
        {
            "functionCallingConfig": _calling,
            "retrievalConfig": mapping,
            "includeServerSideToolInvocations": boolean,
        },
    ),
    "safetySettings": list_of(record({"category": filled, "threshold": filled})),
    "generationConfig": _GENERATION,
    "cachedContent": filled,
}
_CONTENTS = {"contents": list_of(_CONTENT, 1)}
_BODY = record(_CONTENTS, {**_REQUEST, "model": filled, "serviceTier": filled, "store": boolean})
_ENVELOPE = record(
    {
        "model": filled,
        "request": record(_CONTENTS, {**_REQUEST, "labels": mapping, "session_id": filled}),
    },
    {"project": nullable(filled), "user_prompt_id": filled, "enabled_credit_types": list_of(filled)},
)


def gemini(body: dict[str, Any], *, model: str | None = None) -> list[str]:
    """Return the violations of a generateContent body, empty if the API would accept it.

    The model is in the URL; a body may name it, too. For Gemini 3 and later, thought signatures are checked too.
    """
    found = [*json_value(body), *_BODY(body, "")]
    if isinstance(body, dict):
        found += _turns(body, "", model or str(body.get("model", "")))
    return found


def gemini_gca(body: dict[str, Any]) -> list[str]:
    """Return the violations of a Code Assist body: `{model, project?, user_prompt_id?, request: {contents, …}}`."""
    found = [*json_value(body), *_ENVELOPE(body, "")]
    if isinstance(body, dict) and isinstance(body.get("request"), dict):
        found += _turns(body["request"], "request.", str(body.get("model", "")))
    return found


def _turns(request: dict[str, Any], prefix: str, model: str) -> list[str]:
    contents = [(f"{prefix}contents[{index}]", content) for index, content in rows(request.get("contents"))]
    names = [
        (f"{prefix}tools[{index}].functionDeclarations[{position}].name", declaration.get("name"))
        for index, tool in rows(request.get("tools"))
        for position, declaration in rows(tool.get("functionDeclarations"))
    ]
    signed = _signatures(contents) if _signs(model) else ()
    return [
        *_order(contents),
        *_pairing(contents),
        *signed,
        *unique_names(names),
        *_of_model(contents, model),
        *_thinking_of_model(request, f"{prefix}generationConfig.thinkingConfig", model),
    ]


def _parts(content: dict[str, Any] | None, field: str) -> list[tuple[int, dict[str, Any]]]:
    found = rows(content.get("parts")) if content else []
    return [(position, part[field]) for position, part in found if isinstance(part.get(field), dict)]


def _order(contents: list[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    before = None
    for path, content in contents:
        role = content.get("role")
        if before is None and role == "model":
            yield f"{path}.role: the first content must be the user's"
        elif before == role and role in ("user", "model"):
            yield f"{path}.role: two {role} contents in a row"
        if before != "user" and role == "model" and _parts(content, "functionCall"):
            # "Please ensure that function call turn comes immediately after a user turn or after a function response
            # turn." (google-gemini/gemini-cli#11814)
            yield f"{path}: a function call turn must come directly after a user or function response turn"
        before = role
    if contents and before == "model":
        yield f"{contents[-1][0]}.role: the last content must be the user's"


def _pairing(contents: list[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    """Match the function responses with the calls.

    "Please ensure that the number of function response parts is equal to the number of function call parts of the
    function call turn." (google-gemini/gemini-cli#4217); "… function response turn comes immediately after a function
    call turn." (langchain-ai/langchain#27799); another name than the call's is a 400 (archestra-ai/archestra#7583).
    """
    for place, (path, content) in enumerate(contents):
        before = contents[place - 1][1] if place else None
        after = contents[place + 1][1] if place + 1 < len(contents) else None
        role = content.get("role")
        wrong = {"user": "functionCall", "model": "functionResponse"}.get(role) if isinstance(role, str) else None
        for position, _ in _parts(content, wrong) if wrong else []:
            yield f"{path}.parts[{position}]: {wrong} in a content of role {role}"
        calls = _parts(content, "functionCall")
        if role == "model" and calls and not _parts(after, "functionResponse"):
            yield f"{path}: {len(calls)} function calls, but no function response in the next content"
        if role == "user":
            asked = _parts(before, "functionCall") if before and before.get("role") == "model" else []
            yield from _responses(content, [call for _, call in asked], path)


def _responses(content: dict[str, Any], asked: list[dict[str, Any]], path: str) -> Iterator[str]:
    responses = _parts(content, "functionResponse")
    if not responses:
        return
    if len(responses) != len(asked):
        yield f"{path}: {len(responses)} function responses for {len(asked)} function calls"
        return
    for (position, response), call, expected in zip(responses, asked, range(len(asked)), strict=True):
        where = f"{path}.parts[{position}]"
        if response.get("name") != call.get("name"):
            yield f"{where}.functionResponse.name: {response.get('name')!r} answers a call of {call.get('name')!r}"
        if response.get("id") != call.get("id"):
            yield f"{where}.functionResponse.id: {response.get('id')!r} answers the call {call.get('id')!r}"
        if position != expected:
            yield f"{where}: function responses must come first"


def _version(model: str) -> tuple[int, int] | None:
    found = re.search(r"gemini-(\d+)(?:\.(\d+))?", model)
    return (int(found[1]), int(found[2] or 0)) if found else None


def _signs(model: str) -> bool:
    return (_version(model) or (0, 0)) >= (3, 0) and "image" not in model


def _of_model(contents: list[tuple[str, dict[str, Any]]], model: str) -> Iterator[str]:
    """Check what depends on the model's version, if its name contains one.

    "Gemini 3 now always returns a unique id with every functionCall. Include this exact id in your functionResponse"
    (function-calling), which 3.5 and later enforce (ShinChven/remix-studio#35). Multimodal function responses: Gemini 3
    and later. URLs: "Invalid or unsupported file uri" from Gemini 2.0 (BoundaryML/baml#1548, vercel/ai#16757).
    """
    version = _version(model)
    for path, content in contents:
        for position, part in rows(content.get("parts")):
            where = f"{path}.parts[{position}]"
            call, response = part.get("functionCall"), part.get("functionResponse")
            if version is not None and version >= (3, 0) and isinstance(call, dict) and "id" not in call:
                yield f"{where}.functionCall.id: missing"
            if version is not None and version < (3, 0) and isinstance(response, dict) and "parts" in response:
                yield f"{where}.functionResponse.parts: not before Gemini 3"
            if version is not None and version < (2, 5) and "fileData" in part:
                yield f"{where}.fileData.fileUri: unsupported file uri"
            if content.get("role") == "user" and ("thought" in part or "thoughtSignature" in part):
                yield f"{where}: a thought in a content of role user"


def _thinking_of_model(request: dict[str, Any], path: str, model: str) -> Iterator[str]:
    """Check the tables of ai.google.dev/gemini-api/docs/thinking: budgets in 2.5, levels from Gemini 3 on.

    "Thinking level MINIMAL is not supported for this model." (vellum-ai/vellum-assistant#32687): for Pro, and for Flash
    from 3.7 on. Gemini 3 Pro supported only low and high (browser-use/browser-use#3925).
    """
    generation, version = request.get("generationConfig"), _version(model)
    config = generation.get("thinkingConfig") if isinstance(generation, dict) else None
    if version is None or not isinstance(config, dict):
        return
    if version < (2, 5):
        yield f"{path}: this model does not think"
        return
    level, budget = config.get("thinkingLevel"), config.get("thinkingBudget")
    if level is not None and version < (3, 0):
        yield f"{path}.thinkingLevel: not before Gemini 3"
    if level == "MINIMAL" and ("flash" not in model or version > (3, 6)):
        yield f"{path}.thinkingLevel: MINIMAL is not supported for this model"
    if level == "MEDIUM" and version == (3, 0) and "pro" in model:
        yield f"{path}.thinkingLevel: MEDIUM is not supported for this model"
    if isinstance(budget, int) and budget != -1 and version < (3, 0):
        low, high = (128, 32768) if "pro" in model else (512, 24576) if "lite" in model else (0, 24576)
        if not low <= budget <= high and not (budget == 0 and "pro" not in model):
            yield f"{path}.thinkingBudget: must be between {low} and {high}"


def _signatures(contents: list[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    """Require a signature on the first call of each step in the current turn (thought-signatures, Gemini 3).

    "Function call is missing a thought_signature in functionCall parts." A call from another source carries the
    documented `skip_thought_signature_validator`. The turn begins with the newest user content that holds more than
    responses.
    """
    begin = 0
    for place, (_, content) in enumerate(contents):
        if content.get("role") == "user" and any(
            "functionResponse" not in part for _, part in rows(content.get("parts"))
        ):
            begin = place
    for path, content in contents[begin:]:
        calls = [(position, part) for position, part in rows(content.get("parts")) if "functionCall" in part]
        if content.get("role") == "model" and calls and "thoughtSignature" not in calls[0][1]:
            yield f"{path}.parts[{calls[0][0]}].thoughtSignature: missing on the first function call of a step"
