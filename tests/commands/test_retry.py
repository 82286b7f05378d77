"""`/retry`: another answer to the newest question, with the old one restorable [SPEC 4]."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoken import said, say

import foldmark
from foldmark.log import Agent
from foldmark.log.doctor import examine
from foldmark.operations.effects import Asking
from foldmark.operations.receipts import Retried
from planning_talk import IN_CHAT


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

    refused("holds no prompt")
    say(agent, "A")
    agent.do("/forget A", asking=IN_CHAT)
    agent.append("assistant", "Which ones?")
    agent.end_turn()
    refused("a planning conversation is open")


def test_a_chat_asks_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from foldmark.chat.lines.line_mode import chat
    from foldmark.sending.models import provider

    with foldmark.open(tmp_path / "log.db", settings={}) as log:
        agent = log.agent("default")
        chat(agent, lambda name: provider(name, log.given), ["Hello.", "/retry"])
        messages = agent.context().messages
        assert [message.kind for message in messages] == ["user", "assistant"]
        assert messages[1].id > max(event.id for event in agent.events() if event.kind == "rewind")
    shown = capsys.readouterr().out
    assert "/retry" in shown or "The answer left the context; the model is asked again." in shown
    assert json.dumps(shown).count("language model") == 2


def test_a_person_is_asked_before_an_answer_leaves(agent: Agent) -> None:
    say(agent, "A")
    asked = list[str]()
    head = agent.standing().newest
    for answer, done in ((False, False), (True, True)):
        asking = Asking(lambda question, answer=answer: asked.append(question) or answer)  # type: ignore[misc, func-returns-value]
        if done:
            agent.do("/retry", asking=asking)
        else:
            with pytest.raises(foldmark.CommandError, match="not confirmed; nothing was changed"):
                agent.do("/retry", asking=asking)
            assert agent.standing().newest == head
    assert len(asked) == 2
    assert asked[0].startswith("Preview: rewind to the question of turn 1. Nothing was changed.\n  1 message (~")
    assert asked[0].endswith("Take this answer out and ask again?")
    assert said(agent) == "A"
    say(agent, "B")
    agent.do("/retry --yes", asking=asking)
    assert len(asked) == 2


def test_a_preview_of_a_retry_records_nothing(agent: Agent) -> None:
    say(agent, "A")
    head = agent.standing().newest
    assert agent.do("/retry --preview").text.startswith("Preview: rewind to the question of turn 1.")
    assert agent.standing().newest == head


def test_another_text_in_the_place_of_a_turn(agent: Agent) -> None:
    say(agent, "A")
    turn = say(agent, "B")
    say(agent, "C")
    done = agent.do(f"/resend {turn} B, but\n  /not -- this")
    assert said(agent) == "A A!"
    assert isinstance(done.effect, Retried)
    assert done.effect.text == "B, but\n  /not -- this"
    assert done.data["answer"]
    agent.do(f"/restore {done.event_id}")
    assert said(agent) == "A A! B B! C C!"
    with pytest.raises(foldmark.CommandError, match="usage: /resend GID TEXT"):
        agent.do(f"/resend {turn}")
