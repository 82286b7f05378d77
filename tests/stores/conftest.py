"""The tests of creating, upgrading and syncing a database use one that all migrations create, as in normal use."""

from collections import defaultdict
from collections.abc import Iterator

import pytest

from new_databases import made
from sampled import sampled


@pytest.fixture(scope="module")
def made_databases() -> Iterator[None]:
    """Create each new database by all migrations, and let commits wait for the disk."""
    with made():
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Repeat less of the contract than SQLite in a file has shown: PostgreSQL plays two cases of each test, and SQLite
    in memory every other test. A deep run has them all."""
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        name = getattr(item.getparent(pytest.Class), "name", "")
        if name == "TestPostgres" and getattr(item, "originalname", "") != "test_planted_damage_is_found":
            cases[item.nodeid.partition("[")[0]].append(item)
        elif name == "TestSqliteMemory":
            cases[name].append(item)
    kept = {
        item
        for name, every in cases.items()
        for item in sampled(every, len(every) // 2 if name == "TestSqliteMemory" else 2)
    }
    left_out = {item for every in cases.values() for item in every} - kept
    items[:] = [item for item in items if item not in left_out]
