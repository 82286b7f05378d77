"""The golden examples of SPEC 3 and the timelines of [S0] and [S1], through the public library (SPEC 9)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foldmark


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Any]:
    log = foldmark.open(str(tmp_path / "chat.db"))
    yield log
    log.close()


@pytest.fixture
def agent(log: Any) -> Any:
    return log.agent("default")


def turns(agent: Any, *texts: str) -> list[int]:
    """Append each text as a separate turn."""
    ids = []
    for text in texts:
        ids.append(agent.append("user", text))
        agent.end_turn()
    return ids


def messages(agent: Any, first: int, last: int) -> list[int]:
    """Append the messages `first` to `last` of a numbered timeline, user and assistant alternating."""
    ids = []
    for n in range(first, last + 1):
        ids.append(agent.append("user" if n % 2 else "assistant", f"message {n}"))
        if n % 2 == 0:
            agent.end_turn()
    return ids


def texts(agent: Any) -> list[str]:
    return [m.content for m in agent.context().messages]


def ids(agent: Any) -> list[int]:
    return [m.id for m in agent.context().messages]


def uuid(agent: Any) -> str:
    """Return the uuid of an agent, given as the agent or as the uuid."""
    return str(getattr(agent, "id", agent))


def test_1_rewind_to_a_mark(agent: Any) -> None:
    turns(agent, "A", "B")
    assert agent.do("/mark M").text.startswith("Checkpoint 'M' created.")
    turns(agent, "C", "D", "E")
    assert agent.do("/clear M").text.startswith("Rewound to 'M'.")
    assert texts(agent) == ["A", "B"]


def test_1_fork_from_a_mark(log: Any, agent: Any) -> None:
    turns(agent, "A", "B")
    agent.do("/mark M")
    turns(agent, "C", "D", "E")
    before = (ids(agent), dict(agent.context().marks), list(agent.context().segments))
    result = agent.do("/fork M")
    child = log.agent(result.data["child"])
    assert result.text.startswith("Forked. Child: ")
    assert "(from M)" in result.text
    assert texts(child) == ["C", "D", "E"]
    assert not child.context().marks
    assert (ids(agent), dict(agent.context().marks), list(agent.context().segments)) == before
    assert uuid(child.parent) == agent.id
    assert [uuid(c) for c in agent.children] == [child.id]


def test_2_rewind_is_truncation_and_not_a_snapshot(agent: Any) -> None:
    m = [0, *messages(agent, 1, 100)]
    agent.do("/mark HERE")
    m += messages(agent, 101, 150)
    agent.apply_filter("forget", m[50:76], planning=(m[140], m[145]), criteria="schema")
    m += messages(agent, 151, 200)
    rewind = agent.do("/rewind HERE")
    assert ids(agent) == m[1:50] + m[76:101]
    agent.do(f"/restore {rewind.event_id}")
    assert ids(agent) == m[1:50] + m[76:140] + m[146:201]


def test_2_timeline_of_seed_1(agent: Any) -> None:
    """[S1] writes `/mark` and `/rewind` without a name, and applies each step to the result of the one before."""
    m = [0, *messages(agent, 1, 100)]
    mark = agent.do("/mark").event_id
    assert dict(agent.context().marks) == {"mark-1": mark}
    m += messages(agent, 101, 150)
    assert ids(agent) == m[1:151]
    agent.apply_filter("forget", m[50:76], planning=(m[140], m[145]))
    assert ids(agent) == m[1:50] + m[76:140] + m[146:151]
    m += messages(agent, 151, 200)
    agent.do("/rewind")
    assert ids(agent) == m[1:50] + m[76:101]
    assert dict(agent.context().marks) == {"mark-1": mark}


def test_3_marks_in_falling_order(agent: Any) -> None:
    for name in ("PHASE_1", "PHASE_2"):
        agent.do(f"/mark {name}")
        turns(agent, name)
    agent.do("/clear PHASE_2")
    assert texts(agent) == ["PHASE_1"]
    agent.do("/clear PHASE_1")
    assert texts(agent) == []
    assert list(agent.context().marks) == ["PHASE_1"]


def test_3_marks_in_rising_order(agent: Any) -> None:
    for name in ("PHASE_1", "PHASE_2"):
        agent.do(f"/mark {name}")
        turns(agent, name)
    agent.do("/clear PHASE_1")
    turns(agent, "again")
    with pytest.raises(foldmark.CommandError, match="PHASE_1"):
        agent.do("/clear PHASE_2")
    assert texts(agent) == ["again"]


def test_4_a_mark_moves(agent: Any) -> None:
    turns(agent, "A")
    agent.do("/mark M")
    turns(agent, "B")
    assert agent.do("/mark M").text.startswith("Checkpoint 'M' moved.")
    turns(agent, "C")
    agent.do("/clear M")
    assert texts(agent) == ["A", "B"]


def test_5_parent_clears_after_a_fork(log: Any, agent: Any) -> None:
    turns(agent, "A", "B")
    agent.do("/mark M")
    child = log.agent(agent.do("/fork").data["child"])
    assert agent.do("/clear").text.startswith("Context cleared.")
    assert texts(child) == ["A", "B"]
    assert texts(agent) == []
    assert not agent.context().marks


def test_5_grandchild_of_a_trimmed_fork(log: Any, agent: Any) -> None:
    turns(agent, "A", "B")
    agent.do("/mark M")
    turns(agent, "C")
    child = log.agent(agent.do("/fork M").data["child"])
    turns(agent, "D")
    child.do("/mark N")
    turns(child, "E", "F")
    grandchild = log.agent(child.do("/fork").data["child"])
    trimmed = log.agent(child.do("/fork N").data["child"])
    child.do("/clear")
    assert texts(grandchild) == ["C", "E", "F"]
    assert texts(trimmed) == ["E", "F"]
    assert texts(agent) == ["A", "B", "C", "D"]


def test_seed_0_parallel_research(log: Any, agent: Any) -> None:
    """With mark, goal and fork, each child gets only its own task."""
    turns(agent, "earlier work")
    children = []
    for mark, goal in (("AUTH_RESEARCH", "Research OAuth2."), ("SESSION_RESEARCH", "Research sessions.")):
        agent.do(f"/mark {mark}")
        turns(agent, goal)
        children.append(log.agent(agent.do(f"/fork {mark}").data["child"]))
    assert [texts(child) for child in children] == [["Research OAuth2."], ["Research sessions."]]
    assert texts(agent) == ["earlier work", "Research OAuth2.", "Research sessions."]


def test_a_result_without_a_visible_call_becomes_a_notice(agent: Any) -> None:
    agent.do("/mark X")
    agent.append("user", "go")
    agent.append("assistant", "I start over.")
    agent.append_tool_call("slash", {"command": "clear", "args": "X"}, call_id="c1", dialect="openai")
    agent.do("/clear X")
    notice = agent.append_tool_result("c1", "what was found", dialect="openai")
    agent.append("assistant", "done")
    agent.end_turn()
    first, second = agent.context().messages
    assert (first.id, first.kind, first.role) == (notice, "user", "user")
    assert "what was found" in first.content
    assert (second.kind, second.content) == ("assistant", "done")


def test_marks_survive_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "chat.db")
    log = foldmark.open(path)
    agent = log.agent("default")
    turns(agent, "A")
    agent.do("/mark M")
    turns(agent, "B")
    child = agent.do("/fork M").data["child"]
    log.close()
    log = foldmark.open(path)
    agent = log.agent("default")
    assert texts(log.agent(child)) == ["B"]
    agent.do("/clear M")
    assert texts(agent) == ["A"]
    log.close()
