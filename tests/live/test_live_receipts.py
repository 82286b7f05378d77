"""Receipts and previews of a live session, against what the provider then measures (SPEC 5.7)."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import codex_client
import pytest
from claude_client import BOUND, FREE, REMINDER, ClaudeRunning, Model
from codex_client import CodexRunning, spoken
from plan import Answer, Fail, Reply, Say, Stalled
from running import entered
from test_queued_prompts import asks, steered
from wire_anthropic import AnthropicWire
from wire_bound import BoundWire

from foldmark.core.assembly.caching import common_length
from foldmark.core.codec import stored_time
from foldmark.core.errors import CommandError
from foldmark.core.request import Usage
from foldmark.live.status import statuses
from foldmark.log import Agent
from foldmark.operations.decide import exactly
from foldmark.request.usage import usage_data


class Measured(NamedTuple):
    """A request as a provider measures it: its tokens, those that the cache held, and its thinking blocks."""

    tokens: int
    read: int
    thinking: int


class Kept:
    """What a provider keeps: the beginning of every request, byte by byte. It counts `per_token` bytes as a token."""

    per_token = 3.1

    def __init__(self) -> None:
        self.kept: list[bytes] = []
        self.measured: list[Measured] = []

    def measure(self, text: bytes, thinking: int = 0) -> Usage:
        read = max((common_length(text, each) for each in self.kept), default=0)
        tokens, read = round(len(text) / self.per_token), round(read / self.per_token)
        self.kept.append(text)
        self.measured.append(Measured(tokens, read, thinking))
        return Usage(fresh=0, cache_read=read, cache_write=tokens - read, output=20)


class Measuring(Model, Kept):
    """A model whose provider measures. Answers and calls differ in length."""

    def __init__(self, wire: AnthropicWire) -> None:
        Model.__init__(self, wire)
        Kept.__init__(self)

    def text(self, body: Any) -> bytes:
        """Return the bytes that count."""
        text = json.dumps([body["tools"], *body["messages"]], ensure_ascii=False).encode()
        return re.sub(rb', "cache_control": \{[^{}]*\}', b"", text)

    def __call__(self, body: Any) -> Answer:
        fails = self.fails.pop() if self.fails else None
        if isinstance(fails, Fail):
            return fails
        thinking = sum(block["type"] == "thinking" for each in body["messages"] for block in each["content"])
        usage = self.measure(self.text(body), thinking)
        if fails is not None:
            return fails
        made = super().__call__(body)
        assert isinstance(made, Reply)
        said = [
            Say(("I see it, " * (self.asked % 5 * 20) + "so I answer.",)) if isinstance(each, Say) else each
            for each in made.parts
        ]
        return made._replace(parts=tuple(said), usage=usage)


class MeasuredRunning(ClaudeRunning):
    """A client whose provider measures."""

    model: Measuring

    def __init__(self, folder: Path, wire: AnthropicWire) -> None:
        super().__init__(folder, wire)
        self.model = self.upstream._answering = Measuring(wire)
        self.client.tools = [{**each, "description": "Reads files. " * 150} for each in self.client.tools]

    def compare(self, command: str) -> None:
        """Carry out a command, and compare its preview and its receipt with the next request."""
        agent, before = self.agent, self.model.measured[-1]
        of = self.compare_of(agent, command, lambda: self.client.say("Go on."), before.thinking + 1)
        assert of == before.tokens

    def compare_of(self, agent: Agent, command: str, go_on: Callable[[], object], thinking: int) -> int:
        """Do the same for a next request that `go_on` makes, and that would hold so many blocks of thinking without the
        command. Return the tokens of the cached prompt in the receipt."""
        agent.context()
        preview = agent.do(f"{command} --preview").data if not command.startswith("/restore") else {}
        before = self.model.measured[-1]
        agent.context()
        receipt = agent.do(command).data
        go_on()
        after = self.model.measured[-1]
        shares = (100 * receipt["cached_prefix"]["kept"] / before.tokens, 100 * after.read / before.tokens)
        assert abs(shares[0] - min(100, shares[1])) < 3, command
        assert receipt["cached_prefix"]["of"] == pytest.approx(before.tokens, rel=0.005), command
        assert abs(receipt["after"]["tokens"] / after.tokens - 1) < 0.05, command
        if self.client.model == BOUND:
            change = receipt.get("thinking", {"lost": 0, "returned": 0})
            assert thinking - change["lost"] + change["returned"] == after.thinking, command
        if preview:
            assert preview["next"]["tokens"] == receipt["after"]["tokens"]
            assert preview["cached_prefix"] == receipt["cached_prefix"]
        return int(receipt["cached_prefix"]["of"])

    def results(self) -> list[int]:
        return [event.id for event in self.agent.context().messages if event.kind == "tool_result"]

    def turns(self) -> list[int]:
        return [turn.id for turn in self.agent.context().turns(100) if turn.id is not None]

    def last(self) -> int:
        return [
            event.id
            for event in self.agent.events(0, 1000)
            if event.kind in ("drop", "clear", "undo", "evict", "rewind", "restore")
        ][-1]


@pytest.fixture(params=[False, True], ids=["free", "bound"])
def measured(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MeasuredRunning]:
    with entered(MeasuredRunning(tmp_path, BoundWire() if request.param else AnthropicWire())) as running:
        running.client.model = BOUND if request.param else FREE
        yield running


def test_a_receipt_is_what_the_provider_measures(measured: MeasuredRunning) -> None:
    client = measured.client
    for number in range(12):
        if number == 6:
            client.say(":mark HALF")
        client.say(f"{'READ' if number % 3 else 'Say'} part {number}: " + "some words of a prompt " * (number * 7 % 20))
    turns, results = measured.turns(), measured.results()
    measured.compare(f"/context drop {turns[4]}")
    measured.compare(f"/context evict {results[-1]}")
    measured.compare(f"/context drop {turns[8]} {turns[9]}")
    measured.compare(f"/restore {measured.last()}")
    measured.compare(f"/context evict {results[0]} {results[1]}")
    measured.compare("/undo")
    measured.compare(f"/restore {measured.last()}")
    measured.compare(f"/context drop {turns[0]}")
    measured.compare("/rewind HALF")
    measured.compare(f"/restore {measured.last()}")
    measured.compare("/clear")


@pytest.mark.parametrize("when", ["in the answer", "after it was aborted", "after it failed"])
def test_a_request_without_an_answer(measured: MeasuredRunning, when: str) -> None:
    """The provider keeps it unless it has refused it."""
    client, model = measured.client, measured.model
    for number in range(8):
        client.say(f"READ part {number}: " + "some words of a prompt " * (number * 7 % 20))
    turns, agent = measured.turns(), measured.agent
    agent.context()
    dropped = agent.do(f"/context drop {turns[2]}").data
    thinking = model.measured[-1].thinking + 1 - dropped.get("thinking", {"lost": 0})["lost"]
    asked = [{"type": "text", "text": "Hold on. " + "It is a long prompt. " * 200}]
    client.messages.append({"role": "user", "content": asked})

    def compare() -> None:
        measured.sessions.settle()
        agent.context()
        measured.compare_of(agent, f"/context drop {turns[6]}", go_on, thinking)

    def go_on() -> None:
        asked.append({"type": "text", "text": "Go on."})
        client.messages.append({"role": "assistant", "content": client.ask(client.messages)})

    if when == "after it failed":
        model.fails.append(Fail("busy"))
        with pytest.raises(AssertionError):
            client.ask(client.messages)
        measured.settle()
        compare()
    else:
        model.fails.append(Stalled((Say(("HELD",)),)))
        with client.answering(client.messages, "HELD"):
            if when == "in the answer":
                compare()
        measured.settle()
        if when == "after it was aborted":
            compare()
    measured.compare(f"/restore {measured.last()}")


def test_a_request_whose_edit_failed(measured: MeasuredRunning) -> None:
    """The provider keeps it as it went out: with everything that the operations take out."""
    client = measured.client
    for number in range(8):
        client.say(f"READ part {number}: " + "some words of a prompt " * (number * 7 % 20))
    turns, result = measured.turns(), measured.results()[-1]
    measured.compare(f"/context drop {turns[1]}")
    measured.agent.operate(lambda moment, at: exactly(moment, at, [result]))
    parted = measured.agent.events(0, 1000)[-1].id
    whole = []
    for _ in range(2):
        before = statuses(measured.log)[0].ledger
        client.say("On.")
        measured.settle()
        (status,) = statuses(measured.log)
        whole.append(status.ledger.saved - before.saved)
    assert whole == [0, 0]
    assert sum(each.share.saved for each in status.edits) == status.ledger.saved
    assert status.prevented == 2
    if client.model == BOUND:  # the thinking of the next request is not that of this one
        measured.agent.do(f"/restore {parted}")
        client.say("On.")
    else:
        measured.compare(f"/restore {parted}")
    measured.compare(f"/context drop {turns[3]}")
    (status,) = statuses(measured.log)
    assert sum(each.share.saved for each in status.edits) == status.ledger.saved > before.saved


@pytest.mark.parametrize("measured", [False], indirect=True)
@pytest.mark.parametrize("prompt", [":context", "Go on."])
def test_messages_that_the_client_has_rewritten(measured: MeasuredRunning, prompt: str) -> None:
    """Those that it no longer sends were in the newest request once, and are not inserted into it."""
    client = measured.client
    for number in range(8):
        client.say(f"READ part {number}: " + "some words of a prompt " * (number * 7 % 20))
    turns = measured.turns()
    for block in client.messages[-2]["content"]:
        block["content"] += " More of it."
    client.say(prompt)
    measured.compare(f"/context drop {turns[2]}")


@pytest.mark.parametrize("measured", [False], indirect=True)
@pytest.mark.parametrize(("ttl", "minutes"), [("1h", 50), ("", 4)])
def test_a_request_is_cached_as_long_as_it_asks_for(measured: MeasuredRunning, ttl: str, minutes: int) -> None:
    client, clock, late = measured.client, measured.log.clock, timedelta()
    client.ttl = ttl
    measured.log.clock = lambda: (stored_time(clock()) + late).isoformat()
    for number in range(8):
        client.say(f"READ part {number}: " + "some words of a prompt " * (number * 7 % 20))
    turns = measured.turns()
    measured.compare(f"/context drop {turns[1]}")
    late += timedelta(minutes=minutes)
    client.say("On.")
    measured.compare(f"/restore {measured.last()}")
    late += timedelta(minutes=minutes)
    measured.compare(f"/context drop {turns[0]}")
    measured.settle()
    (status,) = statuses(measured.log)
    assert status.edits[-1].share.again > 1000
    late += timedelta(minutes=2 * minutes)
    measured.model.kept.clear()
    measured.agent.context()
    measured.agent.do(f"/context drop {turns[2]}")
    client.say("On.")
    measured.settle()
    (status,) = statuses(measured.log)
    assert status.edits[-1].share.again == 0


def test_a_system_message_behind_a_command(measured: MeasuredRunning) -> None:
    """It is sent behind the next prompt, and moves when that leaves."""
    client = measured.client
    for text in ("one", "READ two"):
        client.say(text)
    client.say(":mark HALF", "You are in plan mode. " * 100)
    client.messages.append({"role": "user", "content": [REMINDER]})
    client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
    client.say(":context", "You are still in plan mode. " * 100)
    for text in ("three", "READ four"):
        client.say(text)
    measured.compare("/rewind HALF")
    measured.compare(f"/restore {measured.last()}")


def test_the_ledger_of_a_session(measured: MeasuredRunning) -> None:
    client, model = measured.client, measured.model
    for number in range(6):
        client.say(f"READ part {number}")
    turns = measured.turns()
    measured.agent.context()
    measured.agent.do(f"/context drop {turns[1]}")
    measured.agent.do(f"/context evict {measured.results()[-1]}")
    model.fails.append(Fail("request"))
    before = model.measured[-1]
    with pytest.raises(AssertionError, match="max_tokens"):
        client.say("One.")
    client.messages.pop()
    out = []
    for text in ("Two.", "Three."):
        client.say(text)
        whole = len(model.text({"tools": client.tools, "messages": client.messages[:-1]})) / model.per_token
        out.append(whole - model.measured[-1].tokens)
    first = model.measured[-2]
    again = (first.tokens - first.read) - (first.tokens + out[0] - before.tokens)
    measured.settle()
    (status,) = statuses(measured.log)
    ledger, seen = status.ledger, model.measured
    assert (ledger.answers, ledger.refused, ledger.requests) == (len(seen), 1, len(seen) + 1)
    assert (ledger.read, ledger.input) == (sum(each.read for each in seen), sum(each.tokens for each in seen))
    assert status.taken_out == pytest.approx(out[-1], rel=0.05)
    assert ledger.saved == pytest.approx(sum(out), rel=0.05)
    assert ledger.again == pytest.approx(again, rel=0.05)
    assert ledger.saved_dollars > 0
    data = status.data()
    assert data["ledger"]["requests"] == ledger.requests
    assert f"{len(seen)} answers" in status.line
    assert "1 request refused" in status.line
    measured.end()  # another gateway goes on with the sums
    measured.begin(measured.gateway.port, measured.gateway.secret)
    client.say("Four.")
    measured.settle()
    (later,) = statuses(measured.log)
    assert (later.ledger.answers, later.ledger.refused) == (len(model.measured), 1)


def test_what_each_operation_saves_and_costs(measured: MeasuredRunning) -> None:
    client, model = measured.client, measured.model
    for number in range(6):
        client.say(f"READ part {number}")
    turns = measured.turns()
    done, out, again = list[int](), list[float](), list[float]()
    for command in (f"/context drop {turns[1]}", f"/context evict {measured.results()[-1]}", "/restore"):
        measured.agent.context()
        before = model.measured[-1]
        measured.agent.do(f"{command} {done[0]}" if command == "/restore" else command)
        done.append(measured.last())
        client.say("On.")
        whole = len(model.text({"tools": client.tools, "messages": client.messages[:-1]})) / model.per_token
        newest = model.measured[-1]
        out.append(whole - newest.tokens)
        unchanged = newest.tokens + (out[-1] - (out[-2] if len(out) > 1 else 0))
        again.append((newest.tokens - newest.read) - (unchanged - before.tokens))
    measured.end()  # another gateway goes on with the shares
    measured.begin(measured.gateway.port, measured.gateway.secret)
    client.say("On.")
    measured.settle()
    (status,) = statuses(measured.log)
    ledger, edits = status.data()["ledger"], status.data()["ledger"]["edits"]
    assert [each["operation"] for each in edits] == done
    assert [each["kind"] for each in edits] == ["drop", "evict", "restore"]
    drop, evict, _ = edits
    bound = client.model == BOUND  # the thinking since the drop cannot be sent after the restore
    assert (drop["out"] > 0) == bound
    assert drop["out"] + evict["out"] == pytest.approx(out[2], rel=0.05)
    if not bound:  # else the same thinking is lost by both
        assert evict["out"] == pytest.approx(out[1] - out[0], rel=0.05)
        assert drop["saved"] == pytest.approx(2 * out[0], rel=0.05)
    assert drop["saved"] + evict["saved"] == pytest.approx(sum(out) + out[2], rel=0.05)
    assert [each["again"] for each in edits] == pytest.approx([max(0, each) for each in again], rel=0.05, abs=10)
    for name in ("saved", "again", "saved_dollars", "again_dollars"):
        assert sum(each[name] for each in edits) == pytest.approx(ledger[name])
    assert evict["saved_dollars"] > 0
    assert status.lines[0] == status.line
    assert f"saved ~{drop['saved']:,} tokens" in status.lines[1]
    client.messages = [{"role": "user", "content": [{"type": "text", "text": "A summary of all that."}]}]
    client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
    client.say("After the client's own compaction.")
    measured.settle()
    (later,) = statuses(measured.log)
    assert max(each.share.out for each in later.edits) < 5
    assert later.taken_out < 50


def test_the_ledger_of_a_session_that_an_older_version_recorded(running: ClaudeRunning) -> None:
    agent = running.log.agent("older")
    agent.record("record", data={"live": {"session": "s", "wire": "anthropic"}})
    for number in range(250):
        agent.record("usage", data=usage_data("anthropic", FREE, Usage(1, 2, 3, 4), None))
        agent.record("record", data={"live": {"prevented": number // 100, "kept": [], "added": []}})
    running.client.say("One.")
    older = next(each for each in statuses(running.log) if each.name == "older")
    assert (older.answers, older.ledger.read, older.prevented) == (250, 500, 2)


def test_what_is_shown_is_what_the_agent_sends(measured: MeasuredRunning) -> None:
    client = measured.client
    long = "a long prompt " * 400
    for text in (long, "READ two", "READ three"):
        client.say(text)
    turns, results = measured.turns(), measured.results()
    agent = measured.agent
    agent.context()
    agent.do(f"/context drop {turns[1]}")
    agent.do(f"/context evict {results[-1]}")
    shown = agent.do("/context show")
    client.say("four")
    assert shown.data["request"]["tokens"] == pytest.approx(measured.model.measured[-1].tokens, rel=0.05)
    assert "exact" not in shown.text
    texts = measured.texts()[:-1]
    for kind, text in texts:
        if kind in ("user", "assistant", "result") and "<system-reminder>" not in text:
            assert text.strip() in shown.text.replace("\n         ", "\n")
    assert "READ two" not in shown.text
    agent = measured.agent
    agent.context()
    assert "It is not in the agent's next request: taken out by drop" in agent.do(f"/context explain {turns[1]}").text
    evicted = agent.do(f"/context explain {results[-1]}").text
    assert "It is in the agent's next request, as a placeholder: evicted by" in evicted
    sent = agent.do("/context sent")
    assert [row["input"] for row in sent.data["sent"]] == [each.tokens for each in measured.model.measured]
    with pytest.raises(CommandError, match="not the bytes of its requests"):
        agent.do("/context sent 3")
    assert agent.do("/context count").data["estimate"] > measured.model.measured[-1].tokens


class MeasuringCodex(codex_client.Model, Kept):
    """A model of OpenAI whose provider measures what it reads of the items."""

    def __init__(self) -> None:
        codex_client.Model.__init__(self)
        Kept.__init__(self)

    def __call__(self, body: Any) -> Answer:
        passing = ("id", "status", codex_client.ADDED)
        items = [{name: value for name, value in item.items() if name not in passing} for item in body["input"]]
        usage = self.measure(json.dumps([body["tools"], *items]).encode())
        made = super().__call__(body)
        return made._replace(usage=usage) if isinstance(made, Reply) else made


def test_a_receipt_of_codex_that_was_steered(codex: CodexRunning) -> None:
    """Codex aborts an answer when a command is typed. What it adds before the first prompt keeps its place."""
    model = MeasuringCodex()
    codex.model = codex.upstream._answering = model
    client = codex.client
    client.items[0]["content"][0]["text"] = "You are in a folder. " * 300
    for number in range(6):
        client.say(f"READ part {number}: " + "some words of a prompt " * (number * 7 % 20))
    turns = [turn.id for turn in codex.agent.context().turns(100)]
    for turn in (turns[1], turns[4], turns[0]):
        client.items.append(spoken("user", "please HOLD " + "for a long time " * 50))
        client.items += steered(codex, Stalled((Say(("HELD",)),)), "HELD")
        before = model.measured[-1]
        reply, _ = asks(codex, f":drop {turn}")
        after = model.measured[-1]
        found = re.search(r"(\d+)% of the cached prompt holds · context [^(\n]*\(~([\d,]+) tokens\)", reply)
        assert found is not None, reply
        assert abs(int(found[1]) - 100 * after.read / before.tokens) < 3, (reply, before, after)
        assert int(found[2].replace(",", "")) == pytest.approx(after.tokens, rel=0.05)
