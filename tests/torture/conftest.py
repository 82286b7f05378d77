"""The stores that are tortured, each as what gives the address of a new database."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

Fresh = Callable[[], str]


@pytest.fixture(params=["sqlite"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Fresh:
    """Gives the address of a new database each time."""
    numbers = count()
    return lambda: str(tmp_path / f"{next(numbers)}.db")
