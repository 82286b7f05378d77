"""Trim a session in a process that kills itself at a given step, for tests of the remaining files.

`python trim_killed.py PATH STEP`: there is a step before and after each call that changes a file or its name, and at
every twentieth line. The program prints the number of steps if it reaches the end.
"""

import os
import signal
import sys
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from foldmark.formats.places import session_path
from foldmark.formats.session_file import SessionFile
from foldmark.sessions.trim.job import TrimOptions
from foldmark.sessions.trim.trimming import trim

ID = "11111111-2222-4333-8444-555555555555"
WISH = TrimOptions(500, ("Read", "Bash", "Grep", "Glob"))
STEPS = ("link", "replace", "rename", "unlink", "fsync", "fchmod")


def main(path: Path, last: int) -> None:
    """Trim, and kill this process at step `last`."""
    steps = count(1)

    def step() -> None:
        if next(steps) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(call: Any) -> Any:
        def calling(*given: Any, **named: Any) -> Any:
            step()
            done = call(*given, **named)
            step()
            return done

        return calling

    for name in STEPS:
        setattr(os, name, watched(getattr(os, name)))
    lines = SessionFile.raw_lines

    def each(self: Any, *given: Any) -> Any:
        for number, line in enumerate(lines(self, *given)):
            if number % 20 == 0:
                step()
            yield line

    SessionFile.raw_lines = each  # type: ignore[method-assign, assignment]
    with SessionFile(path) as file:
        trim(session_path(path), file, WISH, ID, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    print(next(steps) - 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
