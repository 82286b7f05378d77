"""Bodies that the Messages API refuses, each one edit away from a good one, with all expected violations."""

from __future__ import annotations

import math
from typing import Any

from body_edits import Bad, Edit, again, drop, insert, put, renamed, turned

_LONG = "n" * 200


def _anthropic(good: str, edit: Edit, *violations: str) -> Bad:
    return Bad("anthropic", good, edit, violations)


def _with(**fields: Any) -> Edit:
    return lambda body: {**body, **fields}


ANTHROPIC = [
    # JSON
    _anthropic("plain", lambda _: [], "body: must be an object, not an array"),
    _anthropic("plain", put("messages", 0, "content", value="a\ud800"), "messages[0].content: lone surrogate"),
    _anthropic(
        "calls",
        put("messages", 1, "content", 1, "input", "a\udfff", value=1),
        "messages[1].content[1].input: lone surrogate in a key",
    ),
    _anthropic(
        "calls",
        put("messages", 1, "content", 1, "input", 7, value=1),
        "messages[1].content[1].input: key 7 is not a string",
    ),
    _anthropic(
        "calls",
        put("messages", 1, "content", 1, "input", "n", value=math.nan),
        "messages[1].content[1].input.n: nan is not JSON",
    ),
    _anthropic(
        "calls",
        put("messages", 1, "content", 1, "input", "n", value=(1,)),
        "messages[1].content[1].input.n: a tuple is not JSON",
    ),
    # fields and their types
    _anthropic("plain", drop("model"), "model: missing"),
    _anthropic("plain", put("model", value=""), "model: text is empty"),
    _anthropic("plain", drop("max_tokens"), "max_tokens: missing"),
    _anthropic("plain", put("max_tokens", value="9"), "max_tokens: must be an integer, not a string"),
    _anthropic("plain", put("max_tokens", value=True), "max_tokens: must be an integer, not a boolean"),
    _anthropic("plain", put("max_tokens", value=0), "max_tokens: must be between 1 and inf"),
    _anthropic("plain", drop("messages"), "messages: missing"),
    _anthropic("plain", put("messages", value=[]), "messages: must not be empty"),
    _anthropic("plain", put("messages", value={}), "messages: must be an array, not an object"),
    _anthropic("plain", put("messages", 0, value="Hello"), "messages[0]: must be an object, not a string"),
    _anthropic("plain", put("temperature", value=1), "temperature: unknown field"),
    _anthropic("plain", put("messages", 0, "name", value="x"), "messages[0].name: unknown field"),
    _anthropic("plain", put("top_p", value=0.9), "top_p: unknown field"),
    _anthropic("plain", put("top_k", value=5), "top_k: unknown field"),
    _anthropic("talk", put("stream", value=1), "stream: must be a boolean, not a number"),
    _anthropic("talk", put("stop_sequences", value=[" "]), "stop_sequences[0]: text is only white space"),
    _anthropic("talk", put("service_tier", value="fast"), "service_tier: must be one of auto, standard_only"),
    _anthropic(
        "talk", put("thinking", "budget_tokens", value=1000), "thinking.budget_tokens: must be between 1024 and inf"
    ),
    _anthropic(
        "talk", put("thinking", "budget_tokens", value=4096), "thinking.budget_tokens: must be below max_tokens"
    ),
    _anthropic("talk", put("system", value=" "), "system: text is only white space"),
    _anthropic("cached", put("system", 0, "text", value=""), "system[0].text: text is empty"),
    _anthropic("cached", put("system", 0, value="Be brief."), "system[0]: must be an object, not a string"),
    _anthropic("cached", put("system", 0, "source", value={}), "system[0].source: unknown field"),
    _anthropic("cached", put("system", value=[]), "system: must not be empty"),
    _anthropic("cached", put("system", 0, "type", value="image"), "system[0].type: must be one of text"),
    # content
    _anthropic("plain", drop("messages", 0, "content"), "messages[0].content: missing"),
    _anthropic("plain", put("messages", 0, "content", value=""), "messages[0].content: text is empty"),
    _anthropic("plain", put("messages", 0, "content", value=[]), "messages[0].content: must not be empty"),
    _anthropic(
        "plain",
        put("messages", 0, "content", value=None),
        "messages[0].content: must be a string or an array, not null",
    ),
    _anthropic(
        "plain",
        put("messages", 0, "content", value=["Hello"]),
        "messages[0].content[0]: must be an object, not a string",
    ),
    _anthropic(
        "cached", put("messages", 0, "content", 0, "text", value=""), "messages[0].content[0].text: text is empty"
    ),
    _anthropic(
        "cached",
        put("messages", 0, "content", 0, "text", value="\n"),
        "messages[0].content[0].text: text is only white space",
    ),
    _anthropic(
        "cached",
        put("messages", 0, "content", 0, "citations", value=[{}]),
        "messages[0].content[0].citations: unknown field",
    ),
    _anthropic(
        "cached",
        put("messages", 0, "content", 2, "source", "media_type", value="image/bmp"),
        "messages[0].content[2].source.media_type: must be one of image/jpeg, image/png, image/gif, image/webp",
    ),
    # documents
    _anthropic(
        "documents",
        put("messages", 0, "content", 0, "source", "data", value="PGh0bWw+"),
        "messages[0].content[0].source.data: 'PGh0bWw+' does not match ^JVBERi[A-Za-z0-9+/]*={0,2}$",
    ),
    _anthropic(
        "documents",
        put("messages", 2, "content", 0, "content", 0, "source", "media_type", value="text/html"),
        "messages[2].content[0].content[0].source.media_type: must be one of application/pdf",
    ),
    _anthropic(
        "documents",
        put("messages", 0, "content", 0, "pages", value=3),
        "messages[0].content[0].pages: unknown field",
    ),
    _anthropic(
        "cached",
        put("messages", 0, "content", 3, "type", value="thinking"),
        "messages[0].content[3].type: must be one of text, image, document, tool_result",
    ),
    _anthropic(
        "talk",
        put("messages", 1, "content", 1, "type", value="image"),
        "messages[1].content[1].type: must be one of text, tool_use, thinking, redacted_thinking, server_tool_use, "
        "web_search_tool_result, code_execution_tool_result, compaction, oracle_block",
    ),
    _anthropic(
        "cached",
        put("messages", 0, "content", 2, "source", "data", value="aGk"),
        "messages[0].content[2].source.data: invalid base64",
    ),
    _anthropic(
        "cached",
        put("messages", 0, "content", 2, "source", value={"type": "url", "url": "http://example.org/cat.png"}),
        "messages[0].content[2].source.url: 'http://example.org/cat.png' does not match https://\\S+",
    ),
    _anthropic("talk", drop("messages", 1, "content", 0, "signature"), "messages[1].content[0].signature: missing"),
    _anthropic(
        "talk",
        turned("messages", 1, "content"),
        "messages[1].content[1]: thinking must not be the last block",
        "messages[1].content[0].type: must be thinking, as the message holds some",
    ),
    _anthropic(
        "cached",
        put("messages", 0, "content", 3, "cache_control", value={"type": "ephemeral"}),
        "messages[0].content[3].cache_control: more than 4 cache breakpoints",
    ),
    _anthropic(
        "cached",
        put("messages", 0, "content", 1, "cache_control", "ttl", value="1h"),
        "messages[0].content[1].cache_control: ttl 1h must not come after 5m",
    ),
    _anthropic(
        "cached",
        put("system", 0, "cache_control", "type", value="persistent"),
        "system[0].cache_control.type: must be one of ephemeral",
    ),
    _anthropic(
        "talk",
        put("messages", 1, "content", 0, "cache_control", value={"type": "ephemeral"}),
        "messages[1].content[0].cache_control: unknown field",
    ),
    # thinking
    _anthropic(
        "talk",
        put("messages", 1, "content", 0, value={"type": "redacted_thinking", "data": ""}),
        "messages[1].content[0].data: text is empty",
    ),
    _anthropic(
        "talk", put("messages", 1, "content", 0, "after", value=3), "messages[1].content[0].after: unknown field"
    ),
    _anthropic(
        "talk",
        insert("messages", 1, "content", 0, value={"type": "text", "text": "Hm."}),
        "messages[1].content[0].type: must be thinking, as the message holds some",
    ),
    _anthropic(
        "calls",
        put("thinking", value={"type": "enabled", "budget_tokens": 1023}),
        "thinking.budget_tokens: must be between 1024 and inf",
        "messages[3].content[0].type: must be thinking before calls while thinking is enabled",
    ),
    _anthropic(
        "talk",
        put("thinking", value={"type": "disabled"}),
        "messages[1].content: must not hold thinking while thinking is disabled",
    ),
    _anthropic(
        "talk",
        lambda body: {**{name: body[name] for name in ("max_tokens", "messages")}, "model": "claude-opus-4-8"},
        "messages[1].content: must not hold thinking while thinking is disabled",
    ),
    _anthropic(
        "talk",
        put("thinking", value={"type": "adaptive", "display": "full"}),
        "thinking.display: must be one of summarized, omitted, updates",
    ),
    _anthropic(
        "talk",
        put("thinking", value={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop"}}),
        "thinking.block_binding.prefix_mismatch_behavior: must be one of error, drop_block",
    ),
    _anthropic(
        "plain",
        put("thinking", value={"type": "disabled", "block_binding": {}}),
        "thinking.block_binding: unknown field",
    ),
    _anthropic(
        "talk", put("model", value="claude-3-5-haiku-latest"), "thinking.type: enabled is not supported by haiku 3.5"
    ),
    _anthropic(
        "plain",
        _with(model="claude-haiku-4-5-20251001", thinking={"type": "adaptive"}),
        "thinking.type: adaptive is not supported by haiku 4.5",
    ),
    _anthropic(
        "plain",
        _with(model="claude-fable-5", thinking={"type": "disabled"}),
        "thinking.type: disabled is not supported by fable 5",
    ),
    _anthropic(
        "plain",
        _with(model="claude-opus-5-5", thinking={"type": "disabled"}),
        "thinking.type: disabled is not supported by opus 5.5",
    ),
    _anthropic(
        "plain",
        put("thinking", value={"type": "between_tools"}),
        "thinking.type: between_tools is not supported by opus 5",
    ),
    _anthropic(
        "plain",
        put("output_config", value={"effort": "minimal"}),
        "output_config.effort: must be one of low, medium, high, xhigh, max",
    ),
    _anthropic(
        "plain",
        _with(model="claude-sonnet-4-5", output_config={"effort": "low"}),
        "output_config.effort: low is not supported by sonnet 4.5",
    ),
    _anthropic(
        "plain",
        _with(model="claude-opus-4-6", output_config={"effort": "xhigh"}),
        "output_config.effort: xhigh is not supported by opus 4.6",
    ),
    _anthropic(
        "plain",
        _with(thinking={"type": "disabled"}, output_config={"effort": "max"}),
        "output_config.effort: max does not go with disabled thinking",
    ),
    # roles and order
    _anthropic("plain", put("messages", 0, "role", value="tool"), "messages[0].role: must be one of user, assistant"),
    _anthropic(
        "plain",
        insert("messages", 0, value={"role": "system", "content": "Be brief."}),
        "messages[0].role: the system prompt is the top-level field 'system', not a message",
    ),
    _anthropic("talk", drop("messages", 0), "messages[0].role: the first message must be the user's"),
    _anthropic("talk", again("messages", 2), "messages[3].role: two user messages in a row"),
    _anthropic("talk", again("messages", 1), "messages[2].role: two assistant messages in a row"),
    _anthropic("talk", drop("messages", 2), "messages[1].role: the last message must be the user's"),
    _anthropic(
        "talk",
        put("messages", 2, value={"role": "assistant", "content": "So "}),
        "messages[2].role: two assistant messages in a row",
        "messages[2].role: the last message must be the user's",
        "messages[2].content: the final assistant message ends with white space",
    ),
    # pairing
    _anthropic(
        "calls",
        drop("messages", 2, "content", 0),
        "messages[1].content[2]: tool_use 'c2' has no tool_result in the next message",
    ),
    _anthropic(
        "calls",
        drop("messages", 4),
        "messages[3].role: the last message must be the user's",
        "messages[3].content[0]: tool_use 'c3' has no tool_result in the next message",
    ),
    _anthropic(
        "calls",
        put("messages", 4, "content", value="Go on."),
        "messages[3].content[0]: tool_use 'c3' has no tool_result in the next message",
    ),
    _anthropic(
        "calls",
        put("messages", 2, "content", 0, "tool_use_id", value="c3"),
        "messages[1].content[2]: tool_use 'c2' has no tool_result in the next message",
        "messages[2].content[0]: tool_result for 'c3' answers no tool_use of the previous message",
    ),
    _anthropic(
        "calls",
        drop("messages", 1, "content", 2),
        "messages[2].content[0]: tool_result for 'c2' answers no tool_use of the previous message",
    ),
    _anthropic(
        "calls",
        put("messages", 0, "content", value=[{"type": "tool_result", "tool_use_id": "c1"}]),
        "messages[0].content[0]: tool_result for 'c1' answers no tool_use of the previous message",
    ),
    _anthropic("calls", again("messages", 2, "content", 1), "messages[2].content[2]: a second tool_result for 'c1'"),
    _anthropic(
        "calls",
        insert("messages", 2, "content", 1, value={"type": "text", "text": "So:"}),
        "messages[2].content[2]: tool_result blocks must come first",
    ),
    _anthropic(
        "calls",
        insert("messages", 3, "content", 1, value={"type": "text", "text": "So:"}),
        "messages[3].content[1]: nothing may stand behind a tool_use in its message",
    ),
    _anthropic("calls", renamed("c3", "c1"), "messages[3].content[0].id: tool_use id 'c1' is used twice"),
    _anthropic(
        "calls",
        renamed("c3", "f.x:0"),
        "messages[3].content[0].id: 'f.x:0' does not match ^[a-zA-Z0-9_-]+$",
        "messages[4].content[0].tool_use_id: 'f.x:0' does not match ^[a-zA-Z0-9_-]+$",
    ),
    _anthropic(
        "calls",
        renamed("c3", "c3\n"),
        "messages[3].content[0].id: 'c3\\n' does not match ^[a-zA-Z0-9_-]+$",
        "messages[4].content[0].tool_use_id: 'c3\\n' does not match ^[a-zA-Z0-9_-]+$",
    ),
    _anthropic(
        "calls",
        put("messages", 3, "content", 0, "input", value="{}"),
        "messages[3].content[0].input: must be an object, not a string",
    ),
    _anthropic(
        "calls",
        put("messages", 3, "content", 0, "name", value="read file"),
        "messages[3].content[0].name: 'read file' does not match ^[a-zA-Z0-9_-]{1,128}$",
    ),
    _anthropic(
        "calls",
        put("messages", 4, "content", 0, "is_error", value=True),
        "messages[4].content[0].content: must not be empty when is_error is true",
    ),
    _anthropic(
        "calls",
        put(
            "messages",
            2,
            "content",
            1,
            value={
                "type": "tool_result",
                "tool_use_id": "c1",
                "is_error": True,
                "content": [{"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}}],
            },
        ),
        "messages[2].content[1].content: must be text alone when is_error is true",
    ),
    _anthropic(
        "calls",
        put("messages", 4, "content", 0, "content", value={"a": 1}),
        "messages[4].content[0].content: must be a string, not an object",
    ),
    _anthropic(
        "calls",
        put("messages", 2, "content", 1, "content", 0, "text", value=""),
        "messages[2].content[1].content[0].text: text is empty",
    ),
    # tools
    _anthropic(
        "calls",
        put("tools", 0, "name", value=_LONG),
        f"tools[0].name: {_LONG[:80]!r} does not match ^[a-zA-Z0-9_-]{{1,128}}$",
        "tool_choice.name: no tool is named 'read_file'",
    ),
    _anthropic("calls", again("tools", 0), "tools[1].name: tool name 'read_file' is used twice"),
    _anthropic("calls", drop("tools", 0, "input_schema"), "tools[0].input_schema: missing"),
    _anthropic(
        "calls", put("tools", 0, "input_schema", "type", value="string"), "tools[0].input_schema.type: must be 'object'"
    ),
    _anthropic(
        "calls",
        put("tools", 0, "input_schema", "anyOf", value=[{}]),
        "tools[0].input_schema.anyOf: not supported at the top level",
    ),
    _anthropic(
        "calls",
        put("tools", 0, "input_schema", "properties", "a b", value={}),
        "tools[0].input_schema.properties: 'a b' does not match ^[a-zA-Z0-9_.-]{1,64}$",
    ),
    _anthropic(
        "calls",
        put("tools", 0, "input_schema", "properties", "path", "type", value="text"),
        "tools[0].input_schema.properties.path.type: is no type of JSON Schema",
    ),
    _anthropic("calls", put("tools", 0, "parameters", value={}), "tools[0].parameters: unknown field"),
    _anthropic("calls", put("tool_choice", "name", value="grep"), "tool_choice.name: no tool is named 'grep'"),
    _anthropic("plain", put("tool_choice", value={"type": "auto"}), "tool_choice: only with tools"),
    _anthropic(
        "calls",
        lambda body: {key: body[key] for key in ("model", "max_tokens", "messages")},
        "tools: missing, although the messages hold tool blocks",
    ),
]
