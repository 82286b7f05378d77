"""What an optional extra lacks, brought by the installer of this environment, after a person at the terminal agreed."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import invalidate_caches
from importlib.util import find_spec
from shlex import join

from foldmark.chat.person import asks


def agreed_and_installed(steps: Sequence[Sequence[str]]) -> bool:
    """Show the commands for these arguments of `pip install`, ask, and run them. Return False if they were not run, or
    one of them failed. What is installed can be imported at once."""
    installer = _installer()
    if installer is None:
        print("foldmark: there is no pip and no uv to run this with; install one of them first", file=sys.stderr)
        return False
    commands = [[*installer, *step] for step in steps]
    for command in commands:
        print(join(command), file=sys.stderr)
    if not asks("Run this now?" if len(commands) == 1 else "Run these now?"):
        return False
    try:
        return all(subprocess.run(command, check=False).returncode == 0 for command in commands)
    finally:
        invalidate_caches()


def _installer() -> list[str] | None:
    """The beginning of a command that installs into the environment of this interpreter, with pip or else with uv; None
    if there is neither."""
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install"]
    uv = shutil.which("uv")
    return [uv, "pip", "install", "--python", sys.executable] if uv else None
