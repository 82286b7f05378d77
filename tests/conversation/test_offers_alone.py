"""Offers outside of a chat (SPEC 4.2): `do("/forget X")` records only an offer, and `do("/agree ID")` applies it."""

from collections.abc import Iterator

import pytest

import foldmark
from foldmark import Agent, CommandError
from foldmark.core import selections
from foldmark.editing import answering
from foldmark.editing.offer import Offer
from foldmark.log.doctor import examine
from foldmark.operations.effects import Asking
from foldmark.request.planning import planning
from planning_talk import IN_CHAT

SAID = ("Which tables?", "Lunch on Friday?", "Tables again.", "Deploy with make.")


@pytest.fixture
def agent() -> Iterator[Agent]:
    with foldmark.open(":memory:", settings={}) as log:
        agent = log.agent("default")
        for text in SAID:
            agent.append("user", text)
            agent.append("assistant", "Noted.")
            agent.end_turn()
        yield agent
        assert list(examine(log)) == []


def shown(agent: Agent) -> list[str]:
    return [message.content for message in agent.context().messages if message.kind == "user"]


def offered(agent: Agent, line: str = "/forget tables") -> int:
    done = agent.do(line)
    assert isinstance(done.effect, Offer)
    return done.effect.id


def test_only_the_offer_is_recorded(agent: Agent) -> None:
    before, newest = agent.request().bytes, agent.standing().newest
    done = agent.do("/forget tables")
    assert [(event.kind, event.turn_id) for event in agent.events(newest)] == [("command", None)]
    assert agent.request().bytes == before
    assert done.data["offer"] == newest + 1
    assert (done.data["messages"], len(done.data["ranges"])) == (4, 2)
    assert done.data["before"]["messages"] - done.data["after"]["messages"] == 4
    assert done.data["next"]["tokens"] < agent.request().tokens
    last = done.text.splitlines()[-1]
    assert last == (
        f"Nothing has changed yet. `/agree {newest + 1}` carries it out, `/agree {newest + 1} all but 2` a part of it."
    )
    assert "yes, no" not in done.text


@pytest.mark.parametrize(
    ("line", "choice", "left"),
    [
        ("/forget tables", "", SAID[1::2]),
        ("/forget tables", " all but 2", SAID[1:]),
        ("/remember tables", "", SAID[::2]),
        ("/remember tables", " only 1", SAID[:1]),
    ],
)
def test_the_id_carries_it_out(agent: Agent, line: str, choice: str, left: tuple[str, ...]) -> None:
    before = shown(agent)
    done = agent.do(f"/agree {offered(agent, line)}{choice}")
    assert tuple(shown(agent)) == left
    assert done.data["back"] == f"/restore {done.event_id}"
    agent.do(f"/restore {done.event_id}")
    assert shown(agent) == before


@pytest.mark.parametrize("line", ["/forget tables --yes", "/forget --yes tables"])
def test_yes_carries_it_out_at_once(agent: Agent, line: str) -> None:
    done = agent.do(line)
    assert done.data["operation"] == "filter"
    assert tuple(shown(agent)) == SAID[1::2]
    with agent.log.store.read() as moment:
        (event,) = selections.operations(moment, agent.id)
    assert (event.data or {})["criteria"] == "tables"


@pytest.mark.parametrize("line", ["/forget tables --yes", "/forget tables --preview", "/remember --preview tables"])
def test_a_chat_offers_without_a_conversation_if_it_is_asked_to(agent: Agent, line: str) -> None:
    agent.do(line, asking=IN_CHAT)
    with agent.reading() as (moment, at):
        assert planning(moment, at) is None
    assert not any("/forget" in text or "/remember" in text for text in shown(agent))


@pytest.mark.parametrize("line", ["/forget tables --force", "/remember --all tables", "/forget --preview=1 tables"])
def test_an_option_is_never_a_criterion(agent: Agent, line: str) -> None:
    newest = agent.standing().newest
    with pytest.raises(CommandError, match=r"has no option '--\w+(=1)?', only --preview and --yes"):
        agent.do(line)
    with pytest.raises(CommandError, match="CRITERIA is missing"):
        agent.do("/forget --yes")
    assert agent.standing().newest == newest


def test_an_option_in_quotes_is_a_criterion(agent: Agent) -> None:
    agent.append("user", "Use --force here.")
    agent.end_turn()
    assert agent.do('/forget "--force"').data["messages"] == 1


@pytest.mark.parametrize("step", ["/note Something else", "/forget lunch", "/suggest", "/undo", "/clear", "/cancel"])
def test_what_ends_an_offer(agent: Agent, step: str) -> None:
    offer = offered(agent)
    if step == "/suggest":
        agent.do("/forget zebras")  # finds nothing, which is no offer either
    agent.do(step)
    with pytest.raises(CommandError, match=f"offer {offer} is not open"):
        agent.do(f"/agree {offer}")
    assert not any(event.kind == "filter" for event in agent.events())


def test_the_turn_goes_on(agent: Agent) -> None:
    agent.append("user", "And now?")
    turn = agent.open_turn
    agent.do(f"/agree {offered(agent)}")
    assert agent.open_turn == turn
    agent.append("assistant", "On it.")
    assert agent.context().messages[-1].content == "On it."


@pytest.mark.parametrize(
    ("text", "left"),
    [("yes", SAID[1::2]), ("all but 1", (SAID[0], *SAID[1::2])), ("no", SAID), ("which ones?", SAID), ("maybe", SAID)],
)
def test_an_answer_is_carried_out_and_not_recorded(agent: Agent, text: str, left: tuple[str, ...]) -> None:
    offer = offered(agent)
    done = answering.answered(agent, text)
    assert done is not None
    assert sorted(shown(agent)) == sorted(left)
    if text == "which ones?":
        agent.do(f"/agree {offer}")
    elif text == "maybe":
        assert "yes or no?" in done.text
        assert answering.answered(agent, "also lunch") is None
        assert answering.answered(agent, "yes") is not None
        assert tuple(shown(agent)) == SAID[1::2]


def test_it_takes_the_place_of_a_planning_conversation(agent: Agent) -> None:
    agent.do("/forget lunch", asking=IN_CHAT)
    agent.do(f"/agree {offered(agent)}")
    assert tuple(shown(agent)) == SAID[1::2]


def test_a_model_may_preview_again_and_apply_with_a_yes(agent: Agent) -> None:
    offered(agent)
    agent.call_tool("filter_context", {"action": "preview", "criteria": "lunch"})
    with pytest.raises(CommandError, match="has not agreed"):
        agent.call_tool("filter_context", {"action": "apply"})
    agent.append("user", "yes")
    agent.call_tool("filter_context", {"action": "apply"})
    assert shown(agent) == [SAID[0], *SAID[2:], "yes"]


def test_the_offline_matcher_is_not_told_as_a_failure(agent: Agent) -> None:
    assert agent.do("/forget tables").data["matched_locally"] is False
    agent.configure("model", "openai/gpt-5")
    done = agent.do("/forget tables", asking=Asking())
    assert done.data["matched_locally"] is True
    assert "(matched by words: " in done.text
