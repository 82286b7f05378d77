"""`foldmark doctor --session` reports each damage with its line, and a repaired session has none [SPEC 8]."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from exported import check_chain, shown
from random_chains import chain
from rollout_records import REAL_FILES as CODEX_FILES
from rollout_records import call as codex_call
from rollout_records import jsonl as codex_jsonl
from rollout_records import meta, name, output, record, tokens
from rollout_records import said as codex_said
from session_records import REAL_FILES, assistant, call, jsonl, result, user

import foldmark
from foldmark.cli.program import run
from foldmark.formats.claude.claude_format import project_folder
from foldmark.formats.codex import rollouts
from foldmark.formats.places import session_path
from foldmark.formats.session_file import SessionFile, SessionFileError
from foldmark.sessions.doctor import Finding, diagnose
from foldmark.sessions.doctor.repairing import UNSENT, Repaired, repair
from sampled import sampled

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
    with foldmark.open(":memory:", settings={}) as log:
        return repair(log, diagnose(session_path(path)), NEW, MOMENT, "1.2.3")


def check(path: Path) -> Repaired | None:
    """Repair a session. Check that the copy is sound and shows the same messages, and that the original stays."""
    original = path.read_bytes()
    new = repaired(path)
    assert path.read_bytes() == original
    if new is None:
        assert [each.name for each in path.parent.iterdir()] == [path.name]
        return None
    assert new.now.wrong == []
    assert new.now.sent == len(lines(new.session.path))
    assert shown(new.session.path) == shown(path)
    check_chain(lines(new.session.path))
    assert {each["sessionId"] for each in lines(new.session.path)} == {NEW}
    return new


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
"""Traces of a person's interruption: they are no damage."""

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
    new = check(path)
    if what in INTERRUPTIONS:
        assert new is None
        return
    assert new is not None
    assert path.read_bytes() == original
    assert new.session.path == path.with_name(f"{NEW}.jsonl")
    assert lines(new.session.path)[0]["repair_metadata"] == {
        "parent_file": str(path),
        "repaired_at": "2026-11-22T12:00:00Z",
    }


def test_times_and_models_stay(write: Callable[..., Path]) -> None:
    records = damaged("a null line")
    usage = {"input_tokens": 5, "output_tokens": 5}
    for at, each in enumerate(each for each in records if each):
        each["timestamp"] = f"2026-01-02T03:04:0{at}.000Z"
        if each["type"] == "assistant":
            each["message"] |= {"model": f"claude-{at}", "usage": usage}
    path = write(*records)
    new = check(path)
    assert new is not None
    after = lines(new.session.path)
    times = [each["timestamp"] for each in records if each]
    assert sorted({each["timestamp"] for each in after}) == times
    models = {each["timestamp"]: each["message"]["model"] for each in after if each["type"] == "assistant"}
    assert {models[times[1]], models[times[6]], models[times[8]]} == {"claude-1", "claude-6", "claude-8"}


def test_what_the_copy_lacks_is_said(write: Callable[..., Path]) -> None:
    records = damaged("a null line")
    branch = user("other", "b1", "u7", sessionId=ID)
    snapshot = {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}}
    title = {"type": "ai-title", "aiTitle": "A title", "sessionId": ID}
    new = check(write(*records[:7], branch, snapshot, *records[7:], title))
    assert new is not None
    assert new.left_out == [
        f"1 message that Claude Code does not send: {UNSENT}; `foldmark import` keeps it",
        "3 records beside the messages: (not an object) (1), ai-title (1), file-history-snapshot (1)",
        "the usage of the answers, and the copies of results that only the display reads",
    ]


@pytest.mark.parametrize("seed", sampled(range(3000), 40))
def test_any_chain(seed: int, tmp_path: Path) -> None:
    """Random sessions with lost parents, branches, late results and compactions, of which random lines are torn."""
    chance = Random(seed)
    records: list[Any] = chain(seed)
    for at in chance.sample(range(1, len(records)), 2):
        records[at] = chance.choice([b"null\n", b"{torn\n", jsonl(records[at])[:-9] + b"\n"])
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(jsonl(*records))
    check(path)


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


def test_a_block_is_removed_from_a_line_that_is_not_utf_8(write: Callable[..., Path]) -> None:
    records = talk()
    records[7]["message"]["content"] = [None, *text("si\u00e9x")]
    line = jsonl(records[7]).replace(b"\\u00e9", b"\xe9")
    new = repaired(write(*records[:7], line, *records[8:]))
    assert new is not None
    assert any("si\\ufffdx" in blocks for _, blocks in shown(new.session.path))


def test_utf_16_becomes_utf_8(tmp_path: Path) -> None:
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(("\ufeff" + jsonl(*talk()).decode()).encode("utf-16-le"))
    assert [each.weight for each in wrong(path)] == ["stops"]
    assert check(path) is not None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"[]\n5\n", "no line of it is a JSON object"),
        (jsonl(user([result("c1")], "u1")), "nothing of it is sent on resuming"),
        (jsonl({"type": "user", "uuid": "u1", "message": None}), "no message to import"),
    ],
)
def test_a_file_without_messages_cannot_be_repaired(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(content)
    assert wrong(path)
    with pytest.raises(foldmark.FoldmarkError, match=words):
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
    check(copy)


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
    assert told[2:] == [
        f"Repaired: {out}. It does not have:",
        "  1 record beside the messages: (not an object) (1)",
        "  the usage of the answers, and the copies of results that only the display reads",
        "Continue it with:",
        told[-1],
    ]
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
