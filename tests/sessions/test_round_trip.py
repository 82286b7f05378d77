"""Import, export, import: the same context and the same requests (SPEC 8)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rollout_records
from exported import export_of
from session_records import SHORT_FILES, assistant, call, result, user

import foldmark
from foldmark.formats.claude.resumption import MISSING

SAMPLE = Path(foldmark.__file__).parent / "samples" / "notes-cli.jsonl"
MODELS = [("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-5"), ("gemini", "gemini-2.5-pro")]

Again = Callable[[foldmark.Agent, str], foldmark.Agent]


@pytest.fixture
def again(load: Callable[..., Any], tmp_path: Path) -> Again:
    """A function that exports an agent's context and imports it as a separate conversation."""

    def again(agent: foldmark.Agent, name: str) -> foldmark.Agent:
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(b"".join(export_of(agent).content()))
        agent = load(path, name).agent
        assert isinstance(agent, foldmark.Agent)
        return agent

    return again


def context(agent: foldmark.Agent) -> list[tuple[Any, ...]]:
    return [(e.kind, e.content, e.data, e.dialect, e.interrupted) for e in agent.context().messages]


def requests(agent: foldmark.Agent) -> list[bytes]:
    """Return the requests for each provider without event ids, which differ between conversations."""
    return [re.sub(rb"id=\d+", b"id=N", agent.request(*model).bytes) for model in MODELS]


@pytest.mark.parametrize("path", [*SHORT_FILES, SAMPLE], ids=lambda path: path.stem)
def test_a_session_comes_back_with_its_context_and_its_requests(path: Path, load: Any, again: Any) -> None:
    imported = load(path, "first")
    first = imported.agent
    second = again(first, "second")
    assert context(second) == context(first)
    if not imported.report.unsent:  # an operation took it out of the context, and so chose the window anew
        assert requests(second) == requests(first)


@pytest.mark.skipif(not rollout_records.REAL_FILES, reason="the real rollouts are not here")
@pytest.mark.parametrize("path", rollout_records.REAL_FILES, ids=lambda path: path.stem)
def test_a_rollout_comes_back_as_a_session_of_the_other_program(path: Path, load: Any, again: Any) -> None:
    """Reasoning is left out and the calls are converted; the converted session then comes back unchanged."""
    first = load(path, "first").agent
    second = again(first, "second")
    said = [
        (event.kind, event.content, event.call_id)
        for event in first.context().messages
        if event.content or event.call_id
    ]
    assert [(event.kind, event.content, event.call_id) for event in second.context().messages] == said
    third = again(second, "third")
    assert context(third) == context(second)
    assert requests(third) == requests(second)


def test_results_written_behind_the_next_answers_call(session: Any, again: Any) -> None:
    """Claude Code leaves such a result out, and makes one up."""
    first = session(
        user("a", "u1"),
        assistant([call("c1")], "a1", "u1", response="m1"),
        assistant([call("c2")], "a2", "a1", response="m2"),
        user([result("c2")], "r2", "a2"),
        user([result("c1")], "r1", "r2"),
        assistant("b", "a3", "r1", response="m3"),
    )
    assert first.shown == ["a", "c1", "c1", "c2", "c2", "b"]
    assert [event.content for event in first.of("tool_result")] == [MISSING, "done"]
    second = again(first.agent, "second")
    assert context(second) == context(first.agent)
    assert requests(second) == requests(first.agent)


def test_a_response_interrupted_by_a_prompt_comes_back(session: Any, again: Any) -> None:
    first = session(
        user("a"),
        assistant("b", response="m1"),
        user("c"),
        assistant([call("c1")], response="m1"),
        user([result("c1")]),
        assistant("d"),
    )
    second = again(first.agent, "second")
    assert context(second) == context(first.agent)
    assert requests(second) == requests(first.agent)
