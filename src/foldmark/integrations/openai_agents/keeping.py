"""Items as the SDK gave them, in the data of the event that Foldmark reads them as.

What the event says already is not stored twice: the text of a message, the arguments of a call and images are holes in
the item, which are filled again when it is given back. `data["openai_agents"]` holds

- `as`: the item with its holes, `holes`: [path, source] of each, where the source is the number of an image among
  `data["blocks"]`, or null for the event's text;
- `before`: how many of the first `data["blocks"]` are items that stand in front of it: what the model thought;
- `with`: the event that carries what the model thought in the same answer, where that is another one;
- `left`: the event that held these thoughts and what they led to, of which that was popped;
- `json`: instead of the first two, the items as JSON text, where they are not what a log can hold otherwise: with lone
  surrogates, NaN, integers of more than 64 bits; and of a compacted copy, which is a `summary` and has it in `native`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.events import Event

KEY = "openai_agents"


class Hole(NamedTuple):
    """Where an item repeats what stands beside it: the text, or the image with this number."""

    path: tuple[str | int, ...]
    image: int | None = None


def exact(item: Any) -> Any:
    """A copy of an item as JSON gives it back. Raises CommandError for what is not JSON."""
    try:
        return json.loads(json.dumps(item))
    except (TypeError, ValueError, RecursionError) as error:
        raise CommandError(
            f"an item of a session is JSON, unlike this {type(item).__name__}: {error}. Nothing was recorded."
        ) from None


def kept(
    thoughts: Sequence[Any],
    item: Any = msgspec.UNSET,
    text: str = "",
    blocks: Sequence[dict[str, Any]] = (),
    holes: Sequence[Hole] = (),
) -> dict[str, Any]:
    """The data of an event that stands for `thoughts` and, if there is one, the `item` that they led to.

    All are as `exact` made them; `blocks` are those that the event has besides: images where there is no thought.
    """
    items = [*thoughts, *([] if item is msgspec.UNSET else [item])]
    source = json.dumps(items)
    about: dict[str, Any] = {"before": len(thoughts)} if thoughts else {}
    if item is not msgspec.UNSET:
        about["as"] = _with_holes(json.loads(json.dumps(item)), holes)
        about.update({"holes": holes} if holes else {})
    every = [*thoughts, *blocks]
    data = {**({"blocks": every} if every else {}), KEY: about}
    try:
        if json.dumps(unpacked(msgspec.json.decode(msgspec.json.encode(data)), well_formed(text))) == source:
            return data
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
        pass
    return {**({"blocks": list(blocks)} if blocks else {}), KEY: {"json": source}}


def native(items: Sequence[Any], *, inline: bool = False) -> dict[str, Any]:
    """What a summary keeps of the items that take the place of others; `inline` if the API added them in a run."""
    return {KEY: {"json": json.dumps(items), **({"inline": True} if inline else {})}}


def is_inline(event: Event) -> bool:
    """Whether an event is a compaction that the API added in a run."""
    about = _own(event).get(KEY)
    return event.kind == "summary" and isinstance(about, dict) and about.get("inline") is True


def given(event: Event) -> list[Any] | None:
    """The items that an event stands for, as the SDK gave them; None for one that is not from there.

    A result stands for none where its text is a part of the item of its call.
    """
    try:
        found = unpacked(_own(event), event.content)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):  # somebody else's data under our key
        return None
    return found if found or event.kind == "tool_result" else None


def left_by(event: Event) -> int | None:
    """The event whose thoughts an event holds alone (`left`), if it is such a one."""
    return _number(event, "left")


def carried_by(event: Event) -> int | None:
    """The event that holds what the model thought in the same answer (`with`), if that is another one."""
    return _number(event, "with")


def _number(event: Event, name: str) -> int | None:
    about = _own(event).get(KEY)
    found = about.get(name) if isinstance(about, dict) else None
    return found if isinstance(found, int) else None


def _own(event: Event) -> Mapping[str, Any]:
    """Where an event keeps what is the SDK's: a summary's data is the operation that it is."""
    data = event.data or {}
    return (data.get("native") or {}) if event.kind == "summary" else data


def unpacked(data: Mapping[str, Any], text: str) -> list[Any]:
    """The items in an event's data. Raises KeyError and its like for what `kept` did not make."""
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


def _with_holes(item: Any, holes: Sequence[Hole]) -> Any:
    for hole in holes:
        item = _filled(item, hole.path, None)
    return item


def _filled(item: Any, path: Sequence[str | int], value: Any) -> Any:
    """The item with a value put where the path leads; no path is the item itself."""
    if not path:
        return value
    inner = item
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return item


def _address(block: Any) -> str:
    """The address of an image. It is what it was made of, or the caller falls back on the whole item."""
    source = block["source"]
    return str(source["url"] if "url" in source else f"data:{source['media_type']};base64,{source['data']}")
