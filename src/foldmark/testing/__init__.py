"""`StoreContract`: the test suite that every store has to pass, built-in or your own (docs/development/stores.md).

It needs pytest and Hypothesis, the extra `testing`. No other part of Foldmark imports this package.

Read `suite.py` first: it defines the harness that a store provides, and code shared by several parts. `parts/` contains
the tests. `memory.py` is the oracle, a store in memory; `histories.py` makes random histories; `compared.py` compares
each answer about them with the oracle's. `copies.py` creates contents for tests of copying.
"""

try:
    import hypothesis  # noqa: F401
    import pytest
except ModuleNotFoundError as error:
    from foldmark.installation import installs

    raise ModuleNotFoundError(
        f"foldmark.testing needs pytest and Hypothesis, and {error.name} is not installed; {installs('testing')}",
        name=error.name,
    ) from error

# Failed assertions in these modules show their values, as in a test module.
pytest.register_assert_rewrite(f"{__name__}.suite", f"{__name__}.copies", f"{__name__}.compared", f"{__name__}.parts")

from foldmark.testing.parts.answers import Answers  # noqa: E402
from foldmark.testing.parts.blocks import Blocks  # noqa: E402
from foldmark.testing.parts.budgets import Budgets  # noqa: E402
from foldmark.testing.parts.connections import Connections, ListeningTests  # noqa: E402
from foldmark.testing.parts.copying import CopyingTests  # noqa: E402
from foldmark.testing.parts.damaged import Damaged  # noqa: E402
from foldmark.testing.parts.inbox import InboxTests  # noqa: E402
from foldmark.testing.parts.transactions import Transactions  # noqa: E402
from foldmark.testing.suite import Damage as Damage  # noqa: E402
from foldmark.testing.suite import Harness as Harness  # noqa: E402


class StoreContract(
    Transactions,
    Blocks,
    Connections,
    ListeningTests,
    Answers,
    InboxTests,
    Damaged,
    Budgets,
    CopyingTests,
):
    """Tests for everything that `foldmark.core.ports.Store` promises. Derive a test class from it and override the
    fixture `harness`."""
