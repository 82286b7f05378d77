"""Items of the SDK: their content in Foldmark's terms, and the form in which an event keeps the item itself [SPEC 1].

The SDK uses the format of the Responses API for all models. What an item says, `foldmark.wires.responses` knows; an
event stands for a whole item.

The event's own content is not stored twice (`repeated`). `data["openai_agents"]` of the event holds

- `as`: the item; the place of what it repeats is the number of a block among `data["blocks"]`, -1 for the event's text;
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
from foldmark.wires.repeated import packed, unpacked

KEY, DIALECT = "openai_agents", "openai"
_TEXT = -1

NO_MESSAGE = TextMessage("assistant", "")
"""The message of items that say nothing."""


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
            repeated = [(text, _TEXT), *((_original(each), at) for at, each in enumerate(every))]
            about["as"] = packed(item, lambda value: next((at for each, at in repeated if each == value), None))
        data = {**({"blocks": every} if every else {}), KEY: about}
        if json.dumps(_items(msgspec.json.decode(msgspec.json.encode(data)), well_formed(text))) == source:
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
        found = _items(_own(event), event.content)
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


def _items(data: Mapping[str, Any], text: str) -> list[Any]:
    """Return the items in an event's data. Raises errors such as KeyError for data that `data_of` did not make."""
    about = data[KEY]
    if "holes" in about:
        raise LookupError("an older Foldmark recorded it, with other places")
    if "json" in about:
        return [*json.loads(about["json"])]
    blocks = data.get("blocks", [])
    items = list(blocks[: about.get("before", 0)])
    if "as" in about:
        items.append(unpacked(about["as"], lambda at: text if at == _TEXT else _original(blocks[at])))
    return items


def _original(block: Any) -> Any:
    """Return what a block repeats of an item: all of it, or the address of an image or a document; None for thinking.
    The caller keeps the whole item if this differs from the original."""
    inner, source = block_in(block, RESPONSES), block.get("source")
    if inner is not None or source is None:
        return inner
    return str(source["url"] if "url" in source else f"data:{source['media_type']};base64,{source['data']}")
