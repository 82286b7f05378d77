"""Expansion of `${NAME}` and `${NAME:-default}` in the texts of `.mcp.json`."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from foldmark.core.errors import CommandError

LONGEST = 32 * 1024
"""Maximum number of characters of one expanded text."""

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SECRET = re.compile(r"key|token|secret|passw|pwd|auth|credential|bearer|cookie|pat$", re.IGNORECASE)


class Expanded(NamedTuple):
    """A text with its variables' values, and its form for a person: `${GITHUB_TOKEN}` stays as it is."""

    text: str
    shown: str


def expanded(text: str, environment: Mapping[str, str]) -> Expanded:
    """Return `text` with the variables of `environment` expanded, once. A default replaces a variable that is unset or
    empty. Raises CommandError for a missing variable, or a text that is too long."""
    values = [(match, _value(match, environment)) for match in _REFERENCE.finditer(text)]
    if len(text) > LONGEST or sum(len(value) for _, value in values) > LONGEST:
        raise CommandError(f"is longer than {LONGEST:,} characters")
    return Expanded(_joined(text, values, keep=False), _joined(text, values, keep=True))


def secret(name: str) -> bool:
    """Return True if the name suggests a key."""
    return _SECRET.search(name) is not None


def _value(match: re.Match[str], environment: Mapping[str, str]) -> str:
    name, default = match[1], match[2]
    value = environment.get(name)
    if default is not None:
        return value or default
    if value is None:
        raise CommandError(
            f"needs the variable {name[:60]}, which is not set; set it in the environment, or write "
            f"${{{name[:60]}:-default}}"
        )
    return value


def _joined(text: str, values: list[tuple[re.Match[str], str]], *, keep: bool) -> str:
    pieces, end = [], 0
    for match, value in values:
        pieces += [text[end : match.start()], match[0] if keep and secret(match[1]) else value]
        end = match.end()
    return "".join([*pieces, text[end:]])
