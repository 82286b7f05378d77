"""`/rewind` and `/fork` at a turn without a mark, and `/fork` as it is typed in a chat [SPEC 3, 4, 6]."""

from collections.abc import Iterator

import pytest
from spoken import said, say

import foldmark
from foldmark.log import Agent
from foldmark.log.doctor import examine
from foldmark.operations.effects import Asking

CHAT = Asking(in_chat=True)


@pytest.fixture
def agent() -> Iterator[Agent]:
    """An agent with three turns of a question and an answer, and the mark M before the second one."""
    with foldmark.open(":memory:", settings={}) as log:
        agent = log.agent("default")
        say(agent, "A")
        agent.do("/mark M")
        say(agent, "B")
        say(agent, "C")
        yield agent
        assert list(examine(log)) == []


def turn_of(agent: Agent, text: str) -> int:
    return next(message.id for message in agent.context().messages if message.content == text)


def child_of(agent: Agent, line: str, asking: Asking = CHAT) -> Agent:
    return agent.log.agent(agent.do(line, asking=asking).data["child"])


@pytest.mark.parametrize("word", ["rewind", "clear"])
def test_back_to_the_beginning_of_a_turn(agent: Agent, word: str) -> None:
    turn = turn_of(agent, "C")
    preview = agent.do(f"/{word} {turn} --preview")
    assert preview.text.startswith(f"Preview: rewind to turn {turn}.")
    done = agent.do(f"/{word} {turn} -- no good")
    assert done.text == f"Rewound to the beginning of turn {turn}."
    assert (done.data["turn"], done.data["left"]["messages"]) == (turn, 2)
    assert said(agent) == "A A! B B!"
    assert list(agent.context().marks) == ["M"]
    assert f"taken out by rewind {done.event_id}" in agent.do(f"/context explain {turn}").text
    assert f"rewind to turn {turn}" in agent.do("/operations").text
    agent.do(f"/restore {done.event_id}")
    assert said(agent) == "A A! B B! C C!"


def test_a_mark_that_was_set_later_goes(agent: Agent) -> None:
    agent.do(f"/rewind {turn_of(agent, 'A')}")
    assert (said(agent), agent.context().marks) == ("", {})


def test_a_fork_begins_with_a_turn(agent: Agent) -> None:
    turn = turn_of(agent, "B")
    done = agent.do(f"/fork {turn}")
    child = agent.log.agent(done.data["child"])
    assert done.text.splitlines()[0] == f"Forked. Child: {child.id[:8]} (from turn {turn})"
    assert (said(child), said(agent)) == ("B B! C C!", "A A! B B! C C!")
    assert f"fork of child {child.id[:8]} from turn {turn}" in agent.do("/operations").text
    line = next(part.text for part in agent.request().manifest.parts if part.layer == "children")
    assert f"{child.id[:8]}, given the messages from turn {turn} on, waits to be run" in line
    assert f"from turn {turn} on" in child.do(f"/context explain {turn_of(agent, 'A')}").text


def test_a_child_goes_back_to_an_inherited_turn(agent: Agent) -> None:
    turn = turn_of(agent, "B")
    child = child_of(agent, "/fork")
    say(child, "D")
    assert said(child_of(child, f"/fork {turn}")) == "B B! C C! D D!"
    done = child.do(f"/rewind {turn}")
    assert (said(child), said(agent)) == ("A A!", "A A! B B! C C!")
    say(child, "E")
    assert said(child) == "A A! E E!"
    child.do(f"/restore {done.event_id}")
    assert said(child) == "A A! B B! C C! D D! E E!"


def test_a_mark_may_have_a_number_as_its_name(agent: Agent) -> None:
    turn = turn_of(agent, "B")
    agent.do(f"/mark {turn}")
    say(agent, "D")
    assert agent.do(f"/rewind {turn}").text == f"Rewound to '{turn}'."
    assert said(agent) == "A A! B B! C C!"


@pytest.mark.parametrize("command", ["/rewind", "/fork"])
@pytest.mark.parametrize("place", ["0", "3", "77", "9" * 30, "9" * 5000, "²", "M2"])
def test_places_that_are_none(agent: Agent, command: str, place: str) -> None:
    head = agent.standing().newest
    with pytest.raises(foldmark.CommandError, match=r"is not in the context; newest turns|there is no mark"):
        agent.do(f"{command} {place}")
    assert agent.standing().newest == head


def test_a_turn_that_has_left_is_no_place(agent: Agent) -> None:
    turn = turn_of(agent, "B")
    agent.do(f"/context drop {turn}")
    with pytest.raises(foldmark.CommandError, match=f"turn {turn} is not in the context; newest turns: "):
        agent.do(f"/rewind {turn}")


# Typed in a chat


def test_the_goal_alone_goes_to_the_child(agent: Agent) -> None:
    agent.do("/mark GOAL")
    turn = say(agent, "Investigate.")
    for place in ("GOAL", str(turn)):
        done = agent.do(f"/fork {place}", asking=CHAT)
        assert done.text.splitlines()[1] == "It gets what you said there, without the answer."
        assert said(agent.log.agent(done.data["child"])) == "Investigate."
        assert said(child_of(agent, f"/fork {place}", Asking())) == "Investigate. Investigate.!"
    assert said(child_of(agent, "/fork M")) == "B B! C C! Investigate. Investigate.!"


def test_only_what_the_person_said_counts(agent: Agent) -> None:
    """The model's calls, a reminder in the turn, and mail behind it do not make two turns of it."""
    agent.do("/mark GOAL")
    agent.append("user", "Investigate.")
    agent.append("user", "[Foldmark: your context is full.]", actor="system")
    agent.append_tool_call("read_file", {"path": "x"}, call_id="c1", dialect="openai")
    agent.append_tool_result("c1", "text", dialect="openai")
    agent.append("user", "And report.")
    agent.end_turn()
    agent.append("user", "[Mail from 12345678]", actor="system")
    agent.end_turn()
    assert said(child_of(agent, "/fork GOAL")) == "Investigate. And report."


def test_a_note_is_the_goal(agent: Agent) -> None:
    agent.do("/mark GOAL")
    agent.do("/note Investigate.")
    done = agent.do("/fork GOAL", asking=CHAT)
    assert len(done.text.splitlines()) == 2, "nothing is left out; it waits, as no program runs agents"
    assert said(agent.log.agent(done.data["child"])) == "Investigate."


def test_a_fork_without_a_goal_is_refused(agent: Agent) -> None:
    agent.do("/mark GOAL")
    with pytest.raises(foldmark.CommandError, match=r"nothing came after 'GOAL'.*/note GOAL.*`/fork` alone"):
        agent.do("/fork GOAL", asking=CHAT)
    assert agent.children == []
    for actor in ("human", "model"):
        done = agent.do("/fork GOAL", actor=actor)
        assert said(agent.log.agent(done.data["child"])) == ""
        assert "waits for its first message" in done.text


def test_a_full_fork_offers_to_go_there(agent: Agent) -> None:
    done = agent.do("/fork", asking=CHAT)
    child = done.data["child"][:8]
    assert done.text == f"Forked. Child: {child}\nIt waits for its first message: /switch {child} goes there."


def test_a_summary_of_earlier_turns_stays_and_is_no_place_itself(agent: Agent) -> None:
    first, second, third = (turn_of(agent, text) for text in "ABC")
    summary = agent.do(f"/summarize {first}..{second}").event_id
    child = child_of(agent, "/fork")
    for each in (agent, child):
        with pytest.raises(foldmark.CommandError, match=f"turn {summary} is a summary; `/restore {summary}` brings"):
            each.do(f"/rewind {summary}")
        say(each, "D")
        each.do(f"/rewind {third}")
        assert [message.id for message in each.context().messages] == [summary]
