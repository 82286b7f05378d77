"""What an item of the SDK is in Foldmark's terms: whose message, its text and images, the call or the result [SPEC 1].

The SDK speaks the Responses API, whatever model it asks. A call whose result comes as an item of its own is a
`tool_call`, that item a `tool_result`; a tool that the provider runs itself has both in one item. Of what is not known
the text is read, and nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from foldmark.dialects.bodies import arguments
from foldmark.dialects.openai.responses import PHASES
from foldmark.integrations.openai_agents.keeping import Hole

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}

RESULTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "tool_search_call": "tool_search_output",
    "program": "program_output",
    "mcp_approval_request": "mcp_approval_response",
}
"""Calls whose result is an item of its own, and what that is."""

_CALLS_OF_RESULTS = {result: call for call, result in RESULTS.items()}
_DATA_URL = re.compile(r"data:(image/[a-z0-9.+-]+);base64,([^,]*)")
_ABOUT = frozenset({"type", "id", "call_id", "status", "name", "arguments", "created_by"})
_ANSWERS = ("output", "outputs", "result", "results", "tools")


class Outcome(Struct, frozen=True):
    """What a tool answered."""

    text: str
    failed: bool = False


class Reading(Struct, frozen=True):
    """`kind` is `user`, `assistant`, `system`, `tool_call` or `tool_result`; `text` is that of a message or a result,
    or the JSON text of the arguments of a call. `outcome` is that of a tool which the provider ran itself."""

    kind: str
    text: str = ""
    blocks: tuple[dict[str, Any], ...] = ()
    holes: tuple[Hole, ...] = ()
    call_id: str = ""
    name: str = ""
    args: Any = None
    failed: bool = False
    outcome: Outcome | None = None


def is_thought(item: Any) -> bool:
    """Whether an item is what a model thought. The API takes it only together with what it led to."""
    return isinstance(item, dict) and item.get("type") == "reasoning"


def read(item: Any) -> Reading:
    """What an item says."""
    if not isinstance(item, dict):
        return Reading("assistant", item if isinstance(item, str) else "")
    kind, role = item.get("type"), item.get("role")
    if isinstance(role, str) and role in ROLES and kind in (None, "message"):
        return _message(item, ROLES[role])
    if isinstance(kind, str):
        if kind in _CALLS_OF_RESULTS:
            return _result(item)
        if kind in RESULTS or kind.endswith("_call"):
            return _call(item, kind)
    return Reading("assistant", _content(item.get("content"), ())[0])


def _message(item: Mapping[str, Any], kind: str) -> Reading:
    text, blocks, holes = _content(item.get("content"), ("content",))
    if kind != "user":  # a picture by a model is not sent back, nor one in instructions
        blocks, holes = [], [hole for hole in holes if hole.image is None]
    if kind == "assistant" and item.get("phase") in PHASES:
        blocks = [{"type": "phase", "phase": item["phase"]}]
    return Reading(kind, text, tuple(blocks), tuple(holes))


def _call(item: Mapping[str, Any], kind: str) -> Reading:
    name, given = item.get("name"), item.get("arguments")
    rest = {key: value for key, value in item.items() if key not in _ABOUT and key not in (*_ANSWERS, "error")}
    args = arguments(given) if "arguments" in item else rest
    try:
        text = msgspec.json.encode(args).decode()
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        args, text = str(given if "arguments" in item else rest), ""
    holes = (Hole(("arguments",)),) if text == given else ()
    own = name if isinstance(name, str) and name else kind.removesuffix("_call")
    outcome = None if kind in RESULTS else _outcome(item, kind)
    return Reading("tool_call", text, (), holes, _id(item), own, args, outcome=outcome)


def _result(item: Mapping[str, Any]) -> Reading:
    if item["type"] == "mcp_approval_response":
        why = item.get("reason")
        said = "Approved." if item.get("approve") is True else "Refused."
        text = f"{said} {why}" if isinstance(why, str) and why else said
        return Reading("tool_result", text, call_id=_text(item.get("approval_request_id")))
    text, blocks, holes = _answer(item, next((key for key in _ANSWERS if key in item), "output"))
    failed = item.get("status") in ("failed", "incomplete")
    return Reading("tool_result", text, tuple(blocks), tuple(holes), _id(item), failed=failed)


def _outcome(item: Mapping[str, Any], kind: str) -> Outcome:
    """What a tool of the provider's answered. A picture that it made is in the item alone."""
    if error := item.get("error"):
        return Outcome(error if isinstance(error, str) else _json(error), failed=True)
    failed = item.get("status") in ("failed", "incomplete")
    if kind == "image_generation_call":
        return Outcome("[An image.]" if item.get("result") else "", failed)
    answers = (_answer(item, key)[0] for key in _ANSWERS)
    return Outcome("\n".join(text for text in answers if text), failed)


def _answer(item: Mapping[str, Any], key: str) -> tuple[str, list[dict[str, Any]], list[Hole]]:
    """What stands under a key as text; JSON text where there is no other, and images."""
    answer = item.get(key)
    text, blocks, holes = _content(answer, (key,))
    return (text, blocks, holes) if text or blocks or not answer else (_json(answer), [], [])


def _content(content: Any, path: tuple[str | int, ...]) -> tuple[str, list[dict[str, Any]], list[Hole]]:
    """The text of a content (a string, a part or a list of parts), its images, and where both stand."""
    if isinstance(content, str):
        return content, [], [Hole(path)]
    texts: list[tuple[str, Hole]] = []
    blocks: list[dict[str, Any]] = []
    holes: list[Hole] = []
    for place, part in _parts(content, path):
        for key in ("text", "refusal"):
            if isinstance(text := part.get(key), str):
                texts.append((text, Hole((*place, key))))
        url = part.get("image_url")
        if isinstance(url, str) and (image := _image(url)) is not None:
            holes.append(Hole((*place, "image_url"), len(blocks)))
            blocks.append(image)
    if len(texts) == 1:
        holes.append(texts[0][1])
    return "\n".join(text for text, _ in texts), blocks, holes


def _parts(content: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    if isinstance(content, dict):
        yield path, content
    elif isinstance(content, list):
        yield from (((*path, place), part) for place, part in enumerate(content) if isinstance(part, dict))


def _image(url: str) -> dict[str, Any] | None:
    """An image in Foldmark's form (`core.assembly.media`)."""
    if url.startswith("https://"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    found = _DATA_URL.fullmatch(url)
    if found is None:
        return None
    return {"type": "image", "source": {"type": "base64", "media_type": found[1], "data": found[2]}}


def _id(item: Mapping[str, Any]) -> str:
    """What a call and its result have in common; a result of a local shell has only an `id`."""
    return _text(item.get("call_id")) or _text(item.get("id"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return str(value)
