"""The process of a command: its result, its progress, termination by Ctrl-C or a signal, and replacement by a coding
agent."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foldmark.core.wording import one_line
from foldmark.rendering import harmless, json_text, result_json, result_text

if TYPE_CHECKING:
    from foldmark.core.ports import Progress
    from foldmark.formats.session_format import SessionPath
    from foldmark.log import Result


def show_result(result: "Result", as_json: bool) -> None:
    """Print a result of a chat command, as JSON or as text."""
    if as_json:
        print(result_json(result))
        return
    from foldmark.chat.lines.person import show_text

    if text := result_text(result):
        show_text(text)


@contextmanager
def progress_bar(label: str, *, hidden: bool = False) -> "Iterator[Progress]":
    """Show a progress bar from the first report on, if standard error is a terminal."""
    bar: Any = None

    def show(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            bar = stack.enter_context(click.progressbar(length=1, label=one_line(label), file=sys.stderr))
        bar.length = max(1, total)
        bar.update(done - bar.pos)

    with ExitStack() as stack:
        yield show if sys.stderr.isatty() and not hidden else lambda *_: None


@contextmanager
def leaving() -> Iterator[None]:
    """Make SIGTERM and SIGHUP leave the block like an exception, so that turns are closed, tool processes ended and
    temporary files removed. A signal that is ignored (`nohup`) stays ignored."""

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
def session_outcome(parent: "SessionPath", new_id: str) -> Iterator[None]:
    """Guard a block that writes session `new_id` from `parent`. If Ctrl-C or a signal ends it, print whether the
    session was written, and exit with the signal's code. A session is written completely or not at all."""
    try:
        with leaving():
            yield
    except (KeyboardInterrupt, SystemExit) as stop:
        code = stop.code if isinstance(stop, SystemExit) and isinstance(stop.code, int) else 128 + signal.SIGINT
        by = "interrupted" if code == 128 + signal.SIGINT else f"ended by {signal.Signals(code - 128).name}"
        print(harmless(f"foldmark: {by}; {_outcome(parent, new_id)}"), file=sys.stderr)
        raise SystemExit(code) from None


def _outcome(parent: "SessionPath", new_id: str) -> str:
    from foldmark.formats.places import session_path
    from foldmark.formats.session_format import resume_command

    new = next(parent.path.parent.glob(f"*{new_id}.jsonl"), None)
    if new is None:
        return "no new session was written"
    resume = resume_command(session_path(new, parent.kind), os.environ)
    return f"the new session is whole: {new}\n`foldmark sessions` may lack it. Resume it with: {resume.shell}"


def show(data: Any, text: str, as_json: bool) -> None:
    """Print an answer: its data as JSON, or its text for a person."""
    print(json_text(data) if as_json else harmless(text), flush=True)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    print(harmless(f"foldmark: {text}"), file=sys.stderr)


def check_launch(launch: bool, as_json: bool) -> None:
    """Raise UsageError if both options are given, because the coding agent would print to the same output."""
    if launch and as_json:
        raise click.UsageError("--json prints the command to start, and --launch starts it: leave out one")


def start(command: Sequence[str], cwd: Path | None) -> None:
    """Replace this process with a command in the folder `cwd`, by default the working folder. If that fails, print the
    reason and return."""
    import shutil

    program = shutil.which(command[0])
    if program is None:
        print(f"foldmark: {command[0]} is not installed here; start it yourself where it is", file=sys.stderr)
        return
    sys.stdout.flush()
    try:
        if cwd is not None:
            os.chdir(cwd)
        os.execv(program, list(command))
    except OSError as error:
        where = "here" if cwd is None else f"in {one_line(str(cwd))}"
        print(f"foldmark: {command[0]} cannot be started {where}: {error.strerror or error}", file=sys.stderr)
