"""Signs in a line that a person types to a model: `@path`, or `@"a path"` with spaces, at the beginning of a word
mentions a file, and `!` at the beginning of the line makes it a shell command."""

import re
from collections.abc import Iterator
from typing import NamedTuple

SHELL = "!"
"""The beginning of a shell command, in which nothing is a mention."""

_BEFORE = r"(?<![^\s(\[{])@"
_MENTION = re.compile(_BEFORE + r'(?:"([^"\n]+)"|([^\s"]+))')
_BEGUN = re.compile(_BEFORE + r'("[^"\n]*|[^\s"]*)\Z')

_MARKS = ".,;:!?)]}'"
"""Punctuation that may follow a mention without belonging to it."""


class BegunMention(NamedTuple):
    """A mention that is being typed: the position of its `@`, and the path so far, without quotes."""

    first: int
    path: str


def mentions(text: str) -> Iterator[list[str]]:
    """Yield the possible paths of each mention, longest first: punctuation at its end may belong to the sentence."""
    for found in _MENTION.finditer(text):
        path = found[1] or found[2]
        paths = [path]
        while not found[1] and path[-1:] and path[-1] in _MARKS:
            path = path[:-1]
            paths.append(path)
        yield [each for each in paths if each]


def begun(typed: str) -> BegunMention | None:
    """Return the mention at the end of a text, or None."""
    found = None if typed.lstrip().startswith(SHELL) else _BEGUN.search(typed)
    return None if found is None else BegunMention(found.start(), found[1].removeprefix('"'))


def mention(path: str, *, ended: bool = True) -> str | None:
    """Return a mention of a path, followed by a space if it is `ended`; None for a path that no mention can name."""
    if not path.isprintable() or '"' in path:
        return None
    if " " in path:
        return f'@"{path}" ' if ended else f'@"{path}'
    return f"@{path} " if ended else f"@{path}"
