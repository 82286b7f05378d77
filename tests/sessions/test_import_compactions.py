"""Importing a session that Claude Code compacted: the summary replaces the earlier messages and can be undone."""

from __future__ import annotations

from typing import Any

import pytest
from exported import export_of, records_of
from session_records import TIME, assistant, call, result, user

from foldmark.core.errors import CommandError

BEFORE = [user("a", "u1"), assistant("b", "a1", "u1"), user("c", "u2", "a1"), assistant("d", "a2", "u2")]
SHOWN = ["a", "b", "c", "d"]
LATER = "2025-10-01T11:00:00.000Z"
"""So late that a record does not follow the one before it merely because that is near in time."""


def boundary(uuid: str = "x1", logical: str | None = "a2", **metadata: Any) -> dict[str, Any]:
    return {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": uuid,
        "parentUuid": None,
        "logicalParentUuid": logical,
        "timestamp": TIME,
        "compactMetadata": {"trigger": "manual", "preTokens": 5, **metadata},
    }


def kept(anchor: str, *uuids: str) -> dict[str, Any]:
    return {"anchorUuid": anchor, "uuids": list(uuids)}


def summary(text: Any = "S", uuid: str = "s1", parent: str | None = "x1", **fields: Any) -> dict[str, Any]:
    return user(text, uuid, parent, isCompactSummary=True, isVisibleInTranscriptOnly=True, **fields)


@pytest.mark.parametrize("newer", [True, False])
@pytest.mark.parametrize("parent", ["a2", None, "unknown"])
def test_a_compaction_is_a_summary_that_can_be_taken_back(newer: Any, parent: Any, session: Any) -> None:
    first = [boundary(logical=parent), summary()] if newer else [summary(parent=parent, timestamp=LATER)]
    imported = session(*BEFORE, *first, user("e", "u3", "s1"), assistant("f", "a3", "u3"))
    assert imported.shown == ["S", "e", "f"]
    (made,) = imported.of("summary")
    assert made.created_at == (TIME if newer else LATER).replace("000Z", "000000Z")
    assert made.turn_id == made.id
    assert (imported.report.turns, imported.report.dropped) == (4, 0)
    assert imported.report.messages == {"user": 3, "assistant": 3, "summary": 1}
    assert [kept["subtype"] for kept in imported.kept] == ["compact_boundary"] * newer
    with pytest.raises(CommandError, match="/restore"):
        session(*BEFORE, *first).agent.do("/undo")
    imported.agent.do(f"/restore {made.id}")
    assert imported.shown == [*SHOWN, "e", "f"]


def test_consecutive_compactions_are_undone_one_by_one(session: Any) -> None:
    imported = session(
        *BEFORE,
        boundary(),
        summary(),
        user("e", "u3", "s1"),
        assistant("f", "a3", "u3"),
        boundary("x2", "a3"),
        summary("T", "s2", "x2"),
        user("g", "u4", "s2"),
    )
    assert imported.shown == ["T", "g"]
    first, second = imported.of("summary")
    imported.agent.do(f"/restore {second.id}")
    assert imported.shown == ["S", "e", "f", "g"]
    imported.agent.do(f"/restore {first.id}")
    assert imported.shown == [*SHOWN, "e", "f", "g"]


def test_a_compaction_at_the_beginning_is_a_plain_message(session: Any) -> None:
    for first in ([summary(parent=None)], [boundary(logical="elsewhere"), summary()]):
        imported = session({"type": "mode"}, *first, user("a", "u1", "s1"), assistant("b", "a1", "u1"))
        assert imported.said == [("user", "S"), ("user", "a"), ("assistant", "b")]
        assert imported.turns == [["S", "a", "b"]]


def test_a_prompt_written_anew_behind_a_compaction(session: Any) -> None:
    imported = session(
        *BEFORE,
        boundary(),
        summary(),
        user("first try", "u3", "s1"),
        assistant("wrong", "a3", "u3"),
        user("second try", "u4", "s1"),
        assistant("right", "a4", "u4"),
    )
    assert imported.shown == ["S", "second try", "right"]
    (drop,), (made,) = imported.of("drop"), imported.of("summary")
    imported.agent.do(f"/restore {drop.id}")
    assert imported.shown == ["S", "first try", "wrong", "second try", "right"]
    imported.agent.do(f"/restore {made.id}")
    assert imported.shown == [*SHOWN, "first try", "wrong", "second try", "right"]


def test_going_back_before_a_compaction_abandons_it(session: Any) -> None:
    imported = session(
        *BEFORE,
        boundary(),
        summary(),
        user("e", "u3", "s1"),
        assistant("f", "a3", "u3"),
        user("other", "u4", "a1"),
        assistant("way", "a4", "u4"),
    )
    assert imported.shown == ["a", "b", "other", "way"]
    assert not imported.of("summary")
    assert imported.turns == [["a", "b"], ["c", "d"], ["S", "e", "f"], ["other", "way"]]


def test_a_branch_abandoned_before_a_compaction_stays_out_when_that_is_taken_back(session: Any) -> None:
    imported = session(
        *BEFORE[:2],
        user("lost", "l1", "a1"),
        assistant("lost too", "l2", "l1"),
        *BEFORE[2:],
        boundary(),
        summary(),
        user("e", "u3", "s1"),
    )
    assert imported.shown == ["S", "e"]
    (drop,), (made,) = imported.of("drop"), imported.of("summary")
    assert drop.id < made.id
    imported.agent.do(f"/restore {made.id}")
    assert imported.shown == [*SHOWN, "e"]


def test_a_boundary_continues_what_it_names(session: Any) -> None:
    imported = session(*BEFORE, user("lost", "l1", "a1"), boundary(), summary(), user("e", "u3", "s1"))
    assert imported.shown == ["S", "e"]
    (made,) = imported.of("summary")
    imported.agent.do(f"/restore {made.id}")
    assert imported.shown == [*SHOWN, "e"]


def test_a_result_after_a_compaction_leaves_with_its_call(session: Any) -> None:
    """The result leaves the context even though the file has it after the compaction."""
    imported = session(
        user("a", "u1"),
        assistant([call("c1")], "a1", "u1", "m1"),
        user([result("c1")], "r1", "a1"),
        assistant([call("c2")], "a2", "r1", "m2"),
        boundary(logical="a2"),
        summary(),
        user([result("c2")], "r2", "a2"),
        assistant([call("c3")], "a3", "s1"),
        user([result("c3")], "r3", "a3"),
        assistant("b", "a4", "r3"),
    )
    assert imported.shown == ["S", "c3", "c3", "b"]
    assert imported.turns == [["a", "c1", "c1", "c2", "c2"], ["S"], ["c3", "c3", "b"]]
    (made,) = imported.of("summary")
    imported.agent.do(f"/restore {made.id}")
    assert imported.shown == ["a", "c1", "c1", "c2", "c2", "c3", "c3", "b"]


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ({"preservedMessages": {"anchorUuid": "s1", "uuids": ["u2", "a2"]}}, ["S", "c", "d", "e"]),
        ({"preservedSegment": {"anchorUuid": "s1", "headUuid": "u2", "tailUuid": "a2"}}, ["S", "c", "d", "e"]),
        ({"preservedMessages": {"anchorUuid": "x1", "uuids": ["u1", "a1"]}}, ["a", "b", "S", "e"]),
        ({"preservedSegment": {"anchorUuid": "x1", "headUuid": "u1", "tailUuid": "a1"}}, ["a", "b", "S", "e"]),
        ({"preservedSegment": {"anchorUuid": "s1", "headUuid": "nobody", "tailUuid": "a2"}}, ["S", "e"]),
        ({"preservedSegment": {"anchorUuid": 1, "headUuid": [], "tailUuid": {}}}, ["S", "e"]),
        ({"preservedMessages": {"anchorUuid": "s1", "uuids": [None, 7, "nobody"]}}, ["S", "e"]),
        ({"preservedMessages": [], "preservedSegment": "x"}, ["S", "e"]),
    ],
)
def test_records_preserved_by_a_compaction_stay(kept: Any, shown: Any, session: Any) -> None:
    imported = session(*BEFORE, boundary(**kept), summary(), user("e", "u3", "s1"))
    assert imported.shown == shown
    (made,) = imported.of("summary")
    imported.agent.do(f"/restore {made.id}")
    assert imported.shown == [*SHOWN, "e"]


@pytest.mark.parametrize("listed", [True, False])
def test_later_records_continue_the_preserved_ones(listed: Any, session: Any) -> None:
    """In files of Claude Code 2.1, the parent of the next record precedes the boundary."""
    ends = {"anchorUuid": "s1", "headUuid": "a2", "tailUuid": "a2"}
    kept = {"preservedMessages": {"anchorUuid": "s1", "uuids": ["a2"]}} if listed else {"preservedSegment": ends}
    imported = session(
        *BEFORE,
        boundary(**kept),
        summary(),
        user("/compact", "u3", "a2"),
        user("e", "u4", "u3"),
        assistant("f", "a4", "u4"),
        user("other", "u5", "a2"),
        assistant("g", "a5", "u5"),
    )
    assert imported.shown == ["S", "d", "other", "g"]
    assert imported.report.dropped == 1
    (made,) = imported.of("summary")
    imported.agent.do(f"/restore {made.id}")
    assert imported.shown == [*SHOWN, "other", "g"]


def test_a_preserved_segment_leads_over_records_of_progress(session: Any) -> None:
    progress = {"type": "progress", "uuid": "p1", "parentUuid": "a1", "timestamp": TIME}
    segment = {"anchorUuid": "s1", "headUuid": "u1", "tailUuid": "a2"}
    before = (user("a", "u1"), assistant("b", "a1", "u1"), progress, user("c", "u2", "p1"), assistant("d", "a2", "u2"))
    imported = session(*before, boundary(preservedSegment=segment), summary(), user("e", "u3", "s1"))
    assert imported.shown == ["S", "a", "b", "c", "d", "e"]


def test_a_compaction_that_preserves_everything_replaces_nothing(session: Any) -> None:
    kept = {"anchorUuid": "x1", "uuids": ["u1", "a1", "u2", "a2"]}
    imported = session(*BEFORE, boundary(preservedMessages=kept), summary(), user("e", "u3", "s1"))
    assert imported.shown == [*SHOWN, "S", "e"]
    assert not imported.of("summary")


def test_torn_compactions(session: Any) -> None:
    """A compaction that nothing continues replaces nothing. If a message continues it, it needs no summary."""
    assert session(*BEFORE, boundary()).shown == SHOWN
    cut = session(
        *BEFORE, boundary(), b'{"type":"user","isCompactSummary":true,"mess\n', user("e", "u3", "s1", timestamp=LATER)
    )
    assert cut.shown == ["e"], "the parent of the message is missing"
    for content in ("", [], None, [result("c1")], 7):
        imported = session(*BEFORE, boundary(), summary(content), user("e", "u3", "s1"))
        assert imported.agent.context().messages[-1].content == "e"
        assert len(imported.of("summary")) == (content == "")
    for wrong in ("yes", 1, None):
        imported = session(*BEFORE, boundary(), {**summary(), "isCompactSummary": wrong}, user("e", "u3", "s1"))
        assert imported.shown == ["S", "e"]


def test_a_summary_of_several_texts_and_an_image(session: Any) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
    record = summary([{"type": "text", "text": "S"}, image, {"type": "text", "text": "T"}])
    imported = session(*BEFORE, boundary(), record)
    assert imported.shown == ["S\n\nT"]
    assert imported.kept[-1] == record


def test_a_compaction_summary_in_a_sidechain_is_a_message(session: Any) -> None:
    imported = session(*BEFORE, summary(isSidechain=True), user("e", "u3", "a2"))
    assert imported.shown == [*SHOWN, "e"]
    assert not imported.of("summary")


def test_many_compactions_that_preserve_everything_terminate(session: Any) -> None:
    records: list[Any] = [*BEFORE]
    for number in range(200):
        kept = {"preservedSegment": {"anchorUuid": f"s{number}-", "headUuid": "u1", "tailUuid": "a2"}}
        records += [boundary(f"x{number}-", f"s{number - 1}-" if number else "a2", **kept)]
        records += [summary(f"S{number}", f"s{number}-", f"x{number}-")]
    assert session(*records).shown[-1] == "d"


def test_a_compaction_is_sent_as_the_users_first_text(session: Any) -> None:
    imported = session(*BEFORE, boundary(), summary(), user("e", "u3", "s1"), assistant("f", "a3", "u3"))
    messages = imported.agent.request(provider="anthropic", model="claude-opus-4-5").body["messages"]
    assert [each["role"] for each in messages[:2]] == ["user", "assistant"]
    assert [block["text"] for block in messages[0]["content"]] == ["S", "e"]
    assert [event.role for event in imported.agent.context().messages] == ["user", "user", "assistant"]


def test_a_summary_behind_an_answer_is_exported_as_the_users_text(session: Any) -> None:
    records = [user("e", "u3", "s1"), assistant("f", "a3", "u3")]
    imported = session(*BEFORE, boundary("x1", "a2", preservedMessages=kept("x1", "u1", "a1")), summary(), *records)
    assert imported.shown == ["a", "b", "S", "e", "f"]
    exported = records_of(export_of(imported.agent))
    assert [each["message"]["role"] for each in exported] == ["user", "assistant", "user", "user", "assistant"]
    assert not any(each.get("isCompactSummary") for each in exported)
