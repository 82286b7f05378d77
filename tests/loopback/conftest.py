"""The environment variables of the person who runs the tests must not reach the SDKs."""

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
    """A garbage collection at the end of a test, so that anything left open warns. Older objects are not scanned: that
    takes a quarter of a second late in a run."""
    gc.freeze()
    yield
    gc.collect()
