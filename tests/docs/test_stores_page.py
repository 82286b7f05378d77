"""The harness that docs/stores.md shows runs the contract, and the package says what it needs."""

import subprocess
import sys
from pathlib import Path

from test_documents import ROOT, blocks

import foldmark.testing.parts

SOME = "conflict or wrong_clocks or exactly_once or killed_inside or fixed_number or planted"


def test_the_harness_of_the_page_runs_the_contract(tmp_path: Path) -> None:
    page = ROOT / "docs" / "stores.md"
    (harness, *_) = [text for language, text in blocks(page) if language == "python"]
    (tmp_path / "test_my_store.py").write_text(harness, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", SOME, "test_my_store.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    counts = done.stdout.splitlines()[-1]
    assert "passed, 8 skipped" in counts, "one kind of damage is planted"


def test_the_page_names_every_part() -> None:
    parts = {each.stem for each in Path(foldmark.testing.parts.__file__).parent.glob("[a-z]*.py")}
    page = (ROOT / "docs" / "stores.md").read_text(encoding="utf-8")
    assert parts == {part for part in parts if f"| `{part}` |" in page}


def test_what_is_missing_is_named() -> None:
    for missing in ("pytest", "hypothesis"):
        program = f"import sys; sys.modules[{missing!r}] = None\nimport foldmark.testing"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert f"foldmark.testing needs pytest and Hypothesis, and {missing} is not installed" in done.stderr
        assert "pip install 'foldmark[testing]'" in done.stderr
