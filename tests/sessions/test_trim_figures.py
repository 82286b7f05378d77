"""The figures of a trim are those of what the model is sent, as an import of both files shows it [SPEC 8]."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from random_chains import chain
from session_records import REAL, assistant, call, jsonl, result, user
from trim_check import preview, trim

import foldmark
from foldmark.core.events import Event
from foldmark.formats.claude.records import rows
from foldmark.formats.claude.resumption import resume
from foldmark.formats.places import recognized, session_path
from foldmark.formats.sent import sent_records
from foldmark.formats.session_file import SessionFile
from foldmark.sessions.conversion.importing import import_session
from foldmark.sessions.trim.claude import ClaudeLines
from foldmark.sessions.trim.job import TrimOptions
from foldmark.sessions.trim.stale import OTHERS
from foldmark.sessions.trim.trimming import kind_of
from sampled import DEEP as ALL
from sampled import sampled

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ID = "11111111-2222-4333-8444-555555555555"
OLD = "99999999-2222-4333-8444-555555555555"
USUAL = TrimOptions(500, ("Read", "Bash", "Grep", "Glob"))
DEEP = TrimOptions(500, USUAL.tools, deep=True)
FILES = [
    *sorted(REAL.glob("*.jsonl")),
    *sorted((REAL.parent / "codex").glob("*.jsonl")),
    *sorted((REAL.parent / "kinds").glob("*.jsonl")),
    *sorted((REAL.parents[1] / "cases" / "sessions").glob("*.jsonl")),
    Path(foldmark.__file__).parent / "samples" / "notes-cli.jsonl",
]


def sent(path: Path) -> int:
    """Return the bytes of the context that an import of a session has, as JSON."""
    with foldmark.open(":memory:") as log:
        report = import_session(log, path)
        return sum(map(size, log.agent(report.name).context().messages))


def size(event: Event) -> int:
    text = event.content if event.kind == "tool_call" else msgspec.json.encode(event.content).decode()
    blocks = (event.data or {}).get("blocks", [])
    return len(text.encode()) + len(msgspec.json.encode(blocks))


def check(path: Path) -> None:
    """Check the figures of both profiles for a session."""
    session = recognized(session_path(path))
    ratio = kind_of(session).bytes_per_token
    usual, deep = preview(session, USUAL, NOW), preview(session, DEEP, NOW)
    assert 0 <= usual.tokens_saved <= deep.tokens_saved
    assert usual.others_saved >= deep.steps.get(OTHERS, 0) - 2, "a person's words stay in a deep trim"
    if "AskUserQuestion" not in usual.tools:
        assert usual.others_saved == pytest.approx(deep.steps.get(OTHERS, 0), abs=2)
    assert (usual.others > 0) >= (OTHERS in deep.steps)
    assert (deep.others, deep.others_saved) == (0, 0)
    assert sum(usual.steps.values()) == usual.tokens_saved
    assert sum(deep.steps.values()) == deep.tokens_saved
    before = sent(path) if usual.sizes[0] > usual.sizes[1] or deep.trimmed_count else 0
    for options, shown in ((USUAL, usual), (DEEP, deep)):
        assert shown.tokens_saved * ratio <= before + ratio
        done = trim(session, options, ID, NOW)
        assert (done.tokens_saved, done.steps, done.trimmed_count) == (
            shown.tokens_saved, shown.steps, shown.trimmed_count,
        )  # fmt: skip
        if done.session == session:
            assert shown.tokens_saved == 0
            continue
        after = sent(done.session.path)
        assert (before - after) / ratio == pytest.approx(shown.tokens_saved, rel=0.02, abs=5), options
        done.session.path.unlink()


def check_sent(path: Path) -> None:
    """Check that a trim finds the lines that are sent as the doctor does, who reads every record in full."""
    lines = ClaudeLines(USUAL, path, ID)
    for lines.at, raw in enumerate(path.read_bytes().splitlines(keepends=True)):
        lines.line(lines.at + 1, raw)
    with SessionFile(path) as file:
        assert lines.sent() == {row.line - 1 for row in sent_records(resume(list(rows(file))).order)}


@pytest.mark.skipif(not REAL.exists(), reason="the real sessions are not here")
@pytest.mark.parametrize("source", FILES, ids=lambda path: path.stem)
def test_a_real_session(source: Path, tmp_path: Path) -> None:
    path = tmp_path / source.name
    path.write_bytes(source.read_bytes())
    check(path)
    if recognized(session_path(path)).kind == "claude":
        check_sent(path)


@pytest.mark.parametrize("seed", range(40 if ALL else 8))
def test_any_session(seed: int, tmp_path: Path) -> None:
    path = tmp_path / f"{OLD}.jsonl"
    path.write_bytes(made(random.Random(seed)))
    check(path)
    check_sent(path)


@pytest.mark.parametrize("seed", sampled(range(3000), 20))
def test_any_chain(seed: int, tmp_path: Path) -> None:
    """A line in the form that Claude Code writes is read another way than one with blanks."""
    path = tmp_path / f"{OLD}.jsonl"
    for lines in (jsonl(*chain(seed)), b"".join(msgspec.json.encode(record) + b"\n" for record in chain(seed))):
        path.write_bytes(lines)
        check_sent(path)


def made(chance: random.Random) -> bytes:
    """Return a session with branches that were gone back from, compactions, sidechains and copies of results."""
    records: list[dict[str, Any]] = []
    ends: list[str] = []
    last: str | None = None

    def add(make: Any, content: Any, **fields: Any) -> str:
        nonlocal last
        uuid = f"{chance.getrandbits(64):x}"
        records.append(make(content, uuid, last, sessionId=OLD, **fields))
        last = uuid
        return uuid

    def text() -> str:
        return f"{chance.randrange(3)} a line of «text»\n" * chance.choice((1, 10, 60, 400))

    for number in range(chance.randrange(4, 14)):
        if ends and chance.random() < 0.25:
            last = chance.choice(ends)  # a person goes back
        if ends and chance.random() < 0.1:
            parent, last = last, None
            records.append({"type": "system", "subtype": "compact_boundary", "uuid": f"b{number}", "parentUuid": None,
                            "logicalParentUuid": parent, "sessionId": OLD, "content": "compacted"})  # fmt: skip
            last, ends = f"b{number}", []
            add(user, "A summary.", isCompactSummary=True)
        else:
            add(user, f"prompt {number}")
        side, before = chance.random() < 0.1, last
        for step in range(chance.randrange(1, 5)):
            name = chance.choice(("Read", "Bash", "Edit", "Write", "mcp__a__b", "TodoWrite", "AskUserQuestion"))
            given: dict[str, dict[str, Any]] = {
                "Read": {"file_path": f"/a{chance.randrange(3)}"},
                "Edit": {"file_path": f"/a{chance.randrange(3)}", "old_string": text(), "new_string": text()},
                "Write": {"file_path": f"/a{chance.randrange(3)}", "content": text()},
                "TodoWrite": {"todos": [{"content": text(), "status": "pending"}]},
            }
            args = given.get(name, {"command": f"ls {chance.randrange(3)}"})
            id = f"c{number}.{step}"
            fields: dict[str, Any] = {"isSidechain": True} if side else {}
            add(assistant, [call(id, name, **args)], response=f"m{id}", **fields)
            failed = chance.random() < 0.2
            said = "The user doesn't want to proceed.\n" if failed and chance.random() < 0.5 else ""
            content = said + text()
            fields |= {"toolUseResult": {"stdout": content}} if chance.random() < 0.5 else {}
            add(user, [result(id, content, is_error=failed)], **fields)
        last = before if side else last
        add(assistant, [{"type": "text", "text": "Done."}], response=f"e{number}")
        ends.append(last or "")
    return jsonl(*records)
