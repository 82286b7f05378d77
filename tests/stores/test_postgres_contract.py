"""PostgreSQL passes the store contract."""

from collections.abc import Iterator

import pytest
from postgres_harness import PostgresHarness

from foldmark.testing import Harness, StoreContract
from postgres_server import Databases


class TestPostgres(StoreContract):
    """Databases on the tests' own server."""

    @pytest.fixture
    def harness(self, postgres: Databases) -> Iterator[Harness]:
        harness = PostgresHarness(postgres)
        yield harness
        harness.release()
