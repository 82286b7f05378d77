"""A recorded conversation once more under other policies [SPEC 5.3]: which requests there were, and their bills."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import foldmark
from foldmark.conversation.cost import Policy, Replayed, Tariff, answered, asked, replay, rules_of, tariff_of
from foldmark.conversation.request import prepare
from foldmark.core.caching import Bill, Rules, explicit, managed, stepped
from foldmark.tokens.models import model_of

MODEL = "claude-sonnet-4-6"
FULL = Policy("full", {"sliding_context_tokens": 0})


@pytest.fixture
def agent() -> Iterator[foldmark.Agent]:
    with foldmark.open(":memory:") as log:
        yield log.agent("test")


def at(second: int) -> str:
    return f"2026-11-01T{10 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def turn(agent: foldmark.Agent, number: int, steps: int = 0, state: bool = False, result: int = 2000) -> None:
    """One turn a minute, with `steps` tool calls and perhaps a state block."""
    clock = number * 60
    agent.append("user", f"question {number} ".ljust(400, "q"), created_at=at(clock))
    for step in range(steps):
        agent.append_tool_call("read_file", {"path": "x"}, call_id=f"c{number}.{step}", created_at=at(clock + step))
        agent.append_tool_result(f"c{number}.{step}", f"{step}".ljust(result, "r"), created_at=at(clock + step))
    agent.append("assistant", f"answer {number} ".ljust(800, "a"), created_at=at(clock + steps))
    if state:
        agent.record("state", f"Goal: {number}".ljust(600, "s"), created_at=at(clock + steps))
    agent.end_turn(created_at=at(clock + steps))


def window(low: float, budget: int = 3000, last: bool | None = None) -> Policy:
    return Policy(f"{low}", {"sliding_context_tokens": budget, "sliding_context_low_water": low}, last)


def replayed(
    agent: foldmark.Agent, *policies: Policy, rules: Rules | None = None, pauses: bool = True
) -> list[Replayed]:
    return replay(agent, policies, "anthropic", MODEL, rules=rules, pauses=pauses)


# Which requests there were


def test_a_model_is_asked_before_each_answer_and_each_step(agent: foldmark.Agent) -> None:
    turn(agent, 0)
    turn(agent, 1, steps=2)
    stood = [each.at.newest for each in asked(agent)]
    kinds = [(event.kind if (event := agent.log.store.event(id)) else None) for id in stood]
    assert kinds == ["user", "user", "tool_result", "tool_result"]


def test_text_and_calls_of_one_answer_are_one_request(agent: foldmark.Agent) -> None:
    agent.append("user", "go")
    agent.append("assistant", "Looking.")
    agent.append_tool_call("a", {}, call_id="1")
    agent.append_tool_call("b", {}, call_id="2")
    agent.append_tool_result("1", "x")
    agent.append_tool_result("2", "y")
    agent.append("assistant", "Done.")
    assert [each.at.newest for each in asked(agent)] == [1, 6]


def test_answers_of_two_turns_are_two_requests_though_nobody_spoke_between(agent: foldmark.Agent) -> None:
    agent.append("user", "go")
    agent.append("assistant", "Done.")
    agent.end_turn()
    agent.append("assistant", "One more thing.")
    assert len(asked(agent)) == 2


def test_what_was_taken_out_later_was_asked_all_the_same_and_stood_as_it_did(agent: foldmark.Agent) -> None:
    turn(agent, 0)
    agent.do("/mark A")
    turn(agent, 1)
    agent.do("/rewind A")
    turn(agent, 2)
    assert [each.at.size.messages for each in asked(agent)] == [1, 3, 3]


def test_turns_dropped_behind_the_last_message_were_never_there(agent: foldmark.Agent) -> None:
    turn(agent, 0)
    abandoned = agent.append("user", "a branch")
    agent.append("assistant", "abandoned")
    agent.end_turn()
    turn(agent, 1)
    kept = agent.do(f"/context drop {abandoned}").event_id
    assert [each.at.size.messages for each in asked(agent)] == [1, 3]
    agent.do(f"/restore {kept}")
    assert [each.at.size.messages for each in asked(agent)] == [1, 3, 5]


def test_a_fork_was_asked_what_came_after_its_birth(agent: foldmark.Agent) -> None:
    turn(agent, 0)
    child = agent.log.agent(agent.do("/fork").data["child"])
    child.append("user", "for you alone")
    child.append("assistant", "mine")
    assert [each.at.size.messages for each in asked(child)] == [3]


def test_time_never_runs_backwards(agent: foldmark.Agent) -> None:
    agent.append("user", "1", created_at=at(100))
    agent.append("assistant", "2", created_at=at(200))
    agent.append("user", "3", created_at=at(50))
    agent.append("assistant", "4", created_at=at(60))
    first, second = [each.moment for each in asked(agent)]
    assert second - first == 100


def test_answers_weigh_what_was_recorded(agent: foldmark.Agent) -> None:
    agent.append("user", "a question that does not count")
    agent.append("assistant", "a" * 300)
    assert answered(agent, "anthropic", MODEL) == 100


# What they cost


def test_every_request_is_the_one_that_would_have_been_sent(agent: foldmark.Agent) -> None:
    for number in range(4):
        turn(agent, number, steps=number, state=True)
    policies = [FULL, window(1.0), window(0.6)]
    config = agent.standing().config
    for policy, row in zip(policies, replayed(agent, *policies, rules=explicit(100)), strict=True):
        made = [prepare(each.at, policy.applied(config), "anthropic", MODEL).tokens for each in asked(agent)]
        assert [each.bill.tokens for each in row.billed] == made
        assert row.total.tokens == sum(made)
        assert (row.largest, row.mean) == (max(made), sum(made) // len(made))


def test_nothing_is_written(agent: foldmark.Agent) -> None:
    turn(agent, 0, steps=1)
    before = agent.standing().record
    replayed(agent, FULL, window(1.0))
    assert agent.standing().record == before


def test_without_a_cache_everything_is_fresh(agent: foldmark.Agent) -> None:
    turn(agent, 0, steps=2)
    (row,) = replayed(agent, FULL)
    assert (row.total.write, row.total.read) == (0, 0)
    assert row.total.fresh > 0


def test_a_history_that_only_grows_is_read_but_for_what_is_new(agent: foldmark.Agent) -> None:
    for number in range(10):
        turn(agent, number)
    (row,) = replayed(agent, FULL, rules=explicit(10))
    assert row.moves == 0
    assert sum(each.again for each in row.billed) < 10 * 20
    assert row.total.write < row.largest + 10 * 20


def test_a_state_in_the_system_field_costs_the_whole_history_with_every_turn(agent: foldmark.Agent) -> None:
    for number in range(12):
        turn(agent, number, state=True)
    first, last = (Policy("", FULL.changes, order) for order in (False, True))
    front, behind = replayed(agent, first, last, rules=explicit(10))
    assert front.total.read < behind.total.read / 2
    assert front.again("turn") > 5 * behind.again("turn")


def test_results_that_become_older_inside_a_turn_break_it(agent: foldmark.Agent) -> None:
    turn(agent, 0, steps=20, result=6000)
    once = Policy("one limit", {**FULL.changes, "truncate_active": 5000})
    row, steady = replayed(agent, FULL, once, rules=explicit(10))
    assert row.again("step") > 10_000
    assert steady.again("step") < 500


def test_below_one_the_window_moves_less_often_and_more_is_read(agent: foldmark.Agent) -> None:
    for number in range(60):
        turn(agent, number)
    always, seldom = replayed(agent, window(1.0, 20_000), window(0.6, 20_000), rules=explicit(10))
    assert always.moves > 3 * seldom.moves > 0
    assert always.again("cut") > 2 * seldom.again("cut")
    assert Tariff(0.1, 1.25).cost(seldom.total) < Tariff(0.1, 1.25).cost(always.total)


def test_a_pause_loses_what_was_cached_unless_pauses_are_ignored(agent: foldmark.Agent) -> None:
    turn(agent, 0)
    turn(agent, 6)
    for pauses, cause in ((True, "pause"), (False, "turn")):
        (row,) = replayed(agent, FULL, rules=explicit(10), pauses=pauses)
        assert [each.cause for each in row.billed] == ["first", cause]
        assert bool(row.billed[1].bill.read) is not pauses


def test_calls_count_as_made_by_whoever_is_asked(agent: foldmark.Agent) -> None:
    agent.append("user", "go")
    agent.append_tool_call("read_file", {"path": "x"}, call_id="1", dialect="openai")
    agent.append_tool_result("1", "r" * 3000, dialect="openai")
    agent.append("assistant", "Done.")
    (row,) = replayed(agent, FULL)
    assert row.billed[1].bill.tokens - row.billed[0].bill.tokens > 900


def test_progress_is_told_and_an_interruption_goes_through(agent: foldmark.Agent) -> None:
    turn(agent, 0, steps=2)
    told: list[tuple[int, int]] = []
    replay(agent, [FULL, FULL], "openai", "gpt-5", rules=None, progress=lambda *each: told.append(each))
    assert told == [(number, 6) for number in range(1, 7)]

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(agent, [FULL], "openai", "gpt-5", rules=None, progress=stop)


# What is known of models


def test_each_kind_of_cache_follows_from_what_is_published() -> None:
    assert rules_of(model_of("anthropic", "claude-haiku-4-5")) == explicit(4096)
    assert rules_of(model_of("openai", "gpt-5.4")) == stepped(1024, 128)
    assert rules_of(model_of("openai_responses", "gpt-5.6")) == managed(1024)
    assert rules_of(model_of("gemini", "gemini-2.5-pro")) == stepped(2048, 1)
    assert rules_of(model_of("ollama", "llama")) is None


def test_costs_are_in_fresh_tokens_worth_and_in_dollars_where_there_is_a_price() -> None:
    bill = Bill(100_000, 100_000, 1_000_000)
    tariff = tariff_of(model_of("anthropic", MODEL))
    assert tariff.cost(bill) == pytest.approx(100_000 + 125_000 + 100_000)
    assert tariff.shown(tariff.cost(bill)) == "$0.97"
    unknown = tariff_of(model_of("ollama", "llama"))
    assert unknown.shown(unknown.cost(bill)) == "1,200,000"
