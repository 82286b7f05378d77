"""The contract of stores, passed by SQLite through its public face alone."""

from pathlib import Path

import pytest
from sqlite_harness import MemoryHarness, SqliteHarness

from foldmark.testing import Harness, StoreContract
from foldmark.testing.parts.blocks import Blocks
from foldmark.testing.parts.brute_force import BruteForce
from foldmark.testing.parts.round_trips import RoundTrips
from foldmark.testing.parts.transactions import Transactions


class TestSqliteFile(StoreContract):
    """A database in a file."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        return SqliteHarness(tmp_path)


class TestSqliteMemory(RoundTrips, Transactions, Blocks, BruteForce):
    """A database in memory, where another connection is not asked for."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        return MemoryHarness(tmp_path)
