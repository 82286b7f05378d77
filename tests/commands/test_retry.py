"""`/retry`: another answer to the newest question, with the old one restorable [SPEC 4]."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoken import said, say

import foldmark
from foldmark.log import Agent
from foldmark.log.doctor import examine


@pytest.fixture
def agent() -> Iterator[Agent]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log.agent("default")
        assert list(examine(log)) == []


def answer(agent: Agent, text: str) -> None:
    agent.append("assistant", text)
    agent.end_turn()


def test_another_answer_and_the_old_one(agent: Agent) -> None:
    say(agent, "A")
    turn = say(agent, "B")
    done = agent.do("/retry")
    assert done.text == "The answer left the context; the model is asked again."
    assert (done.data["answer"], done.data["turn"], done.data["left"]["messages"]) == (True, turn, 1)
    assert said(agent) == "A A! B"
    answer(agent, "B?")
    again = agent.do("/retry")
    assert said(agent) == "A A! B"
    assert f"rewind to the question of turn {turn}" in agent.do("/operations").text
    answer(agent, "B.")
    agent.do(f"/restore {done.event_id}")
    agent.do(f"/restore {again.event_id}")
    assert said(agent) == "A A! B B! B? B."


def test_the_whole_work_of_an_answer_leaves(agent: Agent) -> None:
    agent.append("user", "B")
    agent.append("assistant", "I look.")
    agent.append_tool_call("read_file", {"path": "x"}, call_id="c1", dialect="openai")
    agent.append_tool_result("c1", "text", dialect="openai")
    agent.append("user", "[Foldmark: your context is full.]", actor="system", data={"reminder": True})
    answer(agent, "B!")
    agent.do("/retry")
    assert said(agent) == "B"


def test_an_answer_that_failed_stays_and_is_followed_by_another(agent: Agent) -> None:
    agent.append("user", "B")
    agent.append("assistant", "Half", interrupted=True)
    agent.end_turn(interrupted=True)
    head = agent.standing().newest
    assert agent.do("/retry").data == {"answer": True}
    assert agent.standing().newest == head


def test_a_child_answers_an_inherited_question_again(agent: Agent) -> None:
    say(agent, "A")
    child = agent.log.agent(agent.do("/fork").data["child"])
    done = child.do("/retry")
    assert (said(child), said(agent)) == ("A", "A A!")
    child.do(f"/restore {done.event_id}")
    assert said(child) == "A A!"


def test_there_is_nothing_to_retry(agent: Agent) -> None:
    def refused(why: str) -> None:
        with pytest.raises(foldmark.CommandError, match=why):
            agent.do("/retry")

    refused("holds no question")
    say(agent, "A")
    agent.do("/forget A")
    agent.append("assistant", "Which ones?")
    agent.end_turn()
    refused("a planning conversation is open")


def test_a_chat_asks_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from foldmark.app import provider
    from foldmark.chat.lines.line_mode import chat

    with foldmark.open(tmp_path / "log.db", settings={}) as log:
        agent = log.agent("default")
        chat(agent, lambda name: provider(name, log.given), ["Hello.", "/retry"])
        messages = agent.context().messages
        assert [message.kind for message in messages] == ["user", "assistant"]
        assert messages[1].id > max(event.id for event in agent.events() if event.kind == "rewind")
    shown = capsys.readouterr().out
    assert "/retry" in shown or "The answer left the context; the model is asked again." in shown
    assert json.dumps(shown).count("language model") == 2
