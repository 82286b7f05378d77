"""`[live] evict`: results that are evicted without asking, when it costs nothing (SPEC 5.7)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from claude_client import BOUND, FREE, ClaudeRunning
from completions_client import Client, CompletionsRunning, Model
from plan import Reply, Use
from running import Running, entered
from wire_anthropic import AnthropicWire
from wire_bound import BoundWire
from wire_openai import OpenAIWire

from foldmark.core.codec import stored_time

OTHER = "claude-opus-4-6"


class Evicting(ClaudeRunning):
    """A client in a project that lets results be evicted, at a time that tests set."""

    def __init__(self, folder: Path, wire: AnthropicWire, reasons: str) -> None:
        super().__init__(folder, wire, {"live_evict": reasons})
        self.late = timedelta()
        clock = self.log.clock
        self.log.clock = lambda: (stored_time(clock()) + self.late).isoformat()

    def wait(self, seconds: float) -> None:
        self.late += timedelta(seconds=seconds)

    def call(self, name: str, **arguments: Any) -> str:
        id = f"toolu_{len(self.client.messages)}x"
        self.model.fails.append(Reply((Use(id, name, arguments),), stop="calls"))
        return self.client.say(f"do {name}")

    def evictions(self) -> list[Any]:
        return [event for event in self.agent.events(0, 1000) if event.kind == "evict"]

    def sent(self) -> str:
        """Return a letter for each result in the newest request: E if it is evicted, or else w."""
        return "".join("E" if text.startswith("[Evicted") else "w" for kind, text in self.texts() if kind == "result")


@pytest.fixture
def evicting(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Evicting]:
    wire, reasons = getattr(request, "param", (AnthropicWire(), "stale, repeated, failed"))
    with entered(Evicting(tmp_path, wire, reasons)) as running:
        yield running


def test_a_cache_that_has_expired(evicting: Evicting) -> None:
    client = evicting.client
    evicting.call("Read", file_path="a")
    evicting.call("Edit", file_path="a")
    evicting.wait(290)
    assert client.say("on") == "I see 9."
    assert (evicting.sent(), evicting.evictions()) == ("ww", [])
    evicting.wait(290)
    client.say("on")
    assert evicting.evictions() == []
    evicting.wait(301)
    answer = client.say("on")
    (operation,) = evicting.evictions()
    assert evicting.sent() == "Ew"
    assert answer.startswith(f"foldmark: Result {operation.data['results'][0]} evicted")
    assert answer.endswith("I see 13.")
    assert operation.reason == "stale, by live_evict (program), since the cache had expired"
    assert f":restore {operation.id}" in answer
    client.say("on")
    assert "foldmark" not in str(evicting.texts())
    assert "stale" in client.say(":operations")
    client.say(f":restore {operation.id}")
    client.say("on")
    assert evicting.sent() == "ww"
    evicting.wait(301)  # a person wants it
    client.say("on")
    assert evicting.sent() == "ww"


def test_a_cache_that_is_kept_for_an_hour(evicting: Evicting) -> None:
    client = evicting.client
    client.tools = [{**client.tools[0], "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    evicting.call("Read", file_path="a")
    evicting.call("Read", file_path="a")
    evicting.wait(3500)
    client.say("on")
    assert evicting.sent() == "ww"
    evicting.wait(3601)
    client.say("on")
    assert evicting.sent() == "Ew"


def test_another_edit_breaks_the_cache_before_the_result(evicting: Evicting) -> None:
    client = evicting.client
    for _ in range(2):
        evicting.call("Read", file_path="a")
    client.say("between")
    evicting.call("Bash", command="ls", at=1)
    evicting.call("Bash", command="ls", at=1)
    client.say("last")
    client.say(f":drop {evicting.turn('last')}")
    client.say("on")
    assert evicting.sent() == "wwww"  # everything in question is before the place
    client.say(f":drop {evicting.turn('between')}")
    answer = client.say("on")
    assert evicting.sent() == "wwEw"
    (operation,) = evicting.evictions()
    assert operation.reason == "repeated, by live_evict (program), since the request had changed anyway"
    assert "foldmark: Result" in answer


def test_another_model(evicting: Evicting) -> None:
    client = evicting.client
    evicting.call("Read", file_path="a")
    evicting.call("Read", file_path="a")
    client.model = OTHER
    for message in client.messages:  # Claude Code leaves out what another model has thought
        if message["role"] == "assistant":
            message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
    client.say("on")
    assert evicting.sent() == "Ew"
    assert evicting.evictions()[0].reason.endswith("since the model has changed")
    evicting.call("Read", file_path="a")
    client.model = FREE  # its cache still holds what was sent before
    client.say("on")
    assert evicting.sent() == "Eww"


def test_the_compaction_of_the_client(evicting: Evicting) -> None:
    client = evicting.client
    client.say("one")
    evicting.call("Read", file_path="a")
    evicting.call("Read", file_path="a")
    client.messages[:2] = [
        {"role": "user", "content": [{"type": "text", "text": "A summary."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Good."}]},
    ]
    client.say("on")
    assert evicting.sent() == "Ew"


def test_the_results_of_the_newest_turn_stay(evicting: Evicting) -> None:
    client, use = evicting.client, ("Read", {"file_path": "a"})
    for number in range(2):
        evicting.model.fails.insert(0, Reply((Use(f"toolu_{number}", *use),), stop="calls"))
    client.messages.append({"role": "user", "content": [{"type": "text", "text": "look"}]})
    for _ in range(2):
        answer = client.ask(client.messages)
        result = {"type": "tool_result", "tool_use_id": answer[-1]["id"], "content": "data " * 200}
        client.messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": [result]}]
        evicting.settle()
        evicting.wait(301)
    client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
    assert evicting.sent() == "ww"
    evicting.wait(301)
    client.say("on")
    assert evicting.sent() == "Ew"


@pytest.mark.parametrize("evicting", [(BoundWire(), "stale")], indirect=True)
def test_thinking_is_never_lost(evicting: Evicting) -> None:
    client = evicting.client
    client.model = BOUND
    evicting.call("Read", file_path="a")
    evicting.call("Read", file_path="a")
    thinking = [text for kind, text in evicting.texts() if kind == "thinking"]
    evicting.wait(301)
    client.say("on")
    assert evicting.sent() == "ww"
    assert len([text for kind, text in evicting.texts() if kind == "thinking"]) > len(thinking) > 0


@pytest.mark.parametrize("evicting", [(AnthropicWire(), ""), (AnthropicWire(), "failed")], indirect=True)
def test_only_what_is_named_is_evicted(evicting: Evicting) -> None:
    evicting.call("Read", file_path="a")
    evicting.call("Read", file_path="a")
    evicting.wait(301)
    evicting.client.say("on")
    assert (evicting.sent(), evicting.evictions()) == ("ww", [])


def test_another_gateway_knows_when_the_cache_expires(evicting: Evicting) -> None:
    evicting.call("Read", file_path="a")
    evicting.call("Read", file_path="a")
    for late, expected in ((100, "ww"), (301, "Ew")):
        evicting.settle()
        port, secret = evicting.gateway.port, evicting.gateway.secret
        evicting.end()
        evicting.begin(port, secret)
        evicting.wait(late)
        evicting.client.say("on")
        assert evicting.sent() == expected


class Completions(CompletionsRunning):
    """A client whose answers cannot show a receipt."""

    def __init__(self, folder: Path) -> None:
        Running.__init__(self, folder, OpenAIWire(), Model(), Client, {"live_evict": "stale"})


def test_a_client_that_shows_the_receipt_with_the_next_reply(tmp_path: Path) -> None:
    with entered(Completions(tmp_path)) as running:
        client = running.client
        client.say("one")
        for id in "ab":
            running.model.fails.append(Reply((Use(id, "Read", {"file_path": "a"}),), stop="calls"))
            client.say("look")
        client.say(f":drop {running.turn('one')}")
        assert client.say("on").startswith("I see")
        assert [text.startswith("[Evicted") for kind, text in running.texts() if kind == "result"] == [True, False]
        assert client.say(":marks").startswith("foldmark: Result")
        assert "evicted" not in client.say(":marks")
