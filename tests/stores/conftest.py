"""In these tests, each new database is created by all migrations."""

from collections.abc import Iterator

import pytest

from new_databases import made


@pytest.fixture(scope="module", autouse=True)
def _made_databases() -> Iterator[None]:
    with made():
        yield
