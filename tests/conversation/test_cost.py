"""A recorded conversation replayed under other policies: its requests and their costs [SPEC 5.3]."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import foldmark
from foldmark.core import selections
from foldmark.core.assembly.caching import Bill, Rules, explicit, managed, stepped
from foldmark.core.events import Event
from foldmark.cost.cost import Policy, Replayed, answered, replay, thought_about
from foldmark.cost.history import past_requests
from foldmark.cost.policies import TRIGGER
from foldmark.cost.spending import Tariff, rules_of, tariff_of
from foldmark.request.prepare import prepare
from foldmark.request.recorded import SentPlan
from foldmark.stores.snapshot import SqlSnapshot
from foldmark.tokens.models import model_of
from sampled import DEEP, sampled
from stored import stored

MODEL = "claude-sonnet-4-6"
FULL = Policy("full", 0)


@pytest.fixture
def agent() -> Iterator[foldmark.Agent]:
    with foldmark.open(":memory:") as log:
        yield log.agent("test")


def at(second: int) -> str:
    return f"2026-11-01T{10 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def turn(agent: foldmark.Agent, number: int, steps: int = 0, state: bool = False, result: int = 2000) -> None:
    """Append one turn a minute, with `steps` tool calls and, if `state`, a state block."""
    clock = number * 60
    agent.append("user", f"question {number} ".ljust(400, "q"), created_at=at(clock))
    for step in range(steps):
        agent.append_tool_call("read_file", {"path": "x"}, call_id=f"c{number}.{step}", created_at=at(clock + step))
        agent.append_tool_result(f"c{number}.{step}", f"{step}".ljust(result, "r"), created_at=at(clock + step))
    agent.append("assistant", f"answer {number} ".ljust(800, "a"), created_at=at(clock + steps))
    if state:
        agent.record("state", f"Goal: {number}".ljust(600, "s"), created_at=at(clock + steps))
    agent.end_turn(created_at=at(clock + steps))


def replayed(
    agent: foldmark.Agent, *policies: Policy, rules: Rules | None = None, pauses: bool = True
) -> list[Replayed]:
    return replay(agent, policies, "anthropic", MODEL, rules=rules, pauses=pauses)


# The requests


def test_a_model_is_asked_before_each_answer_and_each_step(agent: foldmark.Agent) -> None:
    turn(agent, 0)
    turn(agent, 1, steps=2)
    stood = [each.at.newest for each in past_requests(stored(agent.log), agent)]
    kinds = [(event.kind if (event := selections.event(stored(agent.log), id)) else None) for id in stood]
    assert kinds == ["user", "user", "tool_result", "tool_result"]


def test_text_and_calls_of_one_answer_are_one_request(agent: foldmark.Agent) -> None:
    agent.append("user", "go")
    agent.append("assistant", "Looking.")
    agent.append_tool_call("a", {}, call_id="1")
    agent.append_tool_call("b", {}, call_id="2")
    agent.append_tool_result("1", "x")
    agent.append_tool_result("2", "y")
    agent.append("assistant", "Done.")
    assert [each.at.newest for each in past_requests(stored(agent.log), agent)] == [1, 6]


def test_answers_of_two_turns_are_two_requests_even_without_a_message_between(agent: foldmark.Agent) -> None:
    agent.append("user", "go")
    agent.append("assistant", "Done.")
    agent.end_turn()
    agent.append("assistant", "One more thing.")
    assert len(past_requests(stored(agent.log), agent)) == 2


def test_requests_include_messages_that_left_the_context_later(agent: foldmark.Agent) -> None:
    turn(agent, 0)
    agent.do("/mark A")
    turn(agent, 1)
    agent.do("/rewind A")
    turn(agent, 2)
    assert [each.at.size.messages for each in past_requests(stored(agent.log), agent)] == [1, 3, 3]


def test_turns_dropped_after_the_last_message_are_left_out(agent: foldmark.Agent) -> None:
    turn(agent, 0)
    abandoned = agent.append("user", "a branch")
    agent.append("assistant", "abandoned")
    agent.end_turn()
    turn(agent, 1)
    kept = agent.do(f"/context drop {abandoned}").event_id
    assert [each.at.size.messages for each in past_requests(stored(agent.log), agent)] == [1, 3]
    agent.do(f"/restore {kept}")
    assert [each.at.size.messages for each in past_requests(stored(agent.log), agent)] == [1, 3, 5]


def test_only_requests_after_the_birth_of_a_fork_count(agent: foldmark.Agent) -> None:
    turn(agent, 0)
    child = agent.log.agent(agent.do("/fork").data["child"])
    child.append("user", "for you alone")
    child.append("assistant", "mine")
    assert [each.at.size.messages for each in past_requests(stored(agent.log), child)] == [3]


def test_time_never_runs_backwards(agent: foldmark.Agent) -> None:
    agent.append("user", "1", created_at=at(100))
    agent.append("assistant", "2", created_at=at(200))
    agent.append("user", "3", created_at=at(50))
    agent.append("assistant", "4", created_at=at(60))
    first, second = [each.when for each in past_requests(stored(agent.log), agent)]
    assert second - first == 100


def test_answers_count_as_recorded(agent: foldmark.Agent) -> None:
    agent.append("user", "a question that does not count")
    agent.append("assistant", "a" * 285)
    assert answered(agent, "anthropic", MODEL) == 100  # at 2.85 bytes a token


# Their costs


DEEDS = {3: "/pin {1}", 7: "/mark A", 9: "/rewind A", 11: "/context drop {10}", 15: "/unpin {1}"}
DEEDS |= {4: "/mark B", 8: "/config set cache_ttl=1h", 13: "/config set truncate_active=500"}
"""Commands run after a turn, by its number; braces hold the numbers of turns."""


@pytest.fixture
def long(agent: foldmark.Agent) -> foldmark.Agent:
    """An agent with turns of all kinds and operations between them."""
    chance, opened = random.Random(1), list[int]()
    agent.append("system", "Be brief.")
    for number in range(20):
        opened.append(agent.append("user", f"question {number} ".ljust(chance.randint(10, 900), "q")))
        for step in range(chance.randint(0, 9)):
            if chance.random() < 0.4:
                agent.append("assistant", "Looking.")
            ids = [f"c{number}.{step}.{each}" for each in range(chance.choice([1, 1, 2]))]
            for each in ids:
                agent.append_tool_call("read_file", {"path": each}, call_id=each)
            for each in ids:
                agent.append_tool_result(each, "r" * int(min(9000, 100 * chance.paretovariate(0.7))))
            if chance.random() < 0.1:
                agent.append("user", "By the way")
            if chance.random() < 0.1:
                agent.record("scratchpad", "notes".ljust(chance.randint(5, 200), "n"))
        agent.append("assistant", "answer ".ljust(chance.randint(10, 1500), "a"))
        if number in (6, 12):  # as if the model's tokens had been counted
            settings = agent.standing().settings
            agent.record(
                "config", "", data={"settings": {**settings, "calibration": {f"anthropic/{MODEL}": 2.5 + number / 8}}}
            )
        if chance.random() < 0.5:
            agent.record("state", "Goal: x".ljust(chance.randint(10, 300), "s"))
        agent.end_turn()
        if number % 4 == 1:  # without an answer
            agent.append("user", "Hello? ".ljust(chance.randint(10, 4000), "?"))
            agent.record("state", "Goal: y".ljust(chance.randint(10, 300), "t"))
            agent.end_turn()
        if number == 5:
            results = [e.id for e in agent.context().messages if e.kind == "tool_result" and len(e.content) > 500]
            agent.do(f"/context evict {results[-1]}")
        if number in DEEDS:
            agent.do(DEEDS[number].format(*opened))
    return agent


ASKED = [("anthropic", MODEL), ("anthropic", "claude-sonnet-5-5"), ("gemini", "gemini-2.5-pro")]
KEPT = [("eager", 14_000), ("steady", 14_000), ("steady", 7_000)]
EACH = [(*asked, *kept) for number, asked in enumerate(ASKED) for kept in (*KEPT[number:], *KEPT[:number])]
"""Each model under each policy, ordered so that samples at equal distances cover all of both."""


@pytest.mark.parametrize(("provider", "model", "kind", "budget"), sampled(EACH, 2))
def test_every_request_is_the_one_that_would_have_been_sent(
    long: foldmark.Agent, provider: str, model: str, kind: str, budget: int
) -> None:
    row = as_prepared(long, Policy(kind, budget), provider, model)
    assert len(row.billed) > 100
    assert row.moves > 2
    tokens = [each.tokens for each in row.billed]
    assert (row.largest, row.mean) == (max(tokens), sum(tokens) // len(tokens))


@pytest.mark.parametrize("kind", ["eager", "steady"])
def test_turns_that_no_person_opened_are_replayed_as_they_were_sent(agent: foldmark.Agent, kind: str) -> None:
    """A result whose call is unknown, and an answer that calls, open a turn as well."""
    for number in range(14):
        turn(agent, number, steps=number % 4)
        if number % 3 == 0:
            agent.append_tool_result("nobody", "late")
            agent.append_tool_call("read_file", {"path": "y"}, call_id=f"d{number}")
            agent.append_tool_result(f"d{number}", "s" * 1500)
            agent.end_turn()
        agent.append_tool_call("read_file", {"path": "x"}, call_id=f"e{number}")
        agent.append_tool_result(f"e{number}", "r" * 3000)
        agent.append("assistant", "answer ".ljust(200, "a"))
        agent.end_turn()
        if number % 5 == 4:
            agent.do(f"/pin {agent.context().messages[-1].turn_id}")
    as_prepared(agent, Policy(kind, 4000), "gemini", "gemini-2.5-pro")


def as_prepared(agent: foldmark.Agent, policy: Policy, provider: str, model: str) -> Replayed:
    """Replay a conversation, and assert that each request has the size of the one that would have been sent."""
    config, tools = agent.standing().config, agent.tools()
    (row,) = replay(agent, [policy], provider, model, rules=explicit(100), tools=tools)
    with agent.log.store.read() as moment:
        before: SentPlan | None = None
        for at, billed in zip([each.at for each in past_requests(moment, agent)], row.billed, strict=True):
            made = prepare(moment, at, policy.applied(config), provider, model, tools=tools, before=lambda *_: before)  # noqa: B023
            assert billed.tokens == made.tokens, at.newest
            before = SentPlan(made.manifest.plan, at.newest, agent.id)
    return row


def test_nothing_is_written(agent: foldmark.Agent) -> None:
    turn(agent, 0, steps=1)
    before = agent.standing().record
    replayed(agent, FULL, Policy("steady", 3000), Policy("eager", 3000))
    assert agent.standing().record == before


def test_without_a_cache_everything_is_fresh(agent: foldmark.Agent) -> None:
    turn(agent, 0, steps=2)
    (row,) = replayed(agent, FULL)
    assert (row.total.write, row.total.read) == (0, 0)
    assert row.total.fresh > 0


def test_a_growing_history_is_read_from_the_cache_except_for_new_messages(agent: foldmark.Agent) -> None:
    for number in range(10):
        turn(agent, number)
    (row,) = replayed(agent, FULL, rules=explicit(10))
    assert row.moves == 0
    assert row.rewritten < 10 * 20
    assert row.total.write < row.largest + 10 * 20


def test_a_state_in_the_system_field_costs_the_whole_history_with_every_turn(agent: foldmark.Agent) -> None:
    for number in range(12):
        turn(agent, number, state=True)
    eager, steady = replayed(agent, Policy("eager", 10**6), Policy("steady", 10**6), rules=explicit(10))
    assert eager.total.read < steady.total.read / 2
    assert eager.rewritten > 5 * steady.rewritten


def test_results_shortened_inside_a_turn_are_written_again(agent: foldmark.Agent) -> None:
    turn(agent, 0, steps=20, result=6000)
    once = Policy("eager", 10**6, changes={"truncate_active": 5000})
    row, steady = replayed(agent, Policy("eager", 10**6), once, rules=explicit(10))
    assert row.rewritten > 10_000
    assert steady.rewritten < 500


def test_a_lower_low_water_moves_less_often_and_costs_less(agent: foldmark.Agent) -> None:
    for number in range(60):
        turn(agent, number)
    policies = [Policy("eager", 20_000), Policy("steady", 20_000, 0.8), Policy("steady", 20_000, 0.5)]
    always, often, seldom = replayed(agent, *policies, rules=explicit(10))
    assert always.moves > 3 * often.moves > 3 * seldom.moves > 0
    assert always.rewritten > often.rewritten > seldom.rewritten
    assert Tariff(0.1, 1.25).cost(seldom.total) < Tariff(0.1, 1.25).cost(often.total)


# Policies of other programs


def test_the_number_of_newest_messages_always_fits_the_budget(agent: foldmark.Agent) -> None:
    for number in range(20):
        turn(agent, number, steps=2)
    whole, newest = replayed(agent, FULL, Policy("messages", 5000), rules=explicit(10))
    assert whole.largest > newest.largest
    assert 4000 < newest.largest <= 5000
    assert newest.moves > 30
    assert newest.rewritten > newest.total.tokens / 2


def test_if_everything_fits_all_messages_are_the_newest(agent: foldmark.Agent) -> None:
    for number in range(3):
        turn(agent, number, steps=2)
    whole, newest = replayed(agent, FULL, Policy("messages", 10**6), rules=explicit(10))
    assert whole.billed == newest.billed


def test_above_its_trigger_the_provider_clears_all_results_except_three(agent: foldmark.Agent) -> None:
    for number in range(24):
        turn(agent, number, steps=2, result=9000)
    whole, cleared = replayed(agent, FULL, Policy("clearing", 0), rules=explicit(10))
    below = [each.tokens for each in whole.billed if each.tokens <= TRIGGER]
    assert [each.tokens for each in cleared.billed][: len(below)] == below
    assert len(below) < len(whole.billed)
    above = [each.tokens for each in cleared.billed][len(below) :]
    assert max(above) < 40_000 + 3 * 3000
    assert min(above) > 3 * 3000


# Thinking


def test_without_recorded_thinking_every_answer_counts_as_if_it_began_with_some(agent: foldmark.Agent) -> None:
    turn(agent, 0, steps=3)
    (row,) = replayed(agent, FULL)
    assert row.thoughts == (0 + 1 + 2 + 3, 0, 0)
    assert row.thoughts.share == 1.0


def test_only_recorded_thinking_counts_if_any_is_recorded(agent: foldmark.Agent) -> None:
    turn(agent, 0)
    agent.append("user", "go", dialect="anthropic")
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    first = agent.append("assistant", "Looking.", data={"blocks": [block]}, dialect="anthropic")
    agent.append_tool_call("read_file", {"path": "x"}, call_id="1", dialect="anthropic")
    agent.append_tool_result("1", "r", dialect="anthropic")
    agent.append("assistant", "Done.")
    assert thought_about(agent) == {first}
    (row,) = replayed(agent, FULL)
    assert row.thoughts == (1, 0, 0)


def test_thinking_in_an_answer_without_a_question_is_ignored(agent: foldmark.Agent) -> None:
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    agent.append("assistant", "Hello.", data={"blocks": [block]}, dialect="anthropic")
    turn(agent, 0, steps=1)
    (row,) = replayed(agent, FULL)
    assert row.thoughts == (1, 0, 0)


def test_a_shortened_result_loses_the_thinking_after_it(agent: foldmark.Agent) -> None:
    turn(agent, 0, steps=8, result=6000)
    steady, eager = replayed(agent, Policy("steady", 10**6), Policy("eager", 10**6))
    assert steady.thoughts == (sum(range(9)), 0, 0)
    # The sixth result shortens the first: thinking before any result stays valid, and so does later thinking.
    assert eager.thoughts.kept < steady.thoughts.kept
    assert eager.thoughts.kept + eager.thoughts.lost == steady.thoughts.kept
    assert 0 < eager.thoughts.blocks < 8


def test_a_pause_empties_the_cache_unless_pauses_are_ignored(agent: foldmark.Agent) -> None:
    turn(agent, 0)
    turn(agent, 6)
    for pauses in (True, False):
        (row,) = replayed(agent, FULL, rules=explicit(10), pauses=pauses)
        assert bool(row.billed[1].read) is not pauses
        assert bool(row.rewritten) is pauses


def test_calls_count_as_calls_of_the_model_that_is_asked(agent: foldmark.Agent) -> None:
    agent.append("user", "go")
    agent.append_tool_call("read_file", {"path": "x"}, call_id="1", dialect="openai")
    agent.append_tool_result("1", "r" * 3000, dialect="openai")
    agent.append("assistant", "Done.")
    (row,) = replayed(agent, FULL)
    assert row.billed[1].tokens - row.billed[0].tokens > 900


def test_progress_is_reported_and_an_interruption_passes_through(agent: foldmark.Agent) -> None:
    turn(agent, 0, steps=2)
    told: list[tuple[int, int]] = []
    replay(agent, [FULL, FULL], "openai", "gpt-5", rules=None, progress=lambda *each: told.append(each))
    assert told == [(number, 6) for number in range(1, 7)]

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(agent, [FULL], "openai", "gpt-5", rules=None, progress=stop)


# Known facts about models


def test_a_turn_beyond_the_budget_is_not_read_again_at_each_of_its_steps(
    agent: foldmark.Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn(agent, 0, steps=150 if DEEP else 60)
    count, messages, read = agent.context().size.messages, SqlSnapshot.select, 0

    def counted(*given: Any, **more: Any) -> Iterator[Event]:
        nonlocal read
        for event in messages(*given, **more):
            read += 1
            yield event

    monkeypatch.setattr(SqlSnapshot, "select", counted)
    replayed(agent, Policy("steady", 5000))
    assert read <= 6 * count


def test_each_kind_of_cache_follows_from_what_is_published() -> None:
    assert rules_of(model_of("anthropic", "claude-haiku-4-5")) == explicit(4096)
    assert rules_of(model_of("openai", "gpt-5.4")) == stepped(1024, 128)
    assert rules_of(model_of("openai_responses", "gpt-5.6")) == managed(1024)
    assert rules_of(model_of("gemini", "gemini-2.5-pro")) == stepped(2048, 1)
    assert rules_of(model_of("ollama", "llama")) is None


def test_costs_are_in_fresh_tokens_and_in_dollars_if_the_price_is_known() -> None:
    bill = Bill(100_000, 100_000, 1_000_000)
    tariff = tariff_of(model_of("anthropic", MODEL))
    assert tariff.cost(bill) == pytest.approx(100_000 + 125_000 + 100_000)
    assert tariff.shown(tariff.cost(bill)) == "$0.97"
    unknown = tariff_of(model_of("ollama", "llama"))
    assert unknown.shown(unknown.cost(bill)) == "1,200,000"
