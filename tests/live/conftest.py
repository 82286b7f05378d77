"""Small clients behind a gateway, one for each wire that has several test files."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from claude_client import ClaudeRunning
from codex_client import CodexRunning
from completions_client import CompletionsRunning
from gemini_client import GeminiRunning, PlainWire
from running import entered
from wire_anthropic import AnthropicWire


@pytest.fixture
def wire() -> AnthropicWire:
    return AnthropicWire()


@pytest.fixture
def running(tmp_path: Path, wire: AnthropicWire) -> Iterator[ClaudeRunning]:
    with entered(ClaudeRunning(tmp_path, wire)) as made:
        yield made


@pytest.fixture
def gemini_wire() -> PlainWire:
    return PlainWire()


@pytest.fixture
def gemini(tmp_path: Path, gemini_wire: PlainWire) -> Iterator[GeminiRunning]:
    with entered(GeminiRunning(tmp_path, gemini_wire)) as made:
        yield made


@pytest.fixture
def codex(tmp_path: Path) -> Iterator[CodexRunning]:
    with entered(CodexRunning(tmp_path)) as made:
        yield made


@pytest.fixture
def completions(tmp_path: Path) -> Iterator[CompletionsRunning]:
    with entered(CompletionsRunning(tmp_path)) as made:
        yield made
