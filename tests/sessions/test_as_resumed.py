"""An import, an export and a live conversation hold what the real client sends when it resumes the session.

`judge.py` compares them. The clients are those of `make clients`; without them, these tests are skipped, and so are
those of sessions that are not there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from judge import CLIENTS, Verdict, judge, report

SHARED = Path(__file__).resolve().parents[3] / "shared"
FILES = sorted(
    path
    for folder in ("data/claude", "data/codex", "data/kinds", "cases/sessions")
    for path in (SHARED / folder).glob("*.jsonl")
)
VIEWS = ("import", "export", "live")

NOT_RESUMED = {
    "claude-2.1.220.jsonl": "its records are samples of kinds and form no session",
    "codex-0.146.jsonl": "its records are samples of kinds, with a history_mode that Codex does not know",
}

_COMMANDS = "the gateway keeps texts that the client injects (commands, reminders, environment) beside the messages"
_UNANSWERED = "the client leaves out a call without a result, and an import keeps it"
_SAME = "a compaction without a summary is no compaction for an import: what it repeats comes twice"
_LEAF = "a pinned last-prompt names the leaf, and an import takes the last message"
_TOLD = "an import reads no attachments and local commands that the client tells its model"
_ROLE = "a summary is the assistant's for an import, and the user's for the client"
_EDGES = "the parents of its records are unknown or null, so the client sends one path of them"
_LATE = "a result that was recorded after the next answer, and one without content, are not sent as such"
_OPAQUE = "Claude cannot read Codex's compaction, so an export has the messages instead"

KNOWN = {
    ("agentcmd-four", "live"): _COMMANDS,
    ("agentcmd-old-output-shape", "live"): _COMMANDS,
    ("agentcmd-three", "export"): _UNANSWERED,
    ("agentcmd-three", "import"): _UNANSWERED,
    ("claude-code-log-edge-cases", "export"): _EDGES,
    ("claude-code-log-edge-cases", "import"): _EDGES,
    ("claude-code-log-edge-cases", "live"): "the only message was joined with the prompt, and recorded with it",
    ("codex-compacted-with-history", "export"): _OPAQUE,
    ("episodic-memory-large", "export"): _LATE,
    ("episodic-memory-large", "import"): _LATE,
    ("episodic-memory-large", "live"): _COMMANDS,
    ("gone-back", "export"): _LEAF,
    ("gone-back", "import"): _LEAF,
    ("mod-compaction-same", "export"): _SAME,
    ("mod-compaction-same", "import"): _SAME,
    ("mod-compaction-same", "live"): _COMMANDS,
    ("mod-dropped-and-restored", "export"): _SAME,
    ("mod-dropped-and-restored", "import"): _SAME,
    ("mod-dropped-and-restored", "live"): _COMMANDS,
    ("preserved-messages", "import"): _ROLE,
    ("preserved-segment", "import"): _ROLE,
    ("told-by-the-client", "export"): _TOLD,
    ("told-by-the-client", "import"): _TOLD,
    ("told-by-the-client", "live"): _TOLD,
    ("traceforge-demo", "export"): _UNANSWERED,
    ("traceforge-demo", "import"): _UNANSWERED,
    ("traceforge-new-output-shape", "live"): _COMMANDS,
}
"""The known faults, by session and view, with the clients of `make clients`. A fault that is mended has to leave this
list. With other clients (`FOLDMARK_CLIENTS`), some of them are none."""

PINNED = "FOLDMARK_CLIENTS" not in os.environ

if not PINNED:
    KNOWN["queued-and-teams", "live"] = _COMMANDS  # 2.1.332 sends the notification of a task as a reminder


def _marks(path: Path, view: str) -> list[pytest.MarkDecorator]:
    reason = KNOWN.get((path.stem, view))
    return [pytest.mark.xfail(reason=reason, strict=PINNED)] if reason else []


CASES = [
    pytest.param(path, view, id=f"{path.stem}-{view}", marks=_marks(path, view))
    for path in FILES
    if path.name not in NOT_RESUMED
    for view in VIEWS
]

Judging = Callable[[Path], Verdict]

pytestmark = pytest.mark.skipif(
    not all(client.is_there for client in CLIENTS.values()), reason="a client is not there: `make clients` installs it"
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judging:
    """Return a function that judges each session once."""
    return cache(lambda path: judge(path, tmp_path_factory.mktemp("judged")))


@pytest.mark.skipif(not FILES, reason="the shared sessions are not there")
@pytest.mark.parametrize(("path", "view"), CASES)
def test_what_the_client_sends(path: Path, view: str, judged: Judging) -> None:
    verdict = judged(path)
    assert not verdict.refused
    assert verdict.differences(view) == [], report(path, verdict)


@pytest.mark.skipif(not FILES, reason="the shared sessions are not there")
@pytest.mark.parametrize("name", NOT_RESUMED)
def test_sessions_that_the_client_does_not_resume(name: str, judged: Judging) -> None:
    verdict = judged(SHARED / "data" / "kinds" / name)
    if PINNED:
        assert verdict.refused, "now it is resumed, and has to be compared"
    assert verdict.others["import"]


def test_every_known_fault_names_a_case() -> None:
    names = {(path.stem, view) for path in FILES for view in VIEWS}
    assert not FILES or set(KNOWN) <= names
