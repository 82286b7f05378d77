"""Regular expressions that are compiled on their first use. Pure.

A command imports many modules and uses few of their patterns, each of which takes a quarter of a millisecond.
"""

import re
from typing import Any, AnyStr


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern as `re.compile` does. An error in `text` shows on the first use."""
    return _Late(text, flags)  # type: ignore[return-value]


class _Late:
    """Gets each member of the compiled pattern when it is first asked for it."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found
