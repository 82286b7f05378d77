"""System messages that a client puts between the others (SPEC 5.7). The provider takes them only after a user's
message, and before an answer or at the end; the one of these tests refuses any other place."""

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from claude_client import ClaudeRunning
from rules_anthropic import between
from wire_anthropic import misplaced_systems

from answering import answered_by
from foldmark.live.clients.anthropic import ANTHROPIC
from foldmark.overlay.edit import ContextView, edited
from foldmark.overlay.ledger import KnownMessage
from foldmark.overlay.pieces import MisplacedError, SentMessage
from foldmark.request.client_sizes import LOCAL

AGENTS, TASKS, PLAN = "Agents: none.", "Use the task tools.", "Plan mode is active."


def systems(running: ClaudeRunning) -> list[tuple[str, str]]:
    """Return the system messages of the newest request, each after the text of the message before it."""
    messages = running.upstream.asked[-1].body["messages"]
    texts = [" ".join(str(block.get("text", block["type"])) for block in each["content"]) for each in messages]
    return [
        (texts[at - 1], texts[at]) for at, message in enumerate(messages) if message["role"] == "system"
    ]  # fmt: skip


def operations(running: ClaudeRunning) -> list[str]:
    kinds = ("filter", "drop", "undo", "clear", "rewind", "restore")
    return [event.kind for event in running.agent.events(0, 1000) if event.kind in kinds]


def test_a_system_message_after_a_command_moves_to_the_next_prompt(running: ClaudeRunning) -> None:
    running.client.say("one", AGENTS)
    running.client.say(":context", TASKS)
    running.client.say("two")
    assert [text for _, text in systems(running)] == [AGENTS, TASKS]
    assert systems(running)[1][0] == "two"
    running.client.say(":context", PLAN)
    running.client.say("three", "More.")
    assert systems(running)[2] == ("three", f"{PLAN} More.")
    assert operations(running) == []


def test_a_system_message_leaves_and_returns_with_its_turn(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one", AGENTS)
    client.say("READ two", TASKS, PLAN)
    client.say("three")
    whole = running.upstream.asked[-1].body["messages"]
    client.say(f":drop {running.turn('READ two')}")
    client.say("four")
    assert [text for _, text in systems(running)] == [AGENTS]
    assert operations(running) == ["drop"]
    drop = next(event for event in running.agent.events(0, 1000) if event.kind == "drop")
    client.say(f":restore {drop.id}")
    client.say("five")
    assert [each["role"] for each in running.upstream.asked[-1].body["messages"]][: len(whole)] == [
        each["role"] for each in whole
    ]
    assert [text for _, text in systems(running)] == [AGENTS, TASKS, PLAN]
    assert operations(running) == ["drop", "restore"]


@pytest.mark.parametrize("command", [":undo", ":clear", ":clear HERE"])
def test_a_command_takes_the_system_messages_of_what_it_takes(running: ClaudeRunning, command: str) -> None:
    client = running.client
    client.say("one", AGENTS)
    client.say(":mark HERE")
    client.say("READ two", TASKS, PLAN)
    client.say(command, "Fifth.")
    client.say("three", "Sixth.")
    found = systems(running)
    assert found[0][1].startswith(AGENTS)  # what the client says once, at the start
    assert found[-1][1].endswith("Fifth. Sixth.")
    assert not any(text in told for _, told in found for text in (TASKS, PLAN))


def test_a_summary_takes_the_system_messages_of_its_turns(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one", AGENTS)
    client.say("READ two", TASKS)
    answered_by(lambda _: "It was read.")
    agent = running.agent
    agent.context()
    agent.do("/summarize")
    client.say("three", PLAN)
    assert [text for _, text in systems(running)] == [f"{AGENTS} {PLAN}"]


def test_a_message_without_text_that_sets_the_effort_stays(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one")
    effort = {"role": "system", "content": [], "output_config": {"effort": "low"}}
    client.say("two", TASKS)
    client.messages[-1:-1] = [effort]
    client.say("three")
    client.say(f":drop {running.turn('two')}")
    client.say("four")
    assert effort in running.upstream.asked[-1].body["messages"]


def test_an_edit_that_would_be_refused_is_found() -> None:
    def message(role: str) -> Any:
        return ANTHROPIC.read(msgspec.json.encode({"role": role, "content": [{"type": "text", "text": "x"}]}))

    for roles in (("system", "user"), ("user", "assistant", "system"), ("user", "system", "user")):
        with pytest.raises(MisplacedError, match="a system message"):
            ANTHROPIC.check(list(map(message, roles)))
    ANTHROPIC.check(list(map(message, ("user", "system", "system", "assistant", "user", "system"))))


def test_what_the_provider_refuses_in_a_system_message() -> None:
    def wrong(*messages: dict[str, Any]) -> list[str]:
        return between({"messages": [{"role": "user", "content": "x"}, *messages]})

    marked = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    assert wrong({"role": "system", "content": [marked]}) == []
    assert wrong({"role": "system", "content": [], "output_config": {"effort": "low"}}) == []
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
    for content in ([], "", [{"type": "text", "text": ""}], [marked] * 5, [result]):
        assert wrong({"role": "system", "content": content})


@pytest.mark.parametrize("seed", range(40))
def test_every_request_is_valid_whatever_left(seed: int) -> None:
    """Whatever leaves, the provider takes the rest; without an edit, the bytes are the client's."""
    chance = random.Random(seed)
    messages: list[dict[str, Any]] = []
    known: list[KnownMessage] = []

    def add(role: str, blocks: Sequence[dict[str, Any]], ids: Sequence[int]) -> None:
        messages.append({"role": role, "content": list(blocks)})
        known.append(KnownMessage(str(len(messages)), tuple(ids)))

    def text(words: str) -> dict[str, Any]:
        return {"type": "text", "text": words}

    id = 0
    for number in range(12):
        local = chance.random() < 0.2
        id += 1
        add("user", [text(f"prompt {number}")], [LOCAL if local else id])
        for step in range(1 if local else chance.choice([1, 1, 2, 3])):
            for note in range(chance.choice([0, 0, 1, 2])):
                add("system", [text(f"note {number}.{step}.{note}")], [0])
            if local or step == 2:
                break
            id += 2
            call = f"toolu_{number}_{step}"
            add("assistant", [{"type": "tool_use", "id": call, "name": "Read", "input": {}}], [id - 1])
            add("user", [{"type": "tool_result", "tool_use_id": call, "content": "data"}], [id])
        id += 1
        add("assistant", [text(f"answer {number}")], [LOCAL if local else id])
    id += 1
    add("user", [text("the last prompt")], [id])
    sent = [SentMessage(raw, ANTHROPIC.read(raw)) for raw in map(msgspec.json.encode, messages)]
    gone: set[int] = set()
    for each, other in zip(sent, known, strict=True):
        with_its_call = other.ids[0] - 1 in gone if each.message.results else chance.random() < 0.4
        if with_its_call and other.ids[0] > 0:
            gone.add(other.ids[0])
    for shown in (set(range(1, id + 1)) - gone, set(range(1, id + 1))):
        made = edited(ANTHROPIC, sent, known, ContextView(shown.__contains__, {}))
        bodies = list(map(msgspec.json.decode, made.messages))
        assert misplaced_systems(bodies) == ""
        roles = [body["role"] for body in bodies if body["role"] != "system"]
        assert all(first != second for first, second in pairwise(roles))
        if len(shown) == id and not any(LOCAL in each.ids for each in known):
            assert made.messages == [raw for raw, *_ in sent]
