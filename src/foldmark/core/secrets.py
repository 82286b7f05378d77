"""Keys of providers never reach the log: wherever one stands in a text that is recorded, its name takes its place."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

SHORTEST = 8
"""Characters; what is shorter is no key, and would be found in every other text."""


class Secrets:
    """Known keys: `found` is variable of the environment -> key, `others` what else is secret -> what it is."""

    def __init__(self, found: Mapping[str, str] = {}, others: Mapping[str, str] = {}) -> None:
        known = [*((key, name) for name, key in found.items()), *others.items()]
        keys = {form: name for key, name in known if len(key) >= SHORTEST for form in _written(key)}
        self._names = {key: keys[key] for key in sorted(keys, key=len, reverse=True)}

    def __bool__(self) -> bool:
        return bool(self._names)

    def hidden(self, text: str) -> str:
        """The text without keys."""
        for key, name in self._names.items():
            if key in text:
                text = text.replace(key, f"[{name}]")
        return text

    def hidden_in(self, value: Any) -> Any:
        """A JSON value without keys, in its members' names as well. Raises TypeError for what is none."""
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
            case _:  # what JSON can be made of: sets, structs, times
                return self.hidden_in(msgspec.to_builtins(value))


def _written(key: str) -> Iterator[str]:
    """A key as it is, and as texts quote it: in JSON, in JSON inside of JSON, in addresses."""
    once = msgspec.json.encode(key).decode()[1:-1]
    yield from (key, once, msgspec.json.encode(once).decode()[1:-1])
    yield from (once.replace("/", "\\/"), quote(key, safe=""), quote(key))
