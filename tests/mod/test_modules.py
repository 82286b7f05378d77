"""The plugins' modules for Claude Code, without the client: node runs them, and a function stands for the service."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from foldmark.sessions.install.plugins import PLUGINS, plugin_files

HERE = Path(__file__).parent


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """Return a folder with the plugins as they are installed."""
    for name, content in plugin_files("/opt/foldmark", "1.2.3", mcp=True).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_modules(plugins: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not there")
    (plugins / "package.json").write_text('{"type": "module"}')
    words = [node, "--test", "--test-reporter=tap", str(HERE / "plugins.test.mjs")]
    done = subprocess.run(words, env={**os.environ, "PLUGINS": str(plugins)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_plugin_has_what_its_modules_import(plugins: Path) -> None:
    for plugin in PLUGINS:
        hooks = plugins / plugin / "hooks"
        modules = {path.name for path in hooks.glob("*.js")}
        for path in hooks.glob("*.js"):
            for line in path.read_text().splitlines():
                if line.startswith("import "):
                    assert line.split("'./")[1].rstrip("'") in modules, line
    assert not (plugins / "both").exists()


def test_the_modules_stay_small() -> None:
    templates = Path(__file__).parents[2] / "src/foldmark/sessions/install/marketplace"
    assert sum(len(path.read_text().splitlines()) for path in templates.glob("*/hooks/*.js")) <= 500
