"""The store in memory, with which the contract compares other stores, passes the contract itself."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest
from sqlite_harness import clock, move_clock

from foldmark.core.ports import Store
from foldmark.testing import Damage, Harness, StoreContract
from foldmark.testing.memory import MemoryStore


class MemoryStoreHarness(Harness):
    """Databases of this process."""

    def __init__(self) -> None:
        self._stores: dict[str, MemoryStore] = {}

    def __reduce__(self) -> Any:
        pytest.skip("no other process reaches a database in memory")

    def fresh(self) -> MemoryStore:
        store = MemoryStore(clock=clock)
        self._stores[store.address] = store
        return store

    def open(self, address: str) -> MemoryStore:
        return MemoryStore(self._stores[address], clock=clock)

    def counting(self, store: Store) -> AbstractContextManager[list[str]]:
        pytest.skip("a store in memory runs no statements")

    def plant(self, store: Store, damage: Damage, event_id: int) -> None:
        pytest.skip("nobody else reaches a database in memory")

    def move_clock(self, store: Store, seconds: float) -> AbstractContextManager[None]:
        return move_clock(seconds)


class TestMemoryStore(StoreContract):
    """A database in dictionaries."""

    @pytest.fixture
    def harness(self) -> Harness:
        return MemoryStoreHarness()
