"""The tests of creating, upgrading and syncing a database use one that all migrations create, as in normal use."""

from collections.abc import Iterator

import pytest

from new_databases import made


@pytest.fixture(scope="module")
def made_databases() -> Iterator[None]:
    """Create each new database by all migrations, and let commits wait for the disk."""
    with made():
        yield
