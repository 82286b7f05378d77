"""An import, an export, a trim and a live conversation hold what the real client sends when it resumes the session.

`judge.py` compares them. The clients are those of `make clients`; without them, these tests are skipped, and so are
those of sessions that are not there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import rollout_records as codex
from exported import shown
from judge import CLIENTS, PINNED, Verdict, judge, report
from session_records import jsonl
from test_session_doctor import ID, damaged, repaired

SHARED = Path(__file__).resolve().parents[3] / "shared"
FILES = sorted(
    path
    for folder in ("data/claude", "data/codex", "data/kinds", "cases/sessions")
    for path in (SHARED / folder).glob("*.jsonl")
)
VIEWS = ("import", "export", "live", "trim")

NOT_RESUMED = {
    "claude-2.1.220.jsonl": "its records are samples of kinds and form no session",
    "codex-0.146.jsonl": "its records are samples of kinds, with a history_mode that Codex does not know",
}

_BARE = "the client sends a bare string among blocks, which the API refuses, so it is not recorded"
_OPAQUE = "Claude cannot read Codex's compaction, so an export has the messages instead"
_LEFT = "2.1.332 answers the call at the end itself, and leaves out the bare string behind it"

_AGAIN = "a resumed client sends an answer as often as an edit has written it again; an import has it once (0043)"

RULES = {
    ("codex-compacted-with-history", "export"): _OPAQUE,
    ("claude-code-log-edge-cases", "live"): _BARE,
    **{(f"mod-{name}", view): _AGAIN for name in ("compaction-same", "dropped-and-restored") for view in VIEWS[:2]},
}
"""Differences that stay, by session and view. A session for another client cannot hold what only the first client's
provider can read; a person who exports it wants the conversation, and the messages are what is left of it. With other
clients (`FOLDMARK_CLIENTS`), some of them are none."""

if not PINNED:
    RULES |= {("claude-code-log-edge-cases", view): _LEFT for view in ("import", "export")}


def _marks(path: Path, view: str) -> list[pytest.MarkDecorator]:
    reason = RULES.get((path.stem, view))
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


@pytest.mark.parametrize(
    "what",
    [
        "a null line",
        "a torn line",
        "a model's content a text",
        "a user's content null",
        "a loop",
        "no uuids",
        "a result before its call",
        "thinking without a signature",
    ],
)
def test_a_repaired_session_is_resumed(what: str, tmp_path: Path) -> None:
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(jsonl(*damaged(what)))
    new = repaired(path)
    assert new is not None
    (tmp_path / "judged").mkdir()
    verdict = judge(new.session.path, tmp_path / "judged")
    assert not verdict.refused
    assert verdict.differences("import") == []
    assert shown(new.session.path) == shown(path)


C = {"type": "compaction", "encrypted_content": "b3BhcXVl"}
ONE, TWO = codex.said("P1"), codex.said("P2")
KEPT = [ONE["payload"], TWO["payload"]]
META = {"model_provider": "openai", "cli_version": "0.146.0", "originator": "codex_cli_rs"}
MADE: dict[str, tuple[tuple[Any, ...], str]] = {
    "rolled back": ((1, 2, codex.event("thread_rolled_back", num_turns=1), 3), "P1 A1 P3 A3"),
    "compacted": ((1, 2, (KEPT, C), 3), "P1 P2 * P3 A3"),
    "compacted twice": ((1, (KEPT[:1], C), 2, (KEPT, C), 3), "P1 P2 * P3 A3"),
    "compacted first": (((KEPT, C), 3), "P1 P2 * P3 A3"),
    "with an answer": ((1, 2, ([KEPT[0], codex.said("A", "assistant")["payload"]], C), 3), "P1 A * P3 A3"),
    "rolled back behind": (
        (1, 2, (KEPT, C), 3, codex.event("thread_rolled_back", num_turns=1), 4),
        "P1 P2 * P4 A4",
    ),
    "rolled back with the compaction": (
        (1, 2, (KEPT, C), 3, codex.event("thread_rolled_back", num_turns=2), 4),
        "P1 A1 P4 A4",
    ),
    "with a text": ((1, 2, codex.record("compacted", {"message": "S"}), 3), "P1 P2 S P3 A3"),
    "without a text": (
        (1, codex.record("compacted", {"message": ""}), 2),
        "P1 (no summary available) P2 A2",
    ),
}


def _turn(number: int) -> list[Any]:
    id = f"t{number}"
    begin, end = codex.event("task_started", turn_id=id), codex.event("task_complete", turn_id=id)
    told = codex.event("user_message", message=f"P{number}", images=[])
    return [begin, codex.said(f"P{number}"), told, codex.said(f"A{number}", "assistant"), end]


@pytest.mark.parametrize("name", MADE)
def test_compactions_and_rollbacks_of_codex(name: str, tmp_path: Path) -> None:
    parts, sent = MADE[name]
    records = [codex.meta(timestamp=codex.TIME, **META)]
    for part in parts:
        if isinstance(part, int):
            records += _turn(part)
        elif isinstance(part, tuple):
            records.append(codex.record("compacted", {"message": "", "replacement_history": [*part[0], part[1]]}))
        else:
            records.append(part)
    path = tmp_path / codex.name()
    path.write_bytes(codex.jsonl(*records))
    before = path.read_bytes()
    verdict = judge(path, tmp_path)
    assert not verdict.refused
    assert " ".join(item.text for item in verdict.client).replace(C["encrypted_content"], "*") == sent
    assert verdict.differences("import") == []
    assert path.read_bytes() == before


def test_every_rule_names_a_case() -> None:
    names = {(path.stem, view) for path in FILES for view in VIEWS}
    assert not FILES or set(RULES) <= names
