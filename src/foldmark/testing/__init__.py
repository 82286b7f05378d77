"""`StoreContract`: the test suite that every store has to pass, built-in or your own (docs/development/stores.md).

It needs pytest and Hypothesis, the extra `testing`; `memory.py` needs neither. No other part of Foldmark imports this
package.

Read `suite.py` first: it defines the harness that a store provides, and code shared by several parts. `parts/` contains
the tests. `memory.py` is the oracle, a store in memory; `histories.py` makes random histories; `compared.py` compares
each answer about them with the oracle's.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foldmark.testing.contract import StoreContract as StoreContract
    from foldmark.testing.suite import Damage as Damage
    from foldmark.testing.suite import Harness as Harness

if (pytest := sys.modules.get("pytest")) is not None:
    # Failed assertions in these modules show their values, as in a test module.
    pytest.register_assert_rewrite(
        f"{__name__}.suite", f"{__name__}.copies", f"{__name__}.compared", f"{__name__}.parts"
    )


def __getattr__(name: str) -> Any:
    """Import the suite when it is first used, so that the store in memory needs no pytest."""
    if name not in ("StoreContract", "Damage", "Harness"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from foldmark.testing import contract, suite
    except ModuleNotFoundError as error:
        if error.name not in ("pytest", "hypothesis"):
            raise
        from foldmark.installation import installs

        raise ModuleNotFoundError(
            f"foldmark.testing needs pytest and Hypothesis, and {error.name} is not installed; {installs('testing')}",
            name=error.name,
        ) from error
    return getattr(contract if name == "StoreContract" else suite, name)
