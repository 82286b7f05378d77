"""The layers of a request, and the request as a whole [SPEC 5.1, 5.4, 5.6]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from random_logs import call, message, result, violations

import foldmark
from foldmark.core.assembly.layers import GUIDELINES, guidelines
from foldmark.core.assembly.prompt import EMPTY, GO_ON, OMITTED, Prompt, assemble, layers
from foldmark.core.assembly.view import Calls, ViewMessage, view
from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.request import Part, Request, ToolSpec
from foldmark.core.segments import Segment
from foldmark.dialects.openai.chat import CHAT
from foldmark.log import Agent
from foldmark.providers.registry import BUILT_IN
from foldmark.request.prepare import prepare
from foldmark.tokens.counting import count
from stored import stored

READ = ToolSpec("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
QUERY, SAVE = (ToolSpec(name, "Looks.", READ.parameters) for name in ("query_db", "save_memo"))


@pytest.fixture
def agent() -> Iterator[Agent]:
    log = foldmark.open(":memory:")
    yield log.agent("test")
    log.close()


def made(agent: Agent, config: Config | None = None, provider: str = "openai", **more: Any) -> Request:
    return prepare(
        stored(agent.log), agent.standing(), config or Config(context_policy="eager"), provider, "some-model", **more
    )


def system_of(request: Request) -> str | None:
    first = request.body["messages"][0]
    return first["content"] if first["role"] == "system" else None


def test_the_layers_are_in_order_and_each_is_listed(agent: Agent) -> None:
    agent.append("system", "Imported rule.")
    agent.append("user", "Hello.")
    agent.append("assistant", "Hi.")
    state = agent.record("state", "Goal: greet")
    pad = agent.record("scratchpad", "1. greet")
    request = made(agent, Config(system="Be kind.", context_policy="eager"), tools=[READ])
    expected = [
        "Be kind.",
        "Imported rule.",
        guidelines([READ.name]),
        "### STATE\nGoal: greet",
        "### SCRATCHPAD\n1. greet",
    ]
    assert system_of(request) == "\n\n".join(map(str, expected))
    parts = [(part.layer, part.event, part.kind) for part in request.manifest.parts]
    assert parts == [
        ("system", None, "system"),
        ("system", 1, "system"),
        ("guidelines", None, "guidelines"),
        ("state", state, "state"),
        ("scratchpad", pad, "scratchpad"),
        ("window", 2, "user"),
        ("window", 3, "assistant"),
        ("window", None, "go_on"),
    ]


@pytest.mark.parametrize(
    ("provider", "field"),
    [("anthropic", "system"), ("gemini", "systemInstruction"), ("gemini_gca", "systemInstruction")],
)
def test_every_provider_has_a_field_for_the_layers(agent: Agent, provider: str, field: str) -> None:
    agent.append("user", "Hello.")
    body = made(agent, Config(system="Be kind.", context_policy="eager"), provider).body
    assert "Be kind." in str(body.get("request", body)[field])
    assert field not in made(agent, Config(), provider).body.get("request", made(agent, Config(), provider).body)


def test_with_everything_off_the_request_is_the_context(agent: Agent) -> None:
    texts = ["Hello.", "[TRUNCATED]", "  indented\n"]
    for text in texts:
        agent.append("user", text)
    off = Config(truncation=False, sliding_context_tokens=0)
    assert made(agent, off).body == {
        "model": "some-model",
        "messages": [{"role": "user", "content": text} for text in texts],
    }


def test_guidelines_come_with_tools(agent: Agent) -> None:
    agent.append("user", "Hello.")
    assert system_of(made(agent, tools=[READ, QUERY, SAVE])) == GUIDELINES
    assert system_of(made(agent)) is None
    # The guidelines ask for nothing that needs a missing tool.
    few = system_of(made(agent, tools=[READ])) or ""
    assert [word in few for word in ("query_db", "memos", "### STATE")] == [False, False, True]
    memos = ("look into the memos", "Save decisions and their reasons as memos, not what the code itself shows")
    for said in ("TRUNCATED", "ORDER BY id DESC", "status != 'dropped'", "### STATE", *memos):
        assert said in GUIDELINES


def test_events_that_are_not_messages_are_never_sent(agent: Agent) -> None:
    agent.append("user", "Hello.")
    before = made(agent).body
    agent.do("/mark NAME")
    agent.do("/context window 9")
    for kind in ("command", "usage", "record"):
        agent.record(kind, "not for a model")
    assert made(agent).body == before
    agent.end_turn()
    assert made(agent).body == before


def test_a_state_that_has_its_heading_keeps_it(agent: Agent) -> None:
    agent.record("state", "### STATE\nGoal: greet")
    assert system_of(made(agent)) == "### STATE\nGoal: greet"


def test_the_state_leaves_with_the_context_and_the_scratchpad_does_not(agent: Agent) -> None:
    agent.append("user", "Hello.")
    agent.record("state", "Goal: greet")
    agent.record("scratchpad", "notes")
    agent.do("/clear")
    assert system_of(made(agent)) == "### SCRATCHPAD\nnotes"


def test_an_inherited_scratchpad_has_no_event_of_this_agent(agent: Agent) -> None:
    agent.append("user", "Hello.")
    agent.record("scratchpad", "notes")
    child = agent.log.agent(agent.do("/fork").data["child"])
    request = made(child)
    assert system_of(request) == "### SCRATCHPAD\nnotes"
    assert request.manifest.parts[0].event is None


def test_system_messages_that_left_the_context_are_not_sent(agent: Agent) -> None:
    agent.append("system", "Imported rule.")
    agent.append("user", "Hello.")
    assert system_of(made(agent)) == "Imported rule."
    agent.do("/clear")
    agent.append("user", "Again.")
    assert system_of(made(agent)) is None


def test_layers_without_text_are_not_sent_and_blank_system_messages_are_listed() -> None:
    blank = message(3, "system", " \n", None)
    found = layers(Config(system=" "), [blank], guidelines=None, state=message(4, "state", ""), scratchpad=" ")
    prompt = assemble(found, view([], CHAT, Config()))
    assert prompt.system == ""
    assert [(each.event, each.why) for each in prompt.left_out] == [(3, "empty")]
    assert [part.layer for part in prompt.parts] == ["window"]


@pytest.mark.parametrize(
    ("kinds", "steps"),
    [
        ("", [EMPTY]),
        ("user", ["user"]),
        ("assistant", [OMITTED, "assistant", GO_ON]),
        ("user assistant", ["user", "assistant", GO_ON]),
        ("summary user", [OMITTED, "summary", "user"]),
    ],
)
def test_the_first_and_the_last_message_are_user_messages(kinds: str, steps: list[str]) -> None:
    events = [message(id, kind, kind) for id, kind in enumerate(kinds.split(), start=1)]
    prompt = assemble([], view(events, CHAT, Config()))
    assert [step.text for step in prompt.steps] == steps
    synthetic = [part.how for part in prompt.parts if part.event is None]
    assert synthetic == ["synthetic"] * sum(step.startswith("[") for step in steps)


def test_an_instruction_is_the_last_message_and_nothing_else_is_added() -> None:
    prompt = assemble([], view([message(1, "user"), message(2, "assistant")], CHAT, Config()), "Sum up.")
    assert prompt.steps[-1] == ViewMessage("user", "Sum up.")
    assert [step.text for step in prompt.steps] == ["text", "text", "Sum up."]
    assert (prompt.parts[-1].kind, prompt.parts[-1].how) == ("instruction", "synthetic")
    assert [step.text for step in assemble([], view([], CHAT, Config()), "Sum up.").steps] == ["Sum up."]


# Anchors before the active turn

STATE, PAD = Part("state", None, None, "state", text="STATE"), Part("scratchpad", None, None, "scratchpad", text="PAD")
NOTES = "STATE\n\nPAD"


def framed(*events: Event, instruction: str | None = None, anchors: Sequence[Part] = (STATE, PAD)) -> Prompt:
    """Return the prompt of messages, with its anchors in the newest turn."""
    found = [Part("system", None, None, "system", text="SYSTEM"), *anchors]
    return assemble(found, view(events, CHAT, Config()), instruction, anchors_last=True)


def told(prompt: Prompt) -> list[str]:
    """Return the text of each step; `calls` for calls."""
    return ["calls" if isinstance(step, Calls) else step.text for step in prompt.steps]


QUESTION, ANSWER = message(1, "user", "question"), message(2, "assistant", "answer")
NEXT = message(5, "user", "next", turn=5)


@pytest.mark.parametrize(
    ("events", "steps", "settled", "earlier"),
    [
        ([], [NOTES, EMPTY], 0, 0),
        ([QUESTION], [NOTES, "question"], 0, 0),
        ([QUESTION, ANSWER], [NOTES, "question", "answer", GO_ON], 0, 0),
        ([ANSWER], [NOTES, "answer", GO_ON], 0, 0),
        ([call(1)], [NOTES, "calls"], 0, 0),
        ([QUESTION, ANSWER, NEXT], ["question", "answer", NOTES, "next"], 2, 0),
        ([QUESTION, NEXT, call(6, turn=5), result(7, 6, turn=5)], ["question", NOTES, "next", "calls"], 1, 0),
        ([call(1), NEXT], [OMITTED, "calls", NOTES, "next"], 2, 1),
        ([ANSWER, NEXT], [OMITTED, "answer", NOTES, "next"], 2, 1),
        ([ANSWER, call(3, turn=5)], [OMITTED, "answer", NOTES, "calls"], 2, 1),
        (
            [QUESTION, ANSWER, NEXT, message(9, "user", "third", turn=9)],
            [*("question", "answer", "next"), NOTES, "third"],
            3,
            2,
        ),
        ([QUESTION, ANSWER, message(5, "user", " ", turn=5)], ["question", "answer", NOTES, GO_ON], 2, 0),
        ([QUESTION, message(5, "user", " ", turn=5)], ["question", NOTES], 1, 0),
        ([QUESTION, call(2), message(5, "user", " ", turn=5)], ["question", "calls", NOTES], 2, 0),
        ([ANSWER, message(5, "user", " ", turn=5)], [OMITTED, "answer", NOTES, GO_ON], 2, 1),
    ],
)
def test_anchors_precede_the_active_turn(events: list[Event], steps: list[str], settled: int, earlier: int) -> None:
    prompt = framed(*events)
    assert told(prompt) == steps
    assert (prompt.settled, prompt.earlier) == (settled, earlier)
    assert (prompt.system, prompt.stable, prompt.anchors) == ("SYSTEM", "SYSTEM", "")
    assert [part.layer for part in prompt.parts][:3] == ["system", "state", "scratchpad"]
    in_front = assemble([Part("system", None, None, "system", text="SYSTEM"), STATE], view(events, CHAT, Config()))
    assert "STATE" not in told(in_front)
    assert in_front.system == "SYSTEM\n\nSTATE"


@pytest.mark.parametrize(
    ("events", "steps"),
    [
        ([], [NOTES, "Sum up."]),
        ([QUESTION, ANSWER], [NOTES, "question", "answer", "Sum up."]),
        ([QUESTION, ANSWER, NEXT], ["question", "answer", NOTES, "next", "Sum up."]),
        ([call(1), message(5, "user", " ", turn=5)], [OMITTED, "calls", NOTES, "Sum up."]),
    ],
)
def test_anchors_precede_an_instruction(events: list[Event], steps: list[str]) -> None:
    assert told(framed(*events, instruction="Sum up.")) == steps


@pytest.mark.parametrize("anchors", [[], [Part("state", None, None, "state", text=" \n")]])
def test_without_anchors_nothing_precedes_the_active_turn(anchors: list[Part]) -> None:
    assert told(framed(QUESTION, ANSWER, NEXT, anchors=anchors)) == ["question", "answer", "next"]
    assert told(framed(anchors=anchors)) == [EMPTY]


def test_a_planning_request_has_no_anchors(agent: Agent) -> None:
    first = agent.append("user", "One.")
    agent.end_turn()
    agent.record("state", "Goal")
    agent.record("scratchpad", "notes")
    agent.append("user", "Two.")
    only = (Segment(agent.id, first, first),)
    for policy in ("steady", "eager"):
        request = made(agent, Config(context_policy=policy), only=only, purpose="match")
        assert [entry["content"] for entry in request.body["messages"]] == ["One."]


def test_anchors_do_not_stand_between_calls_and_their_results(agent: Agent) -> None:
    agent.append("user", "One.")
    agent.append_tool_call("read_file", {}, call_id="c1")
    agent.record("state", "Goal")
    agent.do("/clear")
    agent.append_tool_call("read_file", {}, call_id="c2")
    agent.record("state", "Other goal")
    agent.append_tool_result("c2", "done")
    agent.configure("turn_steps", 49)
    for provider in BUILT_IN:
        body = made(agent, Config(), provider).body
        assert violations(provider, "some-model", body) == []
        assert str(body).count("Other goal") == 1
        assert OMITTED not in str(body)


def test_bytes_are_the_encoded_body_and_tokens_its_estimate(agent: Agent) -> None:
    agent.append("user", "Hällo.")
    for provider in BUILT_IN:
        request = made(agent, provider=provider)
        assert request.bytes == msgspec.json.encode(request.body)
        per_token = 3 if provider == "anthropic" else 4
        assert request.tokens == -(-len(request.bytes) // per_token)
        assert (request.provider, request.model, request.purpose) == (provider, "some-model", "answer")


@pytest.mark.parametrize(("size", "tokens"), [(0, 0), (1, 1), (3, 1), (4, 1), (5, 2), (12, 3)])
def test_a_token_is_four_bytes(size: int, tokens: int) -> None:
    assert count("openai", "any", b"x" * size) == tokens
    assert count("anthropic", "any", b"x" * size) == -(-size // 3)


def test_provider_names_and_aliases_are_accepted(agent: Agent) -> None:
    assert made(agent, provider="google").provider == "gemini"
    assert made(agent, provider="offline").dialect == "openai"
    assert made(agent, provider="gemini_gca").dialect == "gemini_gca"
    with pytest.raises(foldmark.CommandError, match=r"no provider 'mistral'; available: anthropic, openai, openai_"):
        made(agent, provider="mistral")


def test_the_same_log_gives_the_same_bytes(agent: Agent) -> None:
    agent.append("user", "Hello.")
    agent.append_tool_call("read_file", {"path": "a"}, call_id="c 1")
    assert made(agent, tools=[READ]) == made(agent, tools=[READ])


def test_the_first_of_two_tools_with_the_same_name_is_sent(agent: Agent) -> None:
    tools = [READ, ToolSpec("other", "", READ.parameters), ToolSpec("read_file", "Another.", READ.parameters)]
    sent = made(agent, tools=tools).body["tools"]
    assert [tool["function"].get("description") for tool in sent] == ["Reads a file.", None]


def test_planning_sees_only_its_segments_and_no_anchors(agent: Agent) -> None:
    agent.append("system", "Imported rule.")
    first = agent.append("user", "One.")
    agent.append("assistant", "Two.")
    agent.record("state", "Goal")
    agent.record("scratchpad", "notes")
    agent.end_turn()
    third = agent.append("user", "Three.")
    request = made(
        agent, Config(sliding_context_tokens=1), only=(Segment(agent.id, first, first + 1),), purpose="match"
    )
    assert [entry["content"] for entry in request.body["messages"]] == ["Imported rule.", "One.", "Two.", GO_ON]
    assert request.manifest.edge == foldmark.core.request.Edge(first, "planning", 0)
    assert request.manifest.edge.reason == "only the messages that are being matched"
    later = made(agent, only=(Segment(agent.id, third, third),))
    assert (later.manifest.edge.first, later.manifest.edge.before) == (third, 2)
    assert request.purpose == "match"
