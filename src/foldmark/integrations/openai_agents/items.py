"""Items of the SDK: their content in Foldmark's terms, and the form in which an event keeps the item itself [SPEC 1].

The SDK uses the format of the Responses API for all models. What an item says, `foldmark.wires.responses` knows; an
event stands for a whole item.

The event's own content is not stored twice: its text, images and the item of a tool that the provider ran are holes in
the item, which are filled when the item is given back. `data["openai_agents"]` of the event holds

- `as`: the item with its holes, `holes`: [path, source] of each, where the source is the number of a block among
  `data["blocks"]`, or null for the event's text;
- `before`: how many of the first `data["blocks"]` are items before it: the model's thinking;
- `with`: the event with the model's thinking in the same answer, if that is another event;
- `left`: the event that held this thinking and the item that it led to, which was popped;
- `json`: instead of the first two, the items as JSON text, if a log cannot hold them otherwise: with lone surrogates,
  NaN, integers of more than 64 bits; a compacted copy, which is a `summary`, has it in `native`.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from foldmark.core.assembly.eviction import RESPONSES
from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.request import block_in
from foldmark.wires import responses
from foldmark.wires.lenient_json import as_object, as_text
from foldmark.wires.parts import CallMessage, Part, TextMessage

KEY, DIALECT = "openai_agents", "openai"

NO_MESSAGE = TextMessage("assistant", "")
"""The message of items that say nothing."""

Path = tuple[str | int, ...]
Hole = tuple[Path, int | None]
"""The path to a member that repeats a block of the event, with its number, or the event's text (None)."""


def is_thought(item: Any) -> bool:
    """Return True if an item is a model's thinking."""
    return isinstance(item, dict) and responses.is_thinking(item)


def read(item: Any) -> Part:
    """Return the content of an item as one message: empty if it says nothing."""
    if not isinstance(item, dict):
        return TextMessage("assistant", as_text(item))
    parts = responses.read(well_formed(item)).parts or (TextMessage(responses.speaker(item), ""),)
    texts = [part.text for part in parts if isinstance(part, TextMessage)]
    return replace(parts[0], text="\n".join(texts)) if len(texts) > 1 else parts[0]


def text_of(message: Part) -> str:
    """Return the text of an event: of a call, its arguments as JSON."""
    return responses.as_json(message.args) if isinstance(message, CallMessage) else message.text


# The data of an event


def json_copy(item: Any) -> Any:
    """Return a copy of an item through JSON. Raises CommandError if it is not JSON."""
    try:
        return json.loads(json.dumps(item))
    except (TypeError, ValueError, RecursionError) as error:
        raise CommandError(
            f"an item of a session must be JSON, and this {type(item).__name__} is not: {error}. Nothing was recorded."
        ) from None


def data_of(thoughts: Sequence[Any], item: Any = msgspec.UNSET, message: Part = NO_MESSAGE) -> dict[str, Any]:
    """Return the data of an event that stands for `thoughts` and, if given, the `item` that they led to and its
    `message`. All items were made by `json_copy`."""
    source, text = json.dumps([*thoughts, *([] if item is msgspec.UNSET else [item])]), text_of(message)
    blocks: list[Any] = (message.data or {}).get("blocks", [])
    every = [*thoughts, *blocks]
    about: dict[str, Any] = {"before": len(thoughts)} if thoughts else {}
    with suppress(LookupError, ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
        if item is not msgspec.UNSET:
            about["as"] = json.loads(json.dumps(item))
            holes = _holes(item, text, every)
            for path, _ in holes:
                about["as"] = _filled(about["as"], path, None)
            about.update({"holes": holes} if holes else {})
        data = {**({"blocks": every} if every else {}), KEY: about}
        if json.dumps(unpacked(msgspec.json.decode(msgspec.json.encode(data)), well_formed(text))) == source:
            return data
    return {**({"blocks": blocks} if blocks else {}), KEY: {"json": source}}


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
        for path, block in about.get("holes", ()):
            item = _filled(item, path, text if block is None else _original(blocks[block], path))
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


def _holes(item: Any, text: str, blocks: Sequence[Any]) -> list[Hole]:
    """Return the places of an item that repeat the event's text or one of its blocks."""
    sources: dict[str, int | None] = {text: None} if text else {}
    for number, block in enumerate(blocks):
        if inner := block_in(block, RESPONSES):
            return [((name,), number) for name in inner]
        if "source" in block:
            sources[_original(block, ())] = number
    found: list[Hole] = []
    if isinstance(item, dict):
        _add_places(item, sources, (), found)
    return found


def _add_places(
    value: dict[str, Any] | list[Any], sources: Mapping[str, int | None], path: Path, found: list[Hole]
) -> None:
    for step, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(each, str):
            if each in sources:
                found.append(((*path, step), sources[each]))
        elif isinstance(each, dict | list):
            _add_places(each, sources, (*path, step), found)


def _original(block: Any, path: Path) -> Any:
    """Return what a block holds of an item: the address of an image or a document, or the member at the path. The
    caller keeps the whole item if this differs from the original."""
    inner = block_in(block, RESPONSES)
    if inner is not None:
        return inner[str(path[0])]
    source = block["source"]
    return str(source["url"] if "url" in source else f"data:{source['media_type']};base64,{source['data']}")
