"""PostgreSQL passes the store contract."""

import pytest
from hypothesis import settings
from postgres_harness import PostgresHarness

from foldmark.testing import Harness, StoreContract
from sampled import DEEP


class TestPostgres(StoreContract):
    """Databases on the tests' own server."""

    @pytest.fixture
    def harness(self, on_postgres: PostgresHarness) -> Harness:
        return on_postgres

    @pytest.fixture(autouse=True)
    def _few_random_histories(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Play the two long histories of the contract, with every deed, and a quarter of the random ones. SQLite plays
        the same in full; here each step is a conversation with a server."""
        test = StoreContract.test_random_histories_are_answered_as_by_the_oracle
        own = test._hypothesis_internal_use_settings  # type: ignore[attr-defined]
        if not DEEP:
            few = settings(own, max_examples=own.max_examples // 4)
            monkeypatch.setattr(test, "_hypothesis_internal_use_settings", few)
