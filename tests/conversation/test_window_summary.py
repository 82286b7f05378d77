"""Window summaries: when they are made, sent and stale (SPEC 5.1, S3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from request_validators import VALIDATORS

import foldmark
from answering import answered_by
from deeds import OPERATING, SAYING, do, family
from foldmark import Agent, Log
from foldmark.core import selections
from foldmark.core.errors import FoldmarkError
from foldmark.core.request import Request
from foldmark.log.doctor import examine
from foldmark.request.recorded import newest_requests
from foldmark.sending.questions import BEFORE, MESSAGES, SUM_UP, DueSummary, make_window_summary, window_summary_due
from foldmark.sending.rebuilding import rebuilt
from foldmark.settings.given import Settings
from patience import LIMIT
from stored import stored

BUDGET = 3000
MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "openai": "gpt-5",
    "openai_responses": "gpt-5",
    "gemini": "gemini-2.5-pro",
    "gemini_gca": "gemini-2.5-pro",
}


class Model:
    """A model that writes one summary after the other and keeps its requests."""

    def __init__(self) -> None:
        self.requests, self.meanwhile = list[Request](), list[Callable[[], object]]()

    def complete(self, request: Request) -> str:
        self.requests.append(request)
        for happens in self.meanwhile:
            happens()
        return f"Summary {len(self.requests)}."

    def read(self) -> list[int]:
        """Return the ids of the messages before the last question."""
        return [part.event for part in self.requests[-1].manifest.parts if part.layer == "window" and part.event]


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log
        assert list(examine(log)) == []


@pytest.fixture
def model(log: Log) -> Model:
    model = Model()
    answered_by(model.complete)
    return model


@pytest.fixture
def agent(log: Log, model: Model) -> Agent:
    """An agent with thirty turns, of which the window holds the newest."""
    agent = log.agent("root")
    agent.configure("tools", "none")
    agent.configure("sliding_context_tokens", BUDGET)
    agent.configure("window_summary", True)
    agent.configure("context_policy", "eager")
    say(agent, *range(30))
    return agent


def say(agent: Agent, *numbers: int, words: int = 60) -> None:
    for number in numbers:
        agent.append("user", f"question {number} " + "word " * words)
        agent.append("assistant", "answer " * words)
        agent.end_turn()


def opened(agent: Agent) -> Request:
    """Open the next turn, which rebuilds the window, and return the request."""
    agent.append("user", "And now?")
    return agent.request()


def wanted(agent: Agent) -> DueSummary:
    found = window_summary_due(agent)
    assert found is not None
    return found


def made(agent: Agent) -> int:
    found = make_window_summary(agent, wanted(agent))
    assert found is not None
    return found


def sent(request: Request) -> list[int | None]:
    return [part.event for part in request.manifest.parts if part.layer == "window_summary"]


def visible(agent: Agent) -> list[int]:
    return [message.id for message in agent.context().messages]


# Made and sent


def test_window_summaries_are_off_by_default(log: Log, agent: Agent) -> None:
    """Recorded summaries do not change the bytes of requests."""
    agent.configure("window_summary", False)
    before = agent.request()
    assert window_summary_due(agent) is None
    agent.configure("window_summary", True)
    made(agent)
    agent.configure("window_summary", False)
    assert agent.request().bytes == before.bytes
    assert sent(opened(agent)) == []
    assert log.agent("other").standing().config.window_summary is False


def test_messages_before_the_window_are_summarized(agent: Agent, model: Model) -> None:
    edge = agent.request().manifest.edge
    found = wanted(agent)
    cut = visible(agent)[: edge.before]
    made(agent)
    assert model.read() == cut
    (question,) = [part.text for part in model.requests[0].manifest.parts if part.kind == "instruction"]
    assert (question, model.requests[0].purpose) == (SUM_UP, "summary")
    assert (found.covered.first, found.covered.until, found.covered.turns) == (cut[0], cut[-1], (cut[0], cut[-2]))


def test_a_window_summary_is_sent_from_the_next_turn_on(agent: Agent) -> None:
    agent.append("user", "And now?")
    before = agent.request()
    summary = made(agent)
    assert agent.request().bytes == before.bytes
    agent.append("assistant", "Well.")
    agent.end_turn()
    request = opened(agent)
    assert sent(request) == [summary]
    (part,) = [part for part in request.manifest.parts if part.layer == "window_summary"]
    first, last = (selections.event(stored(agent.log), summary).data or {})["turns"]  # type: ignore[union-attr]
    assert part.text == (
        f"### EARLIER CONVERSATION\nA model's summary of turns {first} to {last}, which stand in front of the messages "
        "here and are not among them:\nSummary 1."
    )
    for provider, name in MODELS.items():
        body = agent.request(provider, name).body
        assert VALIDATORS[provider](body) == []
        assert json.dumps(body).count("Summary 1.") == 1


def test_a_window_summary_has_its_place_among_the_layers(agent: Agent) -> None:
    agent.configure("system", "Be brief.")
    agent.configure("tools", "slash")
    agent.record("state", "Goal: x")
    agent.record("scratchpad", "notes")
    agent.do(f"/pin {visible(agent)[0]}")
    made(agent)
    names = list(dict.fromkeys(part.layer for part in opened(agent).manifest.parts))
    assert names == ["system", "guidelines", "state", "scratchpad", "window_summary", "pinned", "window"]
    agent.configure("context_policy", "steady")
    system, *_, anchors, asked = agent.request("openai", "gpt-5").body["messages"]
    body = json.dumps([anchors, asked])
    assert "Summary 1." not in json.dumps(system)
    assert body.index("### STATE") < body.index("### SCRATCHPAD") < body.index("Summary 1.") < body.index("And now?")


def test_no_summary_is_due_before_enough_was_cut(log: Log, model: Model) -> None:
    agent = log.agent("root")
    agent.configure("window_summary", True)
    assert window_summary_due(agent) is None
    agent.configure("context_size", 2)
    say(agent, *range(MESSAGES // 2 + 1), words=1)
    assert agent.request().manifest.edge.before == MESSAGES - 2
    assert window_summary_due(agent) is None
    say(agent, 99, words=1)
    made(agent)
    assert len(model.read()) == MESSAGES
    say(agent, *range(MESSAGES // 2 - 1), words=1)
    assert window_summary_due(agent) is None
    agent.configure("sliding_context_tokens", 1500)
    say(agent, 99, words=1)
    found = wanted(agent)
    assert found.earlier is not None


def test_one_large_turn_makes_a_summary_due(log: Log, model: Model) -> None:
    agent = log.agent("root")
    agent.configure("window_summary", True)
    agent.configure("context_size", 1)
    say(agent, 1, words=2000)
    say(agent, 2, words=1)
    assert agent.request().manifest.edge.before == 2
    assert wanted(agent).covered.until == visible(agent)[1]


def test_a_new_summary_extends_the_last_by_the_messages_cut_since(agent: Agent, model: Model) -> None:
    first = made(agent)
    covered = wanted_data(agent, first)
    assert window_summary_due(agent) is None
    say(agent, *range(15))
    request = opened(agent)
    assert sent(request) == [first]
    assert request.manifest.edge.first is not None
    assert covered["until"] < request.manifest.edge.first - 2
    second = made(agent)
    cut = visible(agent)[: request.manifest.edge.before]
    assert model.read() == [each for each in cut if each > covered["until"]]
    (question,) = [part.text for part in model.requests[-1].manifest.parts if part.kind == "instruction"]
    assert question == f"{SUM_UP}{BEFORE}Summary 1."
    again = wanted_data(agent, second)
    assert (again["from"], again["until"], again["turns"]) == (covered["from"], cut[-1], [cut[0], cut[-2]])
    agent.end_turn()
    assert sent(opened(agent)) == [second]


def wanted_data(agent: Agent, event_id: int) -> dict[str, Any]:
    event = selections.event(stored(agent.log), event_id)
    assert event is not None
    assert event.data is not None
    return event.data


def test_a_summary_covers_at_most_half_of_the_models_window(agent: Agent, model: Model) -> None:
    """If more was cut, it covers the newest part and names its beginning."""
    agent.log.given = Settings(models={"offline/offline": {"window": 4000, "output": 500}})
    assert agent.window == 4000
    cut = visible(agent)[: agent.request().manifest.edge.before]
    summary = made(agent)
    read = model.read()
    assert read == cut[-len(read) :]
    assert 0 < len(read) < len(cut)
    assert 1000 < model.requests[-1].tokens < 2000 + 200
    assert wanted_data(agent, summary)["from"] == read[0]


def test_the_offline_model_writes_a_window_summary(log: Log) -> None:
    agent = log.agent("other")
    agent.configure("context_size", 2)
    agent.configure("window_summary", True)
    say(agent, *range(20))
    made(agent)
    assert any("this is a digest, not a summary" in part.text for part in opened(agent).manifest.parts)


# Valid and stale


@pytest.mark.parametrize("operation", ["forget", "drop", "redact", "clear", "rewind", "summarize"])
def test_a_summary_is_stale_once_the_covered_messages_change(log: Log, operation: str) -> None:
    model = Model()
    answered_by(model.complete)
    agent = log.agent("root")
    agent.configure("context_size", 3)
    agent.configure("window_summary", True)
    say(agent, *range(10))
    agent.do("/mark HALF")
    say(agent, *range(10))
    summary, turn = made(agent), visible(agent)[2]
    assert sent(opened(agent)) == [summary]
    agent.end_turn()
    match operation:
        case "forget":
            undo = agent.apply_filter("forget", [turn + 1])
        case "drop":
            undo = agent.do(f"/context drop {turn}").event_id or 0
        case "redact":
            agent.do(f"/message remove {turn} --yes")
            undo = 0
        case "rewind":
            undo = agent.do("/rewind HALF").event_id or 0
        case _:
            undo = agent.do(f"/{operation}").event_id or 0
    assert sent(agent.request()) == []
    say(agent, 98, 99)
    assert sent(opened(agent)) == []
    agent.end_turn()
    if undo:
        agent.do(f"/restore {undo}")
        assert sent(opened(agent)) == [summary]


def test_an_older_summary_can_become_valid_again(agent: Agent, model: Model) -> None:
    first, turn = made(agent), visible(agent)[2]
    dropped = agent.do(f"/context drop {turn}").event_id
    second = made(agent)
    assert [first, second] == selections.ids(stored(agent.log), "window_summary", agent.standing().lineage)
    assert sent(opened(agent)) == [second]
    agent.do(f"/restore {dropped}")
    assert sent(agent.request()) == [first]


def test_later_changes_leave_a_summary_valid(agent: Agent) -> None:
    summary = made(agent)
    agent.do("/mark HERE")
    say(agent, 1)
    agent.do(f"/context drop {visible(agent)[-2]}")
    agent.append("user", "one more")
    agent.do("/rewind HERE")
    assert sent(opened(agent)) == [summary]


def test_a_summary_is_not_sent_beside_the_messages_that_it_covers(agent: Agent) -> None:
    made(agent)
    agent.configure("sliding_context_tokens", 0)
    assert sent(opened(agent)) == []
    agent.configure("sliding_context_tokens", 100_000)
    assert sent(agent.request()) == []
    assert window_summary_due(agent) is None


def test_a_wider_window_needs_a_summary_of_fewer_messages(agent: Agent, model: Model) -> None:
    """A summary that overlaps the window is neither sent nor made."""
    made(agent)
    agent.configure("sliding_context_tokens", BUDGET + 300)
    request = opened(agent)
    assert request.manifest.edge.why == "budget"
    assert sent(request) == []
    found = wanted(agent)
    assert found.earlier is None
    assert found.covered.until < (request.manifest.edge.first or 0)
    second = made(agent)
    agent.end_turn()
    assert sent(opened(agent)) == [second]


def test_a_summary_of_messages_that_changed_meanwhile_is_not_recorded(agent: Agent, model: Model) -> None:
    head = agent.standing().newest
    for happens in (
        lambda: agent.do(f"/context drop {visible(agent)[2]}"),
        lambda: agent.do(f"/message remove {visible(agent)[2]} --yes"),
        lambda: agent.configure("window_summary", False),
    ):
        model.meanwhile = [happens]
        assert make_window_summary(agent, wanted(agent)) is None
    assert selections.ids(stored(agent.log), "window_summary", agent.standing().lineage) == []
    assert len([event for event in agent.events(head) if event.kind != "request"]) == 3
    agent.configure("window_summary", True)
    model.meanwhile = [lambda: say(agent, 77)]
    assert make_window_summary(agent, wanted(agent)) is not None


def test_a_model_that_fails_records_nothing(agent: Agent) -> None:
    answered_by(lambda _: " ")
    head = agent.standing().newest
    with pytest.raises(FoldmarkError, match="gave an empty answer"):
        make_window_summary(agent, wanted(agent))
    assert agent.standing().newest == head


def test_a_fork_inherits_a_window_summary(agent: Agent) -> None:
    agent.do("/mark HERE")
    summary = made(agent)
    whole, trimmed = (agent.log.agent(agent.do(f"/fork{mark}").data["child"]) for mark in ("", " HERE"))
    say(whole, 1)
    assert sent(opened(whole)) == [summary]
    say(trimmed, *range(30))
    assert sent(opened(trimmed)) == []
    say(agent, 1)
    agent.do("/clear")
    assert sent(opened(whole)) == [summary]


def test_records_of_other_programs_are_ignored(agent: Agent) -> None:
    summary = made(agent)
    for data in (None, {"until": "x"}, {"from": 1, "until": 5, "turns": [1], "covers": ""}, {"until": 5}):
        agent.record("window_summary", "Somebody else's.", data=data)
    assert sent(opened(agent)) == [summary]


# The window and rebuilding


def test_a_request_with_a_window_summary_is_rebuilt_byte_for_byte(agent: Agent) -> None:
    made(agent)
    requests = []
    for policy in ("eager", "steady"):
        agent.configure("context_policy", policy)
        requests.append(opened(agent))
        agent.record_sent(requests[-1])
        agent.end_turn()
    erased = visible(agent)[2]
    agent.do("/clear")
    records = newest_requests(stored(agent.log), agent.id, 9)
    assert len(records) == 3
    found = [rebuilt(agent, each.number) for each in sorted(records, key=lambda each: each.id)]
    assert [each.verdict for each in found] == ["identical"] * 3
    assert [each.request.bytes for each in found[1:]] == [request.bytes for request in requests]
    assert found[1].request.manifest.parts == requests[0].manifest.parts
    agent.do(f"/message remove {erased} --yes")
    assert [rebuilt(agent, each.number).verdict for each in records] == ["identical", "identical", "erased"]


def test_a_window_summary_counts_into_the_budget(agent: Agent) -> None:
    before = agent.request().manifest.edge.before
    answered_by(lambda _: "long " * 1000)
    made(agent)
    request = opened(agent)
    assert request.tokens <= BUDGET
    assert len(sent(request)) == 1
    assert request.manifest.edge.before > before + 4


def test_a_summary_never_displaces_a_pin(agent: Agent) -> None:
    """Without the pin the window would reach back into the covered messages."""
    say(agent, 77, words=800)
    pinned = visible(agent)[-2]
    agent.do(f"/pin {pinned}")
    say(agent, *range(20))
    answered_by(lambda _: "long " * 500)
    made(agent)
    request = opened(agent)
    assert sent(request) == []
    assert pinned in [part.event for part in request.manifest.parts if part.layer == "pinned"]
    agent.do(f"/unpin {pinned}")
    wider = agent.request().manifest.edge
    assert (wider.first or 0) < (request.manifest.edge.first or 0)
    agent.do(f"/pin {pinned}")
    assert agent.request().bytes == request.bytes


def test_a_context_that_fits_without_a_summary_is_sent_whole(agent: Agent) -> None:
    """The summary does not count until it is needed."""
    answered_by(lambda _: "long " * 1000)
    made(agent)
    agent.configure("sliding_context_tokens", 0)
    agent.configure("sliding_context_tokens", opened(agent).tokens)
    request = agent.request()
    assert (request.manifest.edge.why, sent(request)) == (None, [])


def test_a_summary_may_be_made_while_the_agent_continues(agent: Agent) -> None:
    asked, answer = Event(), Event()

    def complete(_: Request) -> str:
        asked.set()
        assert answer.wait(LIMIT)
        return "Summary."

    answered_by(complete)
    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(make_window_summary, agent, wanted(agent))
        assert asked.wait(LIMIT)
        agent.append("user", "Meanwhile?")
        agent.append_tool_call("look", {}, call_id="c1")
        answer.set()
        summary = making.result(20)
        agent.append_tool_result("c1", "seen")
        agent.append("assistant", "Seen.")
        agent.end_turn()
    assert [message.content for message in agent.context().messages][-3:] == ["{}", "seen", "Seen."]
    assert sent(opened(agent)) == [summary]


DEEDS = st.lists(
    st.tuples(
        st.sampled_from((*SAYING, *OPERATING, *["say"] * 20, *["sum up"] * 8)), st.integers(0, 60), st.integers(0, 2)
    ),
    min_size=10,
    max_size=60,
)


@settings(max_examples=settings().max_examples // 4)
@given(deeds=DEEDS, policy=st.sampled_from(["eager", "steady"]))
def test_window_summaries_stay_consistent_in_random_histories(deeds: list[tuple[str, int, int]], policy: str) -> None:
    """A sent summary covers all visible messages up to its end, none in the window; inside a turn it stays the same;
    requests keep to the budget and can be repeated."""
    with foldmark.open(":memory:", settings={}) as log:
        model, root = Model(), log.agent("root")
        answered_by(model.complete)
        root.configure("tools", "none")
        root.configure("sliding_context_tokens", 400)
        root.configure("context_policy", policy)
        root.configure("window_summary", True)
        covers: dict[int, list[int]] = {}
        for deed, number, who in deeds:
            agents = family(root)
            agent = agents[who % len(agents)]
            if deed != "sum up":
                do(agent, deed, number)
            elif (found := window_summary_due(agent)) is not None:
                before = agent.request()
                summary = make_window_summary(agent, found)
                assert summary is not None
                covers[summary] = [each for each in visible(agent) if each <= found.covered.until]
                if agent.standing().record.open_turn is not None:
                    assert agent.request().bytes == before.bytes
            check(agent, covers)
        assert list(examine(log)) == []


def check(agent: Agent, covers: dict[int, list[int]]) -> None:
    request = agent.request()
    assert request.bytes == agent.request().bytes
    edge = request.manifest.edge
    for summary in sent(request):
        assert summary is not None
        assert covers[summary] == visible(agent)[: len(covers[summary])]
        assert edge.first is not None
        assert covers[summary][-1] < edge.first
        newest = agent.context().messages[-1]
        if newest.id == newest.turn_id == agent.standing().newest:
            window = {part.turn for part in request.manifest.parts if part.layer == "window"}
            assert request.tokens <= 400 or len(window - {None}) == 1
    agent.record_sent(request)
    assert rebuilt(agent, newest_requests(stored(agent.log), agent.id, 1)[0].number).verdict == "identical"


def test_another_process_sends_the_same_window_summary(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with foldmark.open(path, settings={}) as log:
        agent = log.agent("root")
        agent.configure("context_size", 3)
        agent.configure("window_summary", True)
        say(agent, *range(20))
        made(agent)
        request = opened(agent)
    with foldmark.open(path, settings={}) as log:
        assert log.agent("root").request().bytes == request.bytes
    assert len(sent(request)) == 1


def test_a_growing_request_has_the_summary_in_front_of_the_next_turn(agent: Agent) -> None:
    agent.configure("context_policy", "steady")
    before = opened(agent)
    agent.append("assistant", "Well.")
    agent.end_turn()
    summary = made(agent)
    request = opened(agent)
    *begun, last = before.body["messages"]
    *grown, layer, asked = request.body["messages"]
    assert grown[: len(begun) + 1] == [*begun, last]
    assert (sent(request), asked["content"]) == ([summary], "And now?")
    assert layer["content"].startswith("### EARLIER")
    agent.record_sent(request)
    assert rebuilt(agent, newest_requests(stored(agent.log), agent.id, 1)[0].number).verdict == "identical"
