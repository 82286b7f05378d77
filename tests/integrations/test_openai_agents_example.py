"""The example runs and prints the output shown in docs/reference/openai-agents.md."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from patience import LIMIT
from sampled import DEEP

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "openai_agents.py"


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "reference" / "openai-agents.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert printed(tmp_path, monkeypatch, capfd) == (told, "")
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


def printed(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Run the example in a folder that is also the home, and return its standard output and standard error. The SDK
    takes seconds to import, so only a deep run starts a process for it."""
    environment = {"HOME": str(folder), "PATH": "", "LANG": "C.UTF-8"}
    if DEEP:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(EXAMPLE)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr
    monkeypatch.chdir(folder)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    out, err = capfd.readouterr()
    return out, err
