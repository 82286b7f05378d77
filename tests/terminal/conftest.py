"""Logs whose ids and times are the same in every run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from foldmark.log import Log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    from driven import open_log

    with open_log(tmp_path / "log.db") as log:
        yield log
