"""The readers of a session that need no client agree with an import of it: the archive and the hook.

`judge.py` compares the import with what the client sends. test_random_chains and test_trim_figures compare the others,
record by record.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_trim_figures import FILES

import foldmark
from foldmark.core.events import Event
from foldmark.formats.places import recognize
from foldmark.formats.session_file import SessionFile
from foldmark.sessions.conversion.importing import import_session
from foldmark.sessions.hook.tail import share

pytestmark = pytest.mark.parametrize("path", [each for each in FILES if each.exists()], ids=lambda path: path.stem)

COMPACTED = ("claude-2.1.220", "codex-0.146")
"""Sessions whose last compaction is behind their newest answer: a hook knows no size until the next one."""


def imported(log: foldmark.Log, path: Path) -> foldmark.Agent:
    return log.agent(import_session(log, path).agent_id)


def test_the_archive_finds_what_an_import_shows(path: Path, log: foldmark.Log) -> None:
    with SessionFile(path) as session:
        kind = recognize(session)
        records = [record.value for record in session.records() if isinstance(record.value, dict)]
    found = [each for record in records for each in kind.searched(record)]
    texts = {each.text.strip() for each in found}
    tools: dict[tuple[str, str | None], str | None] = {(each.role, each.call): each.tool for each in found}
    for event in imported(log, path).context().messages:
        if event.kind in ("user", "assistant") and event.content.strip():
            assert event.content.strip() in texts
        elif event.kind == "tool_call":
            assert tools[event.kind, event.call_id] == (event.data or {})["name"]
        elif event.kind == "tool_result":
            assert (event.kind, event.call_id) in tools


def test_a_hook_counts_what_the_newest_answer_reports(path: Path, log: foldmark.Log) -> None:
    agent = imported(log, path)
    newest = newest_usage(agent)
    counted = share(path)
    if path.stem in COMPACTED or newest is None:
        assert counted is None
    else:
        about = newest.data or {}
        assert counted is not None
        assert counted.tokens == sum(about[name] for name in ("input", "cache_read", "cache_write", "output"))
        assert counted.model in (about["model"], None)


def newest_usage(agent: foldmark.Agent) -> Event | None:
    page, newest = agent.events(0, 1000), None
    while page:
        newest = next((event for event in reversed(page) if event.kind == "usage"), newest)
        page = agent.events(page[-1].id, 1000)
    return newest
