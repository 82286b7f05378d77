"""Random edits of a simulated client: it sends what the context shows, whatever was done before (SPEC 8)."""

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from mod_session import OPENING, contents
from simulated_client import SimulatedClient

import foldmark
from answering import answered_by
from foldmark.core import selections
from foldmark.core.assembly.eviction import client_placeholder, in_place
from foldmark.log import Log
from foldmark.mod.conversation import ModConversation, open_for_mod
from sampled import DEEP

SESSION = "5e55104e-0000-4000-8000-000000000001"
FREE, BOUND = "claude-sonnet-4-6", "claude-fable-5-1"
TOPICS = ("kites", "canals", "lanterns")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with foldmark.open(tmp_path / "mod.db", settings={}) as log:
        open_for_mod(log)
        answered_by(lambda asked: f"A summary of {len(asked.body['messages'])} messages.")
        yield log


class Edited:
    """A simulated client with the mod, and what is done in it."""

    def __init__(self, log: Log, seed: int, model: str) -> None:
        self.log, self.random, self.model = log, random.Random(seed), model
        self.client, self.said = SimulatedClient(), list[str]()
        self.mod = ModConversation(log, SESSION, "/work/app")

    def step(self, number: int) -> None:
        """Do one random thing, and compare."""
        chance, agent = self.random.random(), self.mod.agent
        shown = agent.context().messages
        turns = sorted({each.turn_id for each in shown if each.turn_id and each.kind == "user"})
        results = [each.id for each in shown if each.kind == "tool_result"]
        with agent.reading() as (moment, _):
            edits = [each.id for each in selections.operations(moment, agent.id) if each.actor != "system"]
        if chance < 0.4:
            topic = self.random.choice(TOPICS)
            text = self.random.choice((f"prompt {number} about {topic}", "go on"))
            self.turn(text, self.random.choice((0, 0, 1, 2)))
        elif chance < 0.55 and turns:
            self.do(f"drop {self.random.choice(turns)}")
        elif chance < 0.65 and results:
            self.do(f"evict {self.random.choice(results)}")
        elif chance < 0.8 and edits:
            self.do(f"restore {self.random.choice(edits)}")
        elif chance < 0.86:
            self.do("undo")
        elif chance < 0.9:
            first, last = sorted(self.random.choices(turns or [0], k=2))
            whole = [f"summarize {first}..{last}"] if first < last else []
            others = ["rewind"] if number > 5 else []
            self.do(self.random.choice((f"mark M{number}", "clear", *others, *whole)))
        elif chance < 0.95:
            self.mod = ModConversation(self.log, SESSION, "/work/app")  # another service
            self.client.resume()
            self.said.append("again")
            self.take()
        elif len(turns) > 1:
            self.client.summarize()
            self.said.append("summarize")
            self.take()
        self.check()

    def turn(self, text: str, calls: int = 0) -> None:
        """Send a prompt, and record the answer."""
        self.said.append(f"{text} ({calls})")
        self.client.turn(text, calls)
        self.take()

    def take(self) -> None:
        usage = {"input_tokens": 3000 + 10 * len(self.client.rows), "output_tokens": 5}
        self.mod.take(self.client.messages(), self.model, usage, 2000)

    def do(self, line: str) -> None:
        """Execute a command, and let the client install what it changes."""
        self.said.append(f"{line}: {self.mod.do(line).splitlines()[0][:60]}")
        for _ in range(2):
            messages = self.client.messages()
            if not self.mod.is_pending(messages, self.model):
                break
            rows = self.mod.installed(self.client.handed(), messages, self.model)
            assert rows is not None, self.said
            self.client.install(rows)
            self.take()

    def check(self) -> None:
        """Compare what the client sends with the context."""
        messages = self.client.messages()
        sent = [each for each in contents(messages) if each != ("user", OPENING)]
        agent = self.mod.agent
        with agent.reading() as (_, at):
            evicted = at.fold.evicted
        wanted = []
        for each in in_place(agent.context().messages):
            text = client_placeholder(len(each.content)) if each.id in evicted else each.content
            kind = {"tool_call": "call", "tool_result": "result", "summary": "assistant"}.get(each.kind, each.kind)
            if each.kind != "client" and text.strip():
                wanted.append((kind, str(each.call_id) if kind == "call" else text.strip()))
        assert sent == wanted, "\n".join(self.said)
        assert not self.mod.is_pending(messages, self.model), "\n".join(self.said)
        roles = [each["role"] for each in messages]
        assert all(one != other for one, other in pairwise(roles)), "\n".join(self.said)


@pytest.mark.parametrize("seed", range(400 if DEEP else 6))
@pytest.mark.parametrize("model", [FREE, BOUND])
def test_the_client_sends_what_the_context_shows(log: Log, seed: int, model: str) -> None:
    edited = Edited(log, seed, model)
    edited.turn("begin", 1)
    for number in range(30):
        edited.step(number)


def test_an_answer_is_not_first_where_only_its_prompt_is_forgotten(log: Log) -> None:
    """The client's own texts are in the first prompt, and go on to the next one."""
    edited = Edited(log, 0, FREE)
    edited.turn("about lanterns")
    edited.turn("about kites")
    (prompt,) = [each.id for each in edited.mod.agent.context().messages if each.content == "about lanterns"]
    edited.mod.agent.apply_filter("forget", [prompt])
    edited.do("help")  # installs what is pending
    edited.check()
    assert contents(edited.client.messages())
    assert next(iter(edited.client.messages()))["content"][-1] == {"type": "text", "text": OPENING}
