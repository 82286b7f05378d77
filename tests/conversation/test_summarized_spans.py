"""Summaries of a span (SPEC 3, 5.7): FROM..TO, the place of the summary, the messages it replaces, restoring."""

from __future__ import annotations

import pytest
from refusals import refused

from foldmark import Agent
from foldmark.log.doctor import examine


def turn(agent: Agent, text: str) -> int:
    opened = agent.append("user", text)
    agent.append("assistant", f"about {text}")
    agent.end_turn()
    return opened


def turns(agent: Agent, *texts: str) -> list[int]:
    return [turn(agent, text) for text in texts]


def sent(agent: Agent) -> list[str]:
    """Return the users' texts that are sent and a label for each summary, in order, without answers."""
    parts = agent.request(provider="openai", model="gpt-5").manifest.parts
    found = [part for part in parts if part.event is not None and part.kind in ("user", "summary")]
    return [part.text if part.kind == "user" else f"summary {part.event}" for part in found]


def test_a_summary_stands_at_the_beginning_of_what_it_replaced(agent: Agent) -> None:
    _, two, three, _ = turns(agent, "one", "two", "three", "four")
    done = agent.do(f"/summarize {two}..{three}")
    assert sent(agent) == ["one", f"summary {done.event_id}", "four"]
    assert done.data["left"]["messages"] == 4
    assert done.data["span"] == f"{two}..{three}"
    assert f"summary of {two}..{three}" in agent.do("/operations").text
    turn(agent, "five")
    assert sent(agent) == ["one", f"summary {done.event_id}", "four", "five"]
    agent.do(f"/restore {done.event_id}")
    assert sent(agent) == ["one", "two", "three", "four", "five"]
    assert list(examine(agent.log)) == []


@pytest.mark.parametrize("policy", ["eager", "steady"])
def test_a_span_may_lack_its_beginning_or_its_end(agent: Agent, policy: str) -> None:
    agent.configure("context_policy", policy)
    _, two, _, four = turns(agent, "one", "two", "three", "four")
    first = agent.do(f"/summarize ..{two}").event_id
    assert sent(agent) == [f"summary {first}", "three", "four"]
    second = agent.do(f"/summarize {four}..").event_id
    assert sent(agent) == [f"summary {first}", "three", f"summary {second}"]
    third = agent.do("/summarize ..").event_id
    assert sent(agent) == [f"summary {third}"]


def test_a_span_may_be_named_by_marks(agent: Agent) -> None:
    turn(agent, "one")
    agent.do("/mark A")
    turn(agent, "two")
    agent.do("/mark B")
    turn(agent, "three")
    done = agent.do("/summarize A..B").event_id
    assert sent(agent) == ["one", f"summary {done}", "three"]
    agent.do(f"/restore {done}")
    done = agent.do("/summarize ..A").event_id
    assert sent(agent) == [f"summary {done}", "two", "three"]


def test_a_mark_whose_name_contains_dots_takes_precedence(agent: Agent) -> None:
    turn(agent, "one")
    agent.do("/mark a..b")
    turn(agent, "two")
    done = agent.do("/summarize a..b")
    assert done.data["mark"] == "a..b"
    agent.do(f"/restore {done.event_id}")
    assert sent(agent) == ["one", "two"]
    done = agent.do("/summarize ..a..b")
    assert sent(agent) == [f"summary {done.event_id}", "two"]


def test_a_span_takes_whole_turns_and_exchanges(agent: Agent) -> None:
    """The end of a span at the message that opened a turn means all of that turn; any other message means itself."""
    agent.append("user", "one")
    call = agent.append_tool_call("f", {}, call_id="c1")
    agent.append_tool_call("f", {}, call_id="c2")
    result = agent.append_tool_result("c1", "found")
    other = agent.append_tool_result("c2", "found")
    agent.append("assistant", "done")
    agent.end_turn()
    done = agent.do(f"/summarize {call}..{result}")
    assert done.data["widened"] == [other]
    shown = [part.kind for part in agent.request().manifest.parts if part.layer == "window"]
    assert shown[:3] == ["user", "summary", "assistant"]


def test_a_summary_leaves_out_an_open_exchange(agent: Agent) -> None:
    turn(agent, "one")
    agent.append("user", "two")
    text = agent.append("assistant", "I look.")
    call = agent.append_tool_call("f", {}, call_id="c1")
    done = agent.do("/summarize ..")
    assert [message.kind for message in agent.context().messages] == ["assistant", "tool_call", "summary"]
    result = agent.append_tool_result("c1", "found")
    parts = [part.event for part in agent.request().manifest.parts if part.layer == "window" and part.event]
    assert parts == [done.event_id, text, call, result]


def test_a_summary_inside_a_span_counts_by_its_position(agent: Agent) -> None:
    """It belongs to a span that encloses its position, regardless of when it was recorded."""
    one, two, three, four = turns(agent, "one", "two", "three", "four")
    first = agent.do(f"/summarize {one}..{two}").event_id
    second = agent.do(f"/summarize {three}..{three}").event_id
    assert sent(agent) == [f"summary {first}", f"summary {second}", "four"]
    third = agent.do(f"/summarize {first}..{second}")
    assert third.data["left"]["messages"] == 2
    assert sent(agent) == [f"summary {third.event_id}", "four"]
    agent.do(f"/restore {third.event_id}")
    assert sent(agent) == [f"summary {first}", f"summary {second}", "four"]
    assert "is reversed; name the earlier end first" in refused(agent, f"/summarize {four}..{first}")


def test_a_rewind_keeps_a_summary_of_messages_before_the_mark(agent: Agent) -> None:
    _, two = turns(agent, "one", "two")
    agent.do("/mark M")
    turn(agent, "three")
    first = agent.do(f"/summarize ..{two}").event_id
    assert "three" in agent.do("/marks").text
    whole = agent.do(f"/summarize {first}..{first}").event_id  # a summary of a summary
    agent.do("/fork M")
    (child,) = agent.children
    assert sent(child) == ["three"]
    rewound = agent.do("/rewind M")
    assert sent(agent) == [f"summary {whole}"]
    assert rewound.data["left"]["messages"] == 2
    turn(agent, "four")
    assert sent(agent) == [f"summary {whole}", "four"]
    assert list(examine(agent.log)) == []


def test_undo_drops_the_turn_after_a_newer_summary_that_precedes_it(agent: Agent) -> None:
    one, _ = turns(agent, "one", "two")
    done = agent.do(f"/summarize {one}..{one}").event_id
    agent.do("/undo")
    assert sent(agent) == [f"summary {done}"]
    assert "/restore" in refused(agent, "/undo")


def test_a_summary_carries_the_state_only_if_the_span_contains_it(agent: Agent) -> None:
    one = agent.append("user", "one")
    agent.append("assistant", "done\n### STATE\nGoal: first")
    agent.end_turn()
    two = agent.append("user", "two")
    agent.append("assistant", "done\n### STATE\nGoal: second")
    agent.end_turn()
    agent.do(f"/summarize {one}..{one}")
    assert agent.context().state == "Goal: second"
    agent.do(f"/context drop {two}")
    assert agent.context().state is None
    agent.do(f"/restore {agent.standing().newest}")
    agent.do(f"/summarize {two}..{two}")
    assert agent.context().state == "Goal: second"


def test_a_window_may_begin_after_a_newer_summary_that_precedes_it(agent: Agent) -> None:
    one, *_ = turns(agent, "one", "two", "three")
    done = agent.do(f"/summarize {one}..{one}").event_id
    agent.do("/context window 2")
    assert sent(agent) == ["two", "three"]
    agent.do("/context window 3")
    assert sent(agent) == [f"summary {done}", "two", "three"]


def test_a_summary_inside_a_turn_does_not_split_it(agent: Agent) -> None:
    agent.append("user", "one")
    said = [agent.append("assistant", text) for text in ("a", "b", "c")]
    agent.end_turn()
    turn(agent, "two")
    agent.do(f"/summarize {said[1]}..{said[1]}")

    def kinds() -> list[str]:
        return [part.kind for part in agent.request().manifest.parts if part.layer == "window" and part.event]

    agent.do("/context window 2")  # a summary counts as a turn, as it does elsewhere
    assert kinds() == ["user", "assistant"]
    agent.do("/context window 3")
    assert kinds()[:4] == ["user", "assistant", "summary", "assistant"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/summarize X..", "there is no mark 'X'; marks: M"),
        ("/summarize 999..", "there is no message 999"),
        ("/summarize 4..1", "the span 4..1 is reversed; name the earlier end first"),
        ("/summarize M..", "nothing in M.. can be summarized"),
        ("/summarize 3..3", "there is no message 3"),
    ],
)
def test_an_invalid_span_is_refused(agent: Agent, line: str, told: str) -> None:
    turns(agent, "one", "two")
    agent.do("/mark M")
    assert told in refused(agent, line)


def test_a_summary_of_a_span_can_be_previewed(agent: Agent) -> None:
    one, *_ = turns(agent, "one", "two")
    seen = agent.do(f"/summarize {one}..{one} --preview")
    assert "2 messages (~" in seen.text
    assert sent(agent) == ["one", "two"]
