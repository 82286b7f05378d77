"""SQLite passes the store contract through its public interface alone."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlite_harness import MemoryHarness, SqliteHarness

from foldmark.stores.sqlite.known import KnownAgents
from foldmark.testing import Harness, StoreContract
from foldmark.testing.parts.answers import Answers
from foldmark.testing.parts.blocks import Blocks
from foldmark.testing.parts.connections import ListeningTests
from foldmark.testing.parts.copying import CopyingTests

# Durability is tested elsewhere, so a file system in memory, if there is one, avoids waiting for the disk.
SHARED_MEMORY = "/dev/shm"


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder, in memory if possible."""
    with TemporaryDirectory(dir=SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None) as folder:
        yield Path(folder)


class TestSqliteFile(StoreContract):
    """A database in a file."""

    @pytest.fixture
    def harness(self, folder: Path) -> Harness:
        return SqliteHarness(folder)


class TestSqliteMemory(Answers, Blocks, ListeningTests, CopyingTests):
    """A database in memory: the parts that need only one connection. Ids have gaps, as in other stores."""

    @pytest.fixture
    def harness(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
        def draw(known: KnownAgents) -> int:
            known.newest += 7
            return known.newest - 3

        monkeypatch.setattr(KnownAgents, "draw", draw)
        return MemoryHarness(tmp_path)
