"""Random operations in a session over Chat Completions (SPEC 5.7)."""

import json
import random
from contextlib import suppress

import pytest
from completions_client import CompletionsRunning, as_it_came, otherwise
from random_operations import operate

from foldmark.core.errors import CommandError
from sampled import sampled


@pytest.mark.parametrize("seed", sampled(range(16), 3))
def test_every_request_is_valid_whatever_was_taken_out(completions: CompletionsRunning, seed: int) -> None:
    """Kept messages have their bytes, and no call is sent without its result: the provider checks that (L4). Once
    everything is restored, the request is the client's own but for commands and replies."""
    chance, client = random.Random(seed), completions.client
    client.headers = client.headers if seed % 2 else {}
    client.repeat = as_it_came if seed % 4 < 2 else otherwise
    commands = list[str]()
    for number in range(14):
        client.say(chance.choice(["READ ", "", ""]) + f"prompt {number}")
        what = chance.choice(["forget", "forget", "restore", "evict", "command", "summary"])
        if what == "command":
            commands.append(chance.choice([":context", f":mark M{number}", ":undo"]))
            client.say(commands[-1])
        else:
            operate(completions.agent, chance, what, ("filter", "evict", "drop"))
    agent = completions.agent
    operations = [each for each in agent.events(0, 1000) if each.kind in ("filter", "evict", "drop", "undo", "summary")]
    assert operations
    assert {each.actor for each in operations} == {"human"}
    agent.context()
    for each in reversed(operations):
        with suppress(CommandError):  # it may be undone already
            agent.do(f"/restore {each.id}")
    client.say("last")
    own, skip = list[str](), 0
    for message in client.messages[:-1]:
        said = message["content"]
        local = isinstance(said, str) and message["role"] == "user" and said in commands
        skip = 2 if local else skip
        if not skip:
            own.append(json.dumps(message))
        skip = max(0, skip - 1)
    assert [json.dumps(each) for each in completions.upstream.asked[-1].body["messages"][1:]] == own
