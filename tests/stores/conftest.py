"""The tests of creating and syncing a database use one that its schema creates, as in normal use."""

from collections import defaultdict
from collections.abc import Iterator

import pytest

from new_databases import made
from sampled import DEEP, sampled


@pytest.fixture(scope="module")
def made_databases() -> Iterator[None]:
    """Create each new database by its schema, and let commits wait for the disk."""
    with made():
        yield


_ANSWERED = "test_random_histories_are_answered_as_by_the_oracle"
_BACK, _IN_USE = (
    f"test_{each}" for each in ("copies_go_there_and_back", "a_database_in_use_takes_conversations_with_other_ids")
)
_SLOW_REPEATS = {
    # The oracle beside itself. With every other store it answers the same histories.
    "TestMemoryStore": (_ANSWERED, _BACK, _IN_USE),
    # The SQL of a database in a file.
    "TestSqliteMemory": (_BACK, _IN_USE),
    # The oracle, whose rows stand in a file.
    "TestJsonlStore": (_IN_USE,),
    # tests/copying copies to and from PostgreSQL.
    "TestPostgres": (_BACK,),
}
"""Tests of seconds that repeat what another test has shown."""


def _repeated(item: pytest.Item) -> tuple[str, int] | None:
    """Return the group of tests of which a sample repeats on another database what SQLite in a file has shown, and the
    size of the sample."""
    name, test = getattr(item.getparent(pytest.Class), "name", ""), item.nodeid.partition("[")[0]
    if name == "TestSqliteMemory":
        return name, 50
    if name != "TestPostgres" or test.endswith("::test_planted_damage_is_found"):
        return None
    return test, 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what repeats the contract. A deep run has all of it."""
    if DEEP:
        return
    items[:] = [item for item in items if not _is_slow_repeat(item)]
    groups = defaultdict[tuple[str, int], list[pytest.Item]](list)
    for item in items:
        if group := _repeated(item):
            groups[group].append(item)
    left_out = {each for (_, most), every in groups.items() for each in {*every} - {*sampled(every, most)}}
    items[:] = [item for item in items if item not in left_out]


def _is_slow_repeat(item: pytest.Item) -> bool:
    """Return whether a test is one of `_SLOW_REPEATS`."""
    return item.name in _SLOW_REPEATS.get(getattr(item.getparent(pytest.Class), "name", ""), ())
