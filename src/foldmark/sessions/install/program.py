"""Where the `foldmark` script is that Claude Code is to run."""

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from foldmark.core.errors import FoldmarkError
from foldmark.sessions.install.kinds import is_foldmark

_PASSING = {"archive-v0", ".cache"}
"""Folders in which `uvx` and `pipx run` keep programs for a while."""


class NoProgramError(FoldmarkError):
    """Foldmark runs, but not as an installed program."""


def installed_program() -> str:
    """The absolute path of the script that runs now, or the one beside this Python, or the one on the PATH; links in
    it stay, since they outlive what they lead to. Raises NoProgramError."""
    for path in (Path(sys.argv[0]), *(Path(sys.executable).with_name(name) for name in ("foldmark", "foldmark.exe"))):
        if is_foldmark(path.name) and path.is_file():
            return str(path.absolute())
    if found := shutil.which("foldmark"):
        return str(Path(found).absolute())
    raise NoProgramError(
        "no `foldmark` script is installed that Claude Code could run; `pip install foldmark`, then repeat"
    )


def typed_program(environment: Mapping[str, str]) -> str:
    """How a shell with this environment is told to run Foldmark: by name, or by path where no PATH leads to it."""
    path = environment.get("PATH")
    if path is None or shutil.which("foldmark", path=path):
        return "foldmark"
    try:
        return shlex.quote(installed_program())
    except NoProgramError:
        return "foldmark"


def passing(program: str) -> bool:
    """Whether a program lies where it may be gone tomorrow."""
    return not _PASSING.isdisjoint(Path(program).parts)
