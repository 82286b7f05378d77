"""Store a JSON value of another library without what its event holds anyway: the event's text, an image, arguments.

In place of each such value stands its `PLACE`, by which the caller knows it.
"""

from collections.abc import Callable, Sequence
from typing import Any

PLACE = "foldmark_place"
"""The only member of an object that stands for another value."""


def packed(value: Any, repeated: Sequence[tuple[Any, Any]]) -> Any:
    """Return a JSON value with places in place of the texts and objects that it repeats, each given with its place."""
    if value and isinstance(value, str | dict):
        for original, place in repeated:
            if value == original:
                return {PLACE: place}
    if isinstance(value, dict):
        members = {name: packed(each, repeated) for name, each in value.items()}
        return {PLACE: members} if members.keys() == {PLACE} else members
    return [packed(each, repeated) for each in value] if isinstance(value, list) else value


def unpacked(value: Any, original: Callable[[Any], Any]) -> Any:
    """Return the JSON value from which `packed` was made; `original` returns what a place stands for."""
    if isinstance(value, dict):
        if value.keys() == {PLACE} and not isinstance(value[PLACE], dict):
            return original(value[PLACE])
        members = value[PLACE] if value.keys() == {PLACE} else value
        return {name: unpacked(each, original) for name, each in members.items()}
    return [unpacked(each, original) for each in value] if isinstance(value, list) else value
