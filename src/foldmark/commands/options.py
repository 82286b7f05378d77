"""Options of a command in its line: `/recall --role user what was it --since 2026-01-31` [SPEC 4]."""

import re
from collections.abc import Mapping

from foldmark.core.errors import CommandError

_WORD = re.compile(r'(?:"[^"]*"|\S)+')
"""A word of a line; quoted text is part of one."""


def take_options(text: str, takes: Mapping[str, bool]) -> tuple[dict[str, str], str]:
    """Split the options at the beginning and the end of `text` from the text between them.

    `takes` tells for each option whether it takes a value: `--role user`, `--role=user`, `--agent "side project"`.
    Raises CommandError for an option without its value, or given twice.
    """
    if not takes:
        return {}, text
    found: dict[str, str] = {}
    words = list(_WORD.finditer(text))
    while words:
        if size := _width(words[0][0], takes):
            option, words = words[:size], words[size:]
        elif len(words) > 1 and _width(words[-2][0], takes) == 2:
            option, words = words[-2:], words[:-2]
        elif _width(words[-1][0], takes):
            option, words = words[-1:], words[:-1]
        else:
            break
        name, equals, value = option[0][0].partition("=")
        if takes[name]:
            if not equals and len(option) == 1:
                raise CommandError(f"{name} needs a value behind it; in quotes it is a word like others")
            if name in found:
                raise CommandError(f"{name} is given twice; give it once")
            value = value if equals else option[1][0]
        found[name] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    return found, text[words[0].start() : words[-1].end()] if words else ""


def _width(word: str, takes: Mapping[str, bool]) -> int:
    """Return the number of words of the option that begins with this one; 0 if it is no option."""
    name, equals, _ = word.partition("=")
    if name not in takes or (equals and not takes[name]):
        return 0
    return 2 if takes[name] and not equals else 1
