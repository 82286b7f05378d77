"""The state block of an answer: recorded after its message, sent with the next request, in force while its message is
in the context (SPEC 3, 5.1, 7)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from request_validators import VALIDATORS

import foldmark
from answering import answered_by
from foldmark import Agent, CommandError, Log
from foldmark.core import selections
from foldmark.core.errors import FoldmarkError
from foldmark.core.request import Piece, Request
from foldmark.log.doctor import examine
from foldmark.request.standing import state_of
from foldmark.runtime.loop import Shown, turn
from scripted import ScriptedProvider
from stored import stored

ONE = "Goal: find x\nContext: a.py\nResolved: nothing\nTechnical Anchors: port 8080"
TWO = "Goal: mend x\nContext: b.py\nResolved: x found\nTechnical Anchors: port 9090"
MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "openai": "gpt-5",
    "openai_responses": "gpt-5",
    "gemini": "gemini-3-pro",
    "gemini_gca": "gemini-3-pro",
}


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log
        assert list(examine(log)) == []


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("root")


def say(agent: Agent, text: str, answer: str) -> int:
    """Append a turn and return the id of the answer."""
    agent.append("user", text)
    answered = agent.append("assistant", answer)
    agent.end_turn()
    return answered


def with_block(block: str, text: str = "Done.") -> str:
    return f"{text}\n\n### STATE\n{block}"


def layers(agent: Agent, provider: str = "openai") -> list[str]:
    request = agent.request(provider, MODELS[provider])
    return [part.text for part in request.manifest.parts if part.layer == "state"]


def texts(agent: Agent) -> list[str]:
    return [message.content for message in agent.context().messages]


# Extraction


def test_a_state_block_is_recorded_after_its_message(agent: Agent) -> None:
    answered = say(agent, "Where is x?", with_block(ONE))
    assert texts(agent) == ["Where is x?", "Done."]
    assert agent.context().state == ONE
    event = selections.event(stored(agent.log), answered + 1)
    assert event is not None
    assert (event.kind, event.content, event.turn_id, event.actor) == ("state", ONE, answered - 1, "model")


def test_the_next_request_contains_the_state_once(agent: Agent) -> None:
    say(agent, "Where is x?", with_block(ONE))
    agent.append("user", "Mend it.")
    agent.request("openai", MODELS["openai"])
    agent.append("assistant", with_block(TWO, "Mended."))
    agent.end_turn()
    agent.append("user", "And now?")
    assert layers(agent) == [f"### STATE\n{ONE}", f"### STATE\n{TWO}"]  # requests only grow
    agent.configure("context_policy", "eager")
    for provider in MODELS:
        assert layers(agent, provider) == [f"### STATE\n{TWO}"]
        body = json.dumps(agent.request(provider, MODELS[provider]).body)
        assert body.count("port 9090") == 1
        assert "port 8080" not in body


def test_the_state_is_sent_even_if_the_next_message_is_empty(agent: Agent) -> None:
    say(agent, "Find x.", with_block(ONE))
    say(agent, "", "You said nothing.")
    for more in (None, "Then mend it."):
        if more:
            agent.record_sent(agent.request("openai", MODELS["openai"]))
            agent.append("user", more)
        request = agent.request("openai", MODELS["openai"])
        texts = [message["content"] for message in request.body["messages"]]
        assert sum(ONE in text for text in texts) == 1
        assert texts.index(f"### STATE\n{ONE}") == texts.index("You said nothing.") - 1
        assert layers(agent) == [f"### STATE\n{ONE}"]


def test_a_message_and_its_state_are_recorded_in_one_transaction(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the block cannot be recorded, its message is not recorded either."""
    agent.append("user", "Where is x?")
    head = agent.standing().newest
    times = iter(["2025-01-01T00:00:00.000000Z"])
    monkeypatch.setattr(agent.log, "clock", lambda: next(times))
    with pytest.raises(StopIteration):
        agent.append("assistant", with_block(ONE))
    assert (agent.standing().newest, texts(agent)) == (head, ["Where is x?"])


def test_a_state_block_has_the_actor_and_time_of_its_answer(agent: Agent) -> None:
    agent.append("user", "Where is x?")
    agent.append("assistant", with_block(ONE), actor="human", created_at="2024-05-05T05:05:05Z")
    event = state_of(stored(agent.log), agent.standing())
    assert event is not None
    assert (event.actor, event.content, event.created_at) == ("human", ONE, "2024-05-05T05:05:05.000000Z")


def test_an_answer_may_consist_of_a_state_block_only(agent: Agent) -> None:
    """Its message is empty and left out of requests, which stay valid for every provider."""
    agent.append("user", "Where is x?")
    answered = agent.append("assistant", f"### STATE\n{ONE}")
    agent.end_turn()
    assert texts(agent) == ["Where is x?", ""]
    agent.append("user", "Well?")
    for provider in MODELS:
        request = agent.request(provider, MODELS[provider])
        assert VALIDATORS[provider](request.body) == []
        assert [(left.event, left.why) for left in request.manifest.left_out] == [(answered, "empty")]
        assert layers(agent, provider) == [f"### STATE\n{ONE}"]


def test_an_interrupted_answer_keeps_its_whole_text(agent: Agent) -> None:
    say(agent, "Where is x?", with_block(ONE))
    agent.append("user", "Mend it.")
    agent.append("assistant", with_block(TWO), interrupted=True)
    assert agent.context().state == ONE
    assert texts(agent)[-1] == with_block(TWO)


@pytest.mark.parametrize(
    "answer",
    [
        "Mended.",
        "### STATE\nall fine",
        "### STATE\nGoal:\nContext:",
        f"```py\n### STATE\n{TWO}\n```",
        f"### STATE\n{TWO}\n# Next",
    ],
)
def test_a_missing_or_malformed_block_keeps_the_last(agent: Agent, answer: str) -> None:
    say(agent, "Where is x?", with_block(ONE))
    say(agent, "Mend it.", answer)
    assert agent.context().state == ONE
    assert texts(agent)[-1] == answer


def test_only_an_answer_can_hold_a_state_block(agent: Agent) -> None:
    look_alike = with_block(TWO)
    agent.append("system", look_alike)
    agent.append("user", look_alike)
    agent.append("assistant", "I look.")
    agent.append_tool_call("read_file", {"path": "state.md"}, call_id="c1")
    agent.append_tool_result("c1", look_alike)
    agent.append("tool", look_alike)
    agent.do(f"/note {look_alike}")
    agent.do(f"/scratchpad edit {look_alike}")
    assert agent.context().state is None
    assert layers(agent) == []
    assert texts(agent).count(look_alike) == 5


def test_an_imported_answer_stays_as_it_is(log: Log, tmp_path: Path) -> None:
    """A block at its end does not come from this conversation's models."""
    from foldmark.sessions.conversion.importing import import_session

    lines: list[dict[str, Any]] = [
        {"type": "user", "uuid": "1", "parentUuid": None, "message": {"role": "user", "content": "Where is x?"}},
        {
            "type": "assistant",
            "uuid": "2",
            "parentUuid": "1",
            "message": {"role": "assistant", "content": [{"type": "text", "text": with_block(ONE)}]},
        },
    ]
    file = tmp_path / "session.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    import_session(log, file, "imported")
    agent = log.agent("imported")
    assert texts(agent) == ["Where is x?", with_block(ONE)]
    assert agent.context().state is None


# Answers of providers

ANSWERS: dict[str, dict[str, Any]] = {
    "openai": {
        "choices": [
            {
                "message": {
                    "role": "assistant",
                    "content": with_block(ONE),
                    "reasoning_content": "Hm.",
                    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "grep", "arguments": "{}"}}],
                },
                "finish_reason": "tool_calls",
            }
        ]
    },
    "openai_responses": {
        "status": "completed",
        "output": [
            {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "c2ln"},
            {
                "type": "message",
                "role": "assistant",
                "phase": "commentary",
                "content": [{"type": "output_text", "text": with_block(ONE)}],
            },
            {"type": "function_call", "call_id": "c1", "name": "grep", "arguments": "{}"},
        ],
    },
    "anthropic": {
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "text", "text": "Done.\n\n"},
            {"type": "text", "text": f"### STATE\n{ONE}"},
            {"type": "tool_use", "id": "c1", "name": "grep", "input": {}},
        ],
        "stop_reason": "tool_use",
    },
    "gemini": {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"},
                        {"text": with_block(ONE), "thoughtSignature": "c2ln"},
                        {"functionCall": {"name": "grep", "args": {}}, "thoughtSignature": "c2ln"},
                    ]
                },
                "finishReason": "STOP",
            }
        ]
    },
}
ANSWERS["gemini_gca"] = {"response": ANSWERS["gemini"]}


@pytest.mark.parametrize("provider", MODELS)
def test_a_state_block_may_precede_calls_and_kept_blocks(agent: Agent, provider: str) -> None:
    """The blocks sent back to the provider do not repeat the state block."""
    agent.append("user", "Where is x?")
    agent.request(provider, MODELS[provider])
    said, called = agent.append_answer(provider, ANSWERS[provider])
    _, answered, call = agent.context().messages
    assert (answered.id, answered.content, call.id, agent.context().state) == (said, "Done.", called, ONE)
    agent.append_tool_result(call.call_id or "", "found", dialect=call.dialect)
    for times in (0, 1):  # `steady` puts it before the next turn
        if times:
            agent.configure("context_policy", "eager")
        request = agent.request(provider, MODELS[provider])
        assert VALIDATORS[provider](request.body) == []
        assert json.dumps(request.body).count("port 8080") == times
    agent.do("/mark INSIDE")
    agent.do("/rewind INSIDE")
    assert agent.context().state == ONE


@pytest.mark.parametrize("provider", MODELS)
def test_calls_may_follow_an_answer_that_is_only_a_state_block(agent: Agent, provider: str) -> None:
    answer = json.loads(json.dumps(ANSWERS[provider]).replace("Done.\\n\\n", ""))
    agent.append("user", "Where is x?")
    agent.append_answer(provider, answer)
    _, answered, call = agent.context().messages
    assert (answered.content, agent.context().state) == ("", ONE)
    for result in ("", "found"):
        if result:
            agent.append_tool_result(call.call_id or "", result, dialect=call.dialect)
        for other in MODELS:
            assert VALIDATORS[other](agent.request(other, MODELS[other]).body) == []


class Model(ScriptedProvider):
    """A model that answers with these texts, in small pieces."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.requests = list(answers), list[Request]()

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        self.requests.append(request)
        text = self.answers.pop(0)
        for at in range(0, len(text), 7):
            yield text[at : at + 7]


def test_a_state_block_inside_a_turn_is_recorded(agent: Agent) -> None:
    model = Model(with_block(ONE), "No block.", with_block(TWO))
    for text in ("one", "two", "three"):
        asyncio.run(turn(agent, model, text, Shown(lambda _: None, lambda _: None)))
    assert texts(agent) == ["one", "Done.", "two", "No block.", "three", "Done."]
    held = [any(part.text == f"### STATE\n{ONE}" for part in r.manifest.parts) for r in model.requests]
    assert held == [False, True, True]
    assert agent.context().state == TWO


# Operations


def test_a_rewind_returns_the_earlier_state_and_a_restore_the_later_one(agent: Agent) -> None:
    say(agent, "one", with_block(ONE))
    agent.do("/mark HERE")
    say(agent, "two", with_block(TWO))
    rewound = agent.do("/rewind HERE")
    assert agent.context().state == ONE
    agent.do(f"/restore {rewound.event_id}")
    assert agent.context().state == TWO


def test_clear_leaves_no_state(agent: Agent) -> None:
    say(agent, "one", with_block(ONE))
    cleared = agent.do("/clear")
    assert agent.context().state is None
    assert layers(agent) == []
    assert (
        agent.do("/state").text == "No state block is in the context any more; `/state --all` shows the earlier ones."
    )
    agent.do(f"/restore {cleared.event_id}")
    assert agent.context().state == ONE


def test_a_dropped_turn_takes_its_state_along(agent: Agent) -> None:
    say(agent, "one", with_block(ONE))
    second = say(agent, "two", with_block(TWO))
    dropped = agent.do(f"/context drop {second - 1}")
    assert agent.context().state == ONE
    agent.do(f"/restore {dropped.event_id}")
    assert agent.context().state == TWO
    agent.do("/undo")
    assert agent.context().state == ONE


def test_forgetting_the_message_forgets_its_state(agent: Agent) -> None:
    say(agent, "one", with_block(ONE))
    second = say(agent, "two", with_block(TWO))
    agent.apply_filter("forget", [second])
    assert agent.context().state == ONE


def test_a_summary_carries_the_state(agent: Agent) -> None:
    say(agent, "one", with_block(ONE))
    agent.do("/summarize")
    assert agent.context().state == ONE
    assert layers(agent) == [f"### STATE\n{ONE}"]
    say(agent, "two", with_block(TWO))
    assert agent.context().state == TWO


def test_a_fork_inherits_the_state_and_changes_it_independently(agent: Agent) -> None:
    say(agent, "one", with_block(ONE))
    agent.do("/mark HERE")
    whole = agent.log.agent(agent.do("/fork").data["child"])
    trimmed = agent.log.agent(agent.do("/fork HERE").data["child"])
    assert (whole.context().state, trimmed.context().state) == (ONE, None)
    say(whole, "two", with_block(TWO))
    agent.do("/clear")
    assert (whole.context().state, agent.context().state) == (TWO, None)


def test_erasing_a_turn_erases_its_state(agent: Agent) -> None:
    say(agent, "one", with_block(ONE))
    second = say(agent, "two", with_block(TWO))
    child = agent.log.agent(agent.do("/fork").data["child"])
    agent.do(f"/message remove {second - 1} --yes")
    assert (agent.context().state, child.context().state) == (ONE, ONE)
    event = selections.event(stored(agent.log), second + 1)
    assert event is not None
    assert event.content == ""


# The commands


def test_earlier_states_are_listed(agent: Agent) -> None:
    assert agent.do("/state --all").text == "No state block yet."
    first = say(agent, "one", with_block(ONE)) + 1
    second = say(agent, "two", with_block(TWO)) + 1
    third = say(agent, "three", with_block("Goal: go on")) + 1
    agent.do("/undo")
    assert agent.do("/state").text == TWO
    found = agent.do("/state --all")
    rows = [(row["id"], row["where"], row["state"]) for row in found.data["states"]]
    assert rows == [
        (first, "in the context", ONE),
        (second, "in force", TWO),
        (third, "not in the context", "Goal: go on"),
    ]
    assert found.data["state"] == TWO
    heads = [line for line in found.text.splitlines() if line.startswith("── ")]
    assert [head.split(" · ")[0] for head in heads] == [f"── event {each}" for each in (first, second, third)]
    assert heads[1].endswith(" · in force ──")
    summary = agent.do("/summarize").event_id
    assert [(row["id"], row["in_force"]) for row in agent.do("/state --all").data["states"]][-1] == (summary, True)
    child = agent.log.agent(agent.do("/fork").data["child"])
    assert [row["id"] for row in child.do("/state --all").data["states"]] == [summary]


def test_the_model_writes_a_fresh_state_block(log: Log, agent: Agent) -> None:
    say(agent, "one", with_block(ONE))
    answered_by(lambda _: f"Here it is:\n\n### STATE\n{TWO}")
    assert agent.do("/context rebuild").data["state"] == TWO
    assert agent.context().state == TWO
    for answer in ("### STATE\nI do not know.", f"```py\n### STATE\n{ONE}\n```", ONE):
        answered_by(lambda _, said=answer: said)  # type: ignore[misc]
        with pytest.raises(FoldmarkError, match="no `### STATE` block; the last one is kept"):
            agent.do("/context rebuild")
    assert agent.context().state == TWO


def test_wrong_arguments_of_the_state_command_are_refused(agent: Agent) -> None:
    with pytest.raises(CommandError, match="unexpected argument 'all'; usage: /state"):
        agent.do("/state all")
