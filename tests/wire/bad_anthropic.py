"""Bodies that the Messages API refuses, each one edit away from a good one, with all that must be said of it."""

from __future__ import annotations

import math

from body_edits import Bad, Edit, again, drop, insert, put, renamed, turned

_LONG = "n" * 200


def _anthropic(good: str, edit: Edit, *violations: str) -> Bad:
    return Bad("anthropic", good, edit, violations)


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
    _anthropic(
        "cached",
        put("messages", 0, "content", 3, "type", value="thinking"),
        "messages[0].content[3].type: must be one of text, image, document, tool_result",
    ),
    _anthropic(
        "talk",
        put("messages", 1, "content", 1, "type", value="image"),
        "messages[1].content[1].type: must be one of text, tool_use, thinking, redacted_thinking",
    ),
    _anthropic("talk", drop("messages", 1, "content", 0, "signature"), "messages[1].content[0].signature: missing"),
    _anthropic("talk", turned("messages", 1, "content"), "messages[1].content[1]: thinking must not be the last block"),
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
