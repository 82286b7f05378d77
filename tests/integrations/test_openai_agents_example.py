"""The example runs, and prints what docs/openai-agents.md says."""

import re
import subprocess
import sys
from pathlib import Path

from patience import LIMIT

ROOT = Path(__file__).parents[2]


def test_the_example(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "openai-agents.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    environment = {"HOME": str(tmp_path), "PATH": "", "LANG": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "openai_agents.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == told
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"
