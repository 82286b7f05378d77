"""The tests of creating and syncing a database use one that its schema creates, as in normal use."""

from collections import defaultdict
from collections.abc import Iterator

import pytest

from foldmark.testing.parts.copying import CopyingTests
from new_databases import made
from sampled import sampled


@pytest.fixture(scope="module")
def made_databases() -> Iterator[None]:
    """Create each new database by its schema, and let commits wait for the disk."""
    with made():
        yield


def _repeated(item: pytest.Item) -> tuple[str, int] | None:
    """Return the group of tests of which a sample repeats on another database what SQLite in a file has shown, and the
    size of the sample."""
    name, test = getattr(item.getparent(pytest.Class), "name", ""), item.nodeid.partition("[")[0]
    if name == "TestSqliteMemory":
        return name, 50
    if name != "TestPostgres" or test.endswith("::test_planted_damage_is_found"):
        return None
    if test.rpartition("::")[2] in vars(CopyingTests):  # tests/copying copies to and from PostgreSQL
        return f"{name} copying", 4
    return test, 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what repeats the contract. A deep run has all of it."""
    groups = defaultdict[tuple[str, int], list[pytest.Item]](list)
    for item in items:
        if group := _repeated(item):
            groups[group].append(item)
    left_out = {each for (_, most), every in groups.items() for each in {*every} - {*sampled(every, most)}}
    items[:] = [item for item in items if item not in left_out]
