"""`foldmark doctor --session` reports each damage with its line, and a repaired session has none [SPEC 8]."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from rollout_records import REAL_FILES as CODEX_FILES
from rollout_records import call as codex_call
from rollout_records import jsonl as codex_jsonl
from rollout_records import meta, name, output, record, tokens
from rollout_records import said as codex_said
from session_records import REAL_FILES, assistant, call, jsonl, result, user

import foldmark
from foldmark.cli.program import run
from foldmark.core import selections
from foldmark.formats.claude.claude_format import project_folder
from foldmark.formats.claude.resumption import MISSING
from foldmark.formats.codex import rollouts
from foldmark.formats.places import session_path
from foldmark.formats.session_file import SessionFile, SessionFileError
from foldmark.sessions.conversion.importing import import_session
from foldmark.sessions.doctor import Finding, diagnose
from foldmark.sessions.doctor.repair_plan import RepairError
from foldmark.sessions.doctor.repairing import INTERRUPTED, Repaired, repair
from sampled import sampled
from stored import stored

MOMENT = datetime(2026, 11, 22, 12, tzinfo=UTC)
ID = "0a1b2c3d-0000-4000-8000-000000000001"
NEW = "0a1b2c3d-0000-4000-8000-000000000002"

Records = list[Any]
Damage = Callable[[Records], object]


def chained(*records: dict[str, Any]) -> Records:
    """Return the records as a chain, each the parent of the next, with uuids u1, u2 and so on."""
    for number, each in enumerate(records, 1):
        each |= {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number > 1 else None, "sessionId": ID}
    return list(records)


def text(said: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": said}]


def talk() -> Records:
    """Return nine lines: two questions with answers; the first answer has thinking and two calls with their results."""
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    return chained(
        user("one"),
        assistant([thinking, *text("two")], response="m1"),
        assistant([call("c1")], response="m2"),
        assistant([call("c2", "Bash")], response="m2"),
        user([result("c1", "three")]),
        user([result("c2", "four")]),
        assistant(text("five"), response="m3"),
        user("six"),
        assistant(text("seven"), response="m4"),
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(*records: Any) -> Path:
        path = tmp_path / f"{ID}.jsonl"
        path.write_bytes(jsonl(*records))
        return path

    return write


def wrong(path: Path) -> list[Finding]:
    return diagnose(session_path(path)).wrong


def repaired(path: Path) -> Repaired | None:
    ids = (f"0199cccc-0000-7000-8000-{number:012x}" for number in count(1))
    return repair(session_path(path), NEW, MOMENT, lambda: next(ids))


def texts(path: Path) -> Counter[str]:
    """Return all texts that an import takes from a session, in the context or not."""
    with foldmark.open(":memory:") as log:
        agent = log.agent(import_session(log, path, "it").agent_id)
        found = (selections.event(stored(log), id) for id in range(1, agent.context().at + 1))
        said = (event for event in found if event and event.kind in ("user", "assistant", "tool_result"))
        return Counter(event.content for event in said if event.content != MISSING)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def change(at: int, **fields: Any) -> Damage:
    return lambda records: records[at - 1].update(fields)


def message(at: int, **fields: Any) -> Damage:
    return lambda records: records[at - 1]["message"].update(fields)


def without(at: int, key: str) -> Damage:
    return lambda records: records[at - 1].pop(key)


def instead(at: int, line: Any) -> Damage:
    return lambda records: records.__setitem__(at - 1, line)


def glue(records: Records, between: bytes) -> None:
    """Put the records 6 and 7 on one line."""
    records[5:7] = [jsonl(records[5]).rstrip() + between + jsonl(records[6])]


LATER = "2027-01-01T00:00:00.000Z"
"""So late that Claude Code does not go on with the record before this one because it is near in time."""

INTERRUPTIONS = {"a call without a result", "calls at the end"}
"""Traces of a person's interruption: they are no damage, but a repair completes them."""

STOPS: dict[str, tuple[Damage, int | None, str]] = {
    "a null line": (lambda records: records.insert(3, None), 4, "`null`"),
    "message null": (change(7, message=None), 7, "no message"),
    "no message": (without(8, "message"), 8, "no message"),
    "a message of the wrong type": (change(7, message="five"), 7, "not an object"),
    "a subagent's message null": (
        lambda records: records.append({**user("x", "s1", "u9", isSidechain=True), "message": None}),
        10,
        "no message",
    ),
    "a user's content null": (message(8, content=None), 8, "neither text nor a list"),
    "a user's content a number": (message(1, content=5), 1, "neither text nor a list"),
    "a model's content a text": (message(7, content="five"), 7, "list of blocks"),
    "a block null": (message(8, content=[None, *text("six")]), 8, "block of its content is null"),
    "no time at the end": (without(9, "timestamp"), 9, "timestamp"),
    "an unreadable time at the end": (change(9, timestamp="soon"), 9, "timestamp"),
    "no model at the end": (lambda records: records[8]["message"].pop("model"), 9, "model"),
    "an attachment without its object": (change(8, type="attachment", attachment=None), 8, "attachment"),
    "all a subagent's": (lambda records: [each.update(isSidechain=True) for each in records], None, "subagent"),
}
LOSES: dict[str, tuple[Damage, int, str]] = {
    "a torn line": (instead(7, b'{"type":"assistant","mess\n'), 7, "not JSON"),
    "a line of NULs": (instead(7, b"\0\0\0\n"), 7, "NUL"),
    "NULs in front of a record": (instead(7, b"\0" * 4000 + jsonl(talk()[6])), 7, "not JSON"),
    "two records on one line": (lambda records: glue(records, b""), 6, "not JSON"),
    "a torn last line": (instead(9, b'{"type":"assistant"'), 9, "cut off"),
    "not a number": (instead(7, jsonl(talk()[6]).replace(b'"m3"', b"NaN")), 7, "NaN"),
    "a mark": (instead(7, b"\xef\xbb\xbf" + jsonl(talk()[6])), 7, "byte order mark"),
    "a dangling parent": (change(7, parentUuid="gone", timestamp=LATER), 7, "is missing"),
    "no parent": (without(7, "parentUuid"), 7, "no parentUuid"),
    "a parent of the wrong type": (change(7, parentUuid=7), 7, "no parentUuid"),
    "an unknown record in the chain": (
        lambda records: [records[7].update(type="puzzle"), records[8].update(timestamp=LATER)],
        9,
        "is missing",
    ),
    "its own parent": (change(7, parentUuid="u7"), 7, "loop"),
    "a loop": (change(7, parentUuid="u9"), 7, "loop"),
    "no uuid": (without(7, "uuid"), 7, "no uuid"),
    "no uuids": (lambda records: [each.pop("uuid") for each in records], 1, "no uuid"),
    "a uuid twice": (lambda records: records[7].update(uuid="u1") or records[8].update(parentUuid="u1"), 8, "line 1"),
    "a call without a result": (lambda records: records.pop(5) and records[5].update(parentUuid="u5"), 4, "c2"),
    "calls at the end": (lambda records: records.__delitem__(slice(4, None)), 3, "c1"),
    "a result without a call": (message(8, content=[result("c9", "what")]), 8, "c9"),
    "a second result": (message(8, content=[result("c1", "again"), *text("six")]), 8, "c1"),
    "a result without an id": (message(8, content=[result(None, "what")]), 8, "no id"),
    "a call twice": (message(9, content=[call("c1"), *text("seven")]), 9, "c1"),
    "a result before its call": (
        lambda records: records.extend(
            [
                user([result("c8", "early")], "v1", "u9", sessionId=ID),
                assistant([call("c8")], "v2", "v1", sessionId=ID),
                user("nine", "v3", "v2", sessionId=ID),
            ]
        ),
        10,
        "before its call c8",
    ),
    "a result behind the next answer": (
        lambda records: records.extend(
            [
                assistant([call("c8")], "v1", "u9", "m8", sessionId=ID),
                assistant("eight", "v2", "v1", "m9", sessionId=ID),
                user([result("c8", "late")], "v3", "v2", sessionId=ID),
                user("nine", "v4", "v3", sessionId=ID),
            ]
        ),
        12,
        "not in the message behind its call c8",
    ),
    "thinking without a signature": (
        message(2, content=[{"type": "thinking", "thinking": "Hm.", "signature": ""}, *text("two")]),
        2,
        "signature",
    ),
    "only unsigned thinking": (message(2, content=[{"type": "thinking", "thinking": "Hm."}]), 2, "signature"),
    "a block that is a text": (message(8, content=["what", *text("six")]), 8, "block"),
    "a full context": (
        lambda records: records.append(
            assistant(text("Prompt is too long"), "u10", "u9", isApiErrorMessage=True, error="invalid_request")
        ),
        10,
        "full",
    ),
}  # fmt: skip
DAMAGES: dict[str, tuple[Damage, int | None, str]] = {**STOPS, **LOSES}


def damaged(what: str) -> Records:
    records = deepcopy(talk())
    DAMAGES[what][0](records)
    return records


def test_a_sound_session(write: Callable[..., Path]) -> None:
    path = write(*talk())
    found = diagnose(session_path(path))
    assert (found.findings, found.lines, found.sent) == ([], 9, 9)
    assert repaired(path) is None
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damage_is_found_and_repaired(what: str, write: Callable[..., Path]) -> None:
    path = write(*damaged(what))
    original = path.read_bytes()
    found = diagnose(session_path(path)).findings
    _, line, words = DAMAGES[what]
    weight = "stops" if what in STOPS else "note" if what in INTERRUPTIONS else "loses"
    assert any(each.matters for each in found) == (what not in INTERRUPTIONS)
    assert any(each.weight == weight and each.line == line and words in each.text for each in found), found
    new = repaired(path)
    assert new is not None
    assert new.now.wrong == []
    assert path.read_bytes() == original
    assert new.session.path == path.with_name(f"{NEW}.jsonl")
    after = lines(new.session.path)
    assert {each["sessionId"] for each in after if "sessionId" in each} == {NEW}
    assert after[0]["repair_metadata"] == {
        "parent_file": str(path),
        "repaired_at": "2026-11-22T12:00:00Z",
        "repairs": len(new.done),
    }
    assert repaired_again(new.session.path) is None


def repaired_again(path: Path) -> Repaired | None:
    return repair(session_path(path), ID, MOMENT, lambda: "never")


@pytest.mark.parametrize("what", sampled([*DAMAGES], 14))
def test_intact_lines_stay_as_they_were(what: str, write: Callable[..., Path]) -> None:
    """Texts stay the same. Lines without damage keep their bytes, except for the id of the session."""
    path = write(*damaged(what))
    new = repaired(path)
    assert new is not None
    touched = {line for line, _ in new.done}
    whole = [line for number, line in enumerate(path.read_bytes().splitlines(), 1) if number not in touched | {1}]
    after = new.session.path.read_bytes().splitlines()
    ids = (f'"sessionId": "{ID}"'.encode(), f'"sessionId":"{NEW}"'.encode().replace(b":", b": "))
    may_differ = {"parentUuid", "repair_metadata"}
    for line in whole:
        expected = line.replace(*ids)
        if expected not in after:
            mine = json.loads(expected)
            same = [each for each in map(json.loads, after) if each.get("uuid") == mine["uuid"]]
            assert [{key: each[key] for key in each if key not in may_differ} for each in same] == [
                {key: mine[key] for key in mine if key not in may_differ}
            ]
    gone = {line for line, done in new.done if "left out" in done}
    kept = path.with_name("kept.jsonl")
    kept.write_bytes(
        b"".join(line for number, line in enumerate(path.read_bytes().splitlines(True), 1) if number not in gone)
    )
    assert not texts(kept) - texts(new.session.path)


@pytest.mark.parametrize(
    ("before", "between", "behind"),
    [
        (b"\0\0", b"", b"\n"),
        (b"", b"\0 \0", b"\n"),
        (b"\xef\xbb\xbf", b"\xef\xbb\xbf", b"\r\n"),
        (b"", b"", b"\0\0\0"),
        (b" ", b"\r", b'{"type":"assistant","mess\n'),
        (b'{"type":"assistant","mess\0\0', b"\0", b"\n"),
    ],
)
def test_whole_records_on_a_broken_line_are_kept_on_lines_of_their_own(
    write: Callable[..., Path], before: bytes, between: bytes, behind: bytes
) -> None:
    """The text between them has bytes that are not UTF-8, so characters and bytes differ."""
    records = talk()
    whole = [jsonl(records[at]).rstrip().replace(b"four", b"f\xffur \xc3\xbc") for at in (5, 6)]
    path = write(*records[:5], before + whole[0] + between + whole[1] + behind.rstrip(b"\n") + b"\n", *records[7:])
    new = repaired(path)
    assert new is not None
    after = [json.loads(line) for line in new.session.path.read_text(errors="replace").splitlines()]
    assert [each["uuid"] for each in after] == [each["uuid"] for each in records]
    assert [each["parentUuid"] for each in after] == [each["parentUuid"] for each in records]
    assert [each["message"] for each in after if each["uuid"] != "u6"] == [
        each["message"] for each in records if each["uuid"] != "u6"
    ]
    assert after[5]["message"]["content"] == [result("c2", "f\ufffdur ü")]
    done = [text for line, text in new.done if line == 6]
    assert len(new.done) == len(done) == 2 + (b"mess" in before + behind)
    assert sum("line of its own" in text for text in done) == 2
    assert sum("left out" in text for text in done) == (b"mess" in before + behind)


def test_a_record_that_is_twice_on_one_line_is_kept_once(write: Callable[..., Path]) -> None:
    records = talk()
    whole = jsonl(records[6]).rstrip()
    path = write(*records[:6], whole + whole + b"\n", *records[7:])
    new = repaired(path)
    assert new is not None
    assert [each["uuid"] for each in lines(new.session.path)] == [each["uuid"] for each in records]


def test_a_call_without_a_result_gets_one(write: Callable[..., Path]) -> None:
    records = talk()
    del records[4:6]
    records[4]["parentUuid"] = "u4"
    new = repaired(write(*records))
    assert new is not None
    after = lines(new.session.path)
    made = after[4]
    assert made["message"]["content"] == [
        {"type": "tool_result", "content": INTERRUPTED, "is_error": True, "tool_use_id": "c1"},
        {"type": "tool_result", "content": INTERRUPTED, "is_error": True, "tool_use_id": "c2"},
    ]
    assert (made["parentUuid"], after[5]["parentUuid"]) == ("u4", made["uuid"])
    assert INTERRUPTED not in texts(new.session.path)


def test_children_of_a_duplicate_uuid_follow_the_nearer_record(write: Callable[..., Path]) -> None:
    new = repaired(write(*damaged("a uuid twice")))
    assert new is not None
    after = lines(new.session.path)
    assert after[7]["uuid"] not in {each["uuid"] for each in after[:7]}
    assert after[8]["parentUuid"] == after[7]["uuid"]
    assert after[7]["parentUuid"] == "u7"


def test_a_repeated_line_is_left_out_once(write: Callable[..., Path]) -> None:
    records = talk()
    new = repaired(write(*records[:5], records[4], *records[5:]))
    assert new is not None
    assert new.done == [(6, "left out: it repeats line 5")]
    assert len(lines(new.session.path)) == 9


def test_times_and_models_are_those_of_the_record_before(write: Callable[..., Path]) -> None:
    records = talk()
    records[6]["timestamp"] = "2026-01-02T03:04:05.000Z"
    records[6]["message"]["model"] = "claude-y"
    for each in records[7:]:
        del each["timestamp"]
    del records[8]["message"]["model"]
    new = repaired(write(*records))
    assert new is not None
    after = lines(new.session.path)
    assert [each["timestamp"] for each in after[7:]] == ["2026-01-02T03:04:05.000Z"] * 2
    assert after[8]["message"]["model"] == "claude-y"


def test_a_result_is_moved_after_its_call(write: Callable[..., Path]) -> None:
    new = repaired(write(*damaged("a result before its call")))
    assert new is not None
    parents = {each["uuid"]: each["parentUuid"] for each in lines(new.session.path)}
    assert (parents["v2"], parents["v1"], parents["v3"]) == ("u9", "v2", "v1")
    assert [*parents][-3:] == ["v2", "v1", "v3"]


def test_a_record_with_the_results_of_many_later_calls(write: Callable[..., Path]) -> None:
    """The record moves once, after the first of the calls. The other results are removed."""
    results = [result(f"c{number}", "early") for number in range(150)]
    calls = [assistant([call(f"c{number}")], response=f"m{number}") for number in range(150)]
    path = write(*chained(user("one"), user(results), *calls, user("two"), assistant(text("three"))))
    new = repaired(path)
    assert new is not None
    assert wrong(new.session.path) == []


def test_another_branch_is_not_damage(write: Callable[..., Path]) -> None:
    """Records of an abandoned branch are neither sent nor repaired."""
    records = talk()
    branch = [
        user("other", "b1", "u7", sessionId=ID),
        assistant([call("c7")], "b2", "b1", response="m9", sessionId=ID),
    ]
    path = write(*records[:7], *branch, *records[7:])
    assert wrong(path) == []
    assert [each.text[:10] for each in diagnose(session_path(path)).findings] == ["2 messages"]
    assert repaired(path) is None


def test_records_before_a_compaction_are_no_damage(write: Callable[..., Path]) -> None:
    records = talk()
    del records[5]
    preserved = {"preservedMessages": {"anchorUuid": "k2", "uuids": ["u9"]}}
    boundary: dict[str, Any] = {"type": "system", "subtype": "compact_boundary", "uuid": "k1", "parentUuid": None}
    boundary |= {"logicalParentUuid": "u9", "timestamp": records[0]["timestamp"], "compactMetadata": preserved}
    summary = user("all of it", "k2", "k1", isCompactSummary=True)
    path = write(*records, boundary, summary, user("on", "k3", "k2"))
    found = diagnose(session_path(path))
    assert (found.wrong, found.sent) == ([], 3)


def test_progress_in_the_chain_is_passed_through(write: Callable[..., Path]) -> None:
    records = talk()
    progress = {"type": "progress", "uuid": "p", "parentUuid": "u7", "data": {}}
    records[7]["parentUuid"] = "p"
    path = write(*records[:7], progress, *records[7:])
    assert diagnose(session_path(path)).sent == 9


def test_an_attachment_between_a_call_and_its_result(write: Callable[..., Path]) -> None:
    """As Claude Code 2.1.197 and 2.1.332 write an answer to `--json-schema`."""
    attached = {"type": "structured_output", "data": {"answer": "42"}, "toolUseID": "toolu_1"}
    records = chained(
        user("What is it?"),
        assistant([call("toolu_1", "StructuredOutput", answer="42")], response="m1"),
        {"type": "attachment", "attachment": attached, "timestamp": "2025-10-01T10:00:00.000Z"},
        user([result("toolu_1", "Structured output provided successfully")]),
    )
    found = diagnose(session_path(write(*records)))
    assert (found.findings, found.sent) == ([], 3)


def test_results_of_parallel_calls_hang_on_their_own_calls(write: Callable[..., Path]) -> None:
    """Only the last of these results is on the main chain."""
    records = talk()
    records[4]["parentUuid"], records[5]["parentUuid"] = "u3", "u4"
    path = write(*records)
    found = diagnose(session_path(path))
    assert (found.findings, found.sent) == ([], 9)


def test_a_compaction_that_names_a_parent(write: Callable[..., Path]) -> None:
    """Despite this parent, the records before the compaction are not sent."""
    records = talk()
    del records[5]
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "k1", "parentUuid": "u9"}
    summary = user("all of it", "k2", "k1", isCompactSummary=True)
    found = diagnose(session_path(write(*records, boundary, summary)))
    assert (found.wrong, found.sent) == ([], 1)


@pytest.mark.parametrize(("leaf", "sent"), [("b1", 8), ("u7", 9), ("nowhere", 9)])
def test_the_newest_prompt_decides_the_branch(leaf: str, sent: int, write: Callable[..., Path]) -> None:
    records = talk()
    branch = user("other", "b1", "u7", sessionId=ID)
    path = write(*records[:7], branch, *records[7:], {"type": "last-prompt", "leafUuid": leaf})
    assert diagnose(session_path(path)).sent == sent


def test_children_of_a_line_that_is_left_out_go_to_its_parent(write: Callable[..., Path]) -> None:
    """They do not go to the previous line, which is on another branch."""
    records = talk()
    records[7]["message"] = None
    new = repaired(write(*records[:7], user("other", "b1", "u7", sessionId=ID), *records[7:]))
    assert new is not None
    assert lines(new.session.path)[-1]["parentUuid"] == "u7"


def test_children_of_a_removed_duplicate_go_to_the_record_that_stays(write: Callable[..., Path]) -> None:
    records = talk()
    spoilt = {**user("x", "u7", "u1"), "message": None}
    new = repaired(write(*records[:7], spoilt, *records[7:]))
    assert new is not None
    assert lines(new.session.path)[7]["parentUuid"] == "u7"


def test_a_block_is_removed_from_a_line_that_is_not_utf_8(write: Callable[..., Path]) -> None:
    records = talk()
    records[7]["message"]["content"] = [None, *text("si\u00e9x")]
    line = jsonl(records[7]).replace(b"\\u00e9", b"\xe9")
    new = repaired(write(*records[:7], line, *records[8:]))
    assert new is not None
    assert new.now.wrong == []
    assert texts(new.session.path)["si\ufffdx"] == 1


def test_utf_16_becomes_utf_8(tmp_path: Path) -> None:
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(("\ufeff" + jsonl(*talk()).decode()).encode("utf-16-le"))
    assert [each.weight for each in wrong(path)] == ["stops"]
    new = repaired(path)
    assert new is not None
    assert new.now.wrong == []
    assert texts(path) == texts(new.session.path)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "no message"), (b"[]\n5\n", "no message"), (jsonl(user([result("c1")], "u1")), "no message")],
)
def test_a_file_without_messages_cannot_be_repaired(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(content)
    assert wrong(path)
    with pytest.raises(RepairError, match=words):
        repaired(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_an_existing_file_is_never_replaced(write: Callable[..., Path]) -> None:
    path = write(*damaged("a null line"))
    out = path.with_name(f"{NEW}.jsonl")
    out.write_bytes(b"mine")
    with pytest.raises(foldmark.FoldmarkError, match="already exists"):
        repaired(path)
    assert out.read_bytes() == b"mine"


@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.stem)
def test_real_sessions(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    new = repaired(copy)
    if new is None:
        assert wrong(copy) == []
        return
    assert new.now.wrong == []
    if not any("left out" in done for _, done in new.done):
        assert texts(copy) <= texts(new.session.path), "a result that moves behind its call comes back"


# -- Codex ----------------------------------------------------------------------------------------------------


def rollout() -> Records:
    records = [
        meta(history_mode="paginated"),
        codex_said("one"),
        codex_call("c1"),
        output("c1", "two"),
        codex_said("three", "assistant"),
        tokens(1000),
    ]
    for ordinal, each in enumerate(records):
        each["ordinal"] = ordinal
    return records


HISTORY = [{"type": "message", "role": "user", "content": []}]
CODEX: dict[str, tuple[Damage, str, int | None, str]] = {
    "no first record": (lambda records: records.pop(0), "stops", 1, "session_meta"),
    "a first record without payload": (without(1, "payload"), "stops", 1, "session_meta"),
    "a mark": (lambda records: records.insert(0, b"\xef\xbb\xbf"), "stops", 1, "byte order mark"),
    "no ordinal at the end": (without(6, "ordinal"), "stops", 6, "ordinal"),
    "a fork without its parent": (
        lambda records: records[0]["payload"].update(
            history_base={"thread_id": "0199aaaa-1111-7222-8333-444455556667", "end_byte_offset": 9}
        ),
        "stops", 1, "fork",
    ),
    "a torn line": (instead(3, b'{"timestamp":\n'), "loses", 3, "not JSON"),
    "an output without its call": (lambda records: records.pop(2), "loses", 3, "without a call"),
    "an output before its call": (lambda records: records.insert(3, records.pop(2)), "loses", 4, "after its output"),
    "an output twice": (lambda records: records.insert(4, records[3]), "loses", 5, "second output"),
    "an output of the wrong type": (lambda records: records[3]["payload"].update(output=None), "loses", 4, "neither"),
    "histories of different length": (
        lambda records: records.insert(5, record("compacted", {
            "message": "m", "replacement_history": HISTORY, "replacement_history_metadata": [],
        }, ordinal=9)),
        "loses", 6, "metadata",
    ),
    "another session's id": (
        lambda records: records[0]["payload"].update(id="0199aaaa-1111-7222-8333-444455556667"), "loses", 1, "not that"
    ),
    "a call without an output": (lambda records: records.pop(3), "note", 3, "aborted"),
    "a full context": (instead(6, {**tokens(250_000), "ordinal": 5}), "note", 6, "compacts"),
}  # fmt: skip


@pytest.mark.parametrize("what", CODEX)
def test_damages_of_a_rollout(what: str, tmp_path: Path) -> None:
    path = tmp_path / name()
    records = rollout()
    path.write_bytes(codex_jsonl(*records))
    assert diagnose(session_path(path)).findings == []
    damage, weight, line, words = CODEX[what]
    damage(records)
    path.write_bytes(codex_jsonl(*records))
    found = diagnose(session_path(path)).findings
    assert any((each.weight, each.line) == (weight, line) and words in each.text for each in found), found


def test_after_a_compaction_its_history_is_sent(tmp_path: Path) -> None:
    path = tmp_path / name()
    opaque = {"type": "compaction", "encrypted_content": "b3A="}
    history = [codex_said("one")["payload"], {"type": "ghost_snapshot"}, opaque]
    compacted = record("compacted", {"message": "", "replacement_history": history}, ordinal=6)
    path.write_bytes(codex_jsonl(*rollout(), compacted, {**codex_said("four"), "ordinal": 7}))
    found = diagnose(session_path(path))
    assert (found.sent, found.findings) == (3, [])


def test_a_first_record_without_payload_is_not_trimmed(tmp_path: Path) -> None:
    path = tmp_path / name()
    path.write_bytes(codex_jsonl({"type": "session_meta"}, codex_said("one")))
    with SessionFile(path) as file, pytest.raises(SessionFileError, match="session_meta"):
        rollouts.head(file)


@pytest.mark.parametrize("path", CODEX_FILES, ids=lambda path: path.stem)
def test_real_rollouts(path: Path) -> None:
    found = diagnose(session_path(path, "codex"))
    assert found.wrong == []
    assert found.sent > 30


# -- the command ----------------------------------------------------------------------------------------------


def test_the_command(
    write: Callable[..., Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(*damaged("a null line"))
    monkeypatch.setenv("HOME", str(path.parent))
    assert run(["doctor", "--session", str(path)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "stops  line 4: the line is `null`: Claude Code cannot resume the session"
    assert told[1].endswith("10 lines, 9 messages sent on resuming; it cannot be resumed (1 fault)")
    out = path.with_name("mended.jsonl")
    assert run(["doctor", "--session", str(path), "--repair", "--out", str(out)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[2:4] == [f"Repaired: {out}", "  line 4: left out: JSON, but not an object"]
    assert told[-1].endswith(f"claude --resume {out}")
    assert run(["doctor", "--session", str(out)]) == 0
    assert run(["doctor", "--session", str(out), "--repair", "--json"]) == 0
    printed = capsys.readouterr().out
    data = json.loads(printed[printed.index("\n{") :])
    assert data["resumable"]
    assert "repaired" not in data
    assert not [each for each in data["findings"] if each["weight"] != "note"]


def test_a_repaired_session_next_to_the_old_one_is_resumed_by_its_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    garden = tmp_path / "my garden"
    garden.mkdir()
    path = tmp_path / "projects" / project_folder(garden) / f"{ID}.jsonl"
    path.parent.mkdir(parents=True)
    records = damaged("a null line")
    records[0]["cwd"] = str(garden)
    path.write_bytes(jsonl(*records))
    assert run(["doctor", "--session", ID, "--repair", "--json"]) == 0
    new = json.loads(capsys.readouterr().out)["repaired"]
    assert new["command"] == f"cd '{garden}' && claude --resume {new['session_id']}"
    assert Path(new["file"]).stem == new["session_id"]
    garden.rmdir()
    assert run(["doctor", "--session", ID, "--repair", "--json"]) == 0
    new = json.loads(capsys.readouterr().out)["repaired"]
    assert new["command"] == f"claude --resume {new['file']}"


def test_a_repaired_session_can_be_written_to(write: Callable[..., Path]) -> None:
    path = write(*damaged("a null line"))
    path.chmod(0o440)
    assert run(["doctor", "--session", str(path), "--repair", "--out", str(path.with_name("new.jsonl"))]) == 0
    assert path.with_name("new.jsonl").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--session", "nowhere.jsonl"], 1, "there is no file"),
        (["--session", "0000"], 2, "there is no file and no session '0000'"),
        (["--session", "x.jsonl", "--out", "y.jsonl"], 2, "--out requires --repair"),
        (["--out", "y.jsonl"], 2, "--session"),
    ],
)
def test_wrong_requests(
    words: list[str], code: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", *words]) == code
    assert told in capsys.readouterr().err


def test_a_rollout_is_not_repaired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name()
    path.write_bytes(codex_jsonl(*rollout()))
    assert run(["doctor", "--session", str(path), "--repair"]) == 1
    assert "not repaired" in capsys.readouterr().err


@pytest.mark.parametrize(
    "kind", ["atis-latch", "api-request", "api-request-blob", "api-request-shape", "cost-state", "file-history-delta"]
)
def test_the_records_of_newer_versions_are_known(kind: str, write: Callable[..., Path]) -> None:
    """Claude Code 2.1.332 writes these beside its messages."""
    path = write(*talk(), {"type": kind, "sessionId": ID})
    assert diagnose(session_path(path)).findings == []
