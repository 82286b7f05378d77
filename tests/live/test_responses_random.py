"""Random operations in a session over the Responses API (SPEC 5.7)."""

import json
import random

import pytest
from codex_client import CodexRunning

from foldmark.core.errors import CommandError
from sampled import sampled


@pytest.mark.parametrize("seed", sampled(range(8), 3))
def test_every_request_is_valid_whatever_was_taken_out(codex: CodexRunning, seed: int) -> None:
    """Kept items have their bytes, and no item is sent without those that it needs: the provider checks that (L4)."""
    chance, client = random.Random(seed), codex.client
    for number in range(14):
        client.say(chance.choice(["READ ", "", ""]) + f"prompt {number}")
        agent = codex.agent
        shown = list(agent.context().messages)
        try:
            if chance.random() < 0.5:
                some = chance.sample(shown, min(len(shown), 3))
                agent.apply_filter("forget", [each.id for each in some], planning=None, criteria=None)
            elif chance.random() < 0.5:
                done = [each.id for each in agent.events(0, 1000) if each.kind in ("filter", "evict", "drop")]
                agent.do(f"/restore {chance.choice(done)}")
            else:
                results = [each.id for each in shown if each.kind == "tool_result"]
                agent.do(f"/context evict {chance.choice(results)}")
        except (CommandError, IndexError):
            continue
    client.say("last")
    kinds = [event.kind for event in codex.agent.events(0, 1000)]
    assert sum(kinds.count(kind) for kind in ("filter", "evict", "restore")) > 5
    own = {json.dumps(item) for item in client.items}
    evicted = [item for item in codex.upstream.asked[-1].body["input"] if json.dumps(item) not in own]
    assert all(str(item.get("output", "")).startswith("[Evicted: ") for item in evicted)
