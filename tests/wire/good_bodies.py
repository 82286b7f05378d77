"""Bodies that each provider accepts, by validator and name. Each bad body is one of these after one edit."""

from __future__ import annotations

from typing import Any

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
GEMINI_SCHEMA = {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}, "required": ["path"]}
STRICT = {**SCHEMA, "additionalProperties": False}


def _anthropic_call(call: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "read_file", "input": {"path": "a"}}


def _openai_call(call: str) -> dict[str, Any]:
    return {"id": call, "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a"}'}}


_GEMINI_CALLS: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Read both."}]},
        {
            "role": "model",
            "parts": [
                {"text": "I read."},
                {"functionCall": {"name": "read_file", "args": {"path": "a"}, "id": "c1"}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "list_files", "args": {}, "id": "c2"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "read_file", "response": {"output": "A"}, "id": "c1"}},
                {"functionResponse": {"name": "list_files", "response": {}, "id": "c2"}},
                {"text": "Go on."},
            ],
        },
    ],
    "tools": [
        {
            "functionDeclarations": [
                {"name": "read_file", "description": "Reads a file.", "parameters": GEMINI_SCHEMA},
                {"name": "list_files"},
                {"name": "grep", "parametersJsonSchema": {"$schema": "x", **STRICT}},
            ]
        }
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["read_file"]}},
    "generationConfig": {"temperature": 0.5, "maxOutputTokens": 100, "thinkingConfig": {"thinkingBudget": -1}},
}
_GEMINI_RICH: dict[str, Any] = {
    "contents": [
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}, {"text": "What is it?"}]},
        {"role": "model", "parts": [{"text": "A cat.", "thought": False}, {"text": "", "thoughtSignature": "c2ln"}]},
        {"role": "user", "parts": [{"text": "\U0001f408 sure?\u2028\x00"}]},
    ],
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": "pick",
                    "parameters": {
                        "type": "object",
                        "properties": {
                            "kind": {"type": "string", "enum": ["a", "b"], "format": "enum"},
                            "many": {"type": "array", "items": {"type": "integer", "format": "int32"}},
                            "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                        },
                    },
                }
            ]
        },
        {"googleSearch": {}},
    ],
}

PDF = "JVBERi0xLjQK"


def _file() -> dict[str, str]:
    return {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}


def _document() -> dict[str, Any]:
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    return {"type": "document", "source": source, "title": "a"}


GOOD: dict[str, dict[str, dict[str, Any]]] = {
    "anthropic": {
        "plain": {"model": "claude-opus-5", "max_tokens": 1024, "messages": [{"role": "user", "content": "Hello"}]},
        "talk": {
            "model": "claude-opus-5",
            "max_tokens": 4096,
            "system": "Be brief.",
            "stream": True,
            "thinking": {"type": "enabled", "budget_tokens": 2048},
            "messages": [
                {"role": "user", "content": "Hello"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "", "signature": "c2ln"},
                        {"type": "text", "text": "Hello."},
                    ],
                },
                {"role": "user", "content": "And now?"},
            ],
        },
        "calls": {
            "model": "claude-opus-5",
            "max_tokens": 1024,
            "messages": [
                {"role": "user", "content": "Read both."},
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "I read."}, _anthropic_call("c1"), _anthropic_call("c2")],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "c2", "content": "B"},
                        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "A"}]},
                        {"type": "text", "text": "Go on."},
                    ],
                },
                {"role": "assistant", "content": [_anthropic_call("c3")]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c3"}]},
            ],
            "tools": [{"name": "read_file", "description": "Reads a file.", "input_schema": SCHEMA}],
            "tool_choice": {"type": "tool", "name": "read_file"},
        },
        "documents": {
            "model": "claude-opus-5",
            "max_tokens": 1024,
            "messages": [
                {"role": "user", "content": [_document(), {"type": "text", "text": "Read."}]},
                {"role": "assistant", "content": [_anthropic_call("c1")]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [_document()]}]},
            ],
            "tools": [],
        },
        "cached": {
            "model": "claude-opus-5",
            "max_tokens": 1024,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "One", "cache_control": {"type": "ephemeral"}},
                        {"type": "text", "text": "Two", "cache_control": {"type": "ephemeral"}},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
                            "cache_control": {"type": "ephemeral", "ttl": "5m"},
                        },
                        {"type": "text", "text": "Four"},
                    ],
                }
            ],
        },
    },
    "openai": {
        "plain": {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]},
        "documents": {
            "model": "gpt-4o",
            "messages": [{"role": "user", "content": [{"type": "file", "file": _file()}]}],
        },
        "talk": {
            "model": "gpt-4o",
            "max_tokens": 100,
            "temperature": 1,
            "stop": ["END"],
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "developer", "content": [{"type": "text", "text": "Very."}]},
                {"role": "assistant", "content": "Hello."},
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}],
                },
            ],
        },
        "calls": {
            "model": "gpt-5",
            "max_completion_tokens": 1000,
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [
                {"role": "user", "content": "Read both."},
                {"role": "assistant", "content": None, "tool_calls": [_openai_call("c1"), _openai_call("c2")]},
                {"role": "tool", "tool_call_id": "c2", "content": ""},
                {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "A"}]},
                {"role": "assistant", "content": "Once more.", "tool_calls": [_openai_call("c1")]},
                {"role": "tool", "tool_call_id": "c1", "content": "A"},
            ],
            "tools": [
                {"type": "function", "function": {"name": "read_file", "parameters": STRICT, "strict": True}},
                {"type": "function", "function": {"name": "now", "description": "The time."}},
            ],
            "tool_choice": {"type": "function", "function": {"name": "read_file"}},
            "parallel_tool_calls": False,
        },
    },
    "openai_responses": {
        "plain": {"model": "gpt-5", "input": "Hello"},
        "documents": {
            "model": "gpt-5",
            "input": [
                {"role": "user", "content": [{"type": "input_file", **_file()}]},
                {"type": "function_call", "call_id": "c1", "name": "read_file", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_file", **_file()}]},
            ],
        },
        "calls": {
            "model": "gpt-5",
            "instructions": "Be brief.",
            "max_output_tokens": 16,
            "store": False,
            "reasoning": {"effort": "low"},
            "input": [
                {"role": "developer", "content": "Really brief."},
                {"role": "user", "content": [{"type": "input_text", "text": "Read both."}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I read."}]},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
                {"type": "function_call", "call_id": "c1", "name": "read_file", "arguments": "{}", "id": "fc_1"},
                {"type": "function_call", "call_id": "c2", "name": "read_file", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": ""},
                {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "B"}]},
            ],
            "tools": [{"type": "function", "name": "read_file", "parameters": STRICT, "strict": True}],
            "tool_choice": "auto",
        },
        "continued": {
            "model": "gpt-5",
            "previous_response_id": "resp_1",
            "input": [{"type": "function_call_output", "call_id": "c9", "output": "A"}],
        },
    },
    "gemini": {
        "plain": {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
        "documents": {
            "contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "application/pdf", "data": PDF}}]}]
        },
        "calls": _GEMINI_CALLS,
        "rich": _GEMINI_RICH,
    },
    "gemini_gca": {
        "plain": {"model": "gemini-2.5-pro", "request": {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}},
        "calls": {
            "model": "gemini-3-pro-preview",
            "project": "p",
            "user_prompt_id": "u",
            "request": {**_GEMINI_CALLS, "session_id": "s"},
        },
    },
}
