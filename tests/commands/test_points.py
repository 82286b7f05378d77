"""`/context explain | at | diff` and `/context show` (SPEC 4): why a message is sent or not, and past contexts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

import foldmark
from deeds import DEEDS, SAYING, do, family, ids
from foldmark import Agent, CommandError, Log, Result
from foldmark.core import selections
from stored import stored

AT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:") as log:
        yield log


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("root")


def said(agent: Agent, *texts: str) -> list[int]:
    """Append one turn for each text and return the ids of the turns."""
    turns = []
    for text in texts:
        turns.append(agent.append("user", text))
        agent.append("assistant", f"about {text}")
        agent.end_turn()
    return turns


def asked(agent: Agent, text: str) -> int:
    """Append a turn whose request was sent, and return its id."""
    turn = agent.append("user", text)
    agent.request()
    agent.append("assistant", f"about {text}")
    agent.end_turn()
    return turn


def tools(agent: Agent, text: str, dialect: str | None = None) -> list[int]:
    """Append a turn with a tool call and return the ids of its messages."""
    found = [agent.append("user", "look"), agent.append_tool_call("f", {}, call_id="c", dialect=dialect)]
    found += [agent.append_tool_result("c", text, dialect=dialect), agent.append("assistant", "seen")]
    agent.end_turn()
    return found


def why(agent: Agent, event_id: int) -> str:
    """Return the last line of an explanation."""
    return agent.do(f"/context explain {event_id}").text.splitlines()[-1]


# Explaining


def test_a_visible_message_is_explained_as_in_the_request(agent: Agent) -> None:
    (one,) = said(agent, "one")
    result = agent.do(f"/context explain {one}")
    assert result.event_id is None
    assert result.text.splitlines() == [
        f"  {one:>6} user: one",
        "It is sent: no operation in force takes it out; sent whole in layer 'window'.",
    ]
    assert (result.data["in_context"], result.data["in_request"], result.data["reason"]) == (True, True, "visible")
    assert result.data["because"] == []
    assert result.data["event"]["content"] == "one"


OPERATIONS = [
    ("clear", "/clear"),
    ("rewind", "/rewind M"),
    ("drop", "/context drop {turn}"),
    ("undo", "/undo"),
    ("summary", "/summarize M"),
]


@pytest.mark.parametrize(("kind", "line"), OPERATIONS)
def test_each_operation(agent: Agent, kind: str, line: str) -> None:
    agent.do("/mark M")
    (turn,) = said(agent, "one")
    operation = agent.do(line.format(turn=turn)).event_id
    assert operation is not None
    assert re.fullmatch(
        rf"It is out: taken out by {kind} {operation} \(by a human, {AT}\); "
        rf"/restore {operation} would bring it back\.",
        why(agent, turn),
    )
    data = agent.do(f"/context explain {turn}").data
    assert data["because"] == [{"id": operation, "operation": kind, "actor": "human", "reason": None}]
    assert (data["in_context"], data["in_request"], data["reason"]) == (False, False, "operation")
    agent.do(f"/restore {operation}")
    assert agent.do(f"/context explain {turn}").data["in_request"]


@pytest.mark.parametrize("mode", ["forget", "remember"])
def test_a_filter(agent: Agent, mode: str) -> None:
    one, two = said(agent, "one", "two")
    operation = agent.apply_filter(mode, [one], actor="model")
    out = one if mode == "forget" else two
    assert f"taken out by filter {operation} (by a model, " in why(agent, out)
    assert why(agent, one + two - out).startswith("It is sent")


def test_several_at_once(agent: Agent) -> None:
    agent.do("/mark M")
    (turn,) = said(agent, "one")
    drop = agent.do(f"/context drop {turn}").event_id
    rewind = agent.do("/rewind M").event_id
    clear = agent.do("/clear").event_id
    explained = agent.do(f"/context explain {turn}")
    assert [each["id"] for each in explained.data["because"]] == [drop, rewind, clear]
    assert f"/restore {drop} and /restore {rewind} and /restore {clear} would bring it back" in explained.text
    agent.do(f"/restore {rewind}")
    assert [each["id"] for each in agent.do(f"/context explain {turn}").data["because"]] == [drop, clear]


def test_a_summary_that_was_taken_back(agent: Agent) -> None:
    """Its own text left with it; only restores that are themselves in force are named."""
    said(agent, "one")
    summary = agent.do("/summarize").event_id
    for _ in range(2):
        restore = agent.do(f"/restore {summary}").event_id
        line = why(agent, summary or 0)
        assert f"taken out by restore {restore} (by a human" in line
        assert line.count("/restore") == 1
        agent.do(f"/restore {restore}")
        assert agent.do(f"/context explain {summary}").data["in_context"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("/mark M", "an operation itself is never sent"),
        ("/fork", "an operation itself is never sent"),
        ("/context window 3", "a config event is never sent to a model"),
    ],
)
def test_metadata(agent: Agent, line: str, text: str) -> None:
    said(agent, "one")
    result = agent.do(line)
    event_id = result.event_id or result.data["event"]
    assert why(agent, event_id) == f"It is not sent: {text}."
    assert agent.do(f"/context explain {event_id}").data["reason"] == "metadata"
    assert why(agent, 3) == "It is not sent: a turn ended event is never sent to a model."


def test_state_blocks(agent: Agent) -> None:
    said(agent, "one")
    first = agent.record("state", "Goal: one")
    asked(agent, "two")
    in_force = "It is sent: it is the state block in force; sent whole in layer 'state'."
    assert why(agent, first) == in_force
    turn = asked(agent, "three")
    second = agent.record("state", "Goal: two")
    assert why(agent, first).startswith("It is sent: ")
    waits = "It is not sent: it is the state block in force; it is sent with the next turn."
    assert why(agent, second) == waits
    asked(agent, "four")
    assert why(agent, second) == in_force
    newer = f"a newer state block, event {second}, is in force"
    assert why(agent, first) == f"It is sent: {newer}; sent whole in layer 'state'."  # requests only grow
    agent.configure("context_policy", "eager")
    assert why(agent, first) == f"It is not sent: {newer}."
    drop = agent.do(f"/context drop {turn}").event_id
    assert f"taken out by drop {drop}" in why(agent, second)
    assert why(agent, first) == in_force


def test_scratchpads(agent: Agent) -> None:
    agent.configure("context_policy", "eager")
    first = agent.do("/scratchpad edit one").data["event"]
    assert "it is the scratchpad in force; sent whole in layer 'scratchpad'" in why(agent, first)
    second = agent.do("/scratchpad edit two").data["event"]
    assert why(agent, first) == f"It is not sent: a newer scratchpad, event {second}, is in force."
    assert agent.do(f"/context explain {second}").data["in_request"]


def test_erased(agent: Agent) -> None:
    (one,) = said(agent, "one")
    redact = agent.do(f"/message remove {one} --yes").event_id
    line = why(agent, one)
    assert re.fullmatch(
        rf"It is not sent: its content was erased by a human at {AT} \(event {redact}\), for good\.", line
    )
    assert agent.do(f"/context explain {one}").data["event"]["content"] == ""


def test_of_another_agent(log: Log, agent: Agent) -> None:
    said(agent, "one")
    other = log.agent("other")
    (elsewhere,) = said(other, "elsewhere")
    expected = f"It is not sent: it belongs to agent {other.id[:8]}, and agents never see each other's events."
    assert why(agent, elsewhere) == expected
    assert agent.do(f"/context explain {elsewhere}").data["reason"] == "elsewhere"


def test_not_inherited(log: Log, agent: Agent) -> None:
    """A child and its child lack turns before the mark, turns after the fork, and turns forgotten before it."""
    one, two = said(agent, "one", "two")
    agent.do(f"/context drop {two}")
    agent.do("/mark M")
    (three,) = said(agent, "three")
    child = log.agent(agent.do("/fork M").data["child"])
    (four,) = said(agent, "four")
    grandchild = log.agent(child.do("/fork").data["child"])
    without = "It is not sent: this agent was forked without it: it inherited only the events"
    later = "forked before it, with event 12; nothing later is handed down."
    for each, start, late in (
        (child, f"{without} that its parent showed then after mark 'M'.", f"this agent was {later}"),
        (grandchild, f"{without} that its parent showed then.", f"agent {child.id[:8]}, above this one, was {later}"),
    ):
        assert why(each, one) == why(each, two) == start
        assert why(each, four) == f"It is not sent: {late}"
        assert {each.do(f"/context explain {id}").data["reason"] for id in (one, two, four)} == {"not inherited"}
        assert why(each, three).startswith("It is sent")
    (five,) = said(child, "five")
    assert "belongs to agent" in why(agent, five)


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("/context window 1", r"context_size is 1"),
        ("/context budget 500", r"turn {one} does not fit: the request would exceed 500 tokens"),
    ],
)
def test_behind_the_window(agent: Agent, line: str, detail: str) -> None:
    agent.configure("tools", "slash, filter_context")
    agent.configure("context_policy", "eager")
    one, two = said(agent, "one " * 500, "two " * 400)
    agent.do(line)
    expected = f"the window begins at event {two}, after it ({detail.format(one=one)}); `/pin {one}` keeps it."
    assert why(agent, one) == f"It is before the window: {expected}"
    data = agent.do(f"/context explain {one}").data
    assert (data["in_context"], data["in_request"]) == (True, False)
    agent.do("/context budget 3000")
    agent.do(f"/pin {one}")
    assert why(agent, one).endswith("sent whole in layer 'pinned'.") or "layer 'window'" in why(agent, one)
    agent.do("/context budget 450")
    assert why(agent, one) == f"It is not sent: pins: no room for pinned turn {one}."


def test_isolation(agent: Agent) -> None:
    _, call, result, answer = tools(agent, "found", "anthropic")
    agent.do("/model openai/gpt-5")
    for event_id in (call, result):
        assert why(agent, event_id).startswith("It is not sent: isolation: ")
        assert "anthropic" in why(agent, event_id)
    assert why(agent, answer).startswith("It is sent: ")
    agent.do("/model anthropic/claude-sonnet-4-5")
    assert why(agent, call).startswith("It is sent: ")


def test_truncation(agent: Agent) -> None:
    result = tools(agent, "x" * 9000)[2]
    assert "sent truncated (5,000 of 9,000 characters) in layer 'window'" in why(agent, result)
    agent.record_sent(agent.request())
    said(agent, "next")
    assert "sent truncated (5,000 of 9,000 characters) in layer 'window'" in why(agent, result)
    agent.configure("context_policy", "eager")
    assert "sent truncated (300 of 9,000 characters) in layer 'window'" in why(agent, result)
    agent.do("/config set truncation=off")
    assert "sent whole" in why(agent, result)


def test_a_result_without_its_call(agent: Agent) -> None:
    agent.append("user", "hello")
    result = agent.append_tool_result("never-called", "found")
    assert why(agent, result).startswith("It is not sent: pairing: ")


def test_during_planning(agent: Agent) -> None:
    """Until the turn ends, the model still sees the planning messages that the filter took out."""
    one, two = said(agent, "one", "two")
    first = agent.append("user", "forget one")
    operation = agent.apply_filter("forget", [one], planning=(first, None))
    assert why(agent, first).startswith(f"It is sent: taken out by filter {operation} ")
    assert why(agent, one).startswith(f"It is out: taken out by filter {operation} ")
    assert why(agent, two).startswith("It is sent: ")
    agent.end_turn()
    assert why(agent, first).startswith(f"It is out: taken out by filter {operation} ")


@settings(max_examples=settings().max_examples // 3)
@given(DEEDS)
def test_following_the_advice_brings_it_back(deeds: list[tuple[str, int, int]]) -> None:
    """Every verdict is true of the context and of the request, and `/restore` and `/pin` have the stated effect."""
    with foldmark.open(":memory:") as log:
        root = log.agent("root")
        for deed, number, who in deeds:
            there = family(root)
            do(there[who % len(there)], deed, number)
        for agent in family(root):
            visible = {*ids(agent)}
            request = agent.request()
            sent = {part.event for part in request.manifest.parts}
            for event_id in range(1, agent.standing().newest + 1):
                data = agent.do(f"/context explain {event_id}").data
                assert data["in_context"] == (event_id in visible)
                assert data["in_request"] == (event_id in sent)
                if data["reason"] == "operation":
                    assert data["because"]
            out = [id for id in range(1, agent.standing().newest + 1) if explained(agent, id)["reason"] == "operation"]
            for event_id in out[:: max(1, len(out) // 3)]:
                follow(agent, event_id)


def explained(agent: Agent, event_id: int) -> dict[str, Any]:
    return agent.do(f"/context explain {event_id}").data


def follow(agent: Agent, event_id: int) -> None:
    """Follow the explanation's advice; it must suffice, and each step must be allowed."""
    before = explained(agent, event_id)
    if before["reason"] != "operation":
        return  # the steps for another message brought it back
    lines = re.findall(r"/restore \d+", why(agent, event_id))
    assert [f"/restore {each['id']}" for each in before["because"]] == lines
    for line in lines:
        agent.do(line)
    after = explained(agent, event_id)
    assert after["in_context"] or after["event"]["kind"] == "state"
    assert after["reason"] != "operation"


@settings(max_examples=settings().max_examples // 2)
@given(DEEDS.map(lambda deeds: [deed for deed in deeds if deed[0] in SAYING]))
def test_a_pin_keeps_what_the_window_passes(deeds: list[tuple[str, int, int]]) -> None:
    with foldmark.open(":memory:") as log:
        agent = log.agent("root")
        for deed, number, _ in deeds:
            do(agent, deed, number)
        agent.do("/context window 1")
        for message in list(agent.context().messages):
            text = agent.do(f"/context explain {message.id}").text
            if advice := re.search(r"`(/pin \d+)` keeps it", text):
                agent.do(advice[1])
                data = explained(agent, message.id)
                assert data["in_request"] or data["why"].startswith(("isolation", "pairing", "empty"))


# Past contexts


def test_at(agent: Agent) -> None:
    said(agent, "one")
    agent.record("state", "Goal: one")
    agent.do("/scratchpad edit note")
    mark = agent.do("/mark M").event_id
    (two,) = said(agent, "two")
    agent.do("/clear")
    result = agent.do(f"/context at {two}")
    assert result.event_id is None
    assert result.text.startswith(f"Context of root after event {two}: 3 messages in 2 turns\n")
    for piece in ("### STATE\nGoal: one", "Scratchpad:\nnote", "── mark M ──", "user: one", "user: two"):
        assert piece in result.text
    assert "about two" not in result.text
    assert result.data["at"] == two
    assert result.data["marks"] == {"M": mark}
    assert [message["content"] for turn in result.data["turns"] for message in turn["messages"]] == [
        *("one", "about one", "two")
    ]
    assert result.data == {**agent.do(f"/context at {two}").data}
    assert agent.do(f"/context at {agent.context().at}").data["turns"] == []


def test_diff(log: Log, agent: Agent) -> None:
    one, two = said(agent, "one", "two")
    first = agent.context().at
    agent.do("/mark M")
    agent.do(f"/pin {two}")
    drop = agent.do(f"/context drop {one}").event_id
    (three,) = said(agent, "three")
    agent.record("state", "Goal: new")
    last = agent.context().at
    result = agent.do(f"/context diff {first}")
    lines = result.text.splitlines()
    sizes = re.fullmatch(
        rf"From event {first} to {last}: 4 messages \(~(\d+) tokens\) → 4 messages \(~(\d+) tokens\)", lines[0]
    )
    assert sizes is not None
    assert abs(int(sizes[2]) - int(sizes[1]) - 1) <= 1
    assert f"  {drop:>6} drop (by a human)" in lines
    (gone,) = (line for line in lines if line.startswith(f"− turn {one}: 2 messages, ~"))
    (came,) = (line for line in lines if line.startswith(f"+ turn {three}: 2 messages, ~"))
    assert (gone.endswith(" tokens · one"), came.endswith(" tokens · three")) == (True, True)
    assert f"mark M: not set → at event {first + 1}" in lines
    assert f"turn {two}: pinned" in lines
    assert "the state block changed" in lines
    data = result.data
    assert data["left"] == [one, one + 1]
    assert data["came"] == [three, three + 1]
    assert [each["operation"] for each in data["operations"]] == ["mark", "pin", "drop"]
    assert data["state"] == {"before": None, "after": "Goal: new"}
    assert data["pins"] == {"before": [], "after": [two]}
    assert agent.do(f"/context diff {first} {last}").data == data
    # A mark that moves, a mark that is removed, a turn that is unpinned.
    agent.do("/mark M")
    agent.do(f"/unpin {two}")
    lines = agent.do(f"/context diff {last}").text.splitlines()
    assert f"mark M: at event {first + 1} → at event {last + 1}" in lines
    assert f"turn {two}: unpinned" in lines
    agent.do("/clear")
    assert f"mark M: at event {first + 1} → not set" in agent.do(f"/context diff {last}").text
    child = log.agent(agent.do("/fork").data["child"])
    (four,) = said(child, "four")
    born = child.standing().record.fork_event
    assert child.do(f"/context diff {born}").data["came"] == [four, four + 1]
    with pytest.raises(CommandError, match=rf"this agent was born with event {born}, after event {first}"):
        child.do(f"/context diff {first}")


def test_no_difference(agent: Agent) -> None:
    said(agent, "one")
    text = agent.do("/context diff 3 3").text
    assert re.fullmatch(r"From event 3 to 3: (2 messages \(~\d+ tokens\)) → \1", text), text


@settings(max_examples=settings().max_examples // 2)
@given(DEEDS)
def test_a_difference_is_between_two_contexts(deeds: list[tuple[str, int, int]]) -> None:
    with foldmark.open(":memory:") as log:
        root = log.agent("root")
        for deed, number, who in deeds:
            there = family(root)
            do(there[who % len(there)], deed, number)
        for agent in family(root):
            newest, born = agent.standing().newest, max(1, agent.standing().record.fork_event)
            for first in range(born, newest + 1, max(1, (newest - born) // 3)):
                was, now = ({m.id for m in agent.at(id).messages} for id in (first, newest))
                data = agent.do(f"/context diff {first} {newest}").data
                assert data["left"] == sorted(was - now)
                assert data["came"] == sorted(now - was)
                assert data["before"]["messages"] == len(was)
                assert data["after"]["messages"] == len(now)


def test_a_long_difference(agent: Agent) -> None:
    with agent.batch():
        said(agent, *(f"text {number}" for number in range(70)))
    lines = agent.do("/context diff 1").text.splitlines()
    assert lines[1] == "+ … and older turns"
    assert len(lines) == 52
    assert lines[-1].endswith("text 69")


# Showing the request


def shows(agent: Agent) -> Result:
    result = agent.do("/context show")
    assert result.data["request"]["bytes"] == agent.request().bytes.decode()
    assert result.data["request"]["body"] == agent.request().body
    assert result.data["request"]["tokens"] == agent.request().tokens
    assert result.event_id is None
    return result


def test_every_layer_is_named(agent: Agent) -> None:
    agent.do("/system edit Answer in verse.")
    agent.append("system", "And in Latin.")
    one, two = said(agent, "one", "two")
    agent.record("state", "Goal: sing")
    agent.do("/scratchpad edit a note")
    agent.do("/mark M")
    _, _, result, _ = tools(agent, "x" * 9000)
    lost = agent.append("user", "and")
    orphan = agent.append_tool_result("never", "orphan")
    agent.end_turn()
    agent.do(f"/pin {one}")
    agent.do("/context window 2")
    text = shows(agent).text
    places = [
        *("── system ──\nAnswer in verse.", "And in Latin.", "── guidelines ──", "── state ──\n### STATE\nGoal: sing"),
        *("── scratchpad ──\n### SCRATCHPAD\na note", "── pinned turns ──", "user: one", "── the window begins here; "),
        *(f"{result:>6} tool_result (truncated: 300 of 9,000 characters)", f"{lost:>6} user", "── left out ──"),
        f"{orphan:>6} (turn {lost}): pairing, ",
    ]
    found = [text.find(place) for place in places]
    assert -1 not in found, [place for place in places if place not in text]
    assert found == sorted(found)
    assert "context_size is 2" in text
    assert "── mark M" in text
    assert "user: two" not in text
    assert f"Turn {two} " not in text
    assert "Context: " in text.splitlines()[-1]


@pytest.mark.parametrize("model", ["offline", "openai/gpt-5", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-pro"])
def test_the_bytes_are_those_that_would_go_out(agent: Agent, model: str) -> None:
    said(agent, "naïve ☃ \u2028 \x1b[31m", "two")
    tools(agent, "x" * 400)
    agent.do(f"/model {model}")
    result = shows(agent)
    assert model in result.text.splitlines()[0]
    assert f"{len(agent.request().bytes):,} bytes" in result.text.splitlines()[0]


@settings(max_examples=settings().max_examples // 2)
@given(DEEDS)
def test_all_that_is_sent_is_shown(deeds: list[tuple[str, int, int]]) -> None:
    with foldmark.open(":memory:") as log:
        root = log.agent("root")
        for deed, number, who in deeds:
            there = family(root)
            do(there[who % len(there)], deed, number)
        for agent in family(root):
            result = shows(agent)
            flat = result.text.replace("\n         ", "\n")
            for part in agent.request().manifest.parts:
                assert part.text in flat


def test_a_rewind_that_changes_nothing_says_so_and_is_recorded() -> None:
    with foldmark.open(":memory:", settings={}) as log:
        agent = log.agent("default")
        agent.append("user", "Hello")
        agent.end_turn()
        agent.do("/mark M")
        nothing = agent.do("/rewind M")
        assert nothing.text == "Rewound to 'M'. Nothing came after it."
        assert [event.kind for event in selections.operations(stored(log), agent.id)] == ["mark", "rewind"]
        agent.append("user", "More")
        assert agent.do("/clear M").text == "Rewound to 'M'."
