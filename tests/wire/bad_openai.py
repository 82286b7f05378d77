"""Bodies that OpenAI refuses, each one edit away from a good one, with all expected violations."""

from __future__ import annotations

from typing import Any

from body_edits import Bad, Edit, again, drop, insert, put, renamed


def _openai(good: str, edit: Edit, *violations: str) -> Bad:
    return Bad("openai", good, edit, violations)


def _responses(good: str, edit: Edit, *violations: str) -> Bad:
    return Bad("openai_responses", good, edit, violations)


def _all(*edits: Edit) -> Edit:
    """Apply several edits, one after the other."""

    def edit(body: Any) -> Any:
        for each in edits:
            body = each(body)
        return body

    return edit


def _newest(*edits: Edit) -> Edit:
    """Edit a body for a model that supports breakpoints."""
    return _all(put("model", value="gpt-5.6"), *edits)


def _said(**more: Any) -> dict[str, Any]:
    return {"type": "text", "text": "Hello", **more}


_UNKNOWN = "messages[0].prompt_cache_breakpoint: unknown field"
_PDF = r"^data:application/pdf;base64,JVBERi[A-Za-z0-9+/]*={0,2}$"
_IMAGE = r"^(?:https?://\S+|data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2})$"
_MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
_TOO_MANY = "no more than 4 are written, the implicit one among them"
_PICTURE = {"type": "input_image", "image_url": "https://example.org/cat.png", "detail": "auto"}

OPENAI = [
    _openai("plain", put("messages", 0, "content", value="\udc00"), "messages[0].content: lone surrogate"),
    _openai("plain", drop("model"), "model: missing"),
    _openai("plain", put("messages", value=[]), "messages: must not be empty"),
    _openai("plain", put("messages", 0, value=None), "messages[0]: must be an object, not null"),
    _openai("plain", put("system", value="Be brief."), "system: unknown field"),
    _openai("plain", put("max_tokens", value=10), "max_tokens: reasoning models take max_completion_tokens"),
    _openai("talk", put("temperature", value=2.5), "temperature: must be between 0 and 2"),
    _openai("talk", put("temperature", value="1"), "temperature: must be a number, not a string"),
    _openai("talk", put("stop", value=[]), "stop: must not be empty"),
    _openai("talk", put("messages", 0, "cache_control", value={}), "messages[0].cache_control: unknown field"),
    # content
    _openai("plain", put("messages", 0, "content", value=""), "messages[0].content: text is empty"),
    _openai(
        "plain",
        put("messages", 0, "content", value=None),
        "messages[0].content: must be a string or an array, not null",
    ),
    _openai("plain", put("messages", 0, "content", value=[]), "messages[0].content: must not be empty"),
    _openai("talk", put("messages", 1, "content", 0, "text", value=""), "messages[1].content[0].text: text is empty"),
    _openai(
        "talk",
        put("messages", 1, "content", 0, "type", value="input_text"),
        "messages[1].content[0].type: must be one of text",
    ),
    _openai("talk", put("messages", 2, "content", value=None), "messages[2].content: may be null only with tool_calls"),
    _openai("talk", put("messages", 2, "content", value=""), "messages[2].content: text is empty"),
    _openai("calls", put("messages", 1, "content", value=""), "messages[1].content: text is empty"),
    _openai("calls", drop("messages", 5, "content"), "messages[5].content: missing"),
    _openai(
        "calls",
        put("messages", 5, "content", value=None),
        "messages[5].content: must be a string or an array, not null",
    ),
    # images
    _openai(
        "talk",
        put("messages", 3, "content", 0, "image_url", "url", value="data:image/bmp;base64,aGk="),
        f"messages[3].content[0].image_url.url: 'data:image/bmp;base64,aGk=' does not match {_IMAGE}",
    ),
    _openai(
        "talk",
        put("messages", 3, "content", 0, "image_url", "url", value="file:///etc/passwd"),
        f"messages[3].content[0].image_url.url: 'file:///etc/passwd' does not match {_IMAGE}",
    ),
    _openai(
        "talk",
        put("messages", 3, "content", 0, "image_url", value="https://example.org/cat.png"),
        "messages[3].content[0].image_url: must be an object, not a string",
    ),
    _openai(
        "talk",
        put("messages", 3, "content", 0, "image_url", "detail", value="best"),
        "messages[3].content[0].image_url.detail: must be one of auto, low, high, original",
    ),
    _openai(
        "calls",
        put(
            "messages", 3, "content", 0, value={"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
        ),
        "messages[3].content[0].type: must be one of text",
    ),
    # thinking
    _openai(
        "plain",
        put("reasoning_effort", value="off"),
        "reasoning_effort: must be one of none, minimal, low, medium, high, xhigh, max",
    ),
    _openai("plain", put("reasoning_effort", value="none"), "reasoning_effort: none is not supported with this model"),
    _openai(
        "plain",
        _all(put("model", value="gpt-5.1"), put("reasoning_effort", value="minimal")),
        "reasoning_effort: minimal is not supported with this model",
    ),
    _openai(
        "plain",
        _all(put("model", value="o4-mini"), put("reasoning_effort", value="minimal")),
        "reasoning_effort: minimal is not supported with this model",
    ),
    _openai("talk", put("reasoning_effort", value="low"), "reasoning_effort: not supported with this model"),
    _openai(
        "plain",
        _all(put("model", value="gpt-5-chat-latest"), put("reasoning_effort", value="low")),
        "reasoning_effort: not supported with this model",
    ),
    _openai("calls", put("model", value="gpt-5.6"), "reasoning_effort: must be none where there are tools"),
    _openai(
        "calls",
        _all(put("model", value="gpt-5.4"), put("reasoning_effort", value="low")),
        "reasoning_effort: must be none where there are tools",
    ),
    _openai(
        "calls",
        put("messages", 1, "reasoning_content", value="Hm."),
        "messages[1].reasoning_content: unknown field",
    ),
    _openai(
        "calls",
        put("messages", 1, "reasoning_details", value=[{"type": "reasoning.text"}]),
        "messages[1].reasoning_details: unknown field",
    ),
    _openai(
        "calls",
        _all(
            put("model", value="deepseek/deepseek-v4-pro"),
            put("messages", 1, "reasoning_content", value=""),
            put("messages", 4, "reasoning_content", value="Hm."),
        ),
        "messages[1].reasoning_content: missing",
    ),
    _openai(
        "calls",
        _all(put("model", value="qwen3"), put("messages", 1, "reasoning", value=["Hm."])),
        "messages[1].reasoning: must be a string, not an array",
    ),
    # breakpoints
    _openai(
        "talk",
        put("messages", 1, "content", 0, value={"type": "text", "text": "Very.", **_MARK}),
        "messages[1].content[0].prompt_cache_breakpoint: not supported with this model",
    ),
    *(
        _openai(
            "plain",
            _all(put("model", value=model), put("messages", 0, "content", value=[_said(**_MARK)])),
            "messages[0].content[0].prompt_cache_breakpoint: not supported with this model",
        )
        for model in ("gpt-5", "gpt-5.5", "gpt-5.6-chat-latest", "o3", "openai/gpt-5.6", "qwen3")
    ),
    _openai("plain", _newest(put("messages", 0, "prompt_cache_breakpoint", value={"mode": "explicit"})), _UNKNOWN),
    _openai(
        "plain",
        _newest(put("messages", 0, "content", value=[_said(prompt_cache_breakpoint={"mode": "implicit"})])),
        "messages[0].content[0].prompt_cache_breakpoint.mode: must be one of explicit",
    ),
    _openai(
        "plain",
        _newest(put("messages", 0, "content", value=[_said(prompt_cache_breakpoint=True)])),
        "messages[0].content[0].prompt_cache_breakpoint: must be an object, not a boolean",
    ),
    _openai(
        "plain",
        _newest(put("messages", 0, "content", value=[{**_said(**_MARK), "text": ""}])),
        "messages[0].content[0].text: text is empty",
    ),
    _openai(
        "plain",
        _newest(insert("messages", 0, value={"role": "assistant", "content": [_said(**_MARK)]})),
        "messages[0].content[0].prompt_cache_breakpoint: unknown field",
    ),
    _openai(
        "plain",
        _newest(put("messages", 0, "content", value=[_said(**_MARK)] * 4)),
        f"messages[0].content[3].prompt_cache_breakpoint: {_TOO_MANY}",
    ),
    _openai(
        "plain",
        _newest(
            put("messages", 0, "content", value=[_said(**_MARK)] * 5),
            put("prompt_cache_options", value={"mode": "explicit"}),
        ),
        f"messages[0].content[4].prompt_cache_breakpoint: {_TOO_MANY}",
    ),
    # roles and order
    _openai(
        "plain",
        put("messages", 0, "role", value="model"),
        "messages[0].role: must be one of system, developer, user, tool, assistant",
        "messages[0].role: the last message must be the user's or a tool's",
    ),
    _openai("talk", drop("messages", 3), "messages[2].role: the last message must be the user's or a tool's"),
    _openai(
        "talk",
        put("messages", 0, value={"role": "user", "content": "Hello"}),
        "messages[1].role: developer messages must stand in front",
    ),
    # pairing
    _openai(
        "calls",
        drop("messages", 5),
        "messages[4].role: the last message must be the user's or a tool's",
        "messages[4].tool_calls[0]: no tool message answers 'c1' directly after it",
    ),
    _openai("calls", drop("messages", 2), "messages[1].tool_calls[1]: no tool message answers 'c2' directly after it"),
    _openai(
        "calls",
        insert("messages", 3, value={"role": "user", "content": "Well?"}),
        "messages[1].tool_calls[0]: no tool message answers 'c1' directly after it",
        "messages[4]: tool message for 'c1' answers no tool_calls directly before it",
    ),
    _openai(
        "calls",
        drop("messages", 1, "tool_calls", 1),
        "messages[2]: tool message for 'c2' answers no tool_calls directly before it",
    ),
    _openai(
        "calls",
        insert("messages", 1, value={"role": "tool", "tool_call_id": "c1", "content": "A"}),
        "messages[1]: tool message for 'c1' answers no tool_calls directly before it",
    ),
    _openai("calls", again("messages", 3), "messages[4]: 'c1' is answered twice"),
    _openai(
        "calls",
        put("messages", 3, "content", 0, value={"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}),
        "messages[3].content[0].type: must be text in the result of a tool",
    ),
    _openai(
        "calls",
        renamed("c2", "c1"),
        "messages[1].tool_calls[1].id: 'c1' is used twice",
        "messages[3]: 'c1' is answered twice",
    ),
    _openai(
        "calls",
        renamed("c2", "c" * 41),
        f"messages[1].tool_calls[1].id: {'c' * 41!r} does not match ^(?s:.){{1,40}}$",
        f"messages[2].tool_call_id: {'c' * 41!r} does not match ^(?s:.){{1,40}}$",
    ),
    _openai(
        "calls",
        put("messages", 4, "tool_calls", 0, "function", "arguments", value={}),
        "messages[4].tool_calls[0].function.arguments: must be a string, not an object",
    ),
    _openai(
        "calls",
        put("messages", 4, "tool_calls", 0, "function", "name", value="a.b"),
        "messages[4].tool_calls[0].function.name: 'a.b' does not match ^[a-zA-Z0-9_-]{1,64}$",
    ),
    _openai(
        "calls",
        drop("messages", 4, "tool_calls", 0, "type"),
        "messages[4].tool_calls[0].type: must be one of function, custom",
    ),
    _openai("talk", put("messages", 2, "tool_calls", value=[]), "messages[2].tool_calls: must not be empty"),
    # tools
    _openai("plain", put("tools", value=[]), "tools: must not be empty"),
    _openai("plain", put("parallel_tool_calls", value=True), "parallel_tool_calls: only with tools"),
    _openai("calls", put("stream", value=False), "stream_options: only when stream is true"),
    _openai("calls", again("tools", 1), "tools[2].function.name: tool name 'now' is used twice"),
    _openai(
        "calls",
        put("tools", 1, value={"type": "function", "name": "now"}),
        "tools[1].function: missing",
        "tools[1].name: unknown field",
    ),
    _openai(
        "calls",
        put("tools", 1, "function", "parameters", value={"type": "object"}),
        "tools[1].function.parameters.properties: missing",
    ),
    _openai(
        "calls",
        put("tools", 1, "function", "parameters", value={}),
        "tools[1].function.parameters.type: must be 'object'",
    ),
    _openai(
        "calls",
        drop("tools", 0, "function", "parameters", "additionalProperties"),
        "tools[0].function.parameters.additionalProperties: must be false when strict is true",
    ),
    _openai(
        "calls",
        put("tools", 0, "function", "parameters", "required", value=[]),
        "tools[0].function.parameters.required: must list every property when strict is true",
    ),
    _openai("calls", put("tool_choice", value="any"), "tool_choice: must be one of none, auto, required"),
    _openai("calls", put("tool_choice", "function", "name", value="grep"), "tool_choice: no tool is named 'grep'"),
]

RESPONSES = [
    _responses("plain", put("input", value="\udc00"), "input: lone surrogate"),
    _responses("plain", drop("input"), "input: missing"),
    _responses("plain", put("input", value=[]), "input: must not be empty"),
    _responses("plain", put("messages", value=[]), "messages: unknown field"),
    _responses("calls", put("max_output_tokens", value=15), "max_output_tokens: must be between 16 and inf"),
    _responses("calls", put("input", 0, value="Hello"), "input[0]: must be an object, not a string"),
    _responses(
        "calls", put("input", 1, "content", 0, "text", value=" "), "input[1].content[0].text: text is only white space"
    ),
    _responses(
        "calls",
        put("input", 1, "content", 0, "type", value="text"),
        "input[1].content[0].type: must be one of input_text, input_image, input_file",
    ),
    _responses(
        "calls",
        put("input", 2, "content", 0, "type", value="input_text"),
        "input[2].content[0].type: must be one of output_text, refusal",
    ),
    _responses(
        "calls",
        put("input", 2, "type", value="tool"),
        "input[2].type: must be one of message, function_call, function_call_output, reasoning, compaction, "
        "web_search_call, file_search_call, code_interpreter_call, image_generation_call, mcp_call",
    ),
    _responses("calls", drop("input", 6), "input[4]: no function_call_output answers 'c1' before the next message"),
    _responses("calls", drop("input", 5), "input[6]: output for 'c2' answers no function_call before it"),
    _responses("calls", again("input", 6), "input[7]: 'c1' is answered twice"),
    _responses("calls", again("input", 5), "input[6].call_id: 'c2' is used twice"),
    _responses(
        "calls",
        insert("input", 7, value={"role": "user", "content": "Well?"}),
        "input[5]: no function_call_output answers 'c2' before the next message",
        "input[8]: output for 'c2' answers no function_call before it",
    ),
    _responses("calls", put("input", 4, "arguments", value={}), "input[4].arguments: must be a string, not an object"),
    _responses("calls", put("input", 4, "id", value="c1"), "input[4].id: 'c1' does not match ^fc.*$"),
    _responses(
        "calls",
        renamed("c2", "c" * 65),
        f"input[5].call_id: {'c' * 65!r} does not match ^(?s:.){{1,64}}$",
        f"input[7].call_id: {'c' * 65!r} does not match ^(?s:.){{1,64}}$",
    ),
    _responses(
        "calls",
        insert("input", 4, value={"role": "user", "content": "Well?"}),
        "input[3]: reasoning without the item that followed it",
    ),
    _responses(
        "calls",
        insert("input", 8, value={"role": "assistant", "content": "Done."}),
        "input[8]: the last item must be the user's or a tool's output",
    ),
    _responses(
        "calls",
        insert("input", 2, value={"role": "system", "content": "Brief!"}),
        "input[2].role: system messages must stand in front",
    ),
    _responses(
        "calls",
        put("tools", 0, value={"type": "function", "function": {"name": "read_file"}}),
        "tools[0].name: missing",
        "tools[0].function: unknown field",
    ),
    _responses(
        "calls",
        put("tools", 0, "parameters", "additionalProperties", value=True),
        "tools[0].parameters.additionalProperties: must be false when strict is true",
    ),
    _responses(
        "calls", put("tool_choice", value={"type": "function", "name": "grep"}), "tool_choice: no tool is named 'grep'"
    ),
    # images
    _responses(
        "calls",
        put("input", 1, "content", 0, value={**_PICTURE, "image_url": "data:image/tiff;base64,aGk="}),
        f"input[1].content[0].image_url: 'data:image/tiff;base64,aGk=' does not match {_IMAGE}",
    ),
    _responses(
        "calls",
        put("input", 7, "output", 0, value={**_PICTURE, "detail": "best"}),
        "input[7].output[0].detail: must be one of auto, low, high, original",
    ),
    _responses(
        "calls",
        put("input", 7, "output", 0, value={"type": "input_image", "detail": "auto"}),
        "input[7].output[0]: an image without image_url or file_id",
    ),
    # documents
    _openai(
        "documents",
        drop("messages", 0, "content", 0, "file", "filename"),
        "messages[0].content[0]: file_data without filename",
    ),
    _openai(
        "documents",
        put("messages", 0, "content", 0, "file", "file_data", value="JVBERi0="),
        f"messages[0].content[0].file.file_data: 'JVBERi0=' does not match {_PDF}",
    ),
    _openai("documents", put("model", value="qwen3"), "messages[0].content[0]: qwen3 reads no files"),
    _openai("documents", put("model", value="gpt-4"), "messages[0].content[0]: gpt-4 reads no files"),
    _responses(
        "documents",
        put("input", 2, "output", 0, value={"type": "input_file", "filename": "a.pdf"}),
        "input[2].output[0]: a file without file_data, file_id or file_url",
    ),
    _responses(
        "calls",
        put("input", 7, "output", 0, value={"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}),
        "input[7].output[0].type: must be one of input_text, input_image, input_file",
    ),
    # breakpoints
    _responses(
        "calls",
        put("input", 1, "content", 0, value={"type": "input_text", "text": "Read both.", **_MARK}),
        "input[1].content[0].prompt_cache_breakpoint: not supported with this model",
    ),
    _responses(
        "calls",
        put("input", 7, "output", 0, value={"type": "input_text", "text": "B", **_MARK}),
        "input[7].output[0].prompt_cache_breakpoint: not supported with this model",
    ),
    _responses(
        "calls",
        _newest(put("input", 2, "content", 0, value={"type": "output_text", "text": "I read.", **_MARK})),
        "input[2].content[0].prompt_cache_breakpoint: unknown field",
    ),
    *(
        _responses(
            "calls",
            _newest(put("input", index, "prompt_cache_breakpoint", value={"mode": "explicit"})),
            f"input[{index}].prompt_cache_breakpoint: unknown field",
        )
        for index in (1, 3, 4, 7)
    ),
    _responses(
        "calls",
        _newest(put("tools", 0, "prompt_cache_breakpoint", value={"mode": "explicit"})),
        "tools[0].prompt_cache_breakpoint: unknown field",
    ),
    _responses(
        "calls",
        _newest(put("instructions", value=[{"type": "input_text", "text": "Be brief.", **_MARK}])),
        "instructions: must be a string, not an array",
    ),
    _responses(
        "calls",
        _newest(put("input", 1, "content", 0, value={"type": "text", "text": "Read both.", **_MARK})),
        "input[1].content[0].type: must be one of input_text, input_image, input_file",
    ),
    _responses(
        "calls",
        _newest(
            put("input", 1, "content", value=[{"type": "input_text", "text": "Read.", **_MARK}] * 3),
            put("input", 7, "output", 0, value={**_PICTURE, **_MARK}),
        ),
        f"input[7].output[0].prompt_cache_breakpoint: {_TOO_MANY}",
    ),
    # thinking
    _responses("calls", drop("input", 3, "summary"), "input[3].summary: missing"),
    _responses(
        "calls",
        put("input", 3, "summary", value=[{"type": "text", "text": "Hm."}]),
        "input[3].summary[0].type: must be one of summary_text",
    ),
    _responses(
        "calls",
        put("input", 3, "content", value=[{"type": "reasoning_text", "text": "Hm."}]),
        "input[3].content: must be empty",
    ),
    _responses(
        "calls",
        drop("input", 3, "encrypted_content"),
        "input[3]: nothing is stored, so the encrypted content must be here",
    ),
    _responses(
        "calls",
        _all(drop("input", 3, "id"), put("input", 3, "encrypted_content", value=None)),
        "input[3]: nothing is stored, so the encrypted content must be here",
    ),
    _responses("calls", put("input", 3, "id", value="msg_1"), "input[3].id: 'msg_1' does not match ^rs.*$"),
    _responses(
        "calls", put("input", 2, "phase", value="thinking"), "input[2].phase: must be one of commentary, final_answer"
    ),
    _responses(
        "calls",
        put("reasoning", "summary", value="yes"),
        "reasoning.summary: must be one of auto, concise, detailed",
    ),
    _responses(
        "calls", put("reasoning", "effort", value="none"), "reasoning.effort: none is not supported with this model"
    ),
    _responses("calls", put("model", value="gpt-4.1"), "reasoning.effort: not supported with this model"),
    _responses(
        "plain",
        _all(put("model", value="gpt-4.1"), put("include", value=["reasoning.encrypted_content"])),
        "include: encrypted content is not supported with this model",
    ),
    _responses(
        "plain",
        put("include", value=["encrypted_content"]),
        "include[0]: must be one of code_interpreter_call.outputs, computer_call_output.output.image_url, "
        "file_search_call.results, message.input_image.image_url, message.output_text.logprobs, "
        "reasoning.encrypted_content, web_search_call.action.sources, web_search_call.results",
    ),
    _responses(
        "continued", drop("previous_response_id"), "input[0]: output for 'c9' answers no function_call before it"
    ),
]
