"""The outcome of a command: its exit code, and an error on one line."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line


def open_streams() -> None:
    """Make the standard streams accept any text. A stream that the caller closed gets a file that discards it."""
    for name, mode, errors in (
        ("stdin", "r", "replace"),
        ("stdout", "w", "backslashreplace"),
        ("stderr", "w", "backslashreplace"),
    ):
        if getattr(sys, name) is None:  # the new file gets the same descriptor
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - stays open until the process ends
        getattr(sys, name).reconfigure(errors=errors)


def outcome(work: Callable[[], object]) -> int:
    """Do the work of a command, and return its exit code: the number that the work returns, otherwise 0. Print an error
    on one line, one of the usage with the command that shows it."""
    try:
        code = work()
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "foldmark"
        wrong = error.format_message().rstrip(".")
        end = "" if wrong.endswith("?") else "."
        return fail(f"{wrong}{end} `{where} --help` shows the usage.", error.exit_code)
    except click.ClickException as error:
        return fail(error.format_message(), error.exit_code)
    except FoldmarkError as error:
        return fail(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return fail("interrupted", 130)
    except BrokenPipeError:
        _give_up_output()
        return 0
    except SystemExit as error:
        if error.code != 1:  # from a signal
            raise
        _give_up_output()  # from click, which found the pipe closed
        return 0
    except OSError as error:
        if error.filename is None:
            if _is_folder_gone():
                return fail("the working folder was removed; change to another one, then repeat", 1)
            _give_up_output()
        return fail(f"{error.strerror or error}: {error.filename or 'output'}", 1)
    return code if isinstance(code, int) else 0


def fail(text: str, code: int) -> int:
    """Print an error on one line, without keys, and return its exit code."""
    from foldmark.app import known_keys

    print(f"foldmark: {known_keys().hidden(one_line(text))}", file=sys.stderr)
    return code


def _is_folder_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _give_up_output() -> None:
    """Discard further output, because its reader is gone or the disk is full, which Python would report on flushing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
