"""PostgreSQL passes the store contract."""

import pytest
from postgres_harness import PostgresHarness

from foldmark.testing import Harness, StoreContract


class TestPostgres(StoreContract):
    """Databases on the tests' own server."""

    @pytest.fixture
    def harness(self, on_postgres: PostgresHarness) -> Harness:
        return on_postgres
