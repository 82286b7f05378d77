"""The documentation runs: console and Python blocks of every page, and the pages generated from the code."""

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import stand_in
from foldmark.cli.program import run
from foldmark.settings.loading import ALL_KEYS

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "docs", ROOT / "docs" / "reference", ROOT / "docs" / "development"]
"""The folders of pages: for everybody, in detail, and for those who change Foldmark."""

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for each in FOLDERS for page in sorted(each.glob("*.md"))),
]
RUN = [page for page in PAGES if re.search(r"^```(console|python)$", page.read_text(encoding="utf-8"), re.MULTILINE)]

SHELL = re.compile(r"[|<>&;$*`\\]|^(?!foldmark )")
"""A command that needs a shell or another program."""


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the (language, text) of each block of a page, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def matches(expected: str, actual: str) -> bool:
    """Return True if `actual` matches `expected`, where "..." stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), actual, re.DOTALL) is not None


def test_ellipsis_is_the_only_freedom() -> None:
    assert matches("a ... c", "a b c")
    assert not matches("a ... c", "a b d")


def test_the_pages_that_run() -> None:
    assert {"README.md", "delegation.md", "forgetting.md", "undo-drop-remove.md"} <= {page.name for page in RUN}


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for language, block in blocks(page):
        if language == "python":
            exec(compile(block, str(page), "exec"), names)
        elif language == "console":
            console(block, tmp_path)


def console(block: str, folder: Path) -> None:
    """Run each command of a block, and compare its output with the text below it."""
    path = f"{stand_in.folder()}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8"}
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        shown = (in_a_shell if SHELL.search(command) else in_this_process)(command, folder, environment)
        assert matches(expected, "\n".join(line.rstrip() for line in shown.split("\n"))), f"$ {command}\n{shown}"


def in_a_shell(command: str, folder: Path, environment: dict[str, str]) -> str:
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ).stdout


def in_this_process(command: str, folder: Path, environment: dict[str, str]) -> str:
    """Run the command as a shell would. Starting a process takes ten times as long as most commands."""
    shown = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with (
        patch.dict(os.environ, environment, clear=True),
        patch("sys.stdin", io.StringIO()),
        chdir(folder),
        redirect_stdout(shown),
        redirect_stderr(shown),
    ):
        run(shlex.split(command)[1:])
    return bytes(shown.buffer.getbuffer()).decode()


def test_pages_made_from_the_code_are_current() -> None:
    names: dict[str, Any] = {"__name__": "generate", "__file__": str(ROOT / "docs" / "generate.py")}
    exec(compile((ROOT / "docs" / "generate.py").read_text(encoding="utf-8"), "generate.py", "exec"), names)
    assert names["PAGES"]
    assert set(names["ABOUT"]) == set(ALL_KEYS)
    for name, page in names["PAGES"].items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page(), "`make docs` brings it up to date"
