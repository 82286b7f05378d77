"""The contract of stores, passed by PostgreSQL."""

from collections.abc import Iterator

import pytest
from postgres_harness import PostgresHarness

from foldmark.testing import Harness, StoreContract
from postgres_server import Databases


class TestPostgres(StoreContract):
    """A database on a server of the tests' own."""

    @pytest.fixture
    def harness(self, postgres: Databases) -> Iterator[Harness]:
        harness = PostgresHarness(postgres)
        yield harness
        harness.release()
