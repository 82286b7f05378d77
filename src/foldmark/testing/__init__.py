"""`StoreContract`: the suite that every store has to pass, the built-in ones and yours (docs/stores.md).

It needs pytest and Hypothesis: `pip install 'foldmark[testing]'`. Nothing else of Foldmark imports this package.

Read `suite.py` first (what a store gives to the suite, and what its parts have in common), then the `parts/`.
`histories.py` is the brute force, `copies.py` what is copied.
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

# A failed `assert` in these says what the values were, as in a test of your own.
pytest.register_assert_rewrite(f"{__name__}.suite", f"{__name__}.copies", f"{__name__}.parts")

from foldmark.testing.parts.blocks import Blocks  # noqa: E402
from foldmark.testing.parts.brute_force import BruteForce  # noqa: E402
from foldmark.testing.parts.budgets import Budgets  # noqa: E402
from foldmark.testing.parts.connections import Connections, ListeningTests  # noqa: E402
from foldmark.testing.parts.copying import CopyingTests  # noqa: E402
from foldmark.testing.parts.damaged import Damaged  # noqa: E402
from foldmark.testing.parts.inbox import InboxTests  # noqa: E402
from foldmark.testing.parts.round_trips import RoundTrips  # noqa: E402
from foldmark.testing.parts.searching import MemoTests, Searching  # noqa: E402
from foldmark.testing.parts.transactions import Transactions  # noqa: E402
from foldmark.testing.suite import Damage as Damage  # noqa: E402
from foldmark.testing.suite import Harness as Harness  # noqa: E402


class StoreContract(
    RoundTrips,
    Transactions,
    Blocks,
    Connections,
    ListeningTests,
    BruteForce,
    InboxTests,
    MemoTests,
    Searching,
    Damaged,
    Budgets,
    CopyingTests,
):
    """What `foldmark.core.ports.Store` promises. Derive a class of tests from it and override the fixture `harness`."""
