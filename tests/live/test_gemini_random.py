"""Random sessions of a client that speaks generateContent: whatever it does and whatever has left, each request is
valid, and contains no command to Foldmark and no reply to one (SPEC 5.7)."""

import json
import random
import re
from contextlib import suppress
from typing import Any

import pytest
from gemini_client import CONTEXT, UNSIGNED, Content, GeminiRunning
from random_operations import operate

from foldmark.core.errors import CommandError
from sampled import DEEP

_COMMANDS = re.compile(r":(context|mark|drop|undo|restore)\b|nothing taken out|Checkpoint|left the context|came back")


def text(said: str) -> Content:
    return {"role": "user", "parts": [{"text": said}]}


class Chance:
    """A person and a client with random actions. With odd seeds, the person also restores messages that the client
    itself has removed."""

    def __init__(self, gemini: GeminiRunning, seed: int) -> None:
        self.gemini, self.client, self.chance = gemini, gemini.client, random.Random(seed)
        self.made = 0
        self.brings_back = seed % 2 == 1

    def step(self) -> None:
        ask = self.ask
        deeds = [ask, ask, ask, self.command, self.operate, self.operate, self.go_back, self.compact, self.beside]
        self.chance.choice([*deeds, self.resume, self.interrupt])()

    def ask(self) -> None:
        self.made += 1
        number = self.made if self.chance.random() < 0.8 else 0  # some prompts are repeated
        self.client.say(self.chance.choice(["READ ", "", ""]) + f"prompt {number}")

    def command(self) -> None:
        turns = [0, *(event.turn_id for event in self.gemini.agent.context().messages if event.kind == "user")]
        self.client.say(self.chance.choice([":context", f":mark M{self.made}", f":drop {self.chance.choice(turns)}"]))

    def operate(self) -> None:
        what = self.chance.choice(["forget", "restore", "evict"])
        operate(self.gemini.agent, self.chance, what, ("filter", "evict", "drop"), systems=self.brings_back)

    def prompts(self) -> list[int]:
        """Return the positions of the prompts in the client's transcript."""
        contents = self.client.contents
        return [at for at, each in enumerate(contents) if each["role"] == "user" and "text" in each["parts"][-1]]

    def go_back(self) -> None:
        if len(places := self.prompts()) > 2:
            del self.client.contents[self.chance.choice(places[2:]) :]

    def interrupt(self) -> None:
        """Send a prompt that the client then takes back."""
        before = len(self.client.contents)
        self.client.say("WAIT")
        del self.client.contents[before:]

    def compact(self) -> None:
        if len(places := self.prompts()) > 2:
            place = self.chance.choice(places[2:])
            self.client.aside([*self.client.contents[:place], text("Summarize.")])
            kept = self.client.contents[place:]
            self.made += 1
            begun: Content = {"role": "user", "parts": [{"text": CONTEXT}, {"text": f"<state_snapshot>{self.made}"}]}
            thanks = {"role": "model", "parts": [{"text": "Got it. Thanks for the additional context!"}]}
            self.client.contents = [begun, thanks, *kept]
            self.ask()  # to resume a compacted session without a new prompt begins another session

    def beside(self) -> None:
        contents = self.client.contents[self.chance.choice(self.prompts()) :]
        self.client.aside([*contents, text("Where are we?")])

    def resume(self) -> None:
        """Resume in another process, where the signatures are lost."""
        self.gemini.again(f"{self.made:032}")
        for content in self.client.contents:
            for part in content["parts"]:
                if "thoughtSignature" in part:
                    part["thoughtSignature"] = UNSIGNED


@pytest.mark.parametrize("seed", range(50 if DEEP else 3))
def test_every_request_is_valid(gemini: GeminiRunning, seed: int) -> None:
    chance, client = Chance(gemini, seed), gemini.client
    client.say("The first.")
    for _ in range(40 if DEEP else 25):
        chance.step()
    agent = gemini.agent
    for event in agent.events(0, 1000):
        if event.kind in ("filter", "evict", "drop") and event.actor != "system":
            with suppress(CommandError):  # it may be undone already
                agent.do(f"/restore {event.id}")
    client.say("The last.")
    sent: list[Any] = [each.body["contents"] for each in gemini.upstream.requests]
    assert not _COMMANDS.search(json.dumps(sent))
    commands = [at for at, each in enumerate(client.contents) if each["parts"][-1].get("text", "").startswith(":")]
    own = [each for at, each in enumerate(client.contents) if at not in commands and at - 1 not in commands]
    wanted, found = gemini.upstream.wire.texts({"contents": own[:-1]}), iter(gemini.texts())
    assert all(each in found for each in wanted)
    assert chance.brings_back or gemini.texts() == wanted
