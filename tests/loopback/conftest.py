import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def collected() -> Iterator[None]:
    """A garbage collection at the end of a test, so that anything left open warns. Older objects are not scanned: that
    takes a quarter of a second late in a run."""
    gc.freeze()
    yield
    gc.collect()
