"""Actions that need a person at a terminal: answering a question, reading, copying and editing a text."""

import base64
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

from foldmark.core.errors import FoldmarkError
from foldmark.operations.effects import CopyText, Decision, Permission
from foldmark.rendering import fitted, harmless


def asks(question: str) -> bool:
    """Ask a yes-or-no question; any answer other than yes counts as no."""
    try:
        return input(f"{harmless(question)} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def answer_beside_output(question: str) -> str:
    """Read the answer to a question that is printed to standard error, because standard output is for something else.
    Raises EOFError."""
    print(question, end="", file=sys.stderr, flush=True)
    if line := sys.stdin.readline():
        return line
    raise EOFError


ANSWERS: dict[str, Decision] = {
    **dict.fromkeys(("y", "yes"), "yes"),
    **dict.fromkeys(("a", "always"), "always"),
    **dict.fromkeys(("n", "no", ""), "no"),
    **dict.fromkeys(("v", "never"), "never"),
}


def decides(
    heading: str,
    permission: Permission,
    answer: Callable[[str], str] = input,
    other: Callable[[str], object] = lambda _: None,
    stream: TextIO | None = None,
) -> Decision:
    """Ask whether a tool may do something: once, always in this conversation, not now, never.

    `answer` reads a line. Any other line is passed to `other`, and the question is asked again. The question is printed
    to `stream`, by default standard output.
    """
    lines = [f"{heading}: {permission.question}", *([permission.coverage] if permission.coverage else [])]
    print(fitted(harmless("\n".join(lines)), stream), file=stream, flush=True)
    while True:
        try:
            said = answer("[y]es, [a]lways, [N]o, ne[v]er: ")
        except EOFError:
            print(file=stream)
            return "no"
        if (decision := ANSWERS.get(said.strip().lower())) is not None:
            return decision
        other(said)


def show_text(text: str) -> None:
    """Print a text. If it is taller than the terminal, open it in `$EDITOR`, or else in `$PAGER` [SPEC 4, S2]."""
    shown = fitted(text)
    if not sys.stdout.isatty() or shown.count("\n") < os.get_terminal_size().lines:
        print(shown, flush=True)
    elif os.environ.get("EDITOR"):
        try:
            _edit(click.unstyle(text))
        except FoldmarkError:
            print(shown, flush=True)
    else:
        click.echo_via_pager(f"{text}\n")


def copied(copy: CopyText) -> str:
    """Let the terminal of standard output put a text on the clipboard (OSC 52), and return a line about it."""
    text = harmless(copy.text)
    sys.stdout.write(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\a")
    return copy.done


def edited(text: str) -> str:
    """Let the person edit a text in `$EDITOR`, and return the result. Raises FoldmarkError without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise FoldmarkError("an editor needs a terminal; give the text with the command instead")
    return _edit(text)


def _edit(text: str) -> str:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="foldmark-") as folder:
        file = Path(folder) / "foldmark.md"
        file.write_text(text, encoding="utf-8")
        try:
            with at_interrupt(lambda *_: None):  # Ctrl-C belongs to the editor
                code = subprocess.run([*shlex.split(editor), str(file)], check=False).returncode
        except (OSError, ValueError) as error:
            raise FoldmarkError(
                f"the editor '{editor}' cannot be started ({error}); set EDITOR to one that can"
            ) from None
        if code:
            raise FoldmarkError(f"the editor '{editor}' ended with {code}; nothing was changed")
        return file.read_text(encoding="utf-8", errors="replace").rstrip("\n")


@contextmanager
def at_interrupt(handler: Callable[[int, Any], object]) -> Iterator[None]:
    """Call `handler` on Ctrl-C during the block. Outside the main thread, do nothing."""
    try:
        before = signal.signal(signal.SIGINT, handler)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
