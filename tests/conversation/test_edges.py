"""Edge cases that once failed, tested through the public names of the library."""

from pathlib import Path

import apsw
import pytest

import foldmark
from answering import answered_by
from foldmark import Agent, CommandError, Log, StoreError
from foldmark.log.doctor import StoreFinding, examine, repair
from foldmark.rendering import result_text
from stored import connection, stored


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return foldmark.open(str(tmp_path / "log.db"))


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("default")


def shown(agent: Agent) -> list[str]:
    return [message.content for message in agent.context().messages]


@pytest.mark.parametrize("blocks", [[5], [None, "x", [1], {"type": "image"}], {"type": "image"}, "text", 7])
def test_blocks_of_any_shape_can_be_shown(agent: Agent, blocks: object) -> None:
    agent.append("user", "", data={"blocks": blocks})
    assert "(turn 1): empty, " in agent.do("/context show").text
    assert "user:" in agent.do("/context at 1").text


def test_a_refused_append_leaves_the_sums_of_its_batch_right(log: Log, agent: Agent) -> None:
    with agent.batch():
        for wrong in ({"dialect": "klingon"}, {"data": {"$v": 1}}, {"created_at": "yesterday"}):
            with pytest.raises(CommandError):
                agent.append("user", "refused", **wrong)
        agent.append("user", "kept")
    assert shown(agent) == ["kept"]
    assert len(agent.context().messages) == 1
    assert list(examine(log)) == []


def test_an_agent_without_stored_segments_is_replayed(log: Log, agent: Agent) -> None:
    agent.append("user", "A")
    agent.append("assistant", "B")
    child = log.agent(agent.do("/fork").data["child"])
    child.append("user", "C")
    connection(log).execute("DELETE FROM folds")
    assert len(child.context().messages) == 3
    assert child.context().messages[-3:] == list(child.context().messages)
    assert child.do("/mark").data["after"]["messages"] == 3
    assert list(examine(log)) == []


@pytest.mark.parametrize("column", ["head", "open_turn", "messages", "tokens"])
def test_the_doctor_reports_a_wrong_row_and_computes_nothing_from_it(log: Log, agent: Agent, column: str) -> None:
    agent.append("user", "A")
    agent.do("/mark")
    connection(log).execute(f"UPDATE agents SET {column} = coalesce({column}, 0) + 5")
    found = list(examine(log))
    assert any(column.replace("open_", "open ") in each.text for each in found)
    assert not repair(log, StoreFinding("the segments differ", agent.id))


def test_planning_ids_may_be_inherited_but_not_foreign(log: Log, agent: Agent) -> None:
    first, last = agent.append("user", "plan"), agent.append("assistant", "planned")
    agent.append("user", "kept")
    stranger = log.agent("other").append("user", "not yours")
    child = log.agent(agent.do("/fork").data["child"])
    child.apply_filter("forget", [], planning=(first, last))
    assert shown(child) == ["kept"]
    assert shown(agent) == ["plan", "planned", "kept"]
    for wrong in ((first, stranger), (last, first), (0, 1), (first, 2**70), ("a", "b")):
        with pytest.raises(CommandError, match="planning must be"):
            child.apply_filter("forget", [], planning=wrong)  # type: ignore[arg-type]


def test_ids_that_are_not_numbers_are_refused(agent: Agent) -> None:
    agent.append("user", "A")
    for wrong in ([1, "2"], [[1]], [None]):
        with pytest.raises(CommandError, match="ids must be numbers"):
            agent.apply_filter("forget", wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("call_id", [None, 5, {"a": 1}, ["x"]])
def test_a_call_id_is_text(agent: Agent, call_id: object) -> None:
    with pytest.raises(CommandError, match="call id"):
        agent.append_tool_call("t", {}, call_id=call_id)  # type: ignore[arg-type]
    with pytest.raises(CommandError, match="call id"):
        agent.append_tool_result(call_id, "x")  # type: ignore[arg-type]
    assert agent.context().at == 0


def test_google_is_an_alias_of_gemini(agent: Agent) -> None:
    agent.append_tool_call("t", {}, call_id="c", dialect="google")
    assert agent.context().messages[0].dialect == "gemini"


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_a_database_needs_a_name(path: str) -> None:
    with pytest.raises(StoreError, match="file name"):
        foldmark.open(path)


def test_an_ambiguous_beginning_of_an_id_creates_no_conversation(log: Log, agent: Agent) -> None:
    record = stored(log).agents()[0]
    for number in (1, 2):
        connection(log).execute(
            "INSERT INTO agents (id, root, created_at) VALUES (?, 0, ?)", (f"deadbeef-{number}", record.created_at)
        )
    with pytest.raises(CommandError, match="several uuids begin with"):
        log.find("deadbeef", create=True)
    assert log.find("new one", create=True).name == "new one"


def test_the_receipt_says_what_closure_added(agent: Agent) -> None:
    agent.append_tool_call("t", {}, call_id="c")
    agent.end_turn()
    agent.append("user", "meanwhile")
    agent.append_tool_result("c", "late")
    turn = agent.context().messages[1].id
    result = agent.do(f"/context drop {turn}")
    assert result.data["widened"] == [1]
    assert "1 of them for whole exchanges" in result_text(result)
    assert shown(agent) == []


def test_many_parallel_calls_are_one_exchange(log: Log, agent: Agent) -> None:
    """Results directly after their calls are not `apart`; a result after other text is."""
    for number in range(3):
        agent.append_tool_call("t", {}, call_id=f"c{number}")
    agent.append_tool_result("c2", "x")
    agent.append_tool_result("c0", "x")
    agent.append("user", "meanwhile")
    late = agent.append_tool_result("c1", "x")
    found = connection(log).execute("SELECT id FROM events WHERE apart").fetchall()
    assert found == [(late,)]
    agent.do("/mark")
    agent.end_turn()
    assert list(examine(log)) == []


def test_only_the_newest_turns_are_read(log: Log, agent: Agent) -> None:
    for number in range(20):
        agent.append("user", f"question {number}")
        agent.append("assistant", f"answer {number}")
        agent.end_turn()
    turns = agent.context().turns(2)
    assert [[message.content for message in turn.messages] for turn in turns] == [
        ["question 18", "answer 18"],
        ["question 19", "answer 19"],
    ]
    assert [turn.id for turn in turns] == [turn.messages[0].id for turn in turns]
    assert isinstance(connection(log), apsw.Connection)


def test_a_cut_moved_after_a_late_result_may_be_inside_the_next_exchange(agent: Agent) -> None:
    """The mark is inside an exchange whose result came late, after the call of another exchange answered even later."""
    agent.append_tool_call("probe", {}, call_id="c1", dialect="openai")
    agent.do("/mark A")
    agent.end_turn()
    agent.append("user", "next")
    agent.append_tool_call("probe", {}, call_id="c2", dialect="openai")
    agent.end_turn()
    first = agent.append_tool_result("c1", "late", dialect="openai")
    second = agent.append_tool_result("c2", "later", dialect="openai")
    agent.append("assistant", "behind both")
    agent.end_turn()
    agent.do("/rewind A")
    assert [message.id for message in agent.context().messages][-2:] == [first, second]


@pytest.mark.parametrize("taking", ["remember", "forget", "summary"])
def test_a_hidden_state_leaves_with_its_message(agent: Agent, taking: str) -> None:
    said = agent.append("assistant", "A")
    agent.do("/mark M")
    agent.record("state", "Goal: x")
    rewound = agent.do("/rewind M").event_id
    if taking == "summary":
        answered_by(lambda request: "All of it.")
        agent.end_turn()
        agent.do("/summarize")
    else:
        agent.apply_filter(taking, [] if taking == "remember" else [said])
    agent.do(f"/restore {rewound}")
    assert "A" not in shown(agent)
    assert agent.context().state is None
