"""What stands in the environment of whoever runs the tests must not reach the SDKs."""

import gc
import os
from collections.abc import Iterator

import pytest

_THEIRS = ("ANTHROPIC_", "OPENAI_", "GOOGLE_", "GEMINI_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@pytest.fixture(autouse=True, scope="module")
def _alone() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.upper().startswith(_THEIRS):
                patch.delenv(name)
        yield


@pytest.fixture
def collected() -> Iterator[None]:
    """Collect the garbage of a test at its end: what was left open warns. Older objects are not looked through, which
    takes a quarter of a second late in a run."""
    gc.freeze()
    yield
    gc.collect()
