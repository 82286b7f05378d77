"""Law L8 (SPEC 3, 5.7): between two boundaries a request begins with the whole of the request before.

Random histories of agents and their forks, in every dialect and under both policies (`growing.py`): parallel calls
whose results arrive one by one, thinking, images and documents, memos that come and go, mail, children, reminders and
calibrations during turns, operations of every kind. `growing.py` recognizes a boundary by the deeds and by weights, not
by the program's answer. The policy `eager` makes each request afresh. For it, the same log must give the same request,
only results may change, by being cut shorter, and a request must grow where the manifest shows no change.
`FOLDMARK_DEEP=1` runs more of everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from random import Random, SystemRandom

import pytest
from growing import BUDGETS, DEEDS, KEEPS, LIMITS, SMALL, STEPS, WHO, History
from growing import of as sent
from random_logs import TARGETS
from test_window_laws import MODELS as ALL

import foldmark
from deeds import ids
from foldmark import Agent
from foldmark.core.request import Request
from foldmark.log import memos
from foldmark.request.recorded import newest_requests
from foldmark.sending.rebuilding import rebuilt
from sampled import DEEP, sampled
from stored import stored

MODELS = {provider: model for provider, model in ALL.items() if provider != "ollama"}
DIALECTS = {"openai_responses": "openai", "offline": None}
TEXT = "Where does the parser keep the names of files? "


@pytest.fixture
def log() -> Iterator[foldmark.Log]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log


def prepared(log: foldmark.Log, budget: int = 10_000) -> Agent:
    agent = log.agent("root")
    for key, value in {
        "context_policy": "steady",
        "tools": "none",
        "system": "Be brief.",
        "sliding_context_tokens": budget,
        "truncate_recent": 900,
        "truncate_active": 200,
        "truncate_inactive": 40,
        "truncate_recent_count": 2,
    }.items():
        agent.configure(key, value)
    return agent


def histories(policy: str, budgets: Sequence[int], seeds: Iterable[int]) -> Counter[str]:
    """Play random histories and count the cases that came up. The draws depend only on the seeds, not on which other
    tests run."""
    seen: Counter[str] = Counter()
    for each in seeds:
        chance = Random(each)
        drawn = chance.choice(TARGETS), chance.choice(budgets), chance.choice(KEEPS), chance.choice(LIMITS)
        history = History(policy, *drawn)
        try:
            for _ in range(STEPS):
                history.play(chance.choice(DEEDS), chance.randrange(100), chance.choice(WHO))
            history.reopened()
        except BaseException as error:
            error.add_note(f"in history {each} under {policy}")
            raise
        finally:
            history.log.close()
        seen.update(history.seen)
    return seen


def seeds(first: int, count: int) -> Iterable[int]:
    """Return the same seeds in each run; in a deep run, thirty times as many new ones."""
    return (SystemRandom().getrandbits(48) for _ in range(30 * count)) if DEEP else range(first, first + count)


def begins_with_the_one_before(requests: Sequence[Request]) -> int:
    """Assert that each request begins with the whole of the one before, unless they are on two sides of a boundary.
    Return the number of boundaries."""
    boundaries = 0
    blocks = [sent(request) for request in requests]
    for number, (before, request) in enumerate(pairwise(requests)):
        if request.manifest.plan.settled == before.manifest.plan.settled:
            assert blocks[number + 1][: len(blocks[number])] == blocks[number]
        else:
            boundaries += 1
    return boundaries


@pytest.mark.parametrize("first", range(29, 59, 10) if DEEP else [29])
def test_l8_a_request_begins_with_the_one_before(first: int) -> None:
    count = 10 if DEEP else 4
    seen = histories("steady", BUDGETS, seeds(first, count))
    assert seen["steps"] >= 100 * count
    assert seen["grown"] >= 35 * count
    assert seen["window steps"] >= max(2, 4 * count // 10)
    assert seen["budget steps"] >= max(1, 2 * count // 10)


def test_l8_under_eager_only_shortened_results_change() -> None:
    count = 5 if DEEP else 2
    seen = histories("eager", SMALL, seeds(0, count))
    assert seen["steps"] >= 100 * count
    assert min(seen["grown"], seen["shortened"]) >= 84 * count // 5


@pytest.mark.parametrize("provider", sampled(list(MODELS), 2))
def test_a_long_conversation_has_few_boundaries(log: foldmark.Log, provider: str) -> None:
    """Each boundary is followed by at least one step of new tokens, and nothing else moves."""
    turns, budget = (40, 16_000) if DEEP else (24, 8_000)
    agent, dialect = prepared(log, budget), DIALECTS.get(provider, provider)
    requests: list[Request] = []
    grown = 0
    for turn in range(turns):
        agent.append("user", f"Question {turn}: " + TEXT * 5)
        for step in range(turn % 6):
            requests.append(agent.request(provider, MODELS[provider]))
            agent.append_tool_call("read_file", {"path": f"{turn}-{step}"}, call_id=f"c{turn}-{step}", dialect=dialect)
            agent.append_tool_result(f"c{turn}-{step}", "line " * 40 * step, dialect=dialect)
            grown += 40 * step * 5
        requests.append(agent.request(provider, MODELS[provider]))
        agent.append("assistant", f"### STATE\nGoal: {turn}" if turn % 3 else "It is there. " * 10)
        agent.record("state", f"Goal: {turn}")
        agent.end_turn()
        assert requests[-1].tokens <= budget
    boundaries = begins_with_the_one_before(requests)
    assert 1 <= boundaries <= 12, boundaries
    assert len({request.manifest.edge.first for request in requests}) <= boundaries + 1


def test_a_new_state_precedes_the_next_question_and_the_old_one_stays(log: foldmark.Log) -> None:
    agent = prepared(log)
    agent.record("state", "Goal: one")
    agent.append("user", "First?")
    first = agent.request("openai", "gpt-5")
    agent.append("assistant", "Yes.")
    agent.record("state", "Goal: two")
    agent.end_turn()
    agent.append("user", "Second?")
    second = agent.request("openai", "gpt-5")
    texts = [message["content"] for message in second.body["messages"]]
    assert texts == ["Be brief.", "### STATE\nGoal: one", "First?", "Yes.", "### STATE\nGoal: two", "Second?"]
    assert sent(second)[: len(sent(first))] == sent(first)
    agent.do("/mark here")
    agent.append("assistant", "Well.")
    agent.do("/clear here")  # an operation is a boundary: the old state leaves
    assert "Goal: one" not in agent.request("openai", "gpt-5").bytes.decode()


def test_a_fork_makes_no_boundary_in_its_parent(log: foldmark.Log) -> None:
    agent = prepared(log)
    agent.append("user", "Look.")
    for number in range(4):
        agent.append_tool_call("read_file", {"path": str(number)}, call_id=f"c{number}", dialect="openai")
        agent.append_tool_result(f"c{number}", "x" * 2000, dialect="openai")
    before = agent.request("openai", "gpt-5")
    agent.record_sent(before)
    agent.do("/mark here")
    agent.do("/fork here")
    assert agent.request("openai", "gpt-5").bytes == before.bytes
    agent.append("assistant", "A child looks further.")
    agent.end_turn()
    agent.append("user", "And?")
    assert sent(agent.request("openai", "gpt-5"))[: len(sent(before))] == sent(before)


@pytest.mark.parametrize("command", ["/rewind here", "/clear here"])
def test_an_operation_that_changes_nothing_is_no_boundary(log: foldmark.Log, command: str) -> None:
    """Neither does taking it back change a byte, and a preview and the receipt say the same as the next request."""
    agent = prepared(log)
    agent.append("user", "Look.")
    for number in range(4):
        agent.append_tool_call("read_file", {"path": str(number)}, call_id=f"c{number}", dialect="openai")
        agent.append_tool_result(f"c{number}", "x" * 2000, dialect="openai")
    agent.append("assistant", "I have looked.")
    agent.end_turn()
    agent.do("/mark here")
    before = agent.request("openai", "gpt-5")
    agent.record_sent(before)
    preview = agent.do(f"{command} --preview").data
    assert (preview["changes"], preview["next"]["more"]) == ("nothing", 0)
    done = agent.do(command)
    assert done.data["changes"] == "nothing"
    assert agent.request("openai", "gpt-5").bytes == before.bytes
    assert agent.do(f"/restore {done.event_id}").data["changes"] == "nothing"
    assert agent.request("openai", "gpt-5").bytes == before.bytes
    agent.append("user", "Go on.")
    assert sent(agent.request("openai", "gpt-5"))[: len(sent(before))] == sent(before)


def test_a_step_stays_at_a_request_that_got_no_answer(log: foldmark.Log) -> None:
    agent = prepared(log)
    agent.configure("truncate_recent", 5000)
    agent.append("user", "Read all of it.")
    request = before = agent.request("openai", "gpt-5")
    for number in range(20):
        agent.append_tool_call("read_file", {"path": f"{number}"}, call_id=f"c{number}", dialect="openai")
        agent.append_tool_result(f"c{number}", "line " * 2000, dialect="openai")
        before, request = request, agent.request("openai", "gpt-5")
        if before.manifest.plan.settled != request.manifest.plan.settled:
            break
    assert request.manifest.plan.settled == agent.standing().newest
    agent.record_sent(request)
    agent.end_turn(interrupted=True)
    agent.append("user", "What did you find?")
    asked = agent.request("openai", "gpt-5")
    assert asked.manifest.plan.settled == request.manifest.plan.settled
    assert sent(asked)[: len(sent(request))] == sent(request)


def test_without_a_user_message_older_turns_make_room_for_the_newest(log: foldmark.Log) -> None:
    agent = prepared(log)
    for number in range(3):
        agent.append("assistant", f"{number} " + "word " * 2000)
        agent.end_turn()
    request = agent.request("openai", "gpt-5", limit=4000)
    assert request.tokens <= 4000
    assert request.manifest.edge.first == ids(agent)[-1]


def test_results_keep_their_length_until_an_operation(log: foldmark.Log) -> None:
    agent = prepared(log)

    def kept() -> list[int]:
        results = [m["content"] for m in agent.request("openai", "gpt-5").body["messages"] if m["role"] == "tool"]
        return [result.count("x") for result in results]

    agent.append("user", "Look.")
    for number in range(6):
        assert kept() == [900] * number
        agent.append_tool_call("read_file", {"path": str(number)}, call_id=f"c{number}", dialect="openai")
        agent.append_tool_result(f"c{number}", "x" * 2000, dialect="openai")
    assert kept() == [900] * 6
    agent.append("assistant", "Seen.")
    agent.end_turn()
    agent.append("user", "More.")
    assert kept() == [900] * 6
    agent.do(f"/pin {ids(agent)[0]}")
    assert sorted(kept()) == [40] * 6


@pytest.mark.parametrize("provider", sampled(list(MODELS), 2))
def test_a_turn_that_outgrows_the_budget_reaches_low_water_in_few_steps(log: foldmark.Log, provider: str) -> None:
    agent, dialect = prepared(log, 20_000), DIALECTS.get(provider, provider)
    agent.configure("truncate_recent", 5000)
    agent.configure("truncate_active", 1000)
    for turn in range(6):
        agent.append("user", f"Question {turn}: " + TEXT * 20)
        agent.append("assistant", "It is there. " * 40)
        agent.end_turn()
    agent.append("user", "Read all of it.")
    requests = [agent.request(provider, MODELS[provider])]
    for step in range(40):
        agent.append_tool_call("read_file", {"path": f"{step}"}, call_id=f"c{step}", dialect=dialect)
        agent.append_tool_result(f"c{step}", "line " * 2000, dialect=dialect)
        requests.append(agent.request(provider, MODELS[provider]))
    assert max(request.tokens for request in requests) <= 20_000
    steps = [(a, b) for a, b in pairwise(requests) if a.manifest.plan.settled != b.manifest.plan.settled]
    assert 3 <= len(steps) <= 20
    assert begins_with_the_one_before(requests) == len(steps)
    assert all(after.tokens < before.tokens for before, after in steps)
    assert requests[-1].manifest.plan.results > 0


def test_later_memos_have_their_heading(log: foldmark.Log) -> None:
    """This also holds if the best match among the memos was sent already."""
    agent = prepared(log)
    memos.save_memo(agent, "The parser, the lexer and the Unicode tables are generated.", (), "human")
    agent.append("user", "Where are the Unicode tables of the parser?")
    agent.request("openai", "gpt-5")
    agent.append("assistant", "They are generated.")
    agent.end_turn()
    memos.save_memo(agent, "The parser is written by hand.", (), "human")
    agent.append("user", "Has the parser a lexer for Unicode tables?")
    request = agent.request("openai", "gpt-5")
    texts = [message["content"] for message in request.body["messages"]]
    assert [text.splitlines()[0] for text in texts].count("### MEMOS") == 2
    assert sum("written by hand" in text for text in texts) == 1
    agent.record_sent(request)
    assert rebuilt(agent, newest_requests(stored(log), agent.id, 1)[0].number).verdict == "identical"
