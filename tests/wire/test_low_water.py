"""The window that moves in steps (SPEC 5.3, `sliding_context_low_water`): examples. Its laws are in tests/laws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from random_logs import SPEAKERS

import foldmark
from foldmark.core.assembly.plan import NEAR
from foldmark.core.config import Config
from foldmark.core.request import Request, ToolSpec
from foldmark.log import Agent
from foldmark.providers.registry import dialect_of
from foldmark.request.prepare import prepare
from foldmark.request.recorded import SentPlan
from sampled import sampled
from stored import stored

BUDGET, LOW = 12_000, 0.8
READ = ToolSpec("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


@pytest.fixture
def agent() -> Iterator[Agent]:
    log = foldmark.open(":memory:")
    yield log.agent("test")
    log.close()


def talk(agent: Agent, turns: int, size: int = 1000) -> list[int]:
    """Append turns of a question and an answer of `size` characters each, and return their ids."""
    ids = []
    with agent.batch():
        for number in range(turns):
            ids.append(agent.append("user", f"question {number} ".ljust(size, "q")))
            agent.append("assistant", f"answer {number} ".ljust(size, "a"))
            agent.end_turn()
    return ids


def made(agent: Agent, provider: str = "openai", *, low: float = LOW, budget: int = BUDGET, **more: Any) -> Request:
    config = {key: more.pop(key) for key in list(more) if key in Config.__struct_fields__}
    return prepare(
        stored(agent.log),
        agent.standing(),
        Config(sliding_context_tokens=budget, sliding_context_low_water=low, **config),
        provider,
        "some-model",
        **more,
    )


def in_window(request: Request) -> list[int]:
    return list(dict.fromkeys(p.turn for p in request.manifest.parts if p.layer == "window" and p.turn))


def bytes_of(agent: Agent, provider: str, first: int, **more: Any) -> Request:
    """Return the request that begins with a turn: that of a limit on the number of turns."""
    turns = list(dict.fromkeys(m.turn_id for m in agent.context().messages if m.turn_id))
    return made(agent, provider, budget=0, context_size=len(turns) - turns.index(first), **more)


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai_responses", "gemini"])
def test_a_new_window_begins_with_the_oldest_turn_at_low_water(agent: Agent, provider: str) -> None:
    """Without a request before it. One more turn would lead above low water, by more than the estimates may err."""
    more: dict[str, Any] = {"system": "Be brief. " * 30, "tools": [READ]}
    turns, starts = list[int](), set[int]()
    for number in sampled(range(60), 42):
        turns.append(agent.append("user", f"question {number} ".ljust(600 + number * 9, "q")))
        request = made(agent, provider, **more)
        first = in_window(request)[0]
        starts.add(first)
        assert request.tokens <= BUDGET
        if first != turns[0]:
            assert request.tokens <= LOW / NEAR * BUDGET
            assert bytes_of(agent, provider, turns[max(0, turns.index(first) - 2)], **more).tokens > LOW * NEAR * BUDGET
        agent.append("assistant", "I look.")
        agent.append_tool_call(
            "read_file", {"path": "x" * number}, call_id=f"c{number}", dialect=dialect_of(provider).recorded
        )
        agent.append_tool_result(f"c{number}", "r" * 50 * number, dialect=dialect_of(provider).recorded)
        agent.end_turn()
    assert len(starts) > 10


def test_the_edge_explains_itself_in_words(agent: Agent) -> None:
    turns = talk(agent, 3)
    free = made(agent)
    assert (free.manifest.edge.first, free.manifest.edge.why, free.manifest.edge.reason) == (turns[0], None, "")
    talk(agent, 30)
    edge = made(agent).manifest.edge
    assert (edge.why, edge.limit, edge.turn) == ("budget", 12_000, None)
    reason = "the whole context would exceed 12,000 tokens: older turns left in one step, down to low water"
    assert edge.reason == reason


@pytest.mark.parametrize("provider", SPEAKERS)
def test_changing_layers_precede_the_newest_turn(agent: Agent, provider: str) -> None:
    talk(agent, 3)
    agent.record("state", "Goal: one")
    agent.record("scratchpad", "notes one")
    agent.append("user", "Now this.")
    before = made(agent, provider, system="Be kind.")
    text = before.bytes.decode()
    for anchor in ("Goal: one", "notes one"):
        assert text.index("answer 2") < text.index(anchor) < text.index("Now this.")
        eager = made(agent, provider, context_policy="eager", system="Be kind.").bytes.decode()
        assert eager.index(anchor) < eager.index("answer 2")
    sent = SentPlan(before.manifest.plan, agent.standing().newest, agent.id)
    agent.record("state", "Goal: two")
    assert made(agent, provider, system="Be kind.", before=lambda *_: sent).bytes == before.bytes
    agent.append("assistant", "Done.")
    agent.end_turn()
    agent.append("user", "And this.")
    text, after = (
        each.replace(',"cache_control":{"type":"ephemeral"}', "")
        for each in (text, made(agent, provider, system="Be kind.", before=lambda *_: sent).bytes.decode())
    )
    upto = text.index("Now this.")
    assert after[:upto] == text[:upto]
    assert after.index("Done.") < after.index("Goal: two") < after.index("And this.")
    assert [part.layer for part in before.manifest.parts if part.layer in ("state", "scratchpad")] == [
        "state",
        "scratchpad",
    ]


def test_without_a_budget_everything_is_sent_in_cacheable_order(agent: Agent) -> None:
    turns = talk(agent, 100)
    agent.record("scratchpad", "notes")
    agent.append("user", "Now.")
    request = made(agent, budget=0)
    assert in_window(request)[:-1] == turns
    assert request.manifest.edge.why is None
    assert request.body["messages"][-2]["content"].startswith("### SCRATCHPAD")


def test_a_turn_larger_than_the_budget_is_sent_alone(agent: Agent) -> None:
    turns = talk(agent, 5)
    agent.append("user", "x" * 100_000)
    request = made(agent)
    assert in_window(request) == [agent.context().messages[-1].turn_id]
    assert request.manifest.edge.before == 2 * len(turns)
    assert request.tokens > BUDGET
    assert made(agent, budget=1).tokens == request.tokens


def test_the_maximum_number_of_turns_still_applies(agent: Agent) -> None:
    turns = talk(agent, 30)
    request = made(agent, context_size=2)
    assert in_window(request) == turns[-2:]
    assert (request.manifest.edge.why, request.manifest.edge.reason) == ("turns", "context_size is 2")
    assert made(agent, context_size=30).manifest.edge.why == "budget"


def test_a_plan_keeps_the_calibration_that_it_was_sized_with(agent: Agent) -> None:
    """A new one takes effect at the next boundary."""
    turns = talk(agent, 200)
    before: list[SentPlan] = []

    def sent(**more: Any) -> Request:
        request = made(agent, budget=40_000, before=lambda *_: before[-1] if before else None, **more)
        before.append(SentPlan(request.manifest.plan, agent.standing().newest, agent.id))
        return request

    seen = [in_window(sent())[0]]
    for number, ratio in enumerate((3.0, 2.0, 1.3, 0.6)):
        calibration = {"openai/some-model": ratio}
        assert in_window(sent(calibration=calibration))[0] == seen[-1]
        agent.do(f"/pin {turns[number]}")
        request = sent(calibration=calibration)
        assert request.tokens <= 40_000
        seen.append(in_window(request)[0])
    assert seen == sorted(set(seen))


def test_pins_come_first_and_narrow_the_window(agent: Agent) -> None:
    turns = talk(agent, 60)
    plain = made(agent)
    for turn in turns[:12]:
        agent.do(f"/pin {turn}")
    request = made(agent)
    assert list(dict.fromkeys(p.turn for p in request.manifest.parts if p.layer == "pinned")) == turns[:12]
    assert request.tokens <= BUDGET
    assert in_window(request)[-1] == turns[-1]
    for turn in turns[12:24]:
        agent.do(f"/pin {turn}")
    more = made(agent)
    assert more.tokens <= BUDGET
    assert turns.index(in_window(plain)[0]) <= turns.index(in_window(request)[0]) < turns.index(in_window(more)[0])


def test_a_turn_that_outgrows_the_models_limit_is_cut_to_low_water(agent: Agent) -> None:
    turns = talk(agent, 200)
    turns.append(agent.append("user", "Work."))
    agent.append("assistant", "w" * 16_000)
    agent.append("user", "Go on.")
    free = made(agent, budget=40_000)
    limit = free.tokens - 1
    request = made(agent, budget=40_000, limit=limit)
    assert 0.7 * limit < request.tokens <= LOW * limit
    assert f"{limit:,} tokens" in request.manifest.edge.reason
    edge = request.manifest.edge
    assert (edge.why, edge.limit, edge.turn) == ("budget", limit, None)
    assert made(agent, budget=40_000, limit=free.tokens * 2) == free
    assert in_window(made(agent, budget=40_000, limit=1)) == turns[-1:]


def test_a_turn_that_cannot_shrink_still_shows_its_newest_result(agent: Agent) -> None:
    agent.append("user", "Work.")
    for step in range(30):
        agent.append("assistant", "w" * 3000)
        agent.append_tool_call("read_file", {"path": "x"}, call_id=f"c{step}")
        agent.append_tool_result(f"c{step}", f"{step} ".ljust(4000, "r"))
        request = made(agent)
        results = [m["content"] for m in request.body["messages"] if m["role"] == "tool"]
        assert results[-1] == f"{step} ".ljust(4000, "r")
    assert request.tokens > BUDGET
    assert all(len(result) < 500 for result in results[:-1])


def test_the_window_does_not_move_inside_a_turn(agent: Agent) -> None:
    talk(agent, 40)
    agent.append("user", "Work.")
    first = made(agent)
    edge, sent = first.manifest.edge, SentPlan(first.manifest.plan, agent.standing().newest, agent.id)
    for step in range(5):
        agent.append("assistant", "w" * 300)
        agent.append_tool_call("read_file", {"path": "x"}, call_id=f"c{step}")
        agent.append_tool_result(f"c{step}", "r" * 900)
        agent.record("scratchpad", "p" * 300 * step)
        assert made(agent, before=lambda *_: sent).manifest.edge == edge


def test_forks_and_forgotten_messages_have_no_weight(agent: Agent) -> None:
    turns = talk(agent, 60)
    child = agent.log.agent(agent.do("/fork").data["child"])
    assert in_window(made(child)) == in_window(made(agent))
    agent.apply_filter("forget", [id for turn in turns[:-3] for id in (turn, turn + 1)])
    assert in_window(made(agent)) == turns[-3:]
    assert made(agent).manifest.edge.why is None
    assert in_window(made(child))[-1] == turns[-1]
