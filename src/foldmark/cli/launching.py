"""`--launch`: this process becomes the coding agent."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from foldmark.core.wording import one_line


def check(launch: bool, as_json: bool) -> None:
    """Raise UsageError where both are asked for: what is started prints on the same output."""
    if launch and as_json:
        raise click.UsageError("--json tells the command to start; --launch starts it: give one of them")


def start(command: Sequence[str], cwd: Path | None) -> None:
    """Run the command, whose first part is a program's name, in the folder `cwd` (None: this one), in place of this
    process. Returns, having said why, if that cannot be done."""
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
