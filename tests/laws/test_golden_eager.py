"""Golden bytes: the requests of the policy `eager` for real sessions stay as they are [S2, S3].

Foldmark's own texts do not count: the requests have no tools, and so no guidelines. After a change that is meant,
`FOLDMARK_GOLDEN=write` writes the hashes anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

import foldmark
from foldmark.core import selections
from foldmark.core.ports import OPENERS
from foldmark.sessions.conversion.importing import import_session

DATA = Path(__file__).parents[3] / "shared" / "data"
HASHES = Path(__file__).with_name("golden_eager.json")
SESSIONS = (
    *("claude/agentcmd-four.jsonl", "claude/agentcmd-three.jsonl", "claude/episodic-memory-large.jsonl"),
    *("codex/agentcmd-old-output-shape.jsonl", "codex/traceforge-new-output-shape.jsonl"),
)
MODELS = ("anthropic/claude-sonnet-4-5", "openai/gpt-5", "gemini/gemini-2.5-pro")
BUDGETS = (0, 8_000, 60_000)
MOMENTS = 8
"""Number of moments of a session, the last of them its end."""


def requests(session: str) -> Iterator[tuple[str, str]]:
    """Yield the model and budget of each request, at each moment, and the beginning of its SHA-256."""
    with foldmark.open(":memory:", settings={"context_policy": "eager", "tools": "none"}) as log:
        agent = log.agent(import_session(log, DATA / session, name="session").agent_id)
        with agent.reading() as (moment, at):
            opened = selections.ids(moment, OPENERS, at.visible)
            ends = [*(each - 1 for each in opened[1:]), at.newest]
            for index in range(MOMENTS):
                end = ends[(len(ends) - 1) * (index + 1) // MOMENTS]
                for name in MODELS:
                    for budget in BUDGETS:
                        then = agent.stood(moment, end).with_setting("sliding_context_tokens", budget)
                        request = agent.request(*name.split("/"), at=then)
                        yield f"{name} {budget}", sha256(request.bytes).hexdigest()[:12]


@pytest.mark.parametrize("session", SESSIONS)
def test_requests_of_real_sessions_have_the_same_bytes(session: str) -> None:
    if not (DATA / session).is_file():
        pytest.skip("the sessions are not beside the project")
    found: dict[str, list[str]] = {}
    for name, hash in requests(session):
        found.setdefault(name, []).append(hash)
    golden = json.loads(HASHES.read_text(encoding="utf-8")) if HASHES.is_file() else {}
    if os.environ.get("FOLDMARK_GOLDEN") == "write":
        text = json.dumps(golden | {session: found}, separators=(",\n", ": "))
        HASHES.write_text(f"{text}\n", encoding="utf-8")
        return
    assert found == golden[session]
