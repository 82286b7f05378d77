"""`StoreContract`: the suite that every store has to pass, the built-in ones and yours (docs/stores.md).

It needs pytest and Hypothesis: `pip install 'foldmark[testing]'`. Nothing else of Foldmark imports this package.

Read `harness.py` first (what a store gives to the suite), then `contract.py`, `suite.py` (what its parts have in
common) and the `parts/`. `histories.py` is the brute force, `copies.py` what is copied, `elsewhere.py` the second
process.
"""

try:
    import hypothesis  # noqa: F401
    import pytest
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"foldmark.testing needs pytest and Hypothesis, and {error.name} is not installed; "
        "`pip install 'foldmark[testing]'` installs both",
        name=error.name,
    ) from error

_PARTS = (
    *("transactions", "blocks", "round_trips", "connections", "listening", "brute_force"),
    *("inbox", "memos", "searching", "damaged", "budgets", "copying"),
)
# A failed `assert` in these says what the values were, as in a test of your own.
pytest.register_assert_rewrite(
    f"{__name__}.suite", f"{__name__}.copies", *(f"{__name__}.parts.{part}" for part in _PARTS)
)

from foldmark.testing.contract import StoreContract as StoreContract  # noqa: E402
from foldmark.testing.harness import Damage as Damage  # noqa: E402
from foldmark.testing.harness import Harness as Harness  # noqa: E402
