"""The contract of stores, passed by SQLite through its public face alone."""

from pathlib import Path

import pytest
from sqlite_harness import MemoryHarness, SqliteHarness

from foldmark.testing import Harness, StoreContract


class TestSqliteFile(StoreContract):
    """A database in a file."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        return SqliteHarness(tmp_path)


class TestSqliteMemory(StoreContract):
    """A database in memory, as far as one connection can show."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        return MemoryHarness(tmp_path)
