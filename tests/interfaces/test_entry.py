"""The package is imported by parts, and so is the program."""

from __future__ import annotations

import subprocess
import sys

import pytest
from command_line import PROGRAM

import foldmark


def test_every_name_is_there() -> None:
    for name in foldmark.__all__:
        assert getattr(foldmark, name).__name__ == name
        assert name in dir(foldmark)
    names: dict[str, object] = {}
    exec("from foldmark import *", names)
    assert set(foldmark.__all__) <= set(names)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match=r"^module 'foldmark' has no attribute 'nothing'$"):
        foldmark.nothing  # noqa: B018


def test_the_package_alone_imports_nothing() -> None:
    code = "import sys; before = set(sys.modules); import foldmark; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "foldmark\n"


def test_the_command_line_lists_what_runs_without_it() -> None:
    done = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True)
    assert "\n  hook " in done.stdout
    assert "\n  statusline " in done.stdout
    done = subprocess.run([PROGRAM, "hooks"], capture_output=True, text=True)
    assert done.returncode == 2
