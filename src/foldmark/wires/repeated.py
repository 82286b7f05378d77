"""Store another program's JSON without what its event holds anyway: its text, an image, arguments. Pure.

In place of each such value stands an object with its `PLACE`, which the caller chooses and understands.
"""

from collections.abc import Callable
from typing import Any

PLACE = "repeats"
"""The only member of an object that stands for another value."""

DEPTH = 300
"""Maximum nesting of a value: one that is packed on a short stack must be read on a longer one."""


def packed(value: Any, place_of: Callable[[Any], Any], depth: int = DEPTH) -> Any:
    """Return a JSON value with places in place of what it repeats. `place_of` returns the place of a text or an object,
    which is no object itself; None for what is not repeated. Raises RecursionError for a value that is deeper than
    `depth`."""
    if not depth:
        raise RecursionError
    if isinstance(value, list):
        return [packed(each, place_of, depth - 1) for each in value]
    if not value or not isinstance(value, str | dict):
        return value
    if (place := place_of(value)) is not None:
        return {PLACE: place}
    if isinstance(value, str):
        return value
    members = {name: packed(each, place_of, depth - 1) for name, each in value.items()}
    return {PLACE: members} if members.keys() == {PLACE} else members


def unpacked(value: Any, original: Callable[[Any], Any]) -> Any:
    """Return the JSON value from which `packed` was made; `original` returns what a place stands for."""
    if isinstance(value, dict):
        if value.keys() == {PLACE} and not isinstance(value[PLACE], dict):
            return original(value[PLACE])
        members = value[PLACE] if value.keys() == {PLACE} else value
        return {name: unpacked(each, original) for name, each in members.items()}
    return [unpacked(each, original) for each in value] if isinstance(value, list) else value
