"""The leaf that a session names decides the active branch, for an import, a diagnosis and the client alike (SPEC 8).

So does a compaction without a summary.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from judge import CLIENTS, judge, report
from session_records import assistant, jsonl, user

import foldmark
from foldmark.formats.claude.records import rows
from foldmark.formats.claude.resumption import resume
from foldmark.formats.session_file import SessionFile
from foldmark.sessions.conversion.importing import import_session
from foldmark.sessions.conversion.writer import ImportReport

SESSION = "4f7a4c7c-3a55-4a5c-9d5e-0a4c9a3f2b11"
SIDE = {"isSidechain": True}
CHOSEN = {"explicit": True}


def u(number: int) -> str | None:
    return str(UUID(int=number, version=4)) if number else None


def said(number: int, parent: int, **fields: Any) -> dict[str, Any]:
    """Return a message: a prompt if the number is odd, else an answer. Its text is the number."""
    about = {"sessionId": SESSION, "isSidechain": False, **fields}
    if number % 2:
        return user(str(number), u(number), u(parent), **about)
    return assistant([{"type": "text", "text": str(number)}], u(number), u(parent), f"m{number}", **about)


def system(number: int, parent: int, **fields: Any) -> dict[str, Any]:
    record = user("", u(number), u(parent), sessionId=SESSION, isSidechain=False)
    del record["message"]
    return {**record, "type": "system", "subtype": "informational", "content": "", **fields}


def boundary(number: int, last: int, **preserved: Any) -> dict[str, Any]:
    meta = {"trigger": "manual", "preTokens": 1000, **preserved}
    about = {"subtype": "compact_boundary", "logicalParentUuid": u(last), "compactMetadata": meta}
    return system(number, 0, **about)


def leaf(number: int, **fields: Any) -> dict[str, Any]:
    return {"type": "last-prompt", "lastPrompt": "x", "leafUuid": u(number), "sessionId": SESSION, **fields}


FOUR = [said(1, 0), said(2, 1), said(3, 2), said(4, 3)]
BRANCH = [said(5, 2), said(6, 5)]
BEHIND = [said(21, 20, isCompactSummary=True), said(23, 21), said(24, 23)]
SEGMENT = {"preservedSegment": {"headUuid": u(3), "anchorUuid": u(21), "tailUuid": u(4)}}
ENDS = {"preservedMessages": {"anchorUuid": u(20), "uuids": [u(1), u(4)]}}
LAST = {"preservedSegment": {"headUuid": u(3), "anchorUuid": u(20), "tailUuid": u(4)}}

CASES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "chosen": ([*FOUR, leaf(2, **CHOSEN)], "1 2"),
    "chosen prompt": ([*FOUR, *BRANCH, leaf(3, **CHOSEN)], "1 2 3"),
    "not chosen, and on the path": ([*FOUR, leaf(2)], "1 2 3 4"),
    "rewound, which alone chooses nothing": ([*FOUR, leaf(2, rewound=True)], "1 2 3 4"),
    "not chosen, on another branch": ([*FOUR, *BRANCH, leaf(4)], "1 2 3 4"),
    "named before the other branch": ([*FOUR, leaf(4), *BRANCH], "1 2 3 4"),
    "nothing chosen": ([*FOUR, leaf(0, **CHOSEN)], ""),
    "nothing named": ([*FOUR, leaf(0)], "1 2 3 4"),
    "nothing chosen, then a new beginning": ([*FOUR, leaf(0, **CHOSEN), said(7, 0), said(8, 7)], "7 8"),
    "nothing chosen, then the old branch": ([*FOUR, leaf(0, **CHOSEN), said(7, 4), said(8, 7)], "1 2 3 4 7 8"),
    "nothing chosen after a leaf": ([*FOUR, leaf(4), leaf(0, **CHOSEN), *BRANCH], "1 2 5 6"),
    "unknown": ([*FOUR, *BRANCH, leaf(4), leaf(99, **CHOSEN)], "1 2 5 6"),
    "chosen, then another record names nothing": ([*FOUR, leaf(2, **CHOSEN), leaf(0)], "1 2"),
    "chosen, then another leaf": ([*FOUR, leaf(2, **CHOSEN), leaf(4)], "1 2 3 4"),
    "chosen, then continued": ([*FOUR, leaf(2, **CHOSEN), said(7, 2), said(8, 7)], "1 2 7 8"),
    "chosen, then the old branch": ([*FOUR, leaf(2, **CHOSEN), said(7, 4), said(8, 7)], "1 2 3 4 7 8"),
    "chosen, then a note": ([*FOUR, leaf(2, **CHOSEN), system(9, 4)], "1 2 3 4"),
    "chosen, then a sidechain": ([*FOUR, leaf(2, **CHOSEN), said(7, 0, **SIDE), said(8, 7, **SIDE)], "1 2"),
    "a note on the path": ([*FOUR, system(9, 4), leaf(9), said(7, 9), said(8, 7)], "1 2 3 4 7 8"),
    "a note beside the path": ([*FOUR, system(9, 4), leaf(9), said(7, 4), said(8, 7)], "1 2 3 4"),
    "forgotten by a compaction": ([*FOUR, *BRANCH, leaf(4), boundary(20, 6), *BEHIND], "21 23 24"),
    "before a compaction": ([*FOUR, boundary(20, 4), *BEHIND, leaf(2, **CHOSEN)], "1 2"),
    "before a compaction that preserves others": (
        [*FOUR, boundary(20, 4, **SEGMENT), *BEHIND, leaf(2)],
        "21 3 4 23 24",
    ),
    "preserved": ([*FOUR, boundary(20, 4, **SEGMENT), *BEHIND, leaf(4, **CHOSEN)], "21 3 4"),
    "compaction without a summary": ([*FOUR, boundary(20, 4), said(7, 20), said(8, 7)], "7 8"),
    "two without summaries": ([*FOUR, boundary(20, 4), said(7, 20), boundary(22, 7), said(9, 22)], "9"),
    "without a summary, with messages": ([*FOUR, boundary(20, 4, **ENDS), said(7, 20), said(8, 7)], "1 4 7 8"),
    "without a summary, with a segment": ([*FOUR, boundary(20, 4, **LAST), said(7, 20), said(8, 7)], "3 4 7 8"),
    "without a summary, before its next message": ([*FOUR, boundary(20, 4)], "1 2 3 4"),
}
"""Sessions, and what both of the clients that the tests know send of them."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{SESSION}.jsonl"


def shown(log: foldmark.Log, done: ImportReport) -> str:
    return " ".join(event.content for event in log.agent(done.agent_id).context().messages)


@pytest.mark.parametrize("name", CASES)
def test_an_import_shows_the_active_branch(name: str, path: Path, log: foldmark.Log) -> None:
    records, sent = CASES[name]
    path.write_bytes(jsonl(*records))
    assert shown(log, import_session(log, path)) == sent


@pytest.mark.parametrize("name", CASES)
def test_a_diagnosis_counts_the_active_branch(name: str, path: Path) -> None:
    records, sent = CASES[name]
    path.write_bytes(jsonl(*records))
    with SessionFile(path) as file:
        order = resume(list(rows(file))).order
    numbers = {
        record.get("uuid"): number for number in range(30) for record in records if record.get("uuid") == u(number)
    }
    assert " ".join(str(numbers[row.uuid]) for row in order if row.said) == sent


@pytest.mark.parametrize("name", [name for name in CASES if "preserve" not in name])
def test_an_import_in_two_parts_shows_the_same(name: str, path: Path) -> None:
    records, sent = CASES[name]
    for cut in range(1, len(records)):
        with foldmark.open(":memory:") as log:
            path.write_bytes(jsonl(*records[:cut]))
            import_session(log, path)
            path.write_bytes(jsonl(*records))
            done = import_session(log, path)
            assert shown(log, done) == sent, cut
            assert done.again


def test_a_turn_that_was_left_comes_back_without_the_answer_that_stays_out(path: Path, log: foldmark.Log) -> None:
    path.write_bytes(jsonl(*FOUR))
    import_session(log, path)
    for number, left, returned, sent in ((2, 1, 0, "1 2"), (3, 1, 1, "1 2 3"), (4, 0, 1, "1 2 3 4")):
        with path.open("ab") as file:
            file.write(jsonl(leaf(number, **CHOSEN)))
        done = import_session(log, path)
        assert (done.left, done.returned, shown(log, done)) == (left, returned, sent)


def test_a_message_that_a_compaction_writes_again_comes_twice_if_its_response_does(session: Any) -> None:
    """Claude Code sends all records of a response that is in the chain."""
    again = {**said(8, 7), "message": said(2, 1)["message"]}
    imported = session(*FOUR, boundary(20, 4), said(7, 20), again, said(9, 8))
    assert imported.shown == ["7", "2", "2", "9"]
    assert imported.report.dropped == 2


def test_what_was_left_by_going_back_can_be_restored(session: Any) -> None:
    imported = session(*FOUR, leaf(2, **CHOSEN))
    (drop,) = imported.of("drop")
    imported.agent.do(f"/restore {drop.id}")
    assert imported.shown == ["1", "2", "3", "4"]


def test_a_session_that_names_its_newest_record_is_read_on_from_its_old_end(path: Path, log: foldmark.Log) -> None:
    path.write_bytes(jsonl(*FOUR, system(9, 4), leaf(9)))
    import_session(log, path)
    for number, note, parent in ((11, 15, 9), (13, 17, 15)):
        with path.open("ab") as file:
            file.write(jsonl(said(number, parent), said(number + 1, number), system(note, number + 1), leaf(note)))
        done = import_session(log, path)
        assert done.messages == {"assistant": 1, "user": 1}
    assert shown(log, done) == "1 2 3 4 11 12 13 14"


@pytest.mark.skipif(not CLIENTS["claude"].is_there, reason="the client is not there: `make clients` installs it")
@pytest.mark.parametrize(
    "name", ["chosen, then continued", "nothing chosen, then a new beginning", "without a summary, with messages"]
)
def test_the_client_sends_the_active_branch(name: str, path: Path, tmp_path: Path) -> None:
    records, sent = CASES[name]
    path.write_bytes(jsonl(*records))
    verdict = judge(path, tmp_path / "judged")
    assert " ".join(item.text for item in verdict.client) == sent
    assert verdict.differences("import") == [], report(path, verdict)
    assert verdict.differences("export") == [], report(path, verdict)
