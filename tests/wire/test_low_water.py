"""The window that moves in steps (SPEC 5.3, `sliding_context_low_water`): examples. Its laws are in tests/laws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import SPEAKERS, message

import foldmark
from foldmark.core.assembly.growth import Reach, Sizes, advanced, entering_weight, lowered
from foldmark.core.assembly.window import Steps, Units, in_steps
from foldmark.core.assembly.wire import weight
from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.request import Edge, Request, ToolSpec
from foldmark.log import Agent
from foldmark.providers.registry import dialect_of
from foldmark.request.prepare import prepare
from foldmark.tokens.counting import uncalibrated
from sampled import sampled
from stored import stored

BUDGET, LOW = 12_000, 0.8
STEP = 2400
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


def without_messages(provider: str, **more: Any) -> int:
    """Return the size in bytes of a request that has no messages."""
    with foldmark.open(":memory:") as log:
        return len(made(log.agent("empty"), provider, **more).bytes)


def by_the_formula(agent: Agent, provider: str, bare: int) -> int | None:
    """Return the first turn of the window by SPEC 5.3, word by word, for a request that fits and would have `bare`
    bytes without its messages."""
    ratio = uncalibrated(provider, "some-model")
    reserved = ceil(bare / ratio) + min(8192, BUDGET // 4)
    turns: dict[int, int] = {}
    messages = [(m, m.turn_id) for m in agent.context().messages if m.turn_id]
    newest = messages[-1][1]
    for each, turn in messages:
        if each.id <= newest:
            turns.setdefault(turn, 0)
            turns[turn] += weight(each.kind, each.content, each.data, each.interrupted, each.id)
    total = ceil(sum(turns.values()) / ratio)
    least = max(0, ceil((total - (BUDGET - reserved)) / STEP) * STEP)
    preceding = 0
    for turn, size in turns.items():
        if ceil(preceding / ratio) >= least:
            return turn
        preceding += size
    return newest


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai_responses", "gemini"])
def test_the_window_begins_where_the_formula_says(agent: Agent, provider: str) -> None:
    starts = set()
    more: dict[str, Any] = {"system": "Be brief. " * 30, "tools": [READ]}
    bare = without_messages(provider, **more)
    for number in sampled(range(60), 42):
        agent.append("user", f"question {number} ".ljust(100 + number * 7, "q"))
        request = made(agent, provider, **more)
        starts.add(in_window(request)[0])
        assert in_window(request)[0] == by_the_formula(agent, provider, bare)
        assert request.tokens <= BUDGET
        agent.append("assistant", "I look.")
        agent.append_tool_call(
            "read_file", {"path": "x" * number}, call_id=f"c{number}", dialect=dialect_of(provider).recorded
        )
        agent.append_tool_result(f"c{number}", "r" * 50 * number, dialect=dialect_of(provider).recorded)
        agent.end_turn()
    assert 3 <= len(starts) <= 20


def test_the_edge_explains_itself_in_words(agent: Agent) -> None:
    turns = talk(agent, 3)
    free = made(agent)
    assert (free.manifest.edge.first, free.manifest.edge.why, free.manifest.edge.reason) == (turns[0], None, "")
    talk(agent, 30)
    edge = made(agent).manifest.edge
    assert (edge.why, edge.limit, edge.step, edge.turn) == ("budget", 12_000, 2400, None)
    assert edge.reason == (
        "low water: older turns leave in steps of 2,400 tokens, so that the request stays within 12,000 and begins the "
        "same for as long as a step lasts"
    )
    grown = Edge(edge.first, "budget", 9, limit=1500)
    assert grown.reason == "newer messages would have exceeded 1,500 tokens: one step reduced the window to low water"


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
    agent.record("state", "Goal: two")
    assert made(agent, provider, system="Be kind.").bytes == before.bytes
    agent.append("assistant", "Done.")
    agent.end_turn()
    agent.append("user", "And this.")
    text, after = (
        each.replace(',"cache_control":{"type":"ephemeral"}', "")
        for each in (text, made(agent, provider, system="Be kind.").bytes.decode())
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


def test_steps_leave_the_window_until_the_request_fits(agent: Agent) -> None:
    """The calibration shows that the model counts more tokens than the weights suggest."""
    turns = talk(agent, 200)
    plain = made(agent, budget=40_000)
    seen = [turns.index(in_window(plain)[0])]
    for steps, ratio in enumerate((3.0, 2.0, 1.3, 0.6), 60):
        calibration = {"openai/some-model": ratio}
        agent.record("config", data={"settings": {**agent.standing().settings, "calibration": calibration}})
        # The window waits for a boundary.
        assert in_window(made(agent, budget=40_000, calibration=calibration))[0] == turns[seen[-1]]
        agent.configure("turn_steps", steps)
        request = made(agent, budget=40_000, calibration=calibration)
        assert request.tokens <= 40_000
        seen.append(turns.index(in_window(request)[0]))
    assert seen == sorted(seen)
    assert len(set(seen)) == 4
    # A step is 8,000 tokens of 4 bytes; a turn weighs 2 * 1000 + 64 + 88.
    assert set(seen) <= {ceil(step * 8000 * 4 / 2152) for step in range(30)}
    calibration = {"openai/some-model": 40.0}
    agent.record("config", data={"settings": {**agent.standing().settings, "calibration": calibration}})
    agent.configure("turn_steps", 70)
    assert in_window(made(agent, budget=40_000, calibration=calibration)) == in_window(plain)


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
    assert (edge.why, edge.limit, edge.step, edge.turn) == ("budget", limit, 0, None)
    assert made(agent, budget=40_000, limit=free.tokens * 5 // 4) == free
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
    edge = made(agent).manifest.edge
    for step in range(5):
        agent.append("assistant", "w" * 300)
        agent.append_tool_call("read_file", {"path": "x"}, call_id=f"c{step}")
        agent.append_tool_result(f"c{step}", "r" * 900)
        agent.record("scratchpad", "p" * 300 * step)
        assert made(agent).manifest.edge == edge


def test_forks_and_forgotten_messages_have_no_weight(agent: Agent) -> None:
    turns = talk(agent, 60)
    child = agent.log.agent(agent.do("/fork").data["child"])
    assert in_window(made(child)) == in_window(made(agent))
    agent.apply_filter("forget", [id for turn in turns[:-3] for id in (turn, turn + 1)])
    assert in_window(made(agent)) == turns[-3:]
    assert made(agent).manifest.edge.why is None
    assert in_window(made(child))[-1] == turns[-1]


# The choice alone


@given(
    st.lists(st.one_of(st.just(0), st.integers(1, 400)), min_size=1, max_size=60),
    st.integers(1, 500),
    st.integers(-500, 5000),
    st.integers(0, 70),
    st.integers(0, 60),
)
def test_steps_equal_brute_force(sizes: list[int], step: int, room: int, turns: int, fitting: int) -> None:
    """`sizes` are the sizes of the units, newest first; the newest `fitting` of them fit."""
    units = Units(message(1000 - index, "user", turn=1000 - index) for index in range(len(sizes)))
    total = sum(sizes)
    asked = []

    def before(count: int) -> int:
        asked.append(count)
        return total - sum(sizes[:count])

    cut = in_steps(units, turns, Steps(step, room, total), before, lambda count: count <= fitting)
    least = max(0, ceil((total - room) / step) * step)
    most = min(len(sizes), turns or len(sizes))
    count = max([n for n in range(1, most + 1) if total - sum(sizes[:n]) >= least], default=1)
    by_turns = count == most
    while count > 1 and count > fitting:
        by_turns = False
        least += step
        count = max([n for n in range(1, most + 1) if total - sum(sizes[:n]) >= least], default=1)
    assert cut.units == count
    assert cut.why == ("budget" if not by_turns else None if count == len(sizes) else "turns")
    assert max(asked, default=0) <= cut.units + 1 or fitting < len(sizes)


def test_a_window_reads_one_more_unit_than_fits() -> None:
    source = (message(id, "user", turn=id) for id in range(5000, 0, -1))
    steps = Steps(100, 1000, 5000 * 10)
    cut = in_steps(Units(source), 0, steps, lambda count: 50_000 - 10 * count, lambda count: True)
    assert cut == (100, "budget")
    assert next(source).id > 4890


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 900)), min_size=1, max_size=40), st.integers(300, 6000))
def test_a_step_that_the_next_one_would_undo_is_skipped(sizes: list[tuple[bool, int]], most: int) -> None:
    """The request is the same as if each step had been made, with fewer passes over the whole turn."""
    events: list[Event] = []
    for opens, size in sizes:
        turn = len(events) + 1 if opens or not events else events[-1].turn_id
        for kind in (*(["user"] if opens or not events else []), "assistant", "tool_call", "tool_result"):
            answers = len(events) if kind == "tool_result" else None
            events.append(message(len(events) + 1, kind, "x" * size, turn=turn, answers=answers))
    config = Config(truncate_recent=700, truncate_active=300, truncate_inactive=50, truncate_recent_count=2)

    def lower(shown: Sequence[Event]) -> tuple[Reach, int]:
        return lowered(shown, most * LOW, 100, Sizes(config))

    now, weighed = Reach(0, 0), 100.0
    for index, event in enumerate(events):
        weighed += entering_weight(event, config)
        if weighed > most and event.kind in ("user", "tool_result"):
            further, weighed = lower(events[now.cut : index + 1])
            now = further._replace(cut=now.cut + further.cut)
    assert advanced(events, Reach(0, 0), 100, lambda _: most, config, lower) == now
