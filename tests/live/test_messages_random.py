"""Random sessions over Anthropic's Messages: whatever a client adds and whatever has left, the provider takes each
request, no command and no reply reaches a model, and after everything is restored the request is the client's own (SPEC
5.7). The provider checks the places of all blocks and messages, and the thinking where the model binds it."""

import json
import random
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from claude_client import BOUND, ClaudeRunning
from plan import Fail, Reply, Say, Stalled, Use
from random_operations import operate
from running import entered
from test_queued_prompts import HOOK, form
from wire_anthropic import SYSTEM_MESSAGES, AnthropicWire
from wire_bound import BoundWire

from foldmark.core.errors import CommandError
from sampled import DEEP, sampled

COMMANDS = (":context", ":mark M", ":undo", ":clear M", ":rewind", ":results", ":nonsense 4")
FORMS = ("system message", "result of 2.1.197", "result of 2.1.332", "blocks behind a result", "blocks of one message")
INTERRUPTED = "[Request interrupted by user]"
UNDONE = ("filter", "evict", "drop", "undo", "summary", "clear", "rewind")


class Chance:
    """A person and a client with random actions."""

    def __init__(self, running: ClaudeRunning, seed: int) -> None:
        self.running, self.client, self.chance, self.made = running, running.client, random.Random(seed), 0

    def step(self) -> None:
        self.made += 1
        deeds = [self.ask, self.ask, self.command, self.operate, self.operate, self.queue, self.fail, self.resume]
        self.chance.choice([*deeds, self.note, self.remind, self.hook, self.rewrite, self.abort])()

    def ask(self) -> None:
        notes = [f"note {self.made}.{at}" for at in range(self.chance.choice([0, 0, 1, 2]))]
        self.client.say(self.chance.choice(["READ ", "", ""]) + f"prompt {self.made}", *notes)

    def command(self) -> None:
        notes = [f"note {self.made}"] * self.chance.choice([0, 1])
        self.client.say(self.chance.choice(COMMANDS), *notes)

    def queue(self) -> None:
        """Type prompts while the agent works."""
        client, call = self.client, f"toolu_q{self.made}"
        client.headers["anthropic-beta"] = SYSTEM_MESSAGES
        command = self.chance.choice([":context", f":mark Q{self.made}", ":undo", "queued gamma"])
        text = json.dumps(form(self.chance.choice(FORMS), command=command)).replace("toolu_2", call)
        text = re.sub(r', "cache_control": \{[^}]*\}', "", text)  # a client moves its mark on
        if call in text:
            client.messages.append({"role": "user", "content": [{"type": "text", "text": f"use {self.made}"}]})
            self.running.model.fails = [Reply((Say(("Running.",)), Use(call, "Read", {})), stop="calls")]
            self.answer()
        client.messages += json.loads(text)
        self.answer()

    def answer(self) -> None:
        self.client.messages.append({"role": "assistant", "content": self.client.ask(self.client.messages)})

    def fail(self) -> None:
        """Send a prompt whose answer fails, and the next prompt in one message with it."""
        self.running.model.fails.append(Fail("busy"))
        content = [{"type": "text", "text": f"failed {self.made}"}]
        self.client.messages.append({"role": "user", "content": content})
        with suppress(AssertionError):
            self.client.ask(self.client.messages)
        content.append({"type": "text", "text": f"again {self.made}"})
        self.answer()

    def note(self) -> None:
        """Put a message without text between the others, which sets something."""
        self.client.headers["anthropic-beta"] = SYSTEM_MESSAGES
        self.client.messages.append({"role": "user", "content": [{"type": "text", "text": f"set {self.made}"}]})
        self.client.messages.append({"role": "system", "content": [], "output_config": {"effort": "low"}})
        self.answer()

    def remind(self) -> None:
        """Add a text of the client's own before and behind a prompt."""
        reminder = {"type": "text", "text": f"<system-reminder>\n{self.made}\n</system-reminder>"}
        blocks = [reminder, {"type": "text", "text": f"reminded {self.made}"}, reminder]
        self.client.messages.append({"role": "user", "content": blocks[self.chance.choice([0, 1]) :]})
        self.answer()

    def hook(self) -> None:
        """Move what a hook says about a result into the result, or behind it."""
        for content in self.results():
            behind = {"type": "text", "text": HOOK}
            said = content[0]["content"].removesuffix(f"\n\n{HOOK}")
            if said != content[0]["content"]:
                content[:] = [{**content[0], "content": said}, *content[1:], behind]
            else:
                content[:] = [each for each in content if each.get("text") != HOOK]
                content[0] = {**content[0], "content": f"{said}\n\n{HOOK}"}

    def rewrite(self) -> None:
        for content in self.results():
            content[0] = {**content[0], "content": f"rewritten {self.made}"}

    def results(self) -> list[list[dict[str, Any]]]:
        """Return the content of a random message with results, if there is one. A client that rewrites one for a model
        that binds thinking is refused without Foldmark, too."""
        if self.client.model == BOUND:
            return []
        users = [each["content"] for each in self.client.messages if each["role"] == "user"]
        found = [each for each in users if each[0]["type"] == "tool_result" and isinstance(each[0]["content"], str)]
        return [self.chance.choice(found)] if found else []

    def abort(self) -> None:
        """Abort an answer before a prompt that is typed while it arrives, and keep what has come, or take it back."""
        command = self.chance.choice([":context", f":mark A{self.made}", ":undo"])
        texts = [{"type": "text", "text": each} for each in (f"{command}\n", f"aborted {self.made}")]
        self.client.messages.append({"role": "user", "content": texts})
        self.running.model.fails = [Stalled((Say(("It begins. ",)),))]
        with self.client.answering(self.client.messages, "It begins. "):
            pass
        if self.chance.choice([True, False]):
            self.client.messages.pop()
        else:
            texts += [{"type": "text", "text": each} for each in (INTERRUPTED, f"after {self.made}")]
            self.answer()

    def resume(self) -> None:
        self.running.end()
        self.running.begin(self.running.gateway.port, self.running.gateway.secret)

    def operate(self) -> None:
        what = self.chance.choice(["forget", "forget", "restore", "evict", "drop", "summary"])
        operate(self.running.agent, self.chance, what, UNDONE, systems=False)


@pytest.mark.parametrize("seed", sampled(range(40), 2))
def test_every_request_is_valid(tmp_path: Path, seed: int) -> None:
    bound = seed % 2 == 1
    with entered(ClaudeRunning(tmp_path, BoundWire() if bound else AnthropicWire())) as running:
        running.client.model = BOUND if bound else running.client.model
        chance = Chance(running, seed)
        running.client.say("The first.", "Agents: none.")
        for _ in range(25 if DEEP else 14):
            chance.step()
        agent = running.agent
        operations = [each for each in agent.events(0, 1000) if each.kind in UNDONE and each.actor == "human"]
        agent.context()
        for each in reversed(operations):
            with suppress(CommandError):  # it may be undone already
                agent.do(f"/restore {each.id}")
        running.client.say("The last.")
        sent: list[Any] = [each.body["messages"] for each in running.upstream.requests]
        text = json.dumps(sent)
        assert not [each for each in (*COMMANDS, ":mark Q", ":mark A") if each in text]
        assert "Checkpoint" not in text
        assert "nothing taken out" not in text
        typed = [each for each in running.texts() if each[0] == "user" and "prompt " in each[1]]
        own = running.upstream.wire.texts({"messages": running.client.messages})
        assert typed == [each for each in own if each in typed]
        assert len(typed) == sum(kind == "user" and "prompt " in said for kind, said in own)
