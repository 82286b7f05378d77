"""Random operations in a session over the Responses API (SPEC 5.7)."""

import json
import random
from typing import Any

import pytest
from codex_client import CodexRunning, Model, spoken
from plan import Answer, Reply, Say, Think, Use
from random_operations import operate

from sampled import sampled

TOOLS = ("Read", "exec", "local_shell", "tool_search", "agents.spawn")


class Varied(Model):
    """A model that calls tools of every kind, and thinks before some of the calls."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance

    def __call__(self, body: Any) -> Answer:
        if "READ" not in json.dumps(body["input"][-1]):
            return super().__call__(body)
        self.asked += 1
        parts: list[Any] = [Say(("Reading.",))] if self.chance.random() < 0.5 else []
        for at in range(self.chance.choice([1, 2, 3])):
            if self.chance.random() < 0.5:
                parts.append(Think("The next.", f"signed-{self.asked}-{at}"))
            parts.append(Use(f"call_{self.asked}_{at}", self.chance.choice(TOOLS), {"input": "x"}))
        return Reply((Think("To read.", f"signed-{self.asked}"), *parts), stop="calls")


@pytest.mark.parametrize("seed", sampled(range(30), 2))
def test_every_request_is_valid_whatever_was_taken_out(codex: CodexRunning, seed: int) -> None:
    """Kept items have their bytes, and no item is sent without those that it needs: the provider checks that (L4)."""
    chance, client = random.Random(seed), codex.client
    codex.upstream._answering = Varied(chance)
    for number in range(14):
        if chance.random() < 0.3:
            client.items.append(spoken("developer", f"note {number}"))
        client.say(chance.choice(["READ ", "READ ", ""]) + f"prompt {number}")
        what = chance.choice(["forget", "forget", "restore", "evict", "drop", "summary", "command", "resume"])
        if what == "command":
            client.say(chance.choice([":context", f":mark M{number}", ":undo"]))
        elif what == "resume":
            codex.end()
            codex.begin(codex.gateway.port, codex.gateway.secret)
        else:
            operate(codex.agent, chance, what, ("filter", "evict", "drop", "summary"))
    client.say("last")
    changes = [each for each in codex.agent.events(0, 1000) if each.kind in ("filter", "evict", "drop", "summary")]
    assert changes
    assert {each.actor for each in changes} == {"human"}
    own = {json.dumps(item) for item in client.items}
    others = [item for item in codex.upstream.asked[-1].body["input"] if json.dumps(item) not in own]
    for item in others:
        summed = item.get("role") == "assistant" and item["content"][0]["text"] == "It was read."
        assert summed or item.get("tools") == [] or str(item.get("output", "")).startswith("[Evicted: ")
