"""Importing Claude Code sessions: records, turns and branches (SPEC 8)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from session_records import REAL, REAL_FILES, TIME, assistant, call, jsonl, plain_blocks, plain_counts, result, user

import foldmark
from foldmark.core.errors import CommandError
from foldmark.formats.claude.resumption import MISSING
from foldmark.sessions.conversion.exporting import export
from foldmark.sessions.conversion.importing import default_name, import_session

SIDE = {"isSidechain": True}

real_files = pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")


# -- real files -----------------------------------------------------------------------------------------------


TURNS_USAGES_AND_RECORDS = {
    "agentcmd-four": (3, 30, 7),
    "agentcmd-image-result": (1, 2, 0),
    "agentcmd-three": (2, 10, 0),
    "claude-code-log-edge-cases": (5, 4, 7),
    "episodic-memory-large": (22, 170, 4),
    "episodic-memory-short": (1, 1, 1),
    "traceforge-demo": (1, 4, 7),
}

NOT_SENT = {
    "agentcmd-three": (3, 0, 0),
    "claude-code-log-edge-cases": (0, 0, 1),
    "episodic-memory-large": (0, 2, 0),
    "traceforge-demo": (2, 0, 0),
}
"""What the client does not send: calls without a result, results behind the next answer, and other branches."""


@real_files
@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.stem)
def test_real_file(path: Path, load: Any) -> None:
    content = path.read_bytes()
    imported = load(path)
    report = imported.report
    assert report.records == plain_counts(content)
    assert list(report.records.values()) == sorted(report.records.values(), reverse=True)
    assert report.broken == []
    assert report.lines == len(content.splitlines())
    left_out, late, dropped = NOT_SENT.get(path.stem, (0, 0, 0))
    whole, shown = plain_blocks(content), len(imported.agent.context().messages)
    assert whole - report.messages == Counter({"tool_result": late})
    assert len(imported.messages) == whole.total(), "a late result is kept as data, and the client makes one up"
    assert report.unsent == left_out + late
    assert (report.dropped == 0) == (dropped == 0) == (shown == len(imported.messages) - left_out)
    assert report.turns == len(imported.turns)
    assert report.kept == len(imported.of("record"))
    assert (report.turns, len(imported.of("usage")), report.kept) == TURNS_USAGES_AND_RECORDS[path.stem]
    assert imported.agent.open_turn is None


@real_files
def test_a_result_written_before_its_call_follows_it(load: Any) -> None:
    imported = load(REAL / "traceforge-demo.jsonl")
    places = {(event.kind, event.call_id[-4:]): at for at, event in enumerate(imported.messages) if event.call_id}
    for kind, call_id in places:
        if kind == "tool_result":
            assert places["tool_call", call_id] < places[kind, call_id]
    calls = {event.id: event for event in imported.of("tool_call")}
    assert all(calls[event.answers].call_id == event.call_id for event in imported.of("tool_result"))
    assert imported.of("turn_ended")[-1].interrupted, "two calls were never answered"


@real_files
def test_an_image_result_is_kept_as_a_block(load: Any) -> None:
    (answer,) = load(REAL / "agentcmd-image-result.jsonl").of("tool_result")
    assert answer.content == ""
    assert [block["type"] for block in answer.data["blocks"]] == ["image"]


LATE = ("toolu_014VdLrDxZ5Bzm6rzH36MpCA", "toolu_01VKFVhuN7B7CBdP8Rbi677F")
"""Calls whose result the file has behind the next answer."""


@real_files
def test_compared_with_the_file_text_by_text(load: Any) -> None:
    path = REAL / "episodic-memory-large.jsonl"
    texts, calls = list[Any](), dict[str, Any]()
    for line in path.read_bytes().splitlines():
        record = json.loads(line)
        if "message" not in record:
            continue
        content = record["message"]["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            inner = block.get("content")
            if block["type"] == "tool_result" and block["tool_use_id"] in LATE:
                at = next(at for at, each in enumerate(texts) if each is calls[block["tool_use_id"]])
                texts.insert(at + 1, MISSING)  # the file has the result behind the next answer
            elif block["type"] == "tool_use":
                calls[block["id"]] = block["input"]
                if block["id"] == LATE[-1]:
                    texts.insert(len(texts) - 1, block["input"])  # another answer parts it from its own
                else:
                    texts.append(block["input"])
            elif isinstance(inner, list):
                texts.append("\n".join(item["text"] for item in inner))
            else:
                texts.append(block.get("text", inner))
    found = [json.loads(e.content) if e.kind == "tool_call" else e.content for e in load(path).messages]
    assert found == texts


# -- differences between the file and the model's context ------------------------------------------------------


def busy(prompt: Any, uuid: Any, parent: Any, mode: Any = "prompt") -> Any:
    attached = {"type": "queued_command", "prompt": prompt, "commandMode": mode}
    return {"type": "attachment", "attachment": attached, "uuid": uuid, "parentUuid": parent, "timestamp": TIME}


def given(path: Any, content: Any, uuid: Any, parent: Any) -> Any:
    inner = {"type": "text", "file": {"filePath": f"/app/{path}", "content": content, "numLines": 1, "startLine": 1}}
    attached = {"type": "file", "filename": path, "content": inner}
    return {"type": "attachment", "attachment": attached, "uuid": uuid, "parentUuid": parent, "timestamp": TIME}


def test_queued_prompts_and_attached_files_are_messages(session: Any, load: Any, tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}}
    imported = session(
        user("look at @a.py", "u1"),
        given("a.py", "print(1)\n", "f1", "u1"),
        assistant([call("c1")], "a1", "f1", "m1"),
        user([result("c1")], "r1", "a1"),
        busy("and use tabs", "q1", "r1"),
        busy([{"type": "text", "text": "see this"}, image], "q2", "q1"),
        assistant("done", "a2", "q2", "m2"),
    )
    read = '<system-reminder>\nCalled the Read tool with the following input: {"file_path":"a.py"}\n</system-reminder>'
    file = "<system-reminder>\nResult of calling the Read tool:\n1\tprint(1)\n2\t\n</system-reminder>"
    assert imported.turns == [[read, file, "look at @a.py", "c1", "c1", "and use tabs", "see this", "done"]]
    assert [event.kind for event in imported.messages][:3] == ["client", "client", "user"]
    assert imported.report.kept == 1
    path = tmp_path / "exported.jsonl"
    path.write_bytes(b"".join(export(imported.agent, "/app", "1").content()))
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [each.get("attachment", {}).get("type") for each in records] == [
        *["critical_system_reminder"] * 2,  # a file has two texts
        *(None, None, None, "queued_command", "queued_command", None),
    ]
    again = load(path, "again")
    assert again.turns == imported.turns
    assert (
        again.agent.request(provider="anthropic").body["messages"]
        == (imported.agent.request(provider="anthropic").body["messages"])
    )


@pytest.mark.parametrize(
    "attached",
    [
        None,
        [],
        {"type": "queued_command"},
        {"type": "queued_command", "prompt": 5},
        {"type": "queued_command", "prompt": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}]},
        {"type": "file", "filename": "x"},
        {"type": "file", "content": {"type": "image", "file": {"base64": "x"}}},
        {"type": "skill_listing", "content": 5},
        {"type": "from the future", "content": "many"},
    ],
)
def test_any_other_attachment_is_kept_as_data(session: Any, attached: Any) -> None:
    imported = session(
        user("hello", "u1"), {"type": "attachment", "attachment": attached, "uuid": "x", "parentUuid": "u1"}
    )
    assert imported.turns == [["hello"]]
    assert [record["type"] for record in imported.kept] == ["attachment"]


def test_an_api_error_is_not_an_answer(session: Any) -> None:
    imported = session(
        user("go", "u1"),
        assistant([call("c1")], "a1", "u1", "m1"),
        user([result("c1")], "r1", "a1"),
        assistant("5-hour limit reached", "e1", "r1", "x1", isApiErrorMessage=True, model="<synthetic>"),
        user("go on", "u2", "e1"),
        assistant("done", "a2", "u2", "m2"),
    )
    assert imported.turns == [["go", "c1", "c1"], ["go on", "done"]]
    assert [record["isApiErrorMessage"] for record in imported.kept] == [True]
    assert [event.interrupted for event in imported.of("turn_ended")] == [True, False]
    assert "limit" not in str(imported.agent.request(provider="anthropic").body["messages"])


def test_one_response_stays_one_message(session: Any) -> None:
    """The file has parallel calls in the order of their starts, and results in the order of their ends."""
    imported = session(
        user("go", "u1"),
        assistant("I look.", "a1", "u1", "m1"),
        assistant([call("c1")], "a2", "a1", "m1"),
        user([result("c1", "one")], "r1", "a2"),
        {"type": "progress", "uuid": "p1", "parentUuid": "r1"},
        assistant([call("c2")], "a3", "a2", "m1"),
        assistant([call("c3")], "a4", "a3", "m1"),
        user([result("c3", "three")], "r3", "a4"),
        user([result("c2", "two")], "r2", "a3"),
        assistant("done", "a5", "r2", "m2"),
    )
    assert imported.turns == [["go", "I look.", *("c1", "c2", "c3"), *("c1", "c2", "c3"), "done"]]
    sent = imported.agent.request(provider="anthropic").body["messages"]
    assert [[block["type"] for block in message["content"]] for message in sent[1:3]] == [
        ["text", "tool_use", "tool_use", "tool_use"],
        ["tool_result"] * 3,
    ]


# -- records to messages --------------------------------------------------------------------------------------


def test_blocks_become_messages_in_their_order(session: Any) -> None:
    imported = session(
        user("hello"),
        assistant(
            [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "hi"},
                call("c1", a=[1]),
            ],
            response="msg_1",
        ),
        user([result("c1", [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], is_error=True)]),
        assistant("bye"),
    )
    assert imported.said == [
        ("user", "hello"),
        ("assistant", ""),
        ("assistant", "hi"),
        ("tool_call", '{"a":[1]}'),
        ("tool_result", "one\ntwo"),
        ("assistant", "bye"),
    ]
    hello, thinking, hi, asked, answered, bye = imported.messages
    assert hello.data is bye.data is None
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert thinking.data == {"response": "msg_1", "blocks": [{**block, "imported": True}]}
    assert hi.data == {"response": "msg_1"}
    assert asked.data == {"response": "msg_1", "call_id": "c1", "name": "Read"}
    assert answered.data == {"call_id": "c1", "is_error": True}
    assert answered.answers == asked.id
    assert asked.dialect == answered.dialect == "anthropic"
    assert {event.created_at for event in imported.events} == {"2025-10-01T10:00:00.000000Z"}
    assert imported.report.messages == {"user": 1, "assistant": 3, "tool_call": 1, "tool_result": 1}
    assert (imported.report.turns, imported.report.kept, imported.report.lines) == (1, 0, 4)


def test_images_go_along_with_the_text_of_their_record(session: Any) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
    imported = session(user([image, {"type": "text", "text": "look"}]), assistant("ok"), user([image]))
    look, _, alone = imported.messages
    assert (look.content, look.data) == ("look", {"blocks": [image]})
    assert (alone.content, alone.data) == ("", {"blocks": [image]})


def test_other_blocks_of_a_result_are_kept_with_its_text(session: Any) -> None:
    reference = {"type": "tool_reference", "tool_name": "X"}
    imported = session(
        assistant([call("a"), call("b"), call("c")]),
        user([result("a", ["plain", reference, 7]), result("b", None), result("c", {"odd": 1})]),
    )
    a, b, c = imported.of("tool_result")
    assert (a.content, a.data["blocks"]) == ("plain", [reference, 7])
    assert (b.content, "blocks" in b.data) == ("", False)
    assert (c.content, c.data["blocks"]) == ("", [{"odd": 1}])


@pytest.mark.parametrize(
    "record",
    [
        {"type": "user", "message": None},
        {"type": "user", "message": "error"},
        {"type": "user", "message": {"role": "user", "contenst": []}},
        {"type": "user", "message": {"role": "user", "content": 5}},
        {"type": "user", "message": {"role": "user", "content": []}},
        {"type": "user", "message": {"role": "user", "content": [7]}},
        {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": None}]}},
        {"type": "assistant", "message": {"role": "assistant", "content": [call(None)]}},
        {"type": "assistant", "message": {"role": "assistant", "content": [call("c", name=3)]}},
        {"type": "assistant", "message": {"role": "assistant", "content": [result("c")]}},
        {"type": "user", "message": {"role": "user", "content": [call("c")]}},
        {"type": "user", "message": {"role": "user", "content": [result(12)]}},
        {"type": "user", "message": {"role": "user", "content": [{"type": ["text"], "text": "x"}]}},
        {"type": "system", "subtype": "compact_boundary", "parentUuid": None, "logicalParentUuid": "x"},
        {"type": "progress", "data": {"type": "bash_progress"}},
        {"silly": "this"},
    ],
)
def test_records_that_are_no_messages_are_kept_whole(record: Any, session: Any) -> None:
    imported = session(user("hello"), record)
    assert imported.said == [("user", "hello")]
    assert imported.kept == [record]
    (event,) = imported.of("record")
    assert event.data["source"] == "claude"
    assert event.data["type"] == record.get("type", "(no type)")
    assert imported.report.kept == 1


def test_usable_blocks_next_to_a_broken_one_are_imported(session: Any) -> None:
    record = assistant([7, {"type": "text", "text": "still here"}, call(None), call("c1")])
    imported = session(user("hello"), record)
    assert imported.said == [("user", "hello"), ("assistant", "still here"), ("tool_call", "{}")]
    assert imported.kept == [record]


def test_one_usage_event_for_each_api_message_after_its_last_record(session: Any) -> None:
    first = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4}
    imported = session(
        user("hello"),
        assistant("a", response="m1", usage=first),
        assistant([call("c1")], response="m1", usage={**first, "output_tokens": 77}),
        user([result("c1")]),
        assistant("b", response="m2", usage={"input_tokens": "many"}),
        assistant("c", response="m3", model="<synthetic>", usage={"input_tokens": 0}),
        assistant("d", response="m4"),
        assistant("e", usage={"output_tokens": 5}),
    )
    assert [event.data for event in imported.of("usage")] == [
        {"model": "claude-x", "response": "m1", "input": 10, "output": 77, "cache_read": 3, "cache_write": 4},
        {"model": "claude-x", "response": None, "input": 0, "output": 5, "cache_read": 0, "cache_write": 0},
    ]
    kinds = [event.kind for event in imported.events]
    assert kinds[:6] == ["user", "assistant", "tool_call", "usage", "tool_result", "assistant"]


# -- time -----------------------------------------------------------------------------------------------------


def test_times_are_kept_even_if_they_go_backwards_and_a_missing_one_repeats_the_last(session: Any) -> None:
    times = [
        None,
        "2025-10-01T10:00:05.5Z",
        "2025-10-01T11:00:04+02:00",
        "yesterday",
        17,
        "2025-10-01T10:00:09",
        "0001-01-01T00:00:00+23:59",
    ]
    imported = session(*(user(f"at {time}", timestamp=time) for time in times))
    assert [event.created_at[11:23] for event in imported.messages] == [
        "10:00:05.500",
        "10:00:05.500",
        "09:00:04.000",
        "09:00:04.000",
        "09:00:04.000",
        "10:00:09.000",
        "10:00:09.000",
    ]


def test_a_session_without_times_gets_the_present_time(session: Any) -> None:
    (event,) = session({"type": "user", "message": {"content": "x"}}).messages
    assert event.created_at > "2025-10-01"


# -- turns ----------------------------------------------------------------------------------------------------


def test_a_prompt_opens_a_turn_when_the_one_before_has_been_answered(session: Any) -> None:
    imported = session(user("a"), user("b"), assistant("c"), user("d"), assistant("e"))
    assert imported.turns == [["a", "b", "c"], ["d", "e"]]
    assert len(imported.of("turn_ended")) == 2
    assert not any(event.interrupted for event in imported.of("turn_ended"))


def test_a_prompt_joins_while_a_call_still_gets_its_result(session: Any) -> None:
    imported = session(user("a"), assistant([call("c1")]), user("hurry"), user([result("c1")]), user("b"))
    assert imported.turns == [["a", "c1", "hurry", "c1"], ["b"]]


def test_a_call_that_never_gets_its_result_does_not_hold_the_turn_open(session: Any) -> None:
    imported = session(user("a"), assistant([call("c1")]), user("b"), assistant([call("c2")]))
    assert imported.turns == [["a", "c1"], ["b", "c2"]]
    assert [event.interrupted for event in imported.of("turn_ended")] == [True, True]


def test_text_next_to_results_joins_the_turn(session: Any) -> None:
    text = {"type": "text", "text": "by the way"}
    imported = session(user("a"), assistant([call("c1")]), user([result("c1"), text]), assistant("b"))
    assert imported.turns == [["a", "c1", "c1", "by the way", "b"]]


def test_records_that_claude_code_writes_during_the_work_join_the_turn(session: Any) -> None:
    imported = session(
        user("a"),
        assistant([call("c1", "Skill")]),
        user([result("c1")]),
        user("Base directory for this skill", isMeta=True),
        assistant("b"),
        user("[Request interrupted by user]"),
        user("Caveat: local commands", isMeta=True),
        user("c"),
    )
    assert imported.turns == [
        ["a", "c1", "c1", "Base directory for this skill", "b", "[Request interrupted by user]"],
        ["Caveat: local commands", "c"],
    ]
    assert [event.interrupted for event in imported.of("turn_ended")] == [True, False]


# -- the active chain -----------------------------------------------------------------------------------------


def test_an_edited_prompt_abandons_what_followed_it(session: Any) -> None:
    imported = session(
        user("a", "u1"),
        assistant("b", "a1", "u1"),
        user("first try", "u2", "a1"),
        assistant("wrong", "a2", "u2"),
        user("go on", "u3", "a2"),
        assistant("worse", "a3", "u3"),
        user("second try", "u4", "a1"),
        assistant("right", "a4", "u4"),
    )
    assert imported.shown == ["a", "b", "second try", "right"]
    assert imported.turns == [["a", "b"], ["first try", "wrong"], ["go on", "worse"], ["second try", "right"]]
    assert (imported.report.turns, imported.report.dropped) == (4, 2)
    drops = imported.of("drop")
    assert [imported.messages[at].id for at in (2, 4)] == [event.data["turn"] for event in drops]
    for event in drops:
        imported.agent.do(f"/restore {event.id}")
    assert imported.shown == ["a", "b", "first try", "wrong", "go on", "worse", "second try", "right"]


def test_a_sidechain_is_a_dropped_turn_behind_the_one_it_began_in(session: Any) -> None:
    imported = session(
        user("a", "u1"),
        assistant([call("task", "Task")], "a1", "u1"),
        user("sub prompt", "s1", None, **SIDE),
        assistant([call("s")], "s2", "s1", **SIDE),
        user([result("s")], "s3", "s2", **SIDE),
        assistant("sub answer", "s4", "s3", **SIDE),
        user([result("task")], "u2", "a1"),
        assistant("b", "a2", "u2"),
        user("c", "u3", "a2"),
    )
    assert imported.shown == ["a", "task", "task", "b", "c"]
    assert imported.turns == [["a", "task", "task", "b"], ["sub prompt", "s", "s", "sub answer"], ["c"]]
    assert imported.report.dropped == 1


@pytest.mark.parametrize("named", [True, False])
def test_sidechains_side_by_side_are_told_apart(named: Any, session: Any) -> None:
    side = [{**SIDE, "agentId": name} if named else SIDE for name in ("one", "two")]
    imported = session(
        user("a", "u1"),
        assistant([call("t1"), call("t2")], "a1", "u1"),
        user("p1", "s1", None, **side[0]),
        user("p2", "r1", None, **side[1]),
        assistant("q1", "s2", "s1", **side[0]),
        assistant("q2", "r2", "r1", **side[1]),
        user([result("t1"), result("t2")], "u2", "a1"),
        assistant("b", "a2", "u2"),
    )
    assert imported.turns == [["a", "t1", "t2", "t1", "t2", "b"], ["p1", "q1"], ["p2", "q2"]]
    assert imported.shown == imported.turns[0]


def test_a_file_with_only_a_sidechain_is_shown(session: Any) -> None:
    imported = session(user("sub prompt", "s1", None, **SIDE), assistant("sub answer", "s2", "s1", **SIDE))
    assert imported.shown == ["sub prompt", "sub answer"]
    assert imported.report.dropped == 0


def test_parallel_calls_fork_the_chain_and_lose_nothing(session: Any) -> None:
    imported = session(
        user("a", "u1"),
        assistant([call("c1")], "a1", "u1", "m1"),
        assistant([call("c2")], "a2", "a1", "m1"),
        user([result("c1")], "r1", "a1"),
        user("Base directory", "k1", "r1", isMeta=True, sourceToolUseID="c1"),
        user([result("c2")], "r2", "a2"),
        assistant("b", "a3", "r2", "m2"),
    )
    assert imported.shown == ["a", "c1", "c2", "c1", "c2", "Base directory", "b"]
    assert imported.report.dropped == 0


def test_parallel_calls_off_the_main_chain_are_shown(session: Any) -> None:
    imported = session(
        user("a", "u1"),
        assistant([call("c1")], "a1", "u1", "m1"),
        assistant([call("c2")], "a2", "a1", "m1"),
        user([result("c2")], "r2", "a2"),
        user([result("c1")], "r1", "a1"),
        assistant("b", "a3", "r1", "m2"),
    )
    assert imported.shown == ["a", "c1", "c2", "c1", "c2", "b"]


def test_the_main_chain_passes_through_records_that_are_not_messages(session: Any) -> None:
    imported = session(
        user("a", "u1"),
        {"type": "attachment", "uuid": "x1", "parentUuid": "u1"},
        {"type": "progress", "uuid": "x2", "parentUuid": "x1"},
        {"type": "progress", "uuid": "x3", "parentUuid": "x1"},
        assistant("b", "a1", "x3"),
    )
    assert imported.shown == ["a", "b"]
    assert imported.report.kept == 3


@pytest.mark.parametrize("parent", [None, "nowhere", "later", "u2"])
@pytest.mark.parametrize("seconds", [5, 6])
def test_a_missing_parent_is_the_record_before_if_that_is_near_in_time(parent: Any, seconds: int, session: Any) -> None:
    """Only if there is none, or if it is in a loop. Claude Code goes on with records of the last five seconds."""
    late = {"timestamp": f"2025-10-01T10:00:{seconds:02}.500Z"}
    imported = session(
        user("a", "u1"),
        assistant("b", "a1", "u1", timestamp="2025-10-01T10:00:00.500Z"),
        user("c", "u2", parent, **late),
        assistant("d", "later", "u2", **late),
    )
    assert imported.shown == (["a", "b", "c", "d"] if parent and seconds == 5 else ["c", "d"])
    assert imported.report.dropped == (imported.shown == ["c", "d"])


EARLY = [
    user("first", "u1"),
    user([result("t1")], "r1", "a1"),
    assistant([call("t1")], "a1", "u1", "m1"),
    assistant([call("t2")], "a2", "r1", "m2"),
    user([result("t2")], "r2", "a2"),
    assistant("bye", "a3", "r2", "m3"),
]


def test_a_result_that_precedes_the_call_it_names_as_its_parent_follows_it(session: Any) -> None:
    imported = session(*EARLY)
    assert imported.shown == ["first", "t1", "t1", "t2", "t2", "bye"]
    assert [event.kind for event in imported.messages][1:3] == ["tool_call", "tool_result"]
    assert (imported.report.turns, imported.report.dropped) == (1, 0)


def test_a_message_that_precedes_its_parent_follows_it(session: Any) -> None:
    imported = session(
        user("a", "u1"), user("c", "u2", "a1"), assistant("b", "a1", "u1"), user("x", "x1", "u1"), user("d", "u3", "u2")
    )
    assert imported.shown == ["a", "b", "c", "d"]
    assert imported.report.dropped == 1


@pytest.mark.parametrize("records", range(1, len(EARLY)))
def test_a_result_before_its_call_is_the_same_in_a_session_that_grows(records: int, load: Any, tmp_path: Path) -> None:
    path = tmp_path / "grows.jsonl"
    path.write_bytes(jsonl(*EARLY[:records]))
    load(path)
    path.write_bytes(jsonl(*EARLY))
    assert sorted(load(path).shown) == ["bye", "first", "t1", "t1", "t2", "t2"]


def test_records_that_continue_each_other_continue_the_record_before(session: Any) -> None:
    loop = [user("x", "x1", "x3"), assistant("y", "x2", "x1"), user("z", "x3", "x2")]
    assert session(user("a", "u1"), *loop).shown == ["a", "x", "y", "z"]
    assert session(user("a", "u1"), user("self", "s", "s")).shown == ["a", "self"]


def test_duplicate_uuids_and_cycles(session: Any) -> None:
    imported = session(
        user("a", "x", "y"),
        assistant("b", "y", "x"),
        user("c", "x", "y"),
        assistant("d", "y", "x"),
        user("e", "z", "y"),
    )
    assert imported.shown == ["a", "b", "e"]
    assert [record["message"]["content"] for record in imported.kept] == ["c", "d"]


def test_a_record_written_twice_is_shown_once(session: Any) -> None:
    again = assistant("b", "a1", "u1", "m1")
    imported = session(user("a", "u1"), again, again, user("c", "u2", "a1"), again)
    assert imported.shown == ["a", "b", "c"]
    assert len(imported.kept) == 2


def test_results_in_another_branch_stay_off_the_main_chain(session: Any) -> None:
    imported = session(
        user("a", "u1"),
        assistant([call("c1")], "a1", "u1"),
        user("p", "s1", None, **SIDE),
        user([result("c1")], "s2", "s1", **SIDE),
        user([result("c1")], "r1", "a1"),
        assistant("b", "a2", "r1"),
    )
    assert imported.shown == ["a", "c1", "c1", "b"]
    assert len(imported.kept) == 1


def test_call_ids_used_twice_and_results_without_call(session: Any) -> None:
    imported = session(
        user("a"),
        assistant([call("c1"), call("c1")]),
        user([result("c1", "one"), result("c1", "two"), result("c1", "three"), result("nobody")]),
    )
    assert imported.shown == ["a", "c1", "c1", "c1", "c1", "c1", "nobody"]
    assert [event.answers is None for event in imported.of("tool_result")] == [False, False, True, True]


# -- the conversation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("my session.jsonl", "my session"),
        ("2d984148-cddb-4605-aac1-13e720fe613c.jsonl", "claude-2d984148"),
        ("2D984148-CDDB-4605-AAC1-13E720FE613C.jsonl", "claude-2D984148"),
        ("a\nb\x1b[31m\u202e.jsonl", "ab[31m"),
        ("\n.jsonl", "claude-session"),
        ("bad\udcff.jsonl", "bad"),
    ],
)
def test_default_name(file: Any, name: Any) -> None:
    assert default_name(Path("folder") / file) == name


def test_a_name_that_is_taken_is_refused_and_nothing_is_written(log: foldmark.Log, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(jsonl(user("hello")))
    first = import_session(log, path)
    assert first.name == "session"
    other = tmp_path / "elsewhere" / "session.jsonl"
    other.parent.mkdir()
    other.write_bytes(jsonl(user("somebody else's")))
    log.agent("mine").append("user", "my own")
    with pytest.raises(CommandError, match=r"'session' already.*--as"):
        import_session(log, other)
    with pytest.raises(CommandError, match=r"'mine' already.*--as"):
        import_session(log, path, "mine")
    assert import_session(log, path, "other").name == "other"
    for name in ("", "a\nb", first.agent_id, "2d984148-cddb-4605-aac1-13e720fe613c"):
        with pytest.raises(CommandError):
            import_session(log, path, name)
    assert len(log.agent("session").context().messages) == 1
    assert len(log.agents()) == 3


def test_an_interrupted_import_leaves_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(jsonl(*(user("x" * 100_000) for _ in range(30))))

    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    with foldmark.open(tmp_path / "chat.db") as log:
        with pytest.raises(KeyboardInterrupt):
            import_session(log, path, progress=stop)
        assert not log.exists("session") or len(log.agent("session").context().messages) == 0
        assert import_session(log, path).messages == {"user": 30}


def test_progress_grows_up_to_the_size_of_the_file(log: foldmark.Log, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(jsonl(*(user("x" * 100_000) for _ in range(30))))
    told = []
    import_session(log, path, progress=lambda done, total: told.append((done, total)))
    size = path.stat().st_size
    assert told == sorted(told)
    assert len(told) > 5
    assert told[-1] == (size, size)
    assert {total for _, total in told} == {size}


def test_the_time_of_metadata_is_that_of_the_record_before_it(session: Any) -> None:
    imported = session({"type": "summary", "summary": "S"}, user("a"), {"type": "ai-title"})
    assert {event.created_at for event in imported.events} == {TIME.replace("000Z", "000000Z")}
