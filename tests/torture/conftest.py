"""The stores under torture, each as a function that returns the address of a new database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

Fresh = Callable[[], str]


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fresh]:
    """A function that returns the address of a new database on each call."""
    if request.param == "sqlite":
        numbers = count()
        yield lambda: str(tmp_path / f"{next(numbers)}.db")
        return
    databases, taken = request.getfixturevalue("postgres"), list[str]()

    def take() -> str:
        taken.append(databases.take())
        return taken[-1]

    yield take
    for address in taken:
        databases.give_back(address)
