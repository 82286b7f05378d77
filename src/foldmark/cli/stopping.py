"""Being told to end: by Ctrl-C, by another program (SIGTERM), or because the terminal is gone (SIGHUP)."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from foldmark.rendering import harmless

if TYPE_CHECKING:
    from foldmark.sessions.formats import SessionPath


@contextmanager
def leaving() -> Iterator[None]:
    """While the block runs, SIGTERM and SIGHUP leave it as an exception does: turns are closed, what tools have started
    is ended, temporary files are removed. What is ignored (`nohup`) stays so."""

    def leave(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    caught = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in caught:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)


@contextmanager
def outcome_told(outcome: Callable[[], str]) -> Iterator[None]:
    """If a signal or Ctrl-C ends the block, which writes a session, print `outcome()`, exit with its code."""
    try:
        with leaving():
            yield
    except (KeyboardInterrupt, SystemExit) as stop:
        code = stop.code if isinstance(stop, SystemExit) and isinstance(stop.code, int) else 128 + signal.SIGINT
        by = "interrupted" if code == 128 + signal.SIGINT else f"ended by {signal.Signals(code - 128).name}"
        print(harmless(f"foldmark: {by}; {outcome()}"), file=sys.stderr)
        raise SystemExit(code) from None


def session_written(parent: "SessionPath", new_id: str) -> str:
    """Say whether the session `new_id`, made from `parent`, was written; it is there whole or not at all."""
    from foldmark.sessions.formats import resume_command
    from foldmark.sessions.places import session_path

    new = next(parent.path.parent.glob(f"*{new_id}.jsonl"), None)
    if new is None:
        return "no new session was written"
    resume = resume_command(session_path(new, parent.kind), os.environ)
    return f"the new session is whole: {new}\n`foldmark sessions` may lack it. Resume it with: {resume.shell}"
