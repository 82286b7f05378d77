"""Plans (SPEC 5.3): the next request is the last one plus what is new, until a boundary or the limit."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

import foldmark
from foldmark import Agent, CommandError
from foldmark.core.errors import DamagedError
from foldmark.core.request import Request
from foldmark.dialects.dialect import dialect_named
from foldmark.rendering import receipt
from foldmark.request.planned import Target
from foldmark.request.recorded import newest_asked, newest_plan, newest_requests, sent_plan
from foldmark.request.sent import TOGETHER
from foldmark.sending.rebuilding import rebuilt
from stored import connection, stored

MODEL = ("anthropic", "claude-sonnet-4-6")
WORDS = "where does the parser keep the names "


@pytest.fixture
def log() -> Iterator[foldmark.Log]:
    with foldmark.open(":memory:", settings={"tools": "none", "sliding_context_tokens": 20_000}) as log:
        yield log


def blocks(request: Request) -> list[bytes]:
    return [block.data for block in dialect_named(request.dialect).blocks(request.body)]


def begins_with(request: Request, before: Request) -> bool:
    return blocks(request)[: len(blocks(before))] == blocks(before)


def talk(agent: Agent, number: int, words: int = 30) -> Request:
    """Play a turn whose request is sent by other means, and return the request."""
    agent.append("user", f"question {number} " + WORDS * words)
    request = agent.request(*MODEL)
    agent.append("assistant", "It is there. " * words)
    agent.end_turn()
    return request


def messages(request: Request) -> int:
    return sum(part.layer == "window" and part.event is not None for part in request.manifest.parts)


# Growth


def test_l8_holds_for_a_caller_who_sends_by_other_means(log: foldmark.Log) -> None:
    """The answer that is appended counts as one to the request: then it is recorded."""
    agent = log.agent("root")
    requests = [talk(agent, number) for number in range(120)]
    steps = [not begins_with(now, before) for before, now in pairwise(requests)]
    assert 3 <= sum(steps) <= 12
    assert all(request.tokens <= 20_000 for request in requests)
    sent = newest_requests(stored(log), agent.id, 200)
    assert [each.sha256 for each in reversed(sent)] == [hashlib.sha256(each.bytes).hexdigest() for each in requests]
    assert {rebuilt(agent, each.number).verdict for each in sent[::9]} == {"identical"}


def test_an_answer_may_name_its_request(log: foldmark.Log) -> None:
    agent = log.agent("root")
    agent.append("user", "first")
    request = agent.request(*MODEL)
    agent.record("scratchpad", "a note")  # any other event comes between
    agent.append("assistant", "an answer to nothing known")
    assert newest_asked(stored(log), agent.id) is None
    agent.append("user", "second")
    request = agent.request(*MODEL)
    agent.record("scratchpad", "another note")
    agent.append("assistant", "the answer", request=request)
    sent = newest_asked(stored(log), agent.id)
    assert sent is not None
    assert sent.sha256 == hashlib.sha256(request.bytes).hexdigest()


def test_a_look_is_no_request_to_answer(log: foldmark.Log) -> None:
    agent = log.agent("root")
    agent.append("user", "first")
    db = connection(log)
    changes = db.total_changes()
    agent.next_request(*MODEL)
    agent.do("/context show")
    assert db.total_changes() == changes
    agent.append("assistant", "an answer")
    assert newest_asked(stored(log), agent.id) is None


LOOK = """
import hashlib, sys
import foldmark
with foldmark.open(sys.argv[1], create=False) as log:
    print(hashlib.sha256(log.agent("root").next_request("anthropic", "claude-sonnet-4-6").bytes).hexdigest())
"""


def test_two_processes_that_look_see_the_same_request(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    with foldmark.open(path, settings={"sliding_context_tokens": 20_000}) as log:
        agent = log.agent("root")
        agent.configure("sliding_context_tokens", 20_000)
        for number in range(60):
            talk(agent, number)
        agent.append("user", "And now?")
        here = hashlib.sha256(agent.next_request(*MODEL).bytes).hexdigest()
        told = [
            subprocess.run(
                [sys.executable, "-c", LOOK, path],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, "PYTHONHASHSEED": str(seed)},
            ).stdout.strip()
            for seed in (1, 2)
        ]
    assert told == [here, here]


# Boundaries


@pytest.mark.parametrize("way", ["rewind", "drop", "restore", "budget"])
def test_what_fits_comes_back(log: foldmark.Log, way: str) -> None:
    """A large stretch pushes earlier turns out of the window; when it leaves, or the budget rises, they return."""
    agent = log.agent("root")
    for number in range(20):
        talk(agent, number)
    agent.do("/mark A")
    first = len({m.turn_id for m in agent.context().messages})
    for number in range(20, 70):
        talk(agent, number)
    before = agent.next_request(*MODEL)
    assert before.manifest.edge.before > 40
    match way:
        case "rewind":
            agent.do("/clear A")
        case "drop":
            turns = sorted({m.turn_id for m in agent.context().messages if m.turn_id})
            agent.do(f"/context drop {' '.join(map(str, turns[first:]))}")
        case "restore":
            done = agent.do("/clear A").event_id
            talk(agent, 70)
            agent.do(f"/restore {done}")
        case "budget":
            agent.configure("sliding_context_tokens", 200_000)
    agent.append("user", "Go on.")
    after = agent.next_request(*MODEL)
    if way == "restore":
        assert 0.9 * 0.75 * 20_000 <= after.tokens <= 20_000
    else:
        assert after.manifest.edge.before == 0
        assert messages(after) == len(list(agent.context().messages))


def test_a_boundary_that_still_fits_keeps_the_beginning(log: foldmark.Log) -> None:
    agent = log.agent("root")
    for number in range(80):
        talk(agent, number)
    before = agent.next_request(*MODEL)
    assert before.manifest.edge.before
    assert before.tokens > 0.8 * 20_000
    agent.do(f"/pin {[m.turn_id for m in agent.context().messages][-1]}")
    assert agent.next_request(*MODEL).manifest.edge.first == before.manifest.edge.first


def test_a_window_is_as_full_after_a_change_of_provider(log: foldmark.Log) -> None:
    """The calls of the provider before are not sent, so they take no room."""
    agent = log.agent("root")
    for number in range(60):
        agent.append("user", f"question {number} " + WORDS * 5)
        for call in range(8 * (number < 50)):
            agent.append_tool_call("f", {"text": WORDS * 40}, call_id=f"c{number}-{call}", dialect="openai")
            agent.append_tool_result(f"c{number}-{call}", "line " * 400, dialect="openai")
        agent.append("assistant", "It is there. " * 20)
        agent.end_turn()
    agent.append("user", "And now?")
    request = agent.next_request(*MODEL)
    assert request.manifest.edge.before == 0 or request.tokens >= 0.9 * 0.75 * 20_000


def test_settings_that_shape_nothing_are_no_boundary(log: foldmark.Log) -> None:
    agent = log.agent("root")
    for number in range(5):
        talk(agent, number)
    before = agent.next_request(*MODEL)
    for key, value in (("turn_steps", 7), ("warn_threshold", 50), ("cache_ttl", "1h")):
        agent.configure(key, value)
        assert agent.next_request(*MODEL).manifest.plan == before.manifest.plan
    agent.configure("truncate_inactive", 40)
    assert agent.next_request(*MODEL).manifest.plan.settled > before.manifest.plan.settled


def test_a_receipt_says_what_else_is_sent_otherwise(log: foldmark.Log) -> None:
    agent = log.agent("root")
    agent.configure("model", "/".join(MODEL))
    agent.configure("sliding_context_tokens", 0)
    for number in range(6):
        agent.append("user", f"look {number}")
        agent.request()
        agent.append_tool_call("read_file", {"path": "x"}, call_id=f"c{number}", dialect="anthropic")
        agent.append_tool_result(f"c{number}", "line " * 600, dialect="anthropic")
        agent.request()
        agent.append("assistant", "seen")
        agent.end_turn()
    turns = sorted({m.turn_id for m in agent.context().messages if m.turn_id})
    before = agent.next_request()
    preview = agent.do(f"/context drop {turns[-1]} --preview")
    done = agent.do(f"/context drop {turns[-1]}")
    after = agent.next_request()
    cut = [part for part in after.manifest.parts if part.how == "truncated"]
    assert done.data["shortened"]["results"] == preview.data["shortened"]["results"] == len(cut) == 4
    assert f"{len(cut)} older results would be sent shortened" in preview.text
    assert f"{len(cut)} older results are sent shortened" in receipt(done)
    shared = dialect_named(before.dialect).shared(before.body, after.body)
    assert done.data["cached_prefix"]["kept"] == int(before.tokens * shared)
    again = agent.do(f"/restore {done.event_id}")
    assert again.data["shortened"]["results"] == 1  # the last turn is the active one again, and the one before is over
    assert [part.kept for part in agent.next_request().manifest.parts if part.how == "truncated"][:4] == [300] * 4


# A turn that is too large


@pytest.mark.parametrize(("budget", "calls", "words", "together"), [(12_000, 60, 1200, 1), (60_000, 200, 1200, 1)])
def test_a_single_huge_turn_is_seldom_rewritten(
    log: foldmark.Log, budget: int, calls: int, words: int, together: int
) -> None:
    agent = log.agent("root")
    agent.configure("sliding_context_tokens", budget)
    agent.append("user", "go")
    requests: list[Request] = []
    for step in range(calls):
        requests.append(agent.request(*MODEL))
        for each in range(together):
            agent.append_tool_call("f", {"i": step}, call_id=f"c{step}-{each}", dialect="anthropic")
        for each in range(together):
            agent.append_tool_result(f"c{step}-{each}", "r " * words, dialect="anthropic")
    rewritten = sum(not begins_with(now, before) for before, now in pairwise(requests))
    assert 0 < rewritten <= calls / 10
    assert max(request.tokens for request in requests) <= budget
    unseen = [str(request.body["messages"][-1]).count("TRUNCATED") for request in requests[1:]]
    assert unseen == [0] * (calls - 1), "a result that the model has not answered is sent whole"


def test_a_new_result_is_sent_whole_after_a_change_of_provider_inside_the_turn(log: foldmark.Log) -> None:
    """The earlier results are not sent to the new provider, but are results of the active turn as well."""
    agent = log.agent("root")
    agent.configure("sliding_context_tokens", 12_000)
    agent.append("user", "go")
    newest: list[str] = []
    for step in range(30):
        name, model = ("openai", "gpt-5") if step < 5 else MODEL
        request = agent.request(name, model)
        newest += [part.how for part in request.manifest.parts if part.kind == "tool_result"][-1:]
        agent.append_tool_call("f", {"i": step}, call_id=f"c{step}", dialect=name)
        agent.append_tool_result(f"c{step}", "r " * 2000, dialect=name)
    assert request.manifest.plan.results > 0
    assert set(newest) == {"whole"}


def test_results_are_never_cut_to_something_longer(log: foldmark.Log) -> None:
    agent = log.agent("root")
    agent.append("user", "x" * 100_000)
    for step in range(8):
        agent.append_tool_call("f", {"i": step}, call_id=f"c{step}", dialect="anthropic")
        agent.append_tool_result(f"c{step}", f"short {step}", dialect="anthropic")
    assert "TRUNCATED" not in agent.next_request(*MODEL).bytes.decode()


# Forks


def test_a_full_forks_first_request_begins_with_its_parents(log: foldmark.Log) -> None:
    """Also that of a fork of the fork. The child's identity stands before its own first message."""
    log.agent("root").configure("tools", "slash")
    agent, before = log.agent("root"), None
    for depth in range(3):
        for number in range(3):
            before = talk(agent, depth * 10 + number)
        assert before is not None
        child = log.agent(agent.do("/fork").data["child"])
        child.append("user", "Do your part.")
        request = child.request(*MODEL)
        assert begins_with(request, before)
        told = f"[Foldmark: You are agent {child.id[:8]}, a child of agent {agent.id[:8]}."
        assert request.bytes.decode().count(told) == 1
        assert request.bytes.decode().index("It is there.") < request.bytes.decode().index(told)
        child.append("assistant", "Done.")
        child.end_turn()
        assert rebuilt(child, 1).verdict == "identical"
        agent = child


# Records


def test_a_record_holds_only_what_is_new(log: foldmark.Log) -> None:
    agent = log.agent("root")
    agent.configure("sliding_context_tokens", 0)
    sizes = []
    for number in range(60):
        agent.record("state", f"Goal: {number}")
        talk(agent, number, words=1)
        (sent,) = newest_requests(stored(log), agent.id, 1)
        sizes.append(len(sent.plan.later))
        whole = sent_plan(stored(log), sent)
        assert len(sent.after) <= TOGETHER
        assert len(whole.plan.later) == number
    assert sizes.count(1) > 50


def test_damage_of_a_record_ends_no_conversation(log: foldmark.Log) -> None:
    agent = log.agent("root")
    for number in range(3):
        talk(agent, number)
    connection(log).execute("UPDATE events SET data = '{}' WHERE kind = 'request'")
    agent = log.agent("root")
    assert newest_plan(stored(log), agent.standing()) is None
    assert talk(agent, 3).tokens > 0


@pytest.mark.parametrize("path", ["event", "tokens", "number", "bytes", "after[0]", "plan.ratio", "plan.settled"])
@pytest.mark.parametrize("number", ["9223372036854775808", "1" + "0" * 400, "-1", "5e-324"])
def test_impossible_numbers_in_a_record_end_no_conversation(log: foldmark.Log, path: str, number: str) -> None:
    """They come with the database of another program."""
    agent = log.agent("root")
    for each in range(3):
        talk(agent, each)
    connection(log).execute(
        f"UPDATE events SET data = json_set(data, '$.after', json('[1]'), '$.{path}', json('{number}')) "
        "WHERE kind = 'request'"
    )
    agent = log.agent("root")
    with suppress(DamagedError, CommandError):
        rebuilt(agent, 3)
    agent.do("/message list")
    assert talk(agent, 3).tokens > 0


# Cost


@pytest.fixture
def encodes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of requests that were encoded, as the only item."""
    encode, count = Target.encoded, [0]

    def counting(self: Target, prompt: Any) -> Any:
        count[0] += 1
        return encode(self, prompt)

    monkeypatch.setattr(Target, "encoded", counting)
    return count


@pytest.mark.parametrize("policy", ["steady", "eager"])
def test_a_request_is_encoded_few_times(log: foldmark.Log, policy: str, encodes: list[int]) -> None:
    """With or without recorded plans."""
    agent = log.agent("root")
    agent.configure("context_policy", policy)
    for number in range(120):
        agent.append("user", f"question {number} " + WORDS * (number % 60))
        for take in (agent.next_request, agent.request):
            encodes[0] = 0
            take(*MODEL)
            assert encodes[0] <= 3
        if number % 2:  # the others are not recorded
            agent.append("assistant", "It is there. " * (number % 50))
        agent.end_turn()


@pytest.mark.parametrize("model", [MODEL, ("openai", "gpt-5"), ("gemini", "gemini-2.5-pro")])
@pytest.mark.parametrize("policy", ["steady", "eager"])
def test_requests_with_calls_of_tools_are_encoded_few_times(
    log: foldmark.Log, policy: str, model: tuple[str, str], encodes: list[int]
) -> None:
    agent, random = log.agent("root"), Random(0)
    agent.configure("context_policy", policy)
    for number in range(40):
        agent.append("user", f"question {number} " + WORDS * random.choice([0, 1, 5, 30, 100]))
        for step in range(random.choice([1, 1, 2, 4, 8])):
            encodes[0] = 0
            agent.request(*model)
            assert encodes[0] <= 3
            agent.append("assistant", "I look. " * random.choice([1, 10]))
            agent.append_tool_call("read", {"path": "x\n" * random.choice([1, 50, 500])}, call_id=f"{number}.{step}")
            agent.append_tool_result(f"{number}.{step}", WORDS * random.choice([1, 20, 100, 400]))
        agent.append("assistant", "It is there. " * random.choice([1, 20, 100]))
        agent.end_turn()
