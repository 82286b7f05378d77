"""The documentation runs: README's console and Python blocks, and its table of commands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from foldmark.commands import REGISTRY

README = Path(__file__).parents[2] / "README.md"
TEXT = README.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def matches(expected: str, actual: str) -> bool:
    """Whether `actual` is `expected`, where "..." stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), actual, re.DOTALL) is not None


def test_ellipsis_is_the_only_freedom() -> None:
    assert matches("a ... c", "a b c")
    assert not matches("a ... c", "a b d")


@pytest.mark.parametrize("block", blocks("console"))
def test_console_blocks(block: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert matches(expected, "\n".join(line.rstrip() for line in done.stdout.split("\n"))), (
            f"$ {command}\n{done.stdout}"
        )


@pytest.mark.parametrize("block", blocks("python"))
def test_python_blocks(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, str(README), "exec"), {})


def test_table_of_commands_is_the_registry() -> None:
    rows = re.findall(r"^\| `/(.+?)` \| (.+?) \|$", TEXT, re.MULTILINE)
    registry = [(f"{each.name} {each.usage}".strip(), each.help) for each in REGISTRY.commands.values()]
    assert [(usage, text.lower()) for usage, text in rows] == [(u, t.rstrip(".").lower()) for u, t in registry]
