"""The harness in docs/development/stores.md runs the contract, and the package names the packages that it needs."""

import inspect
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from test_documents import ROOT, blocks

import foldmark.testing.parts
from foldmark.installation import installs
from foldmark.testing import Damage, StoreContract
from foldmark.testing.suite import root

PAGE = ROOT / "docs" / "development" / "stores.md"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("test_a_nested_block_joins_the_outer_one", {}),
        ("test_only_one_of_two_runtimes_takes_a_lease", {}),
        ("test_messages_are_read_in_pages", {}),
        ("test_planted_damage_is_found", {"damage": Damage.CONTENT}),
    ],
)
def test_the_harness_of_the_page_runs_the_contract(tmp_path: Path, name: str, given: dict[str, Any]) -> None:
    page: dict[str, Any] = {}
    exec(next(text for language, text in blocks(PAGE) if language == "python"), page)
    assert issubclass(page["TestMyStore"], StoreContract)
    harness, test = page["MyHarness"](tmp_path), getattr(page["TestMyStore"](), name)
    wanted = inspect.signature(test).parameters
    with closing(harness.fresh()) as store, closing(harness.open(store.address)) as other:
        fixtures = {"harness": harness, "store": store, "other": other}
        agents = {name: root(store) for name in ("agent",) if name in wanted}
        test(**{key: value for key, value in fixtures.items() if key in wanted}, **agents, **given)


def test_the_page_names_every_part() -> None:
    parts = {each.stem for each in Path(foldmark.testing.parts.__file__).parent.glob("[a-z]*.py")}
    page = PAGE.read_text(encoding="utf-8")
    assert parts == {part for part in parts if f"| `{part}` |" in page}


def test_what_is_missing_is_named() -> None:
    for missing in ("pytest", "hypothesis"):
        program = f"import sys; sys.modules[{missing!r}] = None\nfrom foldmark.testing import StoreContract"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert f"foldmark.testing needs pytest and Hypothesis, and {missing} is not installed" in done.stderr
        assert installs("testing") in done.stderr
