"""`/context sent`: requests sent to models, listed and rebuilt (SPEC 5.6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256

import pytest

import foldmark
from foldmark import Agent, CommandError, Log
from foldmark.providers.registry import dialect_of

NOW = "2026-03-01T12:00:00.000000Z"


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:", settings={}) as log:
        log.clock = lambda: NOW
        yield log


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("root")


def send(agent: Agent, text: str) -> int:
    agent.append("user", text)
    sent = agent.record_sent(agent.request()).number
    agent.append("assistant", f"about {text}")
    agent.end_turn()
    return sent


def fails(agent: Agent, line: str, message: str, actor: str = "human") -> None:
    with pytest.raises(CommandError, match=message):
        agent.do(line, actor=actor)


def test_nothing_was_sent(agent: Agent) -> None:
    found = agent.do("/context sent")
    assert (found.text, found.event_id, found.data) == (
        "Nothing was sent to a model for this agent yet.",
        None,
        {"sent": []},
    )


def test_the_newest_twenty(agent: Agent) -> None:
    for number in range(22):
        send(agent, f"question {number}")
    found = agent.do("/context sent")
    lines = found.text.splitlines()
    assert [row["id"] for row in found.data["sent"]] == list(range(22, 2, -1))
    assert re.fullmatch(
        r"      22  2026-03-01 12:00  offline · ~[\d,]+ tokens, [\d,]+ bytes · answer · turn 85", lines[0]
    )
    assert lines[20:] == ["", "/context sent ID rebuilds one and shows it."]
    row = found.data["sent"][0]
    assert (row["event"], row["turn"], row["model"], row["purpose"]) == (85, 85, "offline", "answer")


@pytest.mark.parametrize("name", ["anthropic/claude-sonnet-4-5", "openai/gpt-5", "gemini/gemini-2.5-pro", "offline"])
def test_one_as_it_is_shown_before_it_is_sent(agent: Agent, name: str) -> None:
    agent.configure("model", name)
    agent.append("user", "first")
    agent.do("/mark M")
    agent.append("user", "second")
    shown = agent.do("/context show")
    sent = agent.record_sent(agent.request()).number
    agent.do("/clear")
    head = agent.standing().record.head
    found = agent.do(f"/context sent {sent}")
    request, verdict, wire, *rest = found.text.splitlines()
    before = shown.text.splitlines()
    assert rest == before[1:-2]
    assert "── mark M ──" in rest
    size = re.findall(r"~[\d,]+ tokens, [\d,]+ bytes", before[0])[0]
    assert request == (
        f"Request 1, which went to {name} for root after event 4, 2026-03-01 12:00: {size}. Purpose: answer."
    )
    assert re.fullmatch(r"Rebuilt byte for byte: the same [\d,]+ bytes as were sent, SHA-256 [0-9a-f]{16}\.", verdict)
    assert wire == f"Sent over the wire: {dialect_of(name.partition('/')[0]).on_the_wire}."
    assert found.data["verdict"] == "identical"
    assert found.data["request"] == shown.data["request"]
    data = shown.data["request"]["bytes"].encode()
    assert (found.data["sha256"], found.data["bytes"]) == (sha256(data).hexdigest(), len(data))
    assert agent.standing().record.head == head


def test_an_unknown_request_is_an_error_that_names_the_newest(log: Log, agent: Agent) -> None:
    fails(agent, "/context sent 1", r"^there is no request 1 of this agent; none was sent for it yet$")
    send(agent, "one")
    send(agent, "two")
    other = log.agent("other")
    send(other, "three")
    fails(agent, "/context sent 3", r"^there is no request 3 of this agent; its newest: 2, 1$")
    for wrong in ("0", "9" * 19, "9" * 40):
        fails(agent, f"/context sent {wrong}", r"^there is no request \d+ of this agent; its newest: 2, 1$")
    fails(agent, "/context sent x", r"^ID must be a number, not 'x'; for example /context sent 12$")
    fails(agent, "/context sent 1 2", r"^unexpected argument '2'; usage: /context sent \[ID\]$")
    for actor in ("model", "system"):
        fails(agent, "/context sent 1", r"/context sent is not for a ", actor)


def test_an_empty_conversation(agent: Agent) -> None:
    sent = agent.record_sent(agent.request()).number
    assert agent.do(f"/context sent {sent}").data["verdict"] == "identical"
    agent.append("user", "hello")
    assert "[The conversation is empty.]" in agent.do(f"/context sent {sent}").text
