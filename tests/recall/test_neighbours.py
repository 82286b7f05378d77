"""The neighbours of a message: `Log.around`, and the places that name a message (SPEC 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import foldmark
from foldmark.core import selections
from foldmark.core.errors import CommandError
from foldmark.core.search import Excerpt, PassageMessage, excerpt_text
from foldmark.log.search import message_excerpt, message_named
from sampled import DEEP
from stored import stored

Say = Callable[..., list[int]]


def ids(found: list[Any]) -> list[int]:
    return [each.event.id for each in found]


def test_neighbours_come_from_the_same_conversation(log: foldmark.Log, say: Say) -> None:
    agent, other = log.agent("default"), log.agent("other")
    mine = []
    for number in range(6):
        mine += say(agent, f"mine {number}")
        say(other, f"theirs {number}")
    assert ids(log.around(mine[2])) == mine[:6]
    assert ids(log.around(mine[2], 1)) == mine[1:4]
    assert ids(log.around(mine[2], 0)) == [mine[2]]
    assert ids(log.around(mine[5], 2)) == mine[3:]
    assert ids(log.around(mine[0], 1000)) == mine


def test_neighbours_include_forgotten_and_erased_messages(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    a, b, c, d = say(agent, "one", "two", "three", "four")
    agent.do(f"/context drop {a}")
    agent.do(f"/message remove {c} --yes")
    found = log.around(b)
    assert [(each.event.id, each.visible, each.erased, each.event.content) for each in found] == [
        (a, False, False, "one"),
        (b, True, False, "two"),
        (c, False, True, ""),
        (d, True, False, "four"),
    ]
    assert ids(log.around(d, 1)) == [c, d], "what was erased counts as a neighbour"
    (asked,) = log.around(c, 0)
    assert asked.erased
    by = selections.erased_by(stored(log), c)
    assert by is not None
    assert excerpt_text(message_excerpt(log, c, 0), None, 100, "").endswith(
        f"> message {c}, user, 2026-03-15 12:00, erased by a human on {by.created_at[:10]}:"
    )


def test_no_message_of_a_deleted_conversation_is_visible(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("gone")
    (a,) = say(agent, "one")
    log.agent("default").do("/session delete gone --yes")
    (only,) = log.around(a)
    assert (only.visible, only.erased, only.event.content) == (False, True, "")


def test_tools_and_messages_without_text_are_shown(log: foldmark.Log) -> None:
    agent = log.agent("default")
    agent.append("user", "look")
    call = agent.append_tool_call("grep", {"pattern": "x"}, call_id="c1", dialect="openai")
    agent.append_tool_result("c1", "found", dialect="openai")
    lines = message_excerpt(log, call, 1).lines
    assert [(line.role, line.tool, line.text, line.asked) for line in lines] == [
        ("user", None, "look", False),
        ("tool_call", "grep", '{"pattern":"x"}', True),
        ("tool_result", "grep", "found", False),
    ]


@pytest.mark.parametrize("wrong", [0, -1, 99, 2**63, 10**30, "x", None])
def test_an_unknown_message_is_refused(log: foldmark.Log, say: Say, wrong: Any) -> None:
    say(log.agent("default"), "one")
    with pytest.raises(CommandError, match="there is no message"):
        log.around(wrong)


def test_an_operation_is_not_a_message(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    say(agent, "one")
    cleared = agent.do("/clear").event_id
    assert cleared is not None
    with pytest.raises(CommandError, match=f"event {cleared} is of kind 'clear', not a message"):
        log.around(cleared)


@pytest.mark.parametrize("wrong", [-1, 1001, "3", 1.0])
def test_a_wrong_number_of_neighbours_is_refused(log: foldmark.Log, say: Say, wrong: Any) -> None:
    (a,) = say(log.agent("default"), "one")
    with pytest.raises(CommandError, match="the number of neighbours must be from 0 to 1000"):
        log.around(a, wrong)


def test_a_message_is_named_by_its_id_or_its_conversation_and_id(log: foldmark.Log, say: Say) -> None:
    agent, other = log.agent("default"), log.agent("side: project")
    (a,), (b,) = say(agent, "one"), say(other, "two")
    child = log.agent(agent.do("/fork").data["child"])
    assert message_named(log, f"{a}") == a
    assert message_named(log, f"default:{a}") == a
    assert message_named(log, f"side: project:{b}") == b
    assert message_named(log, f"{agent.id[:8]}:{a}") == a
    assert message_named(log, f"{child.id}:{a}") == a, "it was inherited"
    for none in (
        "",
        "default",
        "99",
        "nobody:1",
        ":1",
        f"{a}:",
        "default:x",
        "/p/a.jsonl:1",
        "\ud800:1",
        "\0:1",
        "²:1",
    ):
        assert message_named(log, none) is None
    with pytest.raises(CommandError, match=f"there is no message {b} in default; it belongs to side: project"):
        message_named(log, f"default:{b}")
    with pytest.raises(CommandError, match=r"there is no message 999 in default$"):
        message_named(log, "default:999")


def test_neighbours_of_a_passage_are_cut_shorter() -> None:
    lines = (
        PassageMessage("line 1", "s:1", "user", None, "2026-01-01T10:00:00Z", "a" * 30),
        PassageMessage("line 2", "s:2", "tool_result", "Bash\n", None, "b" * 30, asked=True, note="kept"),
        PassageMessage("line 3", "s:3", "assistant", None, None, ""),
    )
    assert excerpt_text(Excerpt("a\nsession", lines), 20, 10, "read ") == "\n".join(
        [
            "a\\nsession",
            "",
            "- line 1, user, 2026-01-01 10:00:",
            "a" * 10,
            "[20 more characters: read s:1]",
            "",
            "> line 2, tool_result Bash\\n, kept:",
            "b" * 20,
            "[10 more characters]",
            "",
            "- line 3, assistant:",
        ]
    )
    nobody_asked = Excerpt("s", (lines[0],))
    assert "more character" not in excerpt_text(nobody_asked, None, 10, "")


def test_neighbours_may_be_far_away_in_the_log(log: foldmark.Log, say: Say) -> None:
    """Any number of other agents' messages may lie between two messages of one agent."""
    agent, other = log.agent("default"), log.agent("other")
    (a,) = say(agent, "one")
    with other.batch():
        for number in range(6000 if DEEP else 2000):
            other.append("user", f"{number}")
            other.end_turn()
    (b,) = say(agent, "two")
    assert b - a > (10_000 if DEEP else 4_000)
    assert ids(log.around(a, 5)) == ids(log.around(b, 5)) == [a, b]
