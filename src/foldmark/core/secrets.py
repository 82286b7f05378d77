"""Keep providers' keys out of the log: in recorded texts, a key is replaced by its name."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

SHORTEST = 8
"""Minimum number of characters of a key; shorter ones would be found in every other text."""


class Secrets:
    """Known keys: `found` is environment variable -> key, `others` further secrets, description -> value."""

    def __init__(self, found: Mapping[str, str] = {}, others: Mapping[str, str] = {}) -> None:
        known = [*((key, name) for name, key in found.items()), *others.items()]
        keys = {form: name for key, name in known if len(key) >= SHORTEST for form in _written(key)}
        self._names = {key: keys[key] for key in sorted(keys, key=len, reverse=True)}

    def __bool__(self) -> bool:
        return bool(self._names)

    def hidden(self, text: str) -> str:
        """Return the text without keys."""
        for key, name in self._names.items():
            if key in text:
                text = text.replace(key, f"[{name}]")
        return text

    def hidden_in(self, value: Any) -> Any:
        """Return a JSON value without keys, including its members' names. Raises TypeError if it is no JSON value."""
        match value:
            case str():
                return self.hidden(value)
            case Mapping():
                return {
                    self.hidden(key) if isinstance(key, str) else key: self.hidden_in(each)
                    for key, each in value.items()
                }
            case list() | tuple():
                return [self.hidden_in(each) for each in value]
            case None | bool() | int() | float():
                return value
            case _:  # convertible to JSON: sets, structs, times
                return self.hidden_in(msgspec.to_builtins(value))


def _written(key: str) -> Iterator[str]:
    """Yield a key in the forms in which texts quote it: plain, in JSON, in JSON inside JSON, in URLs."""
    once = msgspec.json.encode(key).decode()[1:-1]
    yield from (key, once, msgspec.json.encode(once).decode()[1:-1])
    yield from (once.replace("/", "\\/"), quote(key, safe=""), quote(key))
