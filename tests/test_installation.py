"""How Foldmark was installed: the commands that add something to it fit the installation and name no package index."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import foldmark
import foldmark.installation
from foldmark.installation import extra_command, installs, package_command, source

ROOT = Path(__file__).parent.parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def without_markers(requirements: list[str]) -> set[str]:
    return {each.replace(" ", "") for each in requirements}


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that is not this one."""
    folder = tmp_path / "foldmark"
    folder.mkdir()
    monkeypatch.setattr(sys, "prefix", str(folder))
    return folder


@pytest.mark.parametrize("extra", sorted({*EXTRAS} - {"all"}))
def test_an_extra_is_its_requirements(extra: str) -> None:
    python, *words = extra_command(extra)
    assert (python, words[:3]) == (sys.executable, ["-m", "pip", "install"])
    assert without_markers(words[3:]) == without_markers(EXTRAS[extra])
    assert shlex.split(installs(extra).partition(": ")[2]) == extra_command(extra)


def test_an_extra_that_is_not_there_has_no_command() -> None:
    assert extra_command("none") == []
    assert installs("none") == "Foldmark's extra `none` has it"


def test_the_command_satisfies_pip() -> None:
    """Everything is installed here, so pip has nothing to do."""
    done = subprocess.run([*extra_command("terminal"), "--no-index", "--dry-run"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "already satisfied: textual" in done.stdout


def test_without_pip_it_is_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foldmark.installation, "find_spec", lambda _: None)
    assert package_command("x", dependencies=False) == [
        "uv",
        "pip",
        "install",
        "--python",
        sys.executable,
        "--no-deps",
        "x",
    ]


def test_pipx_injects(prefix: Path) -> None:
    (prefix / "pipx_metadata.json").write_text("{}")
    assert extra_command("terminal") == ["pipx", "inject", "foldmark", *EXTRAS["terminal"]]
    assert package_command("x", dependencies=False) == ["pipx", "runpip", "foldmark", "install", "--no-deps", "x"]


@pytest.mark.parametrize(
    ("requirements", "command"),
    [
        ('[{ name = "foldmark", directory = "HERE" }]', "uv tool install 'HERE[terminal]'"),
        (
            '[{ name = "foldmark", extras = ["mcp", "anthropic"], editable = "HERE" }]',
            "uv tool install --editable 'HERE[anthropic,mcp,terminal]'",
        ),
        (
            '[{ name = "foldmark", path = "HERE" }, { name = "a", specifier = ">=14" }, { name = "b", path = "HERE" }]',
            "uv tool install 'HERE[terminal]' --with 'a>=14' --with HERE",
        ),
        ('[{ name = "foldmark", path = "/is/gone.whl" }]', None),
        ('[{ name = "foldmark", git = "https://example.org/foldmark" }]', None),
        ('[{ name = "foldmark", directory = "HERE" }, { name = "own", git = "https://example.org/own" }]', None),
    ],
)
def test_a_tool_of_uv_is_installed_again_with_all_that_it_has(
    prefix: Path, requirements: str, command: str | None
) -> None:
    """The receipts are as uv 0.13 writes them."""
    here = str(prefix / "a folder")
    Path(here).mkdir()
    (prefix / "uv-receipt.toml").write_text(f"[tool]\nrequirements = {requirements.replace('HERE', here)}\n")
    if command is None:
        assert extra_command("terminal") == package_command(*EXTRAS["terminal"])
    else:
        assert extra_command("terminal") == [word.replace("HERE", here) for word in shlex.split(command)]


def test_a_tool_with_options_is_not_installed_again(prefix: Path) -> None:
    (prefix / "uv-receipt.toml").write_text(
        f'[tool]\nrequirements = [{{ name = "foldmark", directory = "{prefix}" }}]\nconstraints = [{{ name = "x" }}]\n'
    )
    assert extra_command("mcp") == package_command(*EXTRAS["mcp"])


def test_the_python_of_a_tool_stays(prefix: Path) -> None:
    (prefix / "uv-receipt.toml").write_text(
        f'[tool]\npython = "3.12"\nrequirements = [{{ name = "foldmark", directory = "{prefix}" }}]\n'
    )
    assert extra_command("mcp") == ["uv", "tool", "install", "--python", "3.12", f"{prefix}[mcp]"]


def test_the_source_is_this_checkout() -> None:
    assert Path(source()) == ROOT


def test_sources_that_were_never_installed_know_their_extras(tmp_path: Path) -> None:
    script = (
        f"import sys; sys.path = [{str(ROOT / 'src')!r}] + [each for each in sys.path if 'site-packages' not in each]\n"
        "from foldmark.installation import installs, source\n"
        "print(source()); print(installs('postgres'))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    assert done.stdout.splitlines()[0] == str(ROOT)
    assert all(shlex.quote(each) in done.stdout for each in EXTRAS["postgres"])


def test_no_message_and_no_page_names_foldmark_on_a_package_index() -> None:
    named = re.compile(r"foldmark\[|(?<!un)install (?:--upgrade )?foldmark\b(?!@)")
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md")]
    places = [*(ROOT / "src" / "foldmark").rglob("*.py"), *pages]
    assert [str(each) for each in places if named.search(each.read_text("utf-8"))] == []
