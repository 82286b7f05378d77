"""The window: whole turns, newest first, within a budget; the cut does not move while a turn runs [SPEC 5.3]."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import SPEAKERS, message

import foldmark
from foldmark.core import selections
from foldmark.core.assembly.media import Accepts
from foldmark.core.assembly.plan import Turns, widest
from foldmark.core.assembly.window import Units
from foldmark.core.assembly.wire import TEXT
from foldmark.core.config import Config
from foldmark.core.request import Request, ToolSpec
from foldmark.log import Agent
from foldmark.operations import summaries
from foldmark.request.prepare import prepare
from stored import stored

ANY = Accepts(recorded="openai")
READ = ToolSpec("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


@pytest.fixture
def agent() -> Iterator[Agent]:
    log = foldmark.open(":memory:")
    yield log.agent("test")
    log.close()


def talk(agent: Agent, turns: int, size: int = 200) -> list[int]:
    """Append turns of a question and an answer of `size` characters each, and return their ids."""
    ids = []
    for number in range(turns):
        ids.append(agent.append("user", f"question {number} ".ljust(size, "q")))
        agent.append("assistant", f"answer {number} ".ljust(size, "a"))
        agent.end_turn()
    return ids


def made(agent: Agent, budget: int = 0, turns: int = 0, provider: str = "openai", **more: Any) -> Request:
    settings_ = {key: more.pop(key) for key in list(more) if key.startswith(("truncate", "system"))}
    config = Config(sliding_context_tokens=budget, context_size=turns, context_policy="eager", **settings_)
    return prepare(stored(agent.log), agent.standing(), config, provider, "some-model", **more)


def in_window(request: Request) -> list[int]:
    found = [part.turn for part in request.manifest.parts if part.layer == "window" and part.turn]
    return list(dict.fromkeys(found))


def pinned(request: Request) -> list[int]:
    found = [part.turn for part in request.manifest.parts if part.layer == "pinned" and part.turn]
    return list(dict.fromkeys(found))


# Units


def test_units_are_turns_and_are_read_on_demand() -> None:
    events = [message(id, "user" if id % 2 else "assistant", turn=id - (1 - id % 2)) for id in range(1, 101)]
    source = iter(reversed(events))
    units = Units(source)
    assert units.reach(3)
    assert [unit.turns for unit in (units[0], units[1], units[2])] == [(99,), (97,), (95,)]
    assert [event.id for event in units.newest(2)] == [97, 98, 99, 100]
    assert next(source).id == 93
    assert not units.reach(60)


def test_interleaved_turns_are_one_unit() -> None:
    events = [message(1, "user"), message(2, "user", turn=2), message(3, "summary", turn=3), message(4, "user", turn=2)]
    units = Units(reversed(events))
    assert units.all() == 2
    assert (units[0].opener, units[0].turns, [event.id for event in units[0].events]) == (2, (2, 3), [2, 3, 4])


def test_a_summary_before_the_rest_of_its_turn_is_a_separate_unit() -> None:
    events = [
        message(1, "user"),
        message(3, "summary", turn=3),
        message(4, "user", turn=2),
        message(5, "assistant", turn=2),
    ]
    units = Units(reversed(events))
    assert units.all() == 3
    assert [
        (unit.opener, unit.turns, [event.id for event in unit.events]) for unit in map(units.__getitem__, range(3))
    ] == [
        (4, (2,), [4, 5]),
        (2, (3,), [3]),
        (1, (1,), [1]),
    ]


def summarized_inside_a_turn(mark: str | None, length: int) -> tuple[Request, int, int]:
    """Return a request at a budget of 4,000, made after a summary of `length` words in an open turn that continues; and
    the ids of the turn and the summary."""
    with foldmark.open(":memory:") as log:
        agent = log.agent("default")
        for number in range(6):
            agent.append("user", f"Older question {number} {'w ' * 200}")
            agent.append("assistant", "Yes.")
            agent.end_turn()
        opened = agent.append("user", "A question")
        if mark is not None:
            agent.do(f"/mark {mark}")
        agent.append("assistant", "An answer")
        receipt = agent.operate(lambda moment, at: summaries.summary(moment, at, mark), content="word " * length)
        agent.append("user", "And this?")
        agent.append("assistant", "That.")
        return made(agent, 4000), opened, receipt.event_id


def test_a_summary_inside_a_turn_leaves_the_window_like_any_older_turn() -> None:
    request, turn, summary = summarized_inside_a_turn(None, 100)
    assert in_window(request) == [summary, turn]
    request, turn, _ = summarized_inside_a_turn(None, 6000)
    assert in_window(request) == [turn]
    assert request.tokens <= 4000


def test_a_summary_in_the_middle_of_a_turn_counts_when_the_window_is_chosen() -> None:
    """The turn is visible on both sides of the summary, so it stays; older turns make room."""
    request, turn, summary = summarized_inside_a_turn("M", 100)
    assert in_window(request)[-2:] == [turn, summary]
    assert len(in_window(request)) > 2
    request, turn, summary = summarized_inside_a_turn("M", 6000)
    assert in_window(request) == [turn, summary]


def test_messages_outside_turns_are_separate_units() -> None:
    assert Units(reversed([message(1, "user", turn=None), message(2, "user", turn=None)])).all() == 2


def chosen(sizes: list[int], budget: int, most: int = 0) -> tuple[int, list[int]]:
    """Choose among turns with these characters, newest first, that have half of their estimated bytes; return also the
    numbers of turns that were measured."""
    measured: list[int] = []
    messages = (message(1000 - i, "user", "x" * size, turn=1000 - i) for i, size in enumerate(sizes))
    turns = Turns(Units(messages), most, 100, Config(), ANY, thoughts=False)

    def fill(count: int) -> float:
        measured.append(count)
        return turns.bytes(count) / 2 / budget

    return widest(turns, fill, 1 / budget), measured


def bytes_of(sizes: list[int]) -> float:
    return (100 + sum(size + TEXT for size in sizes if size)) / 2


@given(
    st.lists(st.one_of(st.just(0), st.integers(20, 400)), min_size=1, max_size=60),
    st.integers(1, 12_000),
    st.integers(0, 70),
)
def test_the_window_ends_at_the_first_turn_that_does_not_fit(sizes: list[int], budget: int, most: int) -> None:
    count, _ = chosen(sizes, budget, most)
    expected = 1
    while expected < min(len(sizes), most or len(sizes)) and bytes_of(sizes[: expected + 1]) <= budget:
        expected += 1
    assert count == expected


@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini"])
def test_the_window_is_what_measuring_every_number_of_turns_gives(agent: Agent, provider: str) -> None:
    """One measured request tells of others whether they fit; calls, results, pins, evicted results and escapes are
    estimated badly."""
    random = Random(provider)
    texts = ["", "short", "where is it? " * 30, '\\"\n\t' * 100, "日本語 " * 80, "  \n" * 50]
    for number in range(26):
        opened = agent.append("user", f"{number} " + random.choice(texts))
        budget = random.choice([500, 2_000, 6_000])
        fitting = [made(agent, turns=count, provider=provider) for count in range(1, number + 2)]
        count = next((i for i, request in enumerate(fitting) if i and request.tokens > budget), len(fitting))
        request = made(agent, budget, provider=provider)
        if pinned(fitting[0]) == pinned(made(agent, budget, turns=1, provider=provider)):  # there is room for all pins
            assert in_window(request) == in_window(fitting[count - 1])
        for step in range(random.choice([0, 0, 1, 3])):
            agent.append("assistant", random.choice(texts))
            agent.append_tool_call("read", {"path": random.choice(texts)}, call_id=f"{number}.{step}")
            result = agent.append_tool_result(f"{number}.{step}", random.choice(texts))
            if not random.randrange(8):
                agent.do(f"/context evict {result}")
        agent.append("assistant", random.choice(texts))
        agent.end_turn()
        if not random.randrange(12):
            agent.do(f"/pin {opened}")


@given(st.lists(st.integers(0, 4000), min_size=1, max_size=60), st.integers(1, 60_000), st.floats(0.2, 3))
def test_what_was_not_measured_is_never_sent(sizes: list[int], budget: int, share: float) -> None:
    """The wire of somebody else may write less or more than any of ours."""
    messages = (message(1000 - i, "user", "x" * size, turn=1000 - i) for i, size in enumerate(sizes))
    turns = Turns(Units(messages), 0, 100, Config(), ANY, thoughts=False)
    count = widest(turns, lambda count: turns.bytes(count) * share / budget, 1 / budget, sure=True)
    assert count == 1 or turns.bytes(count) * share <= budget


def test_few_requests_are_measured_and_few_turns_read() -> None:
    messages = (message(id, "user", "x" * 936, turn=id) for id in range(5000, 0, -1))
    turns, measured = Turns(Units(messages), 0, 0, Config(), ANY, thoughts=False), list[int]()

    def fill(count: int) -> float:
        measured.append(count)
        return turns.bytes(count) / 1.1 / 1_000_500

    assert widest(turns, fill, 1 / 1_000_500) == 1100
    assert len(measured) <= 3
    assert next(messages).id > 5000 - 1110


def test_a_limit_of_turns_reads_no_further_than_the_budget() -> None:
    messages = (message(id, "user", "x" * 36, turn=id) for id in range(5000, 0, -1))
    turns = Turns(Units(messages), 4000, 0, Config(), ANY, thoughts=False)
    assert widest(turns, lambda count: turns.bytes(count) / 1000, 1 / 1000) == 10
    assert next(messages).id > 4970


# Turns


def test_the_last_n_turns(agent: Agent) -> None:
    turns = talk(agent, 5)
    request = made(agent, turns=2)
    assert in_window(request) == turns[-2:]
    edge = request.manifest.edge
    assert (edge.first, edge.why, edge.before, edge.limit) == (turns[3], "turns", 6, 2)
    assert edge.reason == "context_size is 2"


def test_zero_is_the_whole_context(agent: Agent) -> None:
    turns = talk(agent, 5)
    request = made(agent)
    assert in_window(request) == turns
    assert (request.manifest.edge.first, request.manifest.edge.why, request.manifest.edge.before) == (turns[0], None, 0)


def test_an_empty_context_has_no_edge(agent: Agent) -> None:
    for request in (made(agent), made(agent, 10, 1)):
        assert (request.manifest.edge.first, request.manifest.edge.why, request.manifest.edge.before) == (None, None, 0)


def test_the_newest_turn_is_always_in_the_window(agent: Agent) -> None:
    turns = talk(agent, 3, size=5000)
    request = made(agent, budget=1)
    assert in_window(request) == turns[-1:]
    assert request.manifest.edge.why == "budget"
    assert (request.manifest.edge.limit, request.manifest.edge.turn) == (1, turns[1])
    assert f"turn {turns[1]}" in request.manifest.edge.reason


def test_older_turns_are_measured_as_inactive(agent: Agent) -> None:
    for number in range(4):
        agent.append("user", "Look.")
        agent.append_tool_call("read_file", {}, call_id=f"c{number}")
        agent.append_tool_result(f"c{number}", "r" * 4000)
        agent.end_turn()
    agent.append("user", "Now.")
    request = made(agent, 1000)
    assert len(in_window(request)) == 5
    assert request.tokens <= 1000


def test_a_result_whose_call_left_the_window_is_left_out(agent: Agent) -> None:
    agent.append_tool_call("read_file", {}, call_id="c1")
    agent.end_turn()
    agent.append("user", "Well?")
    late = agent.append_tool_result("c1", "late")
    assert [left.event for left in made(agent, turns=1).manifest.left_out] == [late]
    assert made(agent).manifest.left_out == ()


def test_everything_counts_towards_the_budget(agent: Agent) -> None:
    talk(agent, 10)
    bare = len(in_window(made(agent, budget=800)))
    assert len(in_window(made(agent, budget=800, system="s" * 800))) < bare
    assert len(in_window(made(agent, budget=800, tools=[READ]))) < bare
    assert len(in_window(made(agent, budget=800, provider="anthropic"))) < bare
    agent.record("scratchpad", "p" * 800)
    talk(agent, 1)
    assert len(in_window(made(agent, budget=800))) < bare


def test_system_messages_are_sent_whatever_the_window_is(agent: Agent) -> None:
    agent.append("system", "Imported rule.")
    turns = talk(agent, 3)
    request = made(agent, turns=1)
    assert request.body["messages"][0] == {"role": "system", "content": "Imported rule."}
    assert (in_window(request), request.manifest.edge.before) == (turns[-1:], 4)


# The cut does not move


@pytest.mark.parametrize("provider", SPEAKERS)
def test_the_cut_does_not_move_inside_a_turn(agent: Agent, provider: str) -> None:
    talk(agent, 20)
    agent.append("user", "Work.")
    edge = made(agent, 1200, provider=provider).manifest.edge
    assert edge.why == "budget"
    for step in range(8):
        agent.append("assistant", f"step {step}")
        agent.append_tool_call("read_file", {"path": "x"}, call_id=f"c{step}")
        agent.append_tool_result(f"c{step}", "r" * 4000)
        agent.record("scratchpad", "p" * 500 * step)
        agent.record("state", "s" * 500 * step)
        agent.append("user", "And more.")
        assert made(agent, 1200, provider=provider).manifest.edge == edge
    agent.end_turn()
    assert made(agent, 1200, provider=provider).manifest.edge == edge
    agent.append("user", "Next.")
    later = made(agent, 1200, provider=provider)
    assert later.manifest.edge.first is not None
    assert edge.first is not None
    assert later.manifest.edge.first > edge.first


def test_the_cut_moves_inside_a_turn_if_the_request_would_exceed_the_models_limit(agent: Agent) -> None:
    turns = talk(agent, 10)
    agent.append("user", "Work.")
    agent.append("assistant", "w" * 4000)
    free = made(agent, 2000)
    assert free.tokens > 1500
    request = made(agent, 2000, limit=1500)
    assert request.tokens <= 1500
    assert request.manifest.edge.why == "budget"
    assert request.manifest.edge.limit == 1500
    assert "1,500" in request.manifest.edge.reason
    assert turns[-1] in in_window(request)
    assert made(agent, 2000, limit=10**6) == free


kinds = st.sampled_from(
    ["user", "assistant", "call", "result", "late", "tool", "empty", "foreign", "end", "end", "end"]
)


@given(
    steps=st.lists(st.tuples(kinds, st.integers(1, 900)), min_size=1, max_size=60),
    budget=st.integers(1, 2500),
    provider=st.sampled_from(["anthropic", "openai", "gemini"]),
    tools=st.booleans(),
)
def test_the_cut_is_maximal_and_a_function_of_the_log_up_to_the_newest_opener(
    steps: list[tuple[str, int]], budget: int, provider: str, tools: bool
) -> None:
    log = foldmark.open(":memory:")
    agent = log.agent("test")
    asked = []
    with agent.batch():
        for number, (kind, size) in enumerate(steps):
            match kind:
                case "user" | "assistant" | "tool":
                    agent.append(kind, "x" * size)
                case "empty":
                    agent.append("user", " ")
                case "call" | "foreign":
                    asked.append(f"c{number % 7}")
                    dialect = {"anthropic": "openai"}.get(provider, "anthropic") if kind == "foreign" else None
                    agent.append_tool_call("read_file", {"n": number}, call_id=asked[-1], dialect=dialect)
                case "result" | "late":
                    if asked:
                        agent.append_tool_result(asked[-1 if kind == "result" else 0], "r" * size)
                case "end":
                    agent.end_turn()
    more: dict[str, Any] = {"tools": [READ] if tools else [], "provider": provider}
    request = made(agent, budget, **more)
    turns = [turn for turn in dict.fromkeys(event.turn_id for event in agent.context().messages) if turn]
    if turns:
        then = agent.stood(stored(agent.log), turns[-1])
        count = 1
        while count < len(turns):
            wider = prepare(
                stored(agent.log),
                then,
                Config(sliding_context_tokens=0, context_size=count + 1),
                provider,
                "some-model",
                tools=more["tools"],
            )
            if wider.tokens > budget:
                break
            count += 1
        edge = request.manifest.edge
        assert edge.first is not None
        first = selections.event(stored(log), edge.first)
        assert first is not None
        assert first.turn_id == turns[-count]
        assert edge.why == ("budget" if count < len(turns) else None)
        visible = [event.id for event in agent.context().messages]
        assert edge.before == sum(id < edge.first for id in visible)
        accounted = [part.event for part in request.manifest.parts if part.event]
        accounted += [left.event for left in request.manifest.left_out]
        assert sorted(accounted) == [id for id in visible if id >= edge.first]
    log.close()


# Pins


def test_pinned_turns_stay_before_the_window_as_inactive(agent: Agent) -> None:
    agent.append("user", "Remember this.")
    agent.append_tool_call("read_file", {}, call_id="c1")
    agent.append_tool_result("c1", "r" * 900)
    agent.end_turn()
    turns = [1, *talk(agent, 4)]
    agent.do(f"/pin {turns[2]}")
    agent.do("/pin 1")
    request = made(agent, turns=1)
    assert (pinned(request), in_window(request)) == ([1, turns[2]], turns[-1:])
    texts = [entry["content"] for entry in request.body["messages"]]
    assert texts[0] == "Remember this."
    assert texts[2].startswith("r" * 300 + "... [TRUNCATED")
    assert request.manifest.edge.before == 9
    assert request.manifest.left_out == ()


def test_a_pinned_turn_inside_the_window_is_sent_once(agent: Agent) -> None:
    turns = talk(agent, 3)
    agent.do(f"/pin {turns[1]}")
    for request in (made(agent), made(agent, turns=2)):
        assert pinned(request) == []
        assert [part.event for part in request.manifest.parts].count(turns[1]) == 1
    within = made(agent, 240)
    assert in_window(within) == turns[1:]


def test_a_pinned_turn_that_left_the_context_is_not_sent(agent: Agent) -> None:
    talk(agent, 2)
    agent.do("/pin 1")
    agent.do("/clear")
    agent.append("user", "Again.")
    request = made(agent, turns=1)
    assert (pinned(request), len(request.body["messages"])) == ([], 1)


def test_pins_take_room_from_the_window(agent: Agent) -> None:
    turns = talk(agent, 20)
    without = in_window(made(agent, 1000))
    agent.do(f"/pin {turns[0]}")
    request = made(agent, 1000)
    assert pinned(request) == [turns[0]]
    assert len(in_window(request)) == len(without) - 1


def test_over_budget_the_oldest_pins_leave_and_are_listed(agent: Agent) -> None:
    turns = talk(agent, 6, size=400)
    for turn in turns[:3]:
        agent.do(f"/pin {turn}")
    request = made(agent, 450)
    assert (pinned(request), in_window(request)) == ([turns[2]], turns[-1:])
    gone = [(left.event, left.turn, left.why) for left in request.manifest.left_out]
    assert gone == [(id, turn, "pins") for turn in turns[:2] for id in (turn, turn + 1)]
    everything = made(agent, 1)
    assert pinned(everything) == []
    assert len(everything.manifest.left_out) == 6


def test_a_fork_sees_its_parents_turns_through_the_same_window(agent: Agent) -> None:
    turns = talk(agent, 5)
    child = agent.log.agent(agent.do("/fork").data["child"])
    assert in_window(made(child, turns=2)) == turns[-2:]
    own = child.append("user", "Mine.")
    assert in_window(made(child, turns=2)) == [turns[-1], own]
