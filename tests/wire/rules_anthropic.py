"""Rules of the Anthropic Messages API, version 2026-10-21, slightly stricter where Foldmark demands more.

Sources: platform.claude.com/docs (api/messages, agents-and-tools/tool-use/handle-tool-calls and define-tools, prompt
caching), the request types of the `anthropic` 2.12 SDK, and the API's own error messages as users report them, quoted
at their rules. Stricter than the API: strict alternation (it merges neighbours of one role), no `system` message, no
block of only white space (it accepts one beside other text), a user message at the end (older models accept a
prefill), `max_tokens` of at least 1 (0 only warms the cache). A result of a server tool must follow its call; the rest
of such a block is left to the API. A `compaction` block must come first, and there is only one (the SDK's
`compaction_block_misplaced` and `compaction_block_ambiguous`). The model's name decides which kinds of thinking it
supports (build-with-claude/thinking-troubleshooting and /effort, and the migration guides of the models from 5 on); a
name without a version is not restricted.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
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

# "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'" (maximhq/bifrost#5097)
_CALL_ID = matching(r"^[a-zA-Z0-9_-]+$")
# define-tools: "must match the regex ^[a-zA-Z0-9_-]{1,128}$"
_TOOL_NAME = matching(r"^[a-zA-Z0-9_-]{1,128}$")
# "tools.0.custom.input_schema.properties: Property keys should match pattern"
_PROPERTY = matching(r"^[a-zA-Z0-9_.-]{1,64}$")
_CACHE = nullable(record({"type": one_of("ephemeral")}, {"ttl": one_of("5m", "1h")}))
_TYPE = {"type": anything}
_EFFORT = one_of("low", "medium", "high", "xhigh", "max")
_MEDIA = one_of("image/jpeg", "image/png", "image/gif", "image/webp")

_TEXT = record({**_TYPE, "text": filled}, {"cache_control": _CACHE})
# 2026-10-21: citations on the user's text blocks are a 400; on the assistant's they are echoed.
_ANSWER_TEXT = record({**_TYPE, "text": filled}, {"cache_control": _CACHE, "citations": nullable(list_of(mapping))})
# "messages.0.content.0.pdf.source.base64.data: The PDF specified was not valid." (anthropics/claude-code#24055)
_PDF = {"media_type": one_of("application/pdf"), "data": matching(r"^JVBERi[A-Za-z0-9+/]*={0,2}$")}
_SOURCE = tagged(
    {
        "base64": record({**_TYPE, **_PDF}),
        "text": record({**_TYPE, "media_type": one_of("text/plain"), "data": filled}),
        "url": record({**_TYPE, "url": filled}),
        "file": record({**_TYPE, "file_id": filled}),
        "content": record({**_TYPE, "content": anything}),
    }
)


def _base64(value: Any, path: str) -> Iterator[str]:
    yield from filled(value, path)
    if isinstance(value, str) and value.strip():
        try:
            binascii.a2b_base64(value.encode("ascii"), strict_mode=True)
        except (binascii.Error, UnicodeEncodeError):
            # "messages.0.content.0.image.source.base64: invalid base64 data"
            yield f"{path}: invalid base64"


_IMAGE_SOURCE = tagged(
    {
        "base64": record({**_TYPE, "media_type": _MEDIA, "data": _base64}),
        # "Only HTTPS URLs are supported."
        "url": record({**_TYPE, "url": matching(r"https://\S+")}),
        "file": record({**_TYPE, "file_id": filled}),
    }
)
_IMAGE = record({**_TYPE, "source": _IMAGE_SOURCE}, {"cache_control": _CACHE})
_DOCUMENT = record(
    {**_TYPE, "source": _SOURCE},
    {"cache_control": _CACHE, "title": nullable(filled), "context": nullable(filled), "citations": nullable(mapping)},
)
_REFERENCE = record({**_TYPE, "tool_name": _TOOL_NAME})  # the answer of a client's own search for tools
_RESULT_BLOCKS = list_of(tagged({"text": _TEXT, "image": _IMAGE, "document": _DOCUMENT, "tool_reference": _REFERENCE}))


def _result_content(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        yield from _RESULT_BLOCKS(value, path)
    else:
        yield from text(value, path)


def _tool_result(value: Any, path: str) -> Iterator[str]:
    yield from _TOOL_RESULT_SHAPE(value, path)
    # "content cannot be empty if `is_error` is true"
    if value.get("is_error") is True and not value.get("content"):
        yield f"{path}.content: must not be empty when is_error is true"
    # "all content must be type `text` if `is_error` is true" (vellum-ai/vellum-assistant#18387)
    if value.get("is_error") is True and any(block.get("type") != "text" for _, block in rows(value.get("content"))):
        yield f"{path}.content: must be text alone when is_error is true"


_TOOL_RESULT_SHAPE = record(
    {**_TYPE, "tool_use_id": _CALL_ID},
    {"content": _result_content, "is_error": boolean, "cache_control": _CACHE},
)
_TOOL_USE = record(
    {**_TYPE, "id": _CALL_ID, "name": _TOOL_NAME, "input": mapping}, {"cache_control": _CACHE, "caller": mapping}
)
_SERVER_USE = record(
    {**_TYPE, "id": _CALL_ID, "name": filled, "input": mapping},
    {"cache_control": _CACHE, "caller": mapping, "server_name": filled},
)
_SERVER_RESULT = record(
    {**_TYPE, "tool_use_id": _CALL_ID, "content": anything},
    {"cache_control": _CACHE, "caller": mapping, "is_error": boolean},
)
_COMPACTION = record(
    _TYPE,
    {
        "content": nullable(filled),
        "encrypted_content": nullable(filled),
        "signature": nullable(filled),
        "tool_changes": nullable(list_of(mapping)),
        "cache_control": _CACHE,
    },
)
_BLOCKS = {
    "user": tagged({"text": _TEXT, "image": _IMAGE, "document": _DOCUMENT, "tool_result": _tool_result}),
    "assistant": tagged(
        {
            "text": _ANSWER_TEXT,
            "tool_use": _TOOL_USE,
            "thinking": record({**_TYPE, "thinking": text, "signature": filled}),
            "redacted_thinking": record({**_TYPE, "data": filled}),
            "server_tool_use": _SERVER_USE,
            "web_search_tool_result": _SERVER_RESULT,
            "code_execution_tool_result": _SERVER_RESULT,
            "compaction": _COMPACTION,
            "oracle_block": mapping,  # stands for block types that are not known yet
        }
    ),
}


def _message(value: Any, path: str) -> Iterator[str]:
    role = value.get("role") if isinstance(value, dict) else None
    if role == "system":
        yield f"{path}.role: the system prompt is the top-level field 'system', not a message"
        return

    def content(inner: Any, where: str) -> Iterator[str]:
        if not isinstance(role, str):
            return
        if isinstance(inner, list) and role in _BLOCKS:
            yield from list_of(_BLOCKS[role], 1)(inner, where)
        elif isinstance(inner, str):
            yield from filled(inner, where)
        elif role in _BLOCKS:
            yield f"{where}: must be a string or an array, not {kind(inner)}"

    yield from record({"role": one_of("user", "assistant"), "content": content})(value, path)


def _system(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        yield from list_of(tagged({"text": _TEXT}), 1)(value, path)
    else:
        yield from filled(value, path)


def _input_schema(value: Any, path: str) -> Iterator[str]:
    yield from object_schema(value, path)
    if isinstance(value, dict):
        for keyword in ("oneOf", "allOf", "anyOf"):
            if keyword in value:
                # "input_schema does not support oneOf, allOf, or anyOf at the top level"
                yield f"{path}.{keyword}: not supported at the top level"
        if isinstance(value.get("properties"), dict):
            for name in value["properties"]:
                yield from _PROPERTY(name, f"{path}.properties")


_TOOL = record(
    {"name": _TOOL_NAME, "input_schema": _input_schema},
    {
        "description": filled,
        "cache_control": _CACHE,
        "type": nullable(one_of("custom")),
        "strict": boolean,
        "defer_loading": boolean,
        "eager_input_streaming": nullable(boolean),
        "input_examples": list_of(mapping),
        "allowed_callers": list_of(text),
    },
)
_PARALLEL = {"disable_parallel_tool_use": boolean}
_CHOICE = tagged(
    {
        "auto": record(_TYPE, _PARALLEL),
        "any": record(_TYPE, _PARALLEL),
        "none": record(_TYPE),
        "tool": record({**_TYPE, "name": _TOOL_NAME}, _PARALLEL),
    }
)
_SHOWN = {
    "display": nullable(one_of("summarized", "omitted", "updates")),
    # in beta: thinking-binding-controls-2026-08-01
    "block_binding": nullable(record({}, {"prefix_mismatch_behavior": nullable(one_of("error", "drop_block"))})),
}
_THINKING = tagged(
    {
        "enabled": record({**_TYPE, "budget_tokens": number(1024, whole=True)}, _SHOWN),
        "adaptive": record(_TYPE, _SHOWN),
        "between_tools": record(_TYPE),
        "disabled": record(_TYPE),
    }
)
_TOKENS = record({"type": one_of("input_tokens"), "value": number(0, whole=True)})
_EDIT = tagged(
    {
        "compact_20260112": record(_TYPE, {"trigger": _TOKENS, "pause_after_compaction": boolean}),
        "clear_thinking_20251015": record(
            _TYPE,
            {
                "keep": lambda value, path: (
                    iter(())
                    if value == "all"
                    else record({"type": one_of("thinking_turns"), "value": number(1, whole=True)})(value, path)
                )
            },
        ),
        "clear_tool_uses_20250919": record(
            _TYPE,
            {
                "trigger": _TOKENS,
                "keep": record({"type": one_of("tool_uses"), "value": number(0, whole=True)}),
                "clear_at_least": _TOKENS,
                "exclude_tools": list_of(_TOOL_NAME, 1),
            },
        ),
    }
)
# `temperature`, `top_p` and `top_k` are rejected since 2026-10-21 ("even at their default values").
_BODY = record(
    {"model": filled, "max_tokens": number(1, whole=True), "messages": list_of(_message, 1)},
    {
        "system": _system,
        "tools": list_of(_TOOL),
        "tool_choice": _CHOICE,
        "stream": boolean,
        "stop_sequences": list_of(filled),
        "metadata": record({}, {"user_id": nullable(filled)}),
        "thinking": _THINKING,
        "cache_control": _CACHE,
        "service_tier": one_of("auto", "standard_only"),
        "output_config": record({}, {"effort": nullable(_EFFORT), "format": nullable(mapping)}),
        "container": anything,
        # in beta: compact-2026-01-12, context-management-2025-06-27
        "context_management": record({"edits": list_of(_EDIT, 1)}),
        # in beta: dangerous-tool-use-2026-09-03, as Claude Code 2.1.332 sends it
        "safeguards": list_of(mapping),
        # in beta: compact-2026-09-04
        "compaction": record({"type": one_of("summarize")}, {"instructions": text}),
        "diagnostics": nullable(mapping),
        "inference_geo": nullable(filled),
        "speed": nullable(one_of("standard", "fast")),
    },
)


def anthropic(body: dict[str, Any], *, alternates: bool = True) -> list[str]:
    """Return the violations of a Messages API body, empty if the API would accept it. With `alternates`, the roles of
    messages have to alternate."""
    found = [*json_value(body), *_BODY(body, "")]
    if isinstance(body, dict):
        messages = rows(body.get("messages"))
        found += [
            *_order(messages, compacts="compaction" in body, alternates=alternates),
            *_pairing(messages),
            *_tools(body, messages),
            *_cache(body),
        ]
        found += [*_of_the_server(messages, body), *_edits(body)]
        found += [*_thinking(body), *_effort(body), *_thoughts(body, messages)]
    return found


def between(body: dict[str, Any]) -> list[str]:
    """Return the violations of the system messages between the others (mid-conversation-system-2026-04-07), apart from
    their places: nothing but text, no empty one, and no empty list unless other members set something. Their
    breakpoints count."""
    found = list[str]()
    for index, message in rows(body.get("messages")):
        if message.get("role") != "system":
            continue
        content, where = message.get("content"), f"messages[{index}].content"
        if isinstance(content, list):
            found += list_of(tagged({"text": _TEXT}), 0 if message.keys() - {"role", "content"} else 1)(content, where)
        else:
            found += filled(content, where)
    return [*found, *_cache(body)]


def _blocks(message: dict[str, Any] | None, type_: str | None = None) -> list[tuple[int, dict[str, Any]]]:
    found = rows(message.get("content")) if message else []
    return [(position, block) for position, block in found if type_ is None or block.get("type") == type_]


def _order(messages: list[tuple[int, dict[str, Any]]], *, compacts: bool, alternates: bool) -> Iterator[str]:
    """Require alternation from user to user; a request for a summary may end with the assistant."""
    before = None
    for index, message in messages:
        role = message.get("role")
        if before is None and role == "assistant" and not _begins_with(message, "compaction"):
            yield f"messages[{index}].role: the first message must be the user's"
        elif alternates and before == role and role in ("user", "assistant"):
            yield f"messages[{index}].role: two {role} messages in a row"
        before = role
    if not messages or before != "assistant" or compacts:
        return
    index, message = messages[-1]
    yield f"messages[{index}].role: the last message must be the user's"
    content = message.get("content")
    last = content[-1] if isinstance(content, list) and content else {"text": content}
    end = last.get("text") if isinstance(last, dict) else None
    if isinstance(end, str) and end != end.rstrip():
        # "messages: final assistant content cannot end with trailing whitespace"
        yield f"messages[{index}].content: the final assistant message ends with white space"


def _begins_with(message: dict[str, Any], type_: str) -> bool:
    return any(position == 0 for position, _ in _blocks(message, type_))


def _of_the_server(messages: list[tuple[int, dict[str, Any]]], body: dict[str, Any]) -> Iterator[str]:
    """Check the tools that the API ran itself, and its compactions."""
    asked: set[Any] = set()
    for place, (index, message) in enumerate(messages):
        for position, block in _blocks(message):
            path, kind_ = f"messages[{index}].content[{position}]", str(block.get("type"))
            if kind_ == "compaction" and (place, position) != (0, 0):
                yield f"{path}: the compaction block must be the first block of the conversation"
            elif kind_ == "compaction" and bool(block.get("signature")) == ("compact_20260112" in _edits_of(body)):
                yield f"{path}: a compaction that was asked for is signed and goes without the edit, any other with it"
            elif kind_.endswith("_tool_use"):
                asked.add(block.get("id"))
            elif kind_.endswith("_tool_result") and block.get("tool_use_id") not in asked:
                yield f"{path}: answers no {kind_.removesuffix('_tool_result')} call before it"


def _edits_of(body: dict[str, Any]) -> list[Any]:
    edits = body.get("context_management")
    return [edit.get("type") for _, edit in rows(edits.get("edits"))] if isinstance(edits, dict) else []


def _edits(body: dict[str, Any]) -> Iterator[str]:
    """Check context editing (build-with-claude/context-editing), and compaction on demand."""
    edits = _edits_of(body)
    if edits and "compaction" in body:
        yield "compaction: cannot be combined with context_management"
    if "clear_thinking_20251015" in edits[1:]:
        yield "context_management.edits: clear_thinking_20251015 must be the first edit"
    if "clear_thinking_20251015" in edits and _mode(body) not in ("enabled", "adaptive"):
        # "`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive"
        yield "context_management.edits: clear_thinking_20251015 requires thinking to be enabled or adaptive"


def _pairing(messages: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    """Require the result of each tool_use at the beginning of the next message, and no other result.

    "`tool_use` ids were found without `tool_result` blocks immediately after: … Each `tool_use` block must have a
    corresponding `tool_result` block in the next message." (anthropics/claude-code#3512); "unexpected `tool_use_id`
    found in `tool_result` blocks"; "`tool_use` ids must be unique" (trycua/cua#524); "each tool_use must have a single
    result". The API also gives the first of them for text after a tool_use in the assistant's message.
    """
    used: set[str] = set()
    for place, (index, message) in enumerate(messages):
        path = f"messages[{index}].content"
        before = messages[place - 1][1] if place else None
        after = messages[place + 1][1] if place + 1 < len(messages) else None
        if message.get("role") == "assistant":
            yield from _calls(message, after, path, used)
        elif message.get("role") == "user":
            yield from _results(message, before, path)


def _calls(message: dict[str, Any], after: dict[str, Any] | None, path: str, used: set[str]) -> Iterator[str]:
    answered = [block.get("tool_use_id") for _, block in _blocks(after, "tool_result")]
    called = False
    for position, block in _blocks(message):
        if block.get("type") == "tool_use":
            called = True
            if not isinstance(block.get("id"), str):
                continue
            if block["id"] in used:
                yield f"{path}[{position}].id: tool_use id {block['id']!r} is used twice"
            elif block["id"] not in answered:
                yield f"{path}[{position}]: tool_use {block['id']!r} has no tool_result in the next message"
            used.add(block["id"])
        elif called:
            yield f"{path}[{position}]: nothing may stand behind a tool_use in its message"
    blocks = _blocks(message)
    if blocks and blocks[-1][1].get("type") in ("thinking", "redacted_thinking"):
        # "The final block in an assistant message cannot be `thinking`"
        yield f"{path}[{blocks[-1][0]}]: thinking must not be the last block"


def _results(message: dict[str, Any], before: dict[str, Any] | None, path: str) -> Iterator[str]:
    asked = [block.get("id") for _, block in _blocks(before, "tool_use")]
    seen: set[str] = set()
    other = False
    for position, block in _blocks(message):
        if block.get("type") != "tool_result":
            other = True
            continue
        if other:
            # handle-tool-calls: tool_result blocks come first in the content, text after all of them
            yield f"{path}[{position}]: tool_result blocks must come first"
        call = block.get("tool_use_id")
        if not isinstance(call, str):
            continue
        if call not in asked:
            yield f"{path}[{position}]: tool_result for {call!r} answers no tool_use of the previous message"
        elif call in seen:
            yield f"{path}[{position}]: a second tool_result for {call!r}"
        seen.add(call)


def _tools(body: dict[str, Any], messages: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    tools = rows(body.get("tools"))
    names = [(f"tools[{index}].name", tool.get("name")) for index, tool in tools]
    yield from unique_names(names)
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        if not tools:
            yield "tool_choice: only with tools"
        elif choice.get("type") == "tool" and choice.get("name") not in [name for _, name in names]:
            yield f"tool_choice.name: no tool is named {choice.get('name')!r}"
    # The API has refused a history of tool blocks without `tools`; an empty array satisfies it
    # (anthropics/anthropic-sdk-typescript#602, langchain-ai/langchainjs#9669).
    if "tools" not in body and any(
        _blocks(message, type_) for _, message in messages for type_ in ("tool_use", "tool_result")
    ):
        yield "tools: missing, although the messages hold tool blocks"


def _version(body: dict[str, Any]) -> tuple[str, float]:
    """Return the family and the version of the model; the version is infinite for a name without one."""
    model = body.get("model")
    words = re.split(r"[-.@]", model) if isinstance(model, str) else []
    numbers = [int(word) for word in words if re.fullmatch(r"[0-9]{1,2}", word)][:2]
    family = next((word for word in words if word in ("opus", "sonnet", "haiku", "fable", "mythos")), "")
    return family, numbers[0] + (numbers[1] / 10 if len(numbers) > 1 else 0) if numbers else float("inf")


def _mode(body: dict[str, Any]) -> str | None:
    thinking = body.get("thinking")
    mode = thinking.get("type") if isinstance(thinking, dict) else None
    return mode if isinstance(mode, str) else None


def manual_thinking(body: dict[str, Any]) -> list[str]:
    """Reject a budget for models that no longer take one: `"thinking.type.enabled" is not supported for this model. Use
    "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.` (Kilo-Org/kilocode#11194)"""
    family, version = _version(body)
    refused = _mode(body) == "enabled" and family and 4.7 <= version < float("inf")
    return [f"thinking.type: enabled is not supported by {family} {version:g}"] if refused else []


def _thinking(body: dict[str, Any]) -> Iterator[str]:
    """Check the budget, and reject the other kinds of thinking for models that do not support them."""
    thinking, limit, mode = body.get("thinking"), body.get("max_tokens"), _mode(body)
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if isinstance(budget, int) and isinstance(limit, int) and budget >= limit:
        # "`max_tokens` must be greater than `thinking.budget_tokens`"
        yield "thinking.budget_tokens: must be below max_tokens"
    family, version = _version(body)
    always = (family in ("fable", "mythos") and version >= 5) or (family in ("opus", "sonnet") and version >= 5.5)
    if (
        (mode == "adaptive" and version < 4.6)
        or (mode == "enabled" and version < 3.7)
        # ""thinking.type.disabled" is not supported for this model." (ex-machina-co/opencode-anthropic-auth#159)
        or (mode == "disabled" and always and version < float("inf"))
        or (mode == "between_tools" and (family, version) != ("sonnet", 5.5))
    ):
        yield f"thinking.type: {mode} is not supported by {family or 'the model'} {version:g}"


def _effort(body: dict[str, Any]) -> Iterator[str]:
    """Check that the model supports the effort (build-with-claude/effort)."""
    output = body.get("output_config")
    effort = output.get("effort") if isinstance(output, dict) else None
    family, version = _version(body)
    if not isinstance(effort, str) or not family:
        return
    least = {"max": 4.6, "xhigh": 4.7}.get(effort, 4.5 if family == "opus" else 4.6)
    if version < least:
        # "This model does not support the effort parameter."
        yield f"output_config.effort: {effort} is not supported by {family} {version:g}"
    elif effort in ("xhigh", "max") and version >= 5 and _mode(body) == "disabled":
        yield f"output_config.effort: {effort} does not go with disabled thinking"


def _thoughts(body: dict[str, Any], messages: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    """Check that thinking blocks are present where they must be, and absent where they must not be."""
    answers = [(index, _blocks(message)) for index, message in messages if message.get("role") == "assistant"]
    if not answers:
        return
    _, version = _version(body)
    mode = _mode(body)
    last, blocks = answers[-1]
    if mode == "enabled":
        for index, own in answers:
            if any(map(_thought, own)) and not _thought(own[0]):
                # "If an assistant message contains any thinking blocks, the first block must be `thinking` or
                # `redacted_thinking`. Found `text`." (anthropics/claude-code#20717)
                yield f"messages[{index}].content[0].type: must be thinking, as the message holds some"
        if blocks and _blocks(messages[-1][1], "tool_result") and not any(map(_thought, blocks)):
            # "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final
            # `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and
            # `tool_result` blocks)." (mastra-ai/mastra#7799)
            yield f"messages[{last}].content[0].type: must be thinking before calls while thinking is enabled"
    elif (mode == "disabled" or (mode is None and version < 5)) and any(map(_thought, blocks)):
        # "When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`."
        # (tailcallhq/forgecode#1853)
        yield f"messages[{last}].content: must not hold thinking while thinking is disabled"


def _thought(block: tuple[int, dict[str, Any]]) -> bool:
    return block[1].get("type") in ("thinking", "redacted_thinking")


def _cache(body: dict[str, Any]) -> Iterator[str]:
    """Allow at most four cache breakpoints, those of 1h before those of 5m (prompt caching documentation)."""
    marked = [(f"tools[{index}]", tool) for index, tool in rows(body.get("tools"))]
    marked += [(f"system[{index}]", block) for index, block in rows(body.get("system"))]
    for index, message in rows(body.get("messages")):
        for position, block in _blocks(message):
            marked.append((f"messages[{index}].content[{position}]", block))
            marked += [
                (f"messages[{index}].content[{position}].content[{inner}]", part) for inner, part in _blocks(block)
            ]
    marked.append(("", body))
    count, short = 0, False
    for path, holder in marked:
        control = holder.get("cache_control")
        if not isinstance(control, dict):
            continue
        count += 1
        where = at(path, "cache_control")
        if count == 5:
            yield f"{where}: more than 4 cache breakpoints"
        if control.get("ttl") == "1h" and short:
            yield f"{where}: ttl 1h must not come after 5m"
        short = short or control.get("ttl") != "1h"
