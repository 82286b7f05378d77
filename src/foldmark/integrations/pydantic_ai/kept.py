"""Messages of Pydantic AI as they are kept in the log, so that the identical message can be given back.

Under the key `pydantic_ai` the data of an event holds the JSON of the parts that it was made of. The first event of a
message also holds the rest of the message, the others name that event. What an event's own text says is not said
again: `said` is the part that says it, and `field` where it stands there. Fields that are as their class has them are
left out.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from foldmark.core.assembly.eviction import forms
from foldmark.core.events import Event
from foldmark.integrations.pydantic_ai.entries import Entry

KEY = "pydantic_ai"
_FIELDS = {"tool_call": "args"}
_TELLING = {"kind", "part_kind"}

Json = dict[str, Any]


def dumped(message: ModelMessage) -> tuple[Json, list[Json]] | None:
    """A message without its parts, and these, as JSON values; None for what cannot be JSON."""
    try:
        (whole,) = ModelMessagesTypeAdapter.dump_python([message], mode="json", fallback=repr, warnings=False)
        parts = [_bare(part, made) for part, made in zip(whole.pop("parts"), message.parts, strict=True)]
    except (ValueError, TypeError, RecursionError):
        return None
    envelope = _bare(whole, message)
    if usage := envelope.get("usage"):
        envelope["usage"] = {key: value for key, value in usage.items() if value}
    return envelope, parts


def data_of(entry: Entry, parts: Sequence[Json], beside: Json) -> Json:
    """The data of an entry's event; `beside` is `{"message": …}` or `{"of": id}`."""
    own = [dict(parts[index]) for index in entry.at]
    found: Json = {**beside, "parts": own}
    if entry.said is not None:
        said = entry.at.index(entry.said)
        field = _FIELDS.get(entry.kind, "content")
        value = own[said].get(field)
        if value == entry.text:
            del own[said][field]
            found |= {"said": said, "field": field}
        elif field == "args" and isinstance(value, dict) and value == entry.args:
            del own[said][field]
            found |= {"said": said, "field": "args as JSON"}
    return {KEY: found}


def of_event(event: Event) -> Json | None:
    """What is kept under `KEY`; None for an event that no message of Pydantic AI was recorded as."""
    data = event.data or {}
    kept = (forms(event) if event.kind == "summary" else data).get(KEY)
    return kept if isinstance(kept, dict) and isinstance(kept.get("parts"), list) else None


def head_of(event: Event) -> int:
    """The first event of the message that this event is of."""
    head = (of_event(event) or {}).get("of", event.id)
    return head if isinstance(head, int) and 0 < head < event.id else event.id


def restored(envelope: Json, events: Sequence[tuple[Event, Json]]) -> tuple[ModelMessage, list[list[Any]]] | None:
    """The message that these events were recorded from, and the parts of each; None if it cannot be read any more."""
    try:
        parts = [_whole(event, kept) for event, kept in events]
        text = json.dumps([{**envelope, "parts": [part for own in parts for part in own]}])
        (message,) = ModelMessagesTypeAdapter.validate_json(text)
    except (ValueError, TypeError, RecursionError):
        return None
    made = iter(message.parts)
    shared = [list(islice(made, len(own))) for own in parts]
    return (message, shared) if sum(map(len, shared)) == len(message.parts) else None


def _whole(event: Event, kept: Json) -> list[Json]:
    parts: list[Json] = [dict(part) for part in kept["parts"]]
    match kept.get("field"):
        case "args as JSON":
            parts[kept["said"]]["args"] = msgspec.json.decode(event.content)
        case "args" | "content" as field:
            parts[kept["said"]][field] = event.content
    return parts


def _bare(value: Mapping[str, Any], made: Any) -> Json:
    """The fields of a dataclass as JSON without those that are as the class has them."""
    usual = {f.name: f.default for f in dataclasses.fields(made) if f.name not in _TELLING}
    return {key: each for key, each in value.items() if not (key in usual and _same(usual[key], each))}


def _same(usual: Any, value: Any) -> bool:
    return type(usual) is type(value) and bool(usual == value)
