"""Context edits by the provider: the setting `provider_editing` [SPEC 5.7]. Pure functions.

The provider applies them to each request anew, on its own side. Neither the context nor the request changes.
"""

from typing import NamedTuple

OFF = "off"

_OPTIONS = {
    "clear_thinking": ("keep",),
    "clear_tool_uses": ("trigger", "keep", "clear_at_least", "exclude"),
}
"""The edits in the order that Anthropic requires, each with its options."""

TAKEN = (
    "'off', or one or both of clear_thinking and clear_tool_uses with options, as in "
    "'clear_thinking keep=2, clear_tool_uses trigger=50000 keep=5 clear_at_least=10000 exclude=bash+read_file'"
)
_MOST = 10**9


class Edit(NamedTuple):
    """An edit: its name and its options, each a number of tokens or turns, `all`, or names of tools."""

    name: str
    options: dict[str, int | str | tuple[str, ...]]


def edits(text: str) -> tuple[Edit, ...]:
    """Return the edits in a value of `provider_editing`, in order. Raises ValueError for any other text."""
    if text.strip() == OFF:
        return ()
    found: dict[str, Edit] = {}
    for part in text.split(","):
        name, *options = part.split() or [""]
        if name not in _OPTIONS or name in found:
            raise ValueError(part)
        found[name] = Edit(name, {})
        for option in options:
            key, equals, value = option.partition("=")
            if not equals or key not in _OPTIONS[name] or key in found[name].options:
                raise ValueError(option)
            found[name].options[key] = _value(name, key, value)
    return tuple(found[name] for name in _OPTIONS if name in found)


def plain(text: str) -> str:
    """Return a value of `provider_editing` in its stored form. Raises ValueError as `edits`."""
    return ", ".join(" ".join([name, *map(_said, options.items())]) for name, options in edits(text)) or OFF


def _value(name: str, key: str, value: str) -> int | str | tuple[str, ...]:
    if key == "exclude":
        names = tuple(value.split("+"))
        if not all(names):
            raise ValueError(value)
        return names
    if (name, key, value) == ("clear_thinking", "keep", "all"):
        return value
    number = int(value) if value.isascii() and value.isdigit() and len(value) <= len(str(_MOST)) else -1
    # At least one turn's thinking is kept.
    if not (1 if (name, key) == ("clear_thinking", "keep") else 0) <= number <= _MOST:
        raise ValueError(value)
    return number


def _said(option: tuple[str, int | str | tuple[str, ...]]) -> str:
    key, value = option
    return f"{key}={'+'.join(value) if isinstance(value, tuple) else value}"
