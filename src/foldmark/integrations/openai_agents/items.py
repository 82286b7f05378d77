"""Items of the SDK: their content in Foldmark's terms, and the form in which an event keeps the item itself [SPEC 1].

The SDK uses the format of the Responses API for all models. A call whose result is a separate item is a `tool_call`,
and that item a `tool_result`; a tool that the provider runs itself has both in one item. Of an unknown item, only the
text is read.

The event's own content is not stored twice: the text of a message, the arguments of a call and images are holes in the
item, which are filled when the item is given back. `data["openai_agents"]` of the event holds

- `as`: the item with its holes, `holes`: [path, source] of each, where the source is the number of an image among
  `data["blocks"]`, or null for the event's text;
- `before`: how many of the first `data["blocks"]` are items before it: the model's thinking;
- `with`: the event with the model's thinking in the same answer, if that is another event;
- `left`: the event that held this thinking and the item that it led to, which was popped;
- `json`: instead of the first two, the items as JSON text, if a log cannot hold them otherwise: with lone surrogates,
  NaN, integers of more than 64 bits; a compacted copy, which is a `summary`, has it in `native`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from foldmark.core.assembly.media import image_at
from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.dialects.bodies import arguments
from foldmark.dialects.openai.items import CALLS, RESULTS
from foldmark.dialects.openai.responses import PHASES
from foldmark.wires.lenient_json import as_object, as_text

KEY, DIALECT = "openai_agents", "openai"

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}

_ABOUT = frozenset({"type", "id", "call_id", "status", "name", "arguments", "created_by"})
_ANSWERS = ("output", "outputs", "result", "results", "tools")


class Hole(NamedTuple):
    """A place in an item that repeats the event's text, or the image with this number."""

    path: tuple[str | int, ...]
    image: int | None = None


class Reading(Struct, frozen=True):
    """The content of an item. `kind` is `user`, `assistant`, `system`, `tool_call` or `tool_result`; `text` is that of
    a message or a result, or the JSON text of the arguments of a call. `outcome` is the result of a tool that the
    provider ran itself."""

    kind: str
    text: str = ""
    blocks: tuple[dict[str, Any], ...] = ()
    holes: tuple[Hole, ...] = ()
    call_id: str = ""
    name: str = ""
    args: Any = None
    failed: bool = False
    outcome: "Reading | None" = None


def is_thought(item: Any) -> bool:
    """Return True if an item is a model's thinking. The API accepts it only together with the item after it."""
    return isinstance(item, dict) and item.get("type") == "reasoning"


def read(item: Any) -> Reading:
    """Return the content of an item."""
    if not isinstance(item, dict):
        return Reading("assistant", as_text(item))
    kind, role = item.get("type"), item.get("role")
    if isinstance(role, str) and role in ROLES and kind in (None, "message"):
        return _message(item, ROLES[role])
    if isinstance(kind, str):
        if kind in RESULTS:
            return _result(item)
        if kind in CALLS or kind.endswith("_call"):
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
    given = item.get("arguments")
    rest = {key: value for key, value in item.items() if key not in _ABOUT and key not in (*_ANSWERS, "error")}
    args = arguments(given) if "arguments" in item else rest
    text = _json(args)
    if text is None:
        args, text = str(given if "arguments" in item else rest), ""
    holes = (Hole(("arguments",)),) if text == given else ()
    name = as_text(item.get("name")) or kind.removesuffix("_call")
    outcome = None if kind in CALLS else _outcome(item, kind)
    return Reading("tool_call", text, (), holes, _id(item), name, args, outcome=outcome)


def _result(item: Mapping[str, Any]) -> Reading:
    if item["type"] == "mcp_approval_response":
        said = "Approved." if item.get("approve") is True else "Refused."
        why = as_text(item.get("reason"))
        text = f"{said} {why}" if why else said
        return Reading("tool_result", text, call_id=as_text(item.get("approval_request_id")))
    text, blocks, holes = _answer(item, next((key for key in _ANSWERS if key in item), "output"))
    return Reading("tool_result", text, tuple(blocks), tuple(holes), _id(item), failed=_failed(item))


def _outcome(item: Mapping[str, Any], kind: str) -> Reading:
    """Return the result of a tool that the provider ran. An image that it made is only in the item."""
    if error := item.get("error"):
        return Reading("tool_result", error if isinstance(error, str) else _json(error) or str(error), failed=True)
    text = "\n".join(filter(None, (_answer(item, key)[0] for key in _ANSWERS)))
    if kind == "image_generation_call":
        text = "[An image.]" if item.get("result") else ""
    return Reading("tool_result", text, failed=_failed(item))


def _failed(item: Mapping[str, Any]) -> bool:
    return item.get("status") in ("failed", "incomplete")


def _answer(item: Mapping[str, Any], key: str) -> tuple[str, list[dict[str, Any]], list[Hole]]:
    """Return the value of a key as text, or as JSON if it is not text, with its images and holes."""
    answer = item.get(key)
    text, blocks, holes = _content(answer, (key,))
    return (text, blocks, holes) if text or blocks or not answer else (_json(answer) or str(answer), [], [])


def _content(content: Any, path: tuple[str | int, ...]) -> tuple[str, list[dict[str, Any]], list[Hole]]:
    """Return the text of a content (a string, a part or a list of parts), its images, and the places of both."""
    if isinstance(content, str):
        return content, [], [Hole(path)]
    texts: list[tuple[str, Hole]] = []
    blocks: list[dict[str, Any]] = []
    holes: list[Hole] = []
    for place, part in _parts(content, path):
        for key in ("text", "refusal"):
            if isinstance(text := part.get(key), str):
                texts.append((text, Hole((*place, key))))
        if (image := image_at(part.get("image_url"))) is not None:
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


def _id(item: Mapping[str, Any]) -> str:
    """Return the id that a call and its result share. The result of a local shell has only an `id`."""
    return as_text(item.get("call_id")) or as_text(item.get("id"))


def _json(value: Any) -> str | None:
    """Return a value as JSON text; None if it is not JSON."""
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None


# The data of an event


def json_copy(item: Any) -> Any:
    """Return a copy of an item through JSON. Raises CommandError if it is not JSON."""
    try:
        return json.loads(json.dumps(item))
    except (TypeError, ValueError, RecursionError) as error:
        raise CommandError(
            f"an item of a session must be JSON, and this {type(item).__name__} is not: {error}. Nothing was recorded."
        ) from None


def data_of(
    thoughts: Sequence[Any],
    item: Any = msgspec.UNSET,
    text: str = "",
    blocks: Sequence[dict[str, Any]] = (),
    holes: Sequence[Hole] = (),
) -> dict[str, Any]:
    """Return the data of an event that stands for `thoughts` and, if given, the `item` that they led to.

    All were made by `json_copy`. `blocks` are further blocks of the event, such as images.
    """
    items = [*thoughts, *([] if item is msgspec.UNSET else [item])]
    source = json.dumps(items)
    about: dict[str, Any] = {"before": len(thoughts)} if thoughts else {}
    if item is not msgspec.UNSET:
        about["as"] = json.loads(json.dumps(item))
        for hole in holes:
            about["as"] = _filled(about["as"], hole.path, None)
        about.update({"holes": holes} if holes else {})
    every = [*thoughts, *blocks]
    data = {**({"blocks": every} if every else {}), KEY: about}
    try:
        if json.dumps(unpacked(msgspec.json.decode(msgspec.json.encode(data)), well_formed(text))) == source:
            return data
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
        pass
    return {**({"blocks": list(blocks)} if blocks else {}), KEY: {"json": source}}


def summary_form(items: Sequence[Any], *, inline: bool = False) -> dict[str, Any]:
    """Return the form in which a summary keeps the items that replace others; `inline` if the API added them in a
    run."""
    return {KEY: {"json": json.dumps(items), **({"inline": True} if inline else {})}}


def is_inline(event: Event) -> bool:
    """Return True if an event is a compaction that the API added in a run."""
    return event.kind == "summary" and as_object(_own(event).get(KEY)).get("inline") is True


def items_of(event: Event) -> list[Any] | None:
    """Return the items that an event stands for, as the SDK gave them; None for an event that is not from the SDK.

    A result stands for no item if its text is part of its call's item.
    """
    try:
        found = unpacked(_own(event), event.content)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):  # data of other code under our key
        return None
    return found if found or event.kind == "tool_result" else None


def link(event: Event, name: str) -> int | None:
    """Return the event that an event names as `left` or `with`; None if it names none."""
    found = as_object(_own(event).get(KEY)).get(name)
    return found if isinstance(found, int) else None


def _own(event: Event) -> Mapping[str, Any]:
    """Return the part of an event's data that belongs to the SDK; a summary's data is its operation."""
    data = event.data or {}
    return (data.get("native") or {}) if event.kind == "summary" else data


def unpacked(data: Mapping[str, Any], text: str) -> list[Any]:
    """Return the items in an event's data. Raises errors such as KeyError for data that `data_of` did not make."""
    about = data[KEY]
    if "json" in about:
        found = json.loads(about["json"])
        if not isinstance(found, list):
            raise TypeError("the items are a list")
        return found
    blocks = data.get("blocks", [])
    items = list(blocks[: about.get("before", 0)])
    if "as" in about:
        item = about["as"]
        for path, image in about.get("holes", ()):
            item = _filled(item, path, text if image is None else _address(blocks[image]))
        items.append(item)
    return items


def _filled(item: Any, path: Sequence[str | int], value: Any) -> Any:
    """Return the item with a value at the path; an empty path replaces the item itself."""
    if not path:
        return value
    inner = item
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return item


def _address(block: Any) -> str:
    """Return the address of an image. The caller keeps the whole item if this differs from the original."""
    source = block["source"]
    return str(source["url"] if "url" in source else f"data:{source['media_type']};base64,{source['data']}")
