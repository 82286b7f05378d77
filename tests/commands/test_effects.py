"""The effect that a command leaves to its interface has a type, and `Result.data` is its JSON (SPEC 9)."""

import pytest
from two_trees import NOW, fork

from foldmark import Agent, Log
from foldmark.core.events import Drop, Mark
from foldmark.editing.offer import Offer
from foldmark.operations.effects import AskModel, EditText, Effect, LeaveChat, StartPlanning, SwitchAgent, WaitForAgents
from foldmark.operations.receipts import DeliveredMail, Receipt
from planning_talk import IN_CHAT

CHILD = "20000000-0000-4000-8000-000000000000"
OTHERS = [CHILD, "30000000-0000-4000-8000-000000000000"]


@pytest.fixture
def agent(talk: Log) -> Agent:
    return talk.agent("default")


@pytest.mark.parametrize(
    ("line", "effect", "data"),
    [
        ("/exit", LeaveChat(), {"exit": True}),
        ("/wait", WaitForAgents(OTHERS), {"waits_for": OTHERS}),
        (f"/switch {CHILD}", SwitchAgent(CHILD, None), {"switch": CHILD, "name": None}),
        (
            "/resume other",
            SwitchAgent("40000000-0000-4000-8000-000000000000", "other"),
            {"switch": "40000000-0000-4000-8000-000000000000", "name": "other"},
        ),
        (
            "/system edit",
            EditText("", "/system edit", "/system clear"),
            {"edit": {"text": "", "command": "/system edit", "clear": "/system clear"}},
        ),
        (
            "/scratchpad edit",
            EditText("", "/scratchpad edit", "/scratchpad clear"),
            {"edit": {"text": "", "command": "/scratchpad edit", "clear": "/scratchpad clear"}},
        ),
        ("/scratchpad", None, {"scratchpad": None}),
    ],
)
def test_the_effect_names_the_next_step_of_the_interface(
    agent: Agent, line: str, effect: Effect | None, data: dict[str, object]
) -> None:
    result = agent.do(line)
    assert (result.event_id, result.effect, result.data) == (None, effect, data)


def test_the_model_is_to_be_asked(agent: Agent) -> None:
    agent.append("user", "And?")
    agent.end_turn(interrupted=True)
    result = agent.do("/retry")
    assert (result.effect, result.data) == (AskModel(), {"answer": True})
    result = agent.do("/forget hello", asking=IN_CHAT)
    first = agent.standing().newest - 1
    assert result.effect == StartPlanning(first, "forget", "hello")
    assert isinstance(result.effect, AskModel)
    assert result.data == {"planning": first, "mode": "forget", "criteria": "hello", "answer": True}
    offered = agent.do("/forget hello")
    assert isinstance(offered.effect, Offer)
    assert offered.data["offer"] == offered.effect.id
    assert "planning" not in offered.data
    assert {"ids", "ranges", "next", "matched_locally"} < offered.data.keys()


def test_the_effect_of_an_operation_is_its_receipt(agent: Agent) -> None:
    done = agent.do("/mark HERE", actor="model").effect
    assert isinstance(done, Receipt)
    assert (done.operation, done.actor, done.back) == (Mark("HERE"), "model", f"/restore {done.event_id}")
    turn = agent.context().messages[0].turn_id
    result = agent.do(f"/context drop {turn} -- wrong")
    done = result.effect
    assert isinstance(done, Receipt)
    assert isinstance(done.operation, Drop)
    assert (done.event_id, done.reason, done.change.left.messages) == (result.event_id, "wrong", 2)
    own = {"turn": turn, "turns": [turn], "widened": []}
    assert result.data == {**done.data(), **own}
    assert result.own == own


def test_mail_is_no_operation(agent: Agent) -> None:
    mail = agent.log.agent(CHILD).do(f"/send {agent.id} Done.").data["mail"]
    result = agent.do("/check-mail")
    assert isinstance(result.effect, DeliveredMail)
    assert result.effect.change.after.messages == result.effect.change.before.messages + 1
    assert list(result.data) == ["operation", "actor", "left", "returned", "before", "after", "mail"]
    assert result.data["mail"] == [{"id": mail, "from": CHILD, "sent_at": NOW}]


def test_a_mark_that_moves(agent: Agent) -> None:
    texts = [agent.do("/mark HERE").text for _ in range(2)]
    assert texts == ["Checkpoint 'HERE' created.", "Checkpoint 'HERE' moved."]
    assert fork(agent).do("/mark HERE").text == "Checkpoint 'HERE' created."
