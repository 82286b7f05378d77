"""What stands in the environment of whoever runs the tests must not reach the SDKs."""

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
