"""Law L8 (SPEC 3, 5.7): between two boundaries a request begins with the whole of the request before.

Random histories of an agent with the policy `steady`, with tools, thinking, images, memos that are saved, mail,
children, calibrations, reminders in mid-turn and summaries that the provider writes, in every dialect. What makes a
boundary is told here from what was done, not from the program: an operation but a mark, a setting, a `system` message.
A step of the window, which no event names, shows in the edge.
`FOLDMARK_DEEP=1` runs more of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_logs import image, violations
from test_window_laws import MODELS as ALL

import foldmark
from deeds import OPERATING, SAYING, do, family, ids
from foldmark import Agent, CommandError
from foldmark.conversation import memos
from foldmark.conversation.rebuilding import rebuilt
from foldmark.conversation.sent import record_sent
from foldmark.conversation.usage import calibrate
from foldmark.core.answer import Compacted, Usage
from foldmark.core.caching import blocks
from foldmark.core.events import OPERATION_KINDS
from foldmark.core.request import Request
from foldmark.core.segments import Segment

# Where no tools are offered, as here, DeepSeek's models get `reasoning_content` from the first call on, everywhere.
MODELS = {provider: model for provider, model in ALL.items() if provider != "ollama"}
DIALECTS = {"openai_responses": "openai", "offline": None}
BUDGET = 10_000
TEXT = "Where does the parser keep the names of files? "

ALIKE = ("look", "look", "look", "think", "picture", "memo", "mail", "remind", "calibrate", "compact")
COMPACTED = Compacted(({"type": "compaction", "content": "In short.", "signature": "s"},), "In short.")
DEEDS = st.lists(
    st.tuples(
        st.sampled_from((*SAYING, *ALIKE * 2, *OPERATING, *["say"] * 6, *["tools"] * 6)),
        st.integers(0, 60),
        st.integers(0, 5),
    ),
    min_size=20,
    max_size=60,
)


def act(agent: Agent, dialect: str | None, deed: str, number: int) -> None:
    """Do one of `ALIKE`, or what `deeds` has."""
    match deed:
        case "look" | "picture":
            blocks = {"blocks": [image()]} if deed == "picture" else {}
            tool = "edit_file" if number % 4 == 1 else "read_file"
            agent.append_tool_call(tool, {"path": f"{number % 5}"}, call_id=f"r{number}", dialect=dialect)
            agent.append_tool_result(f"r{number}", "line " * 15 * number, dialect=dialect, data=blocks or None)
        case "think":
            thought = {"type": "thinking", "thinking": f"Hm, {number}.", "signature": f"signed {number}"}
            agent.append("assistant", f"I think {number}.", data={"blocks": [thought]}, dialect="anthropic")
        case "memo":
            memos.save(agent, f"The parser keeps names in table {number}. " + TEXT * (number // 20), (), "human")
            agent.append("user", TEXT * (1 + number // 4))
        case "mail":
            for child in family(agent)[1:2]:
                child.do(f"/send {agent.id} Found {number}.")
        case "remind":
            agent.append(
                "user", f"[Foldmark: your context is {number}% full.]", data={"reminder": number}, actor="system"
            )
        case "compact":
            opened = [each for each in ids(agent) if each in {m.turn_id for m in agent.context().messages}]
            with suppress(CommandError):
                agent.do(f"/summarize ..{opened[number % len(opened)]}" if opened else "/summarize")
        case "calibrate":
            request = agent.request("openai", "gpt-5")
            calibrate(agent, request, Usage(fresh=request.size // (2 + number % 4)))
        case _:
            do(agent, deed, number)


def sent(request: Request) -> list[bytes]:
    """What is compared: the content blocks, without what stands behind the newest message."""
    found = [block.data for block in blocks(request.dialect, request.body)]
    last = request.manifest.parts[-1] if request.manifest.parts else None
    return found[:-1] if last is not None and last.how == "synthetic" and last.kind in ("go_on", "empty") else found


def asks(request: Request) -> bool:
    """Whether the model is asked here: every call has its result, and it is not the model that spoke last."""
    parts = [part for part in request.manifest.parts if part.layer in ("window", "pinned")]
    open_calls = any(part.how == "synthetic" and part.kind == "tool_result" for part in parts)
    return bool(parts) and not open_calls and parts[-1].kind in ("user", "tool_result", "tool")


def named(agent: Agent, since: int) -> bool:
    """Whether something that makes a boundary was recorded since an event."""
    store, own = agent.log.store, Segment(agent.id, since + 1, agent.standing().newest)
    done = {event.kind for event in store.operations(agent.id, after=since)} & {*OPERATION_KINDS}
    others = [*store.of_kind("config", (own,)), *store.of_kind("system", (own,))]
    return bool(done - {"mark"} or others)


@pytest.fixture
def log() -> Iterator[foldmark.Log]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log


def prepared(log: foldmark.Log, budget: int = BUDGET) -> Agent:
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


@settings(max_examples=settings().max_examples // 2)
@given(deeds=DEEDS, provider=st.sampled_from(sorted(MODELS)), stale=st.sampled_from(["on", "off"]))
def test_l8_a_request_begins_with_the_one_before(deeds: list[tuple[str, int, int]], provider: str, stale: str) -> None:
    given = {"evict_superseded": stale == "on", "provider_compaction": True, "model": "anthropic/claude-opus-4-8"}
    with foldmark.open(":memory:", settings=given) as log:
        log.complete, log.compact = lambda _: "A summary.", lambda _: [COMPACTED]
        agent, before, at = prepared(log), None, 0
        for deed, number, who in deeds:
            there = family(agent)
            act(there[who % len(there)] if who > 3 else agent, DIALECTS.get(provider, provider), deed, number)
            request = agent.request(provider, MODELS[provider])
            assert agent.request(provider, MODELS[provider]).bytes == request.bytes
            if request.manifest.edge.why == "planning":
                before = None
                continue
            if not asks(request):
                continue
            edge = request.manifest.edge
            assert stale == "off" or violations(provider, MODELS[provider], request.body) == []
            assert request.tokens <= BUDGET or _one_turn(request), (request.tokens, edge)
            if before is not None and not named(agent, at):
                if edge.settled == before.manifest.edge.settled:
                    assert sent(request)[: len(sent(before))] == sent(before), (deed, number)
                    assert before.manifest.edge.first in (edge.first, None)
                else:
                    assert edge.settled > before.manifest.edge.settled
            record_sent(agent, request)
            assert rebuilt(agent, log.store.newest_sent(agent.id, 1)[0].id).verdict == "identical"
            before, at = request, agent.standing().newest


def _one_turn(request: Request) -> bool:
    turns = {part.turn for part in request.manifest.parts if part.layer in ("window", "pinned")} - {None}
    return len(turns) == 1 or bool(request.manifest.edge.oldest)


@pytest.mark.parametrize("provider", MODELS)
def test_a_long_conversation_has_few_boundaries(log: foldmark.Log, provider: str) -> None:
    """As many as its size asks for: each is followed by at least a step of new tokens, and nothing else moves."""
    agent, dialect = prepared(log, 20_000), DIALECTS.get(provider, provider)
    requests: list[Request] = []
    grown = 0
    for turn in range(40):
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
        assert requests[-1].tokens <= 20_000
    boundaries = 0
    for before, request in pairwise(requests):
        if request.manifest.edge.settled == before.manifest.edge.settled:
            assert sent(request)[: len(sent(before))] == sent(before)
        else:
            boundaries += 1
    assert 1 <= boundaries <= 12, boundaries
    assert len({request.manifest.edge.first for request in requests}) <= boundaries + 1


def test_a_new_state_stands_in_front_of_the_next_question_and_the_old_one_stays(log: foldmark.Log) -> None:
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
    agent.do("/clear here")  # an operation is a boundary: what is old goes
    assert "Goal: one" not in agent.request("openai", "gpt-5").bytes.decode()


def test_results_keep_what_they_entered_with_until_an_operation(log: foldmark.Log) -> None:
    agent = prepared(log)
    agent.append("user", "Look.")
    for number in range(6):
        agent.append_tool_call("read_file", {"path": str(number)}, call_id=f"c{number}", dialect="openai")
        agent.append_tool_result(f"c{number}", "x" * 2000, dialect="openai")

    def kept() -> list[int]:
        results = [m["content"] for m in agent.request("openai", "gpt-5").body["messages"] if m["role"] == "tool"]
        return [result.count("x") for result in results]

    assert kept() == [900] * 6
    agent.append("assistant", "Seen.")
    agent.end_turn()
    agent.append("user", "More.")
    assert kept() == [900] * 6
    agent.do(f"/pin {ids(agent)[0]}")
    assert sorted(kept()) == [40] * 6


@pytest.mark.parametrize("provider", MODELS)
def test_a_turn_that_outgrows_the_budget_goes_to_low_water_in_few_steps(log: foldmark.Log, provider: str) -> None:
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
    steps = [(a, b) for a, b in pairwise(requests) if a.manifest.edge.settled != b.manifest.edge.settled]
    assert 3 <= len(steps) <= 20
    for before, request in pairwise(requests):
        if request.manifest.edge.settled == before.manifest.edge.settled:
            assert sent(request)[: len(sent(before))] == sent(before)
    assert all(after.tokens < before.tokens for before, after in steps)
    assert requests[-1].manifest.edge.oldest > 0


def test_memos_that_come_later_have_their_heading(log: foldmark.Log) -> None:
    """Also where the best of those that were picked stands there already."""
    agent = prepared(log)
    memos.save(agent, "The parser, the lexer and the Unicode tables are generated.", (), "human")
    agent.append("user", "Where are the Unicode tables of the parser?")
    agent.append("assistant", "They are generated.")
    agent.end_turn()
    memos.save(agent, "The parser is written by hand.", (), "human")
    agent.append("user", "Has the parser a lexer for Unicode tables?")
    request = agent.request("openai", "gpt-5")
    texts = [message["content"] for message in request.body["messages"]]
    assert [text.splitlines()[0] for text in texts].count("### MEMOS") == 2
    assert sum("written by hand" in text for text in texts) == 1
    record_sent(agent, request)
    assert rebuilt(agent, log.store.newest_sent(agent.id, 1)[0].id).verdict == "identical"
