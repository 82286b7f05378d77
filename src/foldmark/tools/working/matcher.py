"""Search texts for a regular expression: a separate program that imports nothing from Foldmark.

A model's expression can take hours or all memory, and only the end of the process stops it.

Standard input: a line of JSON with `pattern`, `ignore_case`, `context`, `limit` and `most`, then for each text a line
of JSON, [name, bytes], and the bytes. Standard output, lines of JSON: [name, line, whether it matches, text], or
{"wrong": why} for an invalid expression, {"full": true} when `limit` lines or `most` characters are reached.
"""

import contextlib
import io
import json
import re
import sys
from collections import deque
from typing import Any

SHOWN = 300
"""Maximum number of characters of a line."""


def main() -> None:
    """Search texts until they end, or until enough was found."""
    _limit()
    source = sys.stdin.buffer
    wanted = json.loads(source.readline())
    try:
        expression = re.compile(wanted["pattern"], re.IGNORECASE if wanted["ignore_case"] else 0)
        search = TextSearch(expression, wanted["context"], wanted["limit"], wanted["most"])
        while not search.full and (header := source.readline()):
            name, size = json.loads(header)
            search.text(name, source.read(size).decode("utf-8", "replace"))
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        answer({"wrong": str(error) or f"it takes too much memory ({type(error).__name__})"})


class TextSearch:
    """One search through several texts."""

    def __init__(self, expression: "re.Pattern[str]", context: int, limit: int, most: int) -> None:
        self._search, self._context, self._limit, self._most = expression.search, context, limit, most
        self.full = False

    def text(self, name: str, text: str) -> None:
        """Write the matching lines and their context."""
        before: deque[tuple[int, str]] = deque(maxlen=self._context)
        after = 0
        for number, whole in enumerate(io.StringIO(text, newline="\n"), 1):
            line = whole.removesuffix("\n").removesuffix("\r")
            found = self._search(line) if self._limit else None
            if found:
                for each in before:
                    self._write(name, each[0], False, each[1])
                before.clear()
                after = self._context
                self._limit -= 1
                self._write(name, number, True, line, found.start())
            elif after:
                after -= 1
                self._write(name, number, False, line)
            else:
                before.append((number, line))
            if self._most <= 0 or not (self._limit or after):
                self.full = True
                answer({"full": True})
                return

    def _write(self, name: str, number: int, fits: bool, line: str, at: int = 0) -> None:
        begin = 0 if len(line) <= SHOWN else max(0, min(at - SHOWN // 3, len(line) - SHOWN))
        shown = line[begin : begin + SHOWN]
        shown = f"{'…' if begin else ''}{shown}{'…' if begin + SHOWN < len(line) else ''}"
        self._most -= len(name) + len(shown)
        answer([name, number, fits, shown])


def answer(value: Any) -> None:
    """Write one line of JSON, and flush it, because this process may be killed at any time."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _limit() -> None:
    """Limit memory to half a GB, and time to half a minute in case the parent is gone."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
