"""Bodies that Gemini refuses, each one edit away from a good one, with all expected violations."""

from __future__ import annotations

import math

from body_edits import Bad, Edit, again, drop, insert, put

_MODEL_PARTS = ("contents", 1, "parts")
_USER_PARTS = ("contents", 2, "parts")
_DECLARATION = ("tools", 0, "functionDeclarations", 0)
_PARAMETERS = (*_DECLARATION, "parameters")
_PICTURE = ("contents", 0, "parts", 0, "inlineData")
_RESPONSE = (*_USER_PARTS, 0, "functionResponse")
_THINKING = ("generationConfig", "thinkingConfig")
_AT = "tools[0].functionDeclarations[0].parameters"
_IMAGES = "must be one of image/png, image/jpeg, image/webp, image/heic, image/heif, application/pdf"
_DATA = "text, inlineData, fileData, functionCall, functionResponse, executableCode, codeExecutionResult"


def _gemini(good: str, edit: Edit, *violations: str) -> Bad:
    return Bad("gemini", good, edit, violations)


def _gca(good: str, edit: Edit, *violations: str) -> Bad:
    return Bad("gemini_gca", good, edit, violations)


def _both(first: Edit, second: Edit) -> Edit:
    return lambda body: second(first(body))


def _of(model: str, edit: Edit) -> Edit:
    """Combine the edit with another model."""
    return _both(put("model", value=model), edit)


def _thinks(**config: object) -> Edit:
    return put("request", "generationConfig", value={"thinkingConfig": config})


_LEVEL = "request.generationConfig.thinkingConfig.thinkingLevel"
_BUDGET = "request.generationConfig.thinkingConfig.thinkingBudget"

GEMINI = [
    _gemini(
        "calls",
        put(*_MODEL_PARTS, 1, "functionCall", "args", "x", value=math.inf),
        "contents[1].parts[1].functionCall.args.x: inf is not JSON",
    ),
    _gemini("plain", drop("contents"), "contents: missing"),
    _gemini("plain", put("contents", value=[]), "contents: must not be empty"),
    _gemini("plain", put("system_instruction", value={"parts": []}), "system_instruction: unknown field"),
    _gemini("plain", put("messages", value=[]), "messages: unknown field"),
    # content
    _gemini("plain", put("contents", 0, "parts", value=[]), "contents[0].parts: must not be empty"),
    _gemini(
        "plain", put("contents", 0, "parts", value=[{}]), f"contents[0].parts[0]: must hold exactly one of {_DATA}"
    ),
    _gemini("plain", put("contents", 0, "parts", 0, "text", value=""), "contents[0].parts[0].text: text is empty"),
    _gemini(
        "plain",
        put("contents", 0, "parts", 0, "text", value="\t"),
        "contents[0].parts[0].text: text is only white space",
    ),
    _gemini(
        "plain",
        put("contents", 0, "parts", 0, "text", value=None),
        "contents[0].parts[0].text: must be a string, not null",
    ),
    _gemini("plain", put("contents", 0, "parts", 0, "type", value="text"), "contents[0].parts[0].type: unknown field"),
    _gemini(
        "rich",
        put("contents", 0, "parts", 0, "text", value="x"),
        f"contents[0].parts[0]: must hold exactly one of {_DATA}",
    ),
    _gemini(
        "rich",
        put("contents", 0, "parts", 0, "inlineData", "data", value="not base64!"),
        "contents[0].parts[0].inlineData.data: 'not base64!' does not match ^[A-Za-z0-9+/_-]+={0,2}$",
    ),
    _gemini("rich", drop(*_MODEL_PARTS, 1, "thoughtSignature"), "contents[1].parts[1].text: text is empty"),
    # images
    _gemini(
        "rich", put(*_PICTURE, "mimeType", value="image/gif"), f"contents[0].parts[0].inlineData.mimeType: {_IMAGES}"
    ),
    _gemini(
        "rich", put(*_PICTURE, "mimeType", value="image/jpg"), f"contents[0].parts[0].inlineData.mimeType: {_IMAGES}"
    ),
    _gemini("rich", drop(*_PICTURE, "mimeType"), "contents[0].parts[0].inlineData.mimeType: missing"),
    _gemini("rich", drop(*_PICTURE, "data"), "contents[0].parts[0].inlineData.data: missing"),
    _gemini(
        "rich",
        put("contents", 0, "parts", 1, value={"fileData": {"fileUri": "https://example.org/cat.png"}}),
        "contents[0].parts[1].fileData.mimeType: missing",
    ),
    _gemini(
        "rich",
        put("contents", 0, "parts", 1, value={"fileData": {"fileUri": "cat.png", "mimeType": "image/png"}}),
        "contents[0].parts[1].fileData.fileUri: 'cat.png' does not match ^https://[!-~]+$",
    ),
    _gemini(
        "calls",
        put(*_RESPONSE, "parts", value=[{"fileData": {"fileUri": "https://example.org/cat.png"}}]),
        "contents[2].parts[0].functionResponse.parts[0].inlineData: missing",
        "contents[2].parts[0].functionResponse.parts[0].fileData: unknown field",
    ),
    _gemini(
        "calls",
        put(*_RESPONSE, "parts", value=[]),
        "contents[2].parts[0].functionResponse.parts: must not be empty",
    ),
    # thoughts
    _gemini(
        "calls",
        put(*_USER_PARTS, 2, "thoughtSignature", value="c2ln"),
        "contents[2].parts[2]: a thought in a content of role user",
    ),
    _gemini(
        "calls",
        put(*_MODEL_PARTS, 1, "thoughtSignature", value="not base64!"),
        "contents[1].parts[1].thoughtSignature: 'not base64!' does not match ^[A-Za-z0-9+/_-]+={0,2}$",
    ),
    _gemini(
        "calls",
        put(*_THINKING, "thinkingLevel", value="LOW"),
        "generationConfig.thinkingConfig.thinkingBudget: not together with thinkingLevel",
    ),
    _gemini(
        "calls",
        put(*_THINKING, value={"thinkingLevel": "low"}),
        "generationConfig.thinkingConfig.thinkingLevel: must be one of MINIMAL, LOW, MEDIUM, HIGH",
    ),
    _gemini(
        "calls",
        put(*_THINKING, value={"thinkingBudget": 0, "includeThoughts": True}),
        "generationConfig.thinkingConfig.includeThoughts: only with thinking",
    ),
    _gemini(
        "calls",
        put(*_THINKING, value={"thinkingBudget": -2}),
        "generationConfig.thinkingConfig.thinkingBudget: must be between -1 and inf",
    ),
    _gemini(
        "calls",
        put(*_THINKING, value={"includeThoughts": "yes"}),
        "generationConfig.thinkingConfig.includeThoughts: must be a boolean, not a string",
    ),
    _gemini("calls", put(*_THINKING, value={"effort": "low"}), "generationConfig.thinkingConfig.effort: unknown field"),
    _gemini(
        "calls",
        put("generationConfig", "maxOutputTokens", value=65537),
        "generationConfig.maxOutputTokens: must be between 1 and 65536",
    ),
    _gemini("calls", put("systemInstruction", value="Be brief."), "systemInstruction: must be an object, not a string"),
    _gemini(
        "calls",
        put("systemInstruction", "parts", 0, "text", value=""),
        "systemInstruction.parts[0].text: text is empty",
    ),
    _gemini("calls", put("systemInstruction", "parts", value=[]), "systemInstruction.parts: must not be empty"),
    # roles and order
    _gemini("plain", put("contents", 0, "role", value="assistant"), "contents[0].role: must be one of user, model"),
    _gemini("plain", drop("contents", 0, "role"), "contents[0].role: missing"),
    _gemini("rich", drop("contents", 0), "contents[0].role: the first content must be the user's"),
    _gemini("rich", drop("contents", 2), "contents[1].role: the last content must be the user's"),
    _gemini("rich", again("contents", 2), "contents[3].role: two user contents in a row"),
    _gemini("rich", again("contents", 1), "contents[2].role: two model contents in a row"),
    _gemini(
        "calls",
        drop("contents", 0),
        "contents[0].role: the first content must be the user's",
        "contents[0]: a function call turn must come directly after a user or function response turn",
    ),
    _gemini(
        "calls",
        insert("contents", 1, value={"role": "model", "parts": [{"text": "Well."}]}),
        "contents[2].role: two model contents in a row",
        "contents[2]: a function call turn must come directly after a user or function response turn",
    ),
    # pairing
    _gemini("calls", drop(*_USER_PARTS, 1), "contents[2]: 1 function responses for 2 function calls"),
    _gemini("calls", again(*_USER_PARTS, 0), "contents[2]: 3 function responses for 2 function calls"),
    _gemini(
        "calls",
        put(*_USER_PARTS, value=[{"text": "Go on."}]),
        "contents[1]: 2 function calls, but no function response in the next content",
    ),
    _gemini(
        "calls",
        put(*_MODEL_PARTS, value=[{"text": "I read."}]),
        "contents[2]: 2 function responses for 0 function calls",
    ),
    _gemini(
        "calls",
        insert("contents", 0, "parts", 1, value={"functionResponse": {"name": "read_file", "response": {}}}),
        "contents[0]: 1 function responses for 0 function calls",
    ),
    _gemini(
        "calls",
        put(*_USER_PARTS, 0, "functionResponse", "name", value="grep"),
        "contents[2].parts[0].functionResponse.name: 'grep' answers a call of 'read_file'",
    ),
    _gemini(
        "calls",
        put(*_USER_PARTS, 0, "functionResponse", "id", value="c9"),
        "contents[2].parts[0].functionResponse.id: 'c9' answers the call 'c1'",
    ),
    _gemini(
        "calls",
        drop(*_USER_PARTS, 0, "functionResponse", "id"),
        "contents[2].parts[0].functionResponse.id: None answers the call 'c1'",
    ),
    _gemini(
        "calls",
        drop(*_USER_PARTS, 0, "functionResponse", "name"),
        "contents[2].parts[0].functionResponse.name: missing",
        "contents[2].parts[0].functionResponse.name: None answers a call of 'read_file'",
    ),
    _gemini(
        "calls",
        insert(*_USER_PARTS, 1, value={"text": "And:"}),
        "contents[2].parts[2]: function responses must come first",
    ),
    _gemini(
        "calls",
        put(*_USER_PARTS, 2, value={"functionCall": {"name": "grep"}}),
        "contents[2].parts[2]: functionCall in a content of role user",
    ),
    _gemini(
        "calls",
        put(*_MODEL_PARTS, 0, value={"functionResponse": {"name": "grep", "response": {}}}),
        "contents[1].parts[0]: functionResponse in a content of role model",
    ),
    _gemini(
        "calls",
        put(*_MODEL_PARTS, 1, "functionCall", "args", value="{}"),
        "contents[1].parts[1].functionCall.args: must be an object, not a string",
    ),
    _gemini(
        "calls",
        put(*_USER_PARTS, 0, "functionResponse", "response", value=["A"]),
        "contents[2].parts[0].functionResponse.response: must be an object, not an array",
    ),
    _gemini(
        "calls",
        drop(*_USER_PARTS, 0, "functionResponse", "response"),
        "contents[2].parts[0].functionResponse.response: missing",
    ),
    # tools
    _gemini(
        "calls",
        put(*_DECLARATION, "name", value="1st"),
        "tools[0].functionDeclarations[0].name: '1st' does not match ^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$",
    ),
    _gemini(
        "calls", again(*_DECLARATION), "tools[0].functionDeclarations[1].name: tool name 'read_file' is used twice"
    ),
    _gemini(
        "calls", put("tools", 0, "functionDeclarations", value=[]), "tools[0].functionDeclarations: must not be empty"
    ),
    _gemini(
        "rich",
        put("tools", 1, value={}),
        "tools[1]: must hold a kind of tool",
    ),
    _gemini(
        "calls",
        put(*_DECLARATION, "parametersJsonSchema", value={"type": "object"}),
        "tools[0].functionDeclarations[0].parametersJsonSchema: not together with parameters",
    ),
    _gemini(
        "calls", put(*_PARAMETERS, "additionalProperties", value=False), f"{_AT}.additionalProperties: unknown field"
    ),
    _gemini("calls", put(*_PARAMETERS, "$schema", value="x"), f"{_AT}.$schema: unknown field"),
    _gemini(
        "calls",
        put(*_PARAMETERS, "properties", "path", "const", value="x"),
        f"{_AT}.properties.path.const: unknown field",
    ),
    _gemini(
        "calls",
        put(*_PARAMETERS, "properties", value={}),
        f"{_AT}.properties: should be non-empty for OBJECT type",
        f"{_AT}.required[0]: property is not defined",
    ),
    _gemini("calls", put(*_PARAMETERS, "type", value="STRING"), f"{_AT}.type: must be OBJECT"),
    _gemini("calls", put(*_PARAMETERS, "required", 0, value="pattern"), f"{_AT}.required[0]: property is not defined"),
    _gemini(
        "calls",
        put(*_PARAMETERS, "properties", "path", "type", value=["string", "null"]),
        f"{_AT}.properties.path.type: must be one of STRING, NUMBER, INTEGER, BOOLEAN, ARRAY, OBJECT, NULL",
    ),
    _gemini("calls", drop(*_PARAMETERS, "properties", "path", "type"), f"{_AT}.properties.path.type: missing"),
    _gemini(
        "calls",
        put(*_PARAMETERS, "properties", "a b", value={"type": "STRING"}),
        f"{_AT}.properties: 'a b' does not match ^[a-zA-Z_][a-zA-Z0-9_]{{0,63}}$",
    ),
    _gemini("rich", drop(*_PARAMETERS, "properties", "many", "items"), f"{_AT}.properties.many.items: missing"),
    _gemini(
        "rich",
        put(*_PARAMETERS, "properties", "kind", "type", value="integer"),
        f"{_AT}.properties.kind.enum: only allowed for STRING type",
        f"{_AT}.properties.kind.format: 'enum' is not supported for INTEGER type",
    ),
    _gemini(
        "rich",
        put(*_PARAMETERS, "properties", "kind", "enum", 0, value=1),
        f"{_AT}.properties.kind.enum[0]: must be a string, not a number",
    ),
    _gemini(
        "rich",
        put(*_PARAMETERS, "properties", "kind", "enum", 0, value=""),
        f"{_AT}.properties.kind.enum: cannot hold an empty string",
    ),
    _gemini(
        "rich",
        put(*_PARAMETERS, "properties", "kind", "format", value="uri"),
        f"{_AT}.properties.kind.format: 'uri' is not supported for STRING type",
    ),
    _gemini(
        "rich",
        put(*_PARAMETERS, "properties", "either", "type", value="string"),
        f"{_AT}.properties.either.anyOf: must be the only field",
    ),
    _gemini(
        "calls",
        put("toolConfig", "functionCallingConfig", "mode", value="AUTO"),
        "toolConfig.functionCallingConfig.allowedFunctionNames: only with mode ANY or VALIDATED",
    ),
    _gemini(
        "calls",
        put("generationConfig", "max_output_tokens", value=1),
        "generationConfig.max_output_tokens: unknown field",
    ),
    _gemini(
        "calls",
        put("generationConfig", "maxOutputTokens", value=1.5),
        "generationConfig.maxOutputTokens: must be an integer, not a number",
    ),
]

GCA = [
    _gca(
        "plain",
        put("request", "contents", 0, "parts", 0, "text", value="\udc00"),
        "request.contents[0].parts[0].text: lone surrogate",
    ),
    _gca("plain", drop("model"), "model: missing"),
    _gca("plain", drop("request"), "request: missing"),
    _gca("plain", put("request", value=[]), "request: must be an object, not an array"),
    _gca("plain", put("contents", value=[]), "contents: unknown field"),
    _gca("plain", put("project", value=""), "project: text is empty"),
    _gca("plain", put("request", "model", value="gemini-2.5-pro"), "request.model: unknown field"),
    _gca(
        "plain",
        put("request", "contents", 0, "parts", 0, "text", value=""),
        "request.contents[0].parts[0].text: text is empty",
    ),
    _gca(
        "calls",
        drop("request", "contents", 0),
        "request.contents[0].role: the first content must be the user's",
        "request.contents[0]: a function call turn must come directly after a user or function response turn",
    ),
    _gca("calls", drop("request", *_USER_PARTS, 0), "request.contents[2]: 1 function responses for 2 function calls"),
    _gca(
        "calls",
        again("request", *_DECLARATION),
        "request.tools[0].functionDeclarations[1].name: tool name 'read_file' is used twice",
    ),
    _gca(
        "calls",
        put("request", *_PARAMETERS, "additionalProperties", value=False),
        f"request.{_AT}.additionalProperties: unknown field",
    ),
    # limits of the model's version
    _gca("plain", _thinks(thinkingLevel="LOW"), f"{_LEVEL}: not before Gemini 3"),
    _gca("plain", _thinks(thinkingBudget=0), f"{_BUDGET}: must be between 128 and 32768"),
    _gca("plain", _of("gemini-2.5-flash", _thinks(thinkingBudget=24577)), f"{_BUDGET}: must be between 0 and 24576"),
    _gca("plain", _of("gemini-2.5-flash-lite", _thinks(thinkingBudget=1)), f"{_BUDGET}: must be between 512 and 24576"),
    _gca(
        "plain",
        _of("gemini-2.0-flash", _thinks(includeThoughts=True)),
        "request.generationConfig.thinkingConfig: this model does not think",
    ),
    *(
        _gca(
            "plain",
            _of(model, _thinks(thinkingLevel="MINIMAL")),
            f"{_LEVEL}: MINIMAL is not supported for this model",
        )
        for model in ("gemini-3.8-flash", "gemini-3.1-pro-preview")
    ),
    _gca("calls", _thinks(thinkingLevel="MEDIUM"), f"{_LEVEL}: MEDIUM is not supported for this model"),
    _gca(
        "plain",
        _of(
            "gemini-2.0-flash",
            put(
                *("request", "contents", 0, "parts", 0),
                value={"fileData": {"fileUri": "https://example.org/cat.png", "mimeType": "image/png"}},
            ),
        ),
        "request.contents[0].parts[0].fileData.fileUri: unsupported file uri",
    ),
    _gca(
        "calls",
        _of(
            "gemini-2.5-pro",
            put("request", *_RESPONSE, "parts", value=[{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]),
        ),
        "request.contents[2].parts[0].functionResponse.parts: not before Gemini 3",
    ),
    _gca(
        "calls",
        _both(drop("request", *_MODEL_PARTS, 1, "functionCall", "id"), drop("request", *_RESPONSE, "id")),
        "request.contents[1].parts[1].functionCall.id: missing",
    ),
]
