"""Rules of OpenAI's Chat Completions API, slightly stricter where Foldmark demands more.

Sources: developers.openai.com/api (chat/create, guides/function-calling), the request types of the `openai` 3.54 SDK,
and the API's own error messages as users report them, quoted at their rules. Stricter than the API: system and
developer messages only at the beginning, no empty content, unique tool names, a user or tool message at the end, and
no more breakpoints than a request writes. Out of scope, thus unknown: audio answers, the deprecated
`functions` and `function_call`. For models that are not OpenAI's, the thinking fields of other servers are allowed, and
those that DeepSeek requires are required.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rules_common import (
    anything,
    at,
    boolean,
    filled,
    json_value,
    kind,
    list_of,
    mapping,
    matching,
    nullable,
    number,
    object_schema,
    one_of,
    record,
    rows,
    tagged,
    text,
    unique_names,
)

# "string does not match pattern. Expected … '^[a-zA-Z0-9_-]+$'"; "maximum length 64" (home-assistant/core#121325)
FUNCTION_NAME = matching(r"^[a-zA-Z0-9_-]{1,64}$")
# "Invalid 'messages[2].tool_calls[0].id': string too long. Expected … maximum length 40" (vercel/ai#5171)
_CALL_ID = matching(r"^(?s:.){1,40}$")
_TYPE = {"type": anything}
# "Marks the exact end of a reusable prompt prefix"; the model's own text has none (the SDK's request types)
MARK = {
    "prompt_cache_breakpoint": record({"mode": one_of("explicit")}, {"ttl": one_of("30m", "12h")}),
}
_TEXT = record({**_TYPE, "text": filled}, MARK)
# "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', …"
IMAGE_URL = matching(r"^(?:https?://\S+|data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2})$")
# guides/file-inputs: a PDF as data has a name; Chat Completions take no other files
FILE = {"filename": filled, "file_data": matching(r"^data:application/pdf;base64,JVBERi[A-Za-z0-9+/]*={0,2}$")}
IMAGE_DETAIL = one_of("auto", "low", "high", "original")
_PARTS = {
    "system": tagged({"text": _TEXT}),
    "developer": tagged({"text": _TEXT}),
    "assistant": tagged({"text": record({**_TYPE, "text": filled}), "refusal": record({**_TYPE, "refusal": filled})}),
    "user": tagged(
        {
            "text": _TEXT,
            "image_url": record({**_TYPE, "image_url": record({"url": IMAGE_URL}, {"detail": IMAGE_DETAIL})}, MARK),
            "input_audio": record(
                {**_TYPE, "input_audio": record({"data": filled, "format": one_of("wav", "mp3")})}, MARK
            ),
            "file": record({**_TYPE, "file": record({}, {**FILE, "file_id": filled})}, MARK),
        }
    ),
}
# QwenLM/qwen-code#3616: permissive servers take images and files in the result of a tool, too; see `_results`
_PARTS["tool"] = _PARTS["user"]
_TOOL_CALL = tagged(
    {
        "function": record({**_TYPE, "id": _CALL_ID, "function": record({"name": FUNCTION_NAME, "arguments": text})}),
        "custom": record({**_TYPE, "id": _CALL_ID, "custom": record({"name": FUNCTION_NAME, "input": text})}),
    }
)


def _content(role: str) -> Any:
    def check(value: Any, path: str) -> Iterator[str]:
        if isinstance(value, list):
            yield from list_of(_PARTS[role], 1)(value, path)
        elif not isinstance(value, str):
            # "Invalid value for 'content': expected a string, got null." (docker/docker-agent#63)
            yield f"{path}: must be a string or an array, not {kind(value)}"
        elif role != "tool":  # the result of a tool may be empty
            yield from filled(value, path)

    return check


_NAME = {"name": filled}
_ROLES = {
    "system": record({"role": anything, "content": _content("system")}, _NAME),
    "developer": record({"role": anything, "content": _content("developer")}, _NAME),
    "user": record({"role": anything, "content": _content("user")}, _NAME),
    "tool": record({"role": anything, "content": _content("tool"), "tool_call_id": _CALL_ID}),
    "assistant": record(
        {"role": anything},
        {
            **_NAME,
            "content": nullable(_content("assistant")),
            "refusal": nullable(filled),
            "tool_calls": list_of(_TOOL_CALL, 1),
            **dict.fromkeys(("reasoning_content", "reasoning"), text),
            "reasoning_details": list_of(mapping, 1),
        },
    ),
}


def _message(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: must be an object, not {kind(value)}"
        return
    role = value.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        yield f"{path}.role: must be one of {', '.join(_ROLES)}"
        return
    yield from _ROLES[role](value, path)
    if (
        role == "assistant"
        and value.get("content") is None
        and not value.get("tool_calls")
        and not value.get("refusal")
    ):
        yield f"{path}.content: may be null only with tool_calls"


def parameters(value: Any, path: str) -> Iterator[str]:
    """Require an object "of 'type: \"object\"'"; "object schema missing properties" (tailcallhq/forgecode#1359)."""
    yield from object_schema(value, path)
    if isinstance(value, dict) and value.get("type") == "object" and "properties" not in value:
        yield f"{path}.properties: missing"


def strict_schema(value: Any, path: str) -> Iterator[str]:
    """Check `strict: true`: every object requires all its properties and allows no others (structured outputs)."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from strict_schema(item, at(path, position))
    elif isinstance(value, dict):
        properties = value.get("properties")
        if isinstance(properties, dict) and value.get("type") == "object":
            if value.get("additionalProperties") is not False:
                yield f"{path}.additionalProperties: must be false when strict is true"
            required = value.get("required")
            if not isinstance(required, list) or any(name not in required for name in properties):
                yield f"{path}.required: must list every property when strict is true"
        for name, member in value.items():
            yield from strict_schema(member, at(path, str(name)))


def _function(value: Any, path: str) -> Iterator[str]:
    yield from record(
        {"name": FUNCTION_NAME},
        {"description": filled, "parameters": parameters, "strict": nullable(boolean)},
    )(value, path)
    if isinstance(value, dict) and value.get("strict") is True:
        yield from strict_schema(value.get("parameters"), f"{path}.parameters")


def _choice(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from record({"type": one_of("function"), "function": record({"name": FUNCTION_NAME})})(value, path)
    else:
        yield from one_of("none", "auto", "required")(value, path)


def _stop(value: Any, path: str) -> Iterator[str]:
    yield from (list_of(filled, 1) if isinstance(value, list) else nullable(filled))(value, path)


EFFORT = nullable(one_of("none", "minimal", "low", "medium", "high", "xhigh", "max"))
SHARED = {
    "metadata": nullable(mapping),
    "moderation": nullable(mapping),
    "parallel_tool_calls": nullable(boolean),
    "prompt_cache_key": nullable(filled),
    "prompt_cache_options": mapping,
    "prompt_cache_retention": nullable(one_of("in_memory", "24h")),
    "safety_identifier": nullable(filled),
    "service_tier": nullable(one_of("auto", "default", "flex", "scale", "priority", "fast")),
    "store": nullable(boolean),
    "stream": nullable(boolean),
    "stream_options": nullable(mapping),
    "temperature": nullable(number(0, 2)),
    "top_logprobs": nullable(number(0, 20, whole=True)),
    "top_p": nullable(number(0, 1)),
    "user": filled,
}
_TOOL = record({"type": one_of("function"), "function": _function})
# "Unrecognized request argument supplied: thinking" (nashsu/llm_wiki#336); "[] is too short - 'tools'"
_BODY = record(
    {"model": filled, "messages": list_of(_message, 1)},
    {
        **SHARED,
        "audio": nullable(mapping),
        "frequency_penalty": nullable(number(-2, 2)),
        "logit_bias": nullable(mapping),
        "logprobs": nullable(boolean),
        "max_completion_tokens": nullable(number(1, whole=True)),
        "max_tokens": nullable(number(1, whole=True)),
        "modalities": nullable(list_of(one_of("text", "audio"))),
        "n": nullable(number(1, 128, whole=True)),
        "prediction": nullable(mapping),
        "presence_penalty": nullable(number(-2, 2)),
        "reasoning_effort": EFFORT,
        "response_format": mapping,
        "seed": nullable(number(whole=True)),
        "stop": _stop,
        "tool_choice": _choice,
        "tools": list_of(_TOOL, 1),
        "verbosity": nullable(one_of("low", "medium", "high")),
        "web_search_options": mapping,
    },
)


def openai(body: dict[str, Any]) -> list[str]:
    """Return the violations of a Chat Completions body, empty if the API would accept it."""
    found = [*json_value(body), *_BODY(body, "")]
    if isinstance(body, dict):
        messages = rows(body.get("messages"))
        tools = [(f"tools[{i}].function.name", _named(tool.get("function"))) for i, tool in rows(body.get("tools"))]
        choice = body.get("tool_choice")
        wanted = _named(choice.get("function")) if isinstance(choice, dict) else None
        found += [*_order(messages), *_pairing(messages), *options(body, tools, wanted)]
        # "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        if body.get("max_tokens") is not None and re.match(r"o\d|gpt-([5-9]|\d\d)", str(body.get("model"))):
            found.append("max_tokens: reasoning models take max_completion_tokens")
        found += [*effort(body, body.get("reasoning_effort"), "reasoning_effort"), *_thinking(body, messages)]
        found += _results(body, messages)
        parts = [(f"messages[{i}].content[{j}]", p) for i, m in messages for j, p in rows(m.get("content"))]
        found += [*breakpoints(body, parts), *files(body, parts)]
    return found


_READS_FILES = re.compile(
    r"(?:openai/|ft:)?(?:gpt-(?:[5-9]|4o|4\.)|chatgpt-|o1$|o1-pro|o3(?!-mini)|o[4-9])|anthropic/|google/gemini"
)


def files(body: dict[str, Any], parts: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    """Check files, the same in both APIs: "On models with vision capabilities, such as gpt-4o and later models"
    (guides/file-inputs); other servers reject such a part ("Unknown part type: file", vllm-project/vllm#16040)."""
    for path, part in parts:
        file = {"file": part.get("file"), "input_file": part}.get(str(part.get("type")))
        if not isinstance(file, dict):
            continue
        if not any(file.get(name) for name in ("file_data", "file_id", "file_url")):
            yield f"{path}: a file without file_data, file_id or file_url"
        elif file.get("file_data") and not file.get("filename"):
            # "Missing required parameter: 'input[0].content[0].filename'."
            yield f"{path}: file_data without filename"
        if not _READS_FILES.match(str(body.get("model"))):
            yield f"{path}: {body.get('model')} reads no files"


def breakpoints(body: dict[str, Any], parts: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    """Check the breakpoints of a request's content parts, the same in both APIs.

    "Supported for `gpt-5.6` and later models. By default, OpenAI automatically chooses one implicit cache breakpoint.
    […] Each request can write up to four breakpoints." (the SDK's `prompt_cache_options`)
    """
    marked = [path for path, part in parts if part.get("prompt_cache_breakpoint") is not None]
    if not re.match(r"gpt-(?:5\.(?:[6-9]|\d\d)|[6-9]|\d\d)(?!.*-chat)", str(body.get("model"))):
        for path in marked:
            yield f"{path}.prompt_cache_breakpoint: not supported with this model"
    asked = body.get("prompt_cache_options")
    own = isinstance(asked, dict) and asked.get("mode") == "explicit"
    for path in marked[4 if own else 3 :]:
        yield f"{path}.prompt_cache_breakpoint: no more than 4 are written, the implicit one among them"


def effort(body: dict[str, Any], wanted: object, path: str) -> Iterator[str]:
    """Check that an OpenAI model supports the effort, the same in both APIs; other models are not checked.

    "Unsupported value: 'minimal' is not supported with the 'gpt-5.1' model. Supported values are: 'none', 'low',
    'medium', and 'high'." (anomalyco/opencode#4451)
    """
    model = str(body.get("model"))
    if wanted is None or not _is_openais(model):
        return
    if not thinks(model):
        # "Unrecognized request argument supplied: reasoning_effort"
        yield f"{path}: not supported with this model"
    elif wanted == "none" and not re.match(r"gpt-(?:5\.\d|[6-9])", model):
        yield f"{path}: none is not supported with this model"
    elif wanted == "minimal" and not re.match(r"gpt-5(?![.\d])", model):
        yield f"{path}: minimal is not supported with this model"


def thinks(model: str) -> bool:
    """Return True if an OpenAI model thinks."""
    return re.match(r"o\d|gpt-(?:[5-9]|\d\d)(?!.*-chat)", model) is not None


def _is_openais(model: str) -> bool:
    return re.match(r"o\d|gpt-(?!oss)|chatgpt-", model) is not None


def _thinking(body: dict[str, Any], messages: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    """Check the thinking options, and the thinking fields of messages."""
    model = str(body.get("model"))
    if body.get("tools") and re.match(r"gpt-(?:5\.[2-9]|[6-9])", model) and body.get("reasoning_effort") != "none":
        # "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. To use function
        # tools, use /v1/responses or set reasoning_effort to 'none'." (BerriAI/litellm#34569, even without an effort)
        yield "reasoning_effort: must be none where there are tools"
    for index, message in messages:
        if message.get("role") != "assistant":
            continue
        for field in ("reasoning_content", "reasoning", "reasoning_details"):
            if field in message and _is_openais(model):
                yield f"messages[{index}].{field}: unknown field"
        if re.search(r"deepseek-v[4-9]", model) and body.get("tools") and not message.get("reasoning_content"):
            # "The `reasoning_content` in the thinking mode must be passed back to the API."; an empty one is refused
            # too (NousResearch/hermes-agent#17341)
            yield f"messages[{index}].reasoning_content: missing"


def _results(body: dict[str, Any], messages: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    """Check the results of tools: "For tool messages, only type text is supported." (chat/create)"""
    for index, message in messages:
        for place, part in rows(message.get("content")) if message.get("role") == "tool" else ():
            if part.get("type") != "text" and _is_openais(str(body.get("model"))):
                yield f"messages[{index}].content[{place}].type: must be text in the result of a tool"


def _named(value: object) -> object:
    return value.get("name") if isinstance(value, dict) else None


def options(body: dict[str, Any], tools: list[tuple[str, object]], wanted: object) -> Iterator[str]:
    """Check top-level fields against each other, the same in both APIs."""
    yield from unique_names(tools)
    for field in ("tool_choice", "parallel_tool_calls"):
        if body.get(field) is not None and not tools:
            # "'tool_choice' is only allowed when 'tools' are specified."
            yield f"{field}: only with tools"
    if tools and wanted is not None and wanted not in [name for _, name in tools]:
        yield f"tool_choice: no tool is named {wanted!r}"
    if body.get("stream_options") is not None and body.get("stream") is not True:
        # "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield "stream_options: only when stream is true"


def _order(messages: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    begun = False
    for index, message in messages:
        if message.get("role") not in ("system", "developer"):
            begun = True
        elif begun:
            yield f"messages[{index}].role: {message['role']} messages must stand in front"
    if messages and messages[-1][1].get("role") not in ("user", "tool"):
        yield f"messages[{messages[-1][0]}].role: the last message must be the user's or a tool's"


def _pairing(messages: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    """Require one tool message for each call directly after its assistant message, and none elsewhere.

    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
    (agno-agi/agno#4345); "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'"
    (miurla/morphic#136).
    """
    open_calls: dict[str, str] = {}
    known: set[str] = set()
    for index, message in messages:
        path = f"messages[{index}]"
        if message.get("role") == "tool":
            call = message.get("tool_call_id")
            if not isinstance(call, str):
                continue
            if call in open_calls:
                del open_calls[call]
            elif call in known:
                yield f"{path}: {call!r} is answered twice"
            else:
                yield f"{path}: tool message for {call!r} answers no tool_calls directly before it"
            continue
        yield from _unanswered(open_calls)
        open_calls, known = {}, set()
        for position, call_ in rows(message.get("tool_calls")):
            name = call_.get("id")
            if not isinstance(name, str):
                continue
            if name in known:
                yield f"{path}.tool_calls[{position}].id: {name!r} is used twice"
            known.add(name)
            open_calls[name] = f"{path}.tool_calls[{position}]"
    yield from _unanswered(open_calls)


def _unanswered(open_calls: dict[str, str]) -> Iterator[str]:
    for call, path in open_calls.items():
        yield f"{path}: no tool message answers {call!r} directly after it"
