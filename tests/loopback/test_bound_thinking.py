"""Thinking that is bound to the content before it (SPEC 5.7), against a server that checks it as documented."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from plan import Part, Reply, Say, Think, Use
from server import Loopback
from talking import Seen, connect, events, own_tools, use
from wire_bound import BoundWire

import foldmark
from answering import answered_by
from foldmark import Agent, Event
from foldmark.core import selections
from foldmark.core.request import Request, Waiting
from foldmark.operations.effects import Asking
from foldmark.operations.receipts import Receipt
from foldmark.rendering import result_text
from foldmark.request.recorded import newest_requests
from foldmark.runtime.loop import turn
from foldmark.sending.rebuilding import rebuilt
from sampled import DEEP
from stored import stored

YES = Asking(lambda question: True)
RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "claude" / "episodic-memory-large.jsonl"
_QUESTION = re.compile(r"Question (\d+): ")


class Played:
    """A conversation with a model that thinks before each answer. Its calls return `results` in order."""

    def __init__(self, agent: Agent, results: list[str], wire: BoundWire) -> None:
        self.agent, self.wire, self.asked = agent, wire, 0
        self._results = iter(results)
        self.server = Loopback(wire, self._answer)
        own_tools(agent.log, {"look": lambda args: next(self._results)})

    def say(self, calls: int = 1, text: str = "go on") -> Seen:
        """Run a turn with this number of calls."""
        self.asked += 1
        seen = Seen()
        said = f"Question {self.asked}: {calls} calls. {text}"
        asyncio.run(turn(self.agent, connect(self.wire, self.server.url), said, seen.show))
        return seen

    @property
    def lost(self) -> set[str]:
        """The earlier thinking that the newest request's model did not see."""
        return (self.wire.taken[-2] | self.wire.made[-2]) - self.wire.taken[-1]

    def _answer(self, body: Any) -> Reply:
        if "compaction" in body:
            return Reply((Say(("They talked.",)),))
        texts = [
            (index, block["text"])
            for index, message in enumerate(body["messages"])
            for block in message["content"]
            if message["role"] == "user" and block["type"] == "text"
        ]
        at, question = next((i, text) for i, text in reversed(texts) if _QUESTION.search(text))
        number, wanted = re.findall(r"\d+", question[question.rindex("Question ") :])[:2]
        done = sum(block["type"] == "tool_use" for message in body["messages"][at:] for block in message["content"])
        think = Think(f"Thinking of {number}, step {done}.", self.wire.sign(body))
        if done >= int(wanted):
            state = f"\n\n### STATE\nGoal: {number}" if int(number) % 3 == 0 else ""
            return Reply((think, Say((f"Answer {number}.{state}",))))
        use_it = Use(f"call-{number}-{done}", "look", {"at": f"{number}.{done}"})
        if done % 2:
            return Reply((think, use_it), "calls")
        more: tuple[Part, ...] = (Say((f"Looking, {number}.",)), Think("On second thoughts.", self.wire.sign(body)))
        return Reply((think, *more, use_it), "calls")


@contextmanager
def played(results: list[str] | None = None, *, old: bool = False, policy: str = "steady") -> Iterator[Played]:
    with foldmark.open(":memory:", settings={}) as log:
        agent, wire = log.agent("default"), BoundWire(old=old)
        use(agent, wire)
        agent.do(f"/config set context_policy={policy}")
        agent.do("/config set tools=slash, look")
        play = Played(agent, results or [f"Result {number}." for number in range(1000)], wire)
        with play.server:
            yield play


def recorded() -> list[str]:
    """Return the tool results of a recorded session."""
    found = []
    for line in RECORDED.read_text().splitlines():
        content = json.loads(line).get("message", {}).get("content")
        for block in content if isinstance(content, list) else []:
            if block.get("type") == "tool_result" and isinstance(block["content"], str):
                found.append(block["content"])
    return found


def boundaries(agent: Agent) -> list[int]:
    """Return the boundary of each request, oldest first."""
    return [sent.plan.settled for sent in reversed(newest_requests(stored(agent.log), agent.id, 10**6))]


def made() -> list[str]:
    return [f"Result {number}: " + "some text of it. " * (number % 200) for number in range(400)]


@pytest.mark.parametrize("results", ["made", "recorded"])
def test_no_block_is_lost_between_boundaries(results: str) -> None:
    turns = 100 if DEEP else 20
    if results == "recorded" and not RECORDED.exists():
        pytest.skip("the recorded sessions are not here")
    with played(made() if results == "made" else recorded()) as play:
        play.agent.do(f"/context budget {100_000 if results == 'made' else 15_000 if DEEP else 6_000}")
        for number in range(turns):
            play.say(2 if number % 4 == 3 else 0)
        wire, at = play.wire, boundaries(play.agent)
        assert len(at) == len(wire.taken) == turns * 3 // 2
        assert not any(wire.entries)
        assert not play.server.refusals
        steps = 0
        for index in range(1, len(at)):
            lost = (wire.taken[index - 1] | wire.made[index - 1]) - wire.taken[index]
            steps += at[index] != at[index - 1]
            assert not lost or at[index] != at[index - 1], index
        assert bool(steps) == (results == "recorded")


HARMLESS = ("/pin {}", "/mark M", "/note Nothing else.", "/scratchpad edit A note.", "/fork")
DEEDS = (
    "/pin {}",
    "/unpin {}",
    "/context drop {}",
    "/restore",
    "/context evict {result}",
    "/restore",
    "/mark M",
    "/note Nothing else.",
    "/scratchpad edit A note.",
    "/summarize M",
    "/restore",
    "forget {}",
    "/restore",
    "remember {}",
    "/restore",
    "/model anthropic/claude-sonnet-5-5",
    "/model anthropic/claude-fable-5-1",
    "/model openai/gpt-5",
    "/model anthropic/claude-fable-5-1",
    "/config set truncate_recent=4000",
    "/system edit Be brief.",
    "/config set thinking=low",
    "/context window 5",
    "/context window 0",
    "/message remove {}",
    "/fork",
    "/undo",
    "/rewind M",
    "/clear",
    "/restore",
)


def test_each_kind_of_operation_loses_what_it_says() -> None:
    with played() as play:
        agent, wire = play.agent, play.wire
        answered_by(lambda request: "A summary.")
        done, lost = 0, 0
        for _ in range(0 if DEEP else 3):
            play.say(1)
        for number, deed in enumerate(DEEDS):
            if (DEEP or number % 3 == 0) and not agent.standing().config.model.startswith("openai"):
                play.say(1)
            told = act(agent, deed, done)
            done = max(
                [
                    done,
                    *(event.id for event in selections.operations(stored(agent.log), agent.id) if event.kind != "fork"),
                ]
            )
            if agent.standing().config.model.startswith("openai"):
                assert told["lost"] == len(wire.taken[-1] | wire.made[-1]) > 0
                continue
            play.say(0)
            there = wire.taken[-2] | wire.made[-2]
            if "gpt" in DEEDS[number - 1]:
                assert told["returned"] == len(wire.taken[-1]) > 0
            else:
                assert told["lost"] == len(there - wire.taken[-1]), deed
                assert told["returned"] == len(wire.taken[-1] - there), deed
                assert bool(told["lost"]) == (deed not in HARMLESS), deed
            lost += told["lost"]
            assert {entry["reason"] for each in wire.entries for entry in each} <= {"model_binding_mismatch"}, deed
        assert lost > 50
        assert not play.server.refusals


def act(agent: Agent, deed: str, done: int) -> dict[str, int]:
    """Do something to an older turn, or undo operation `done`. Return the reported counts of thinking blocks."""
    turns = [event.id for event in agent.context().messages if event.id == event.turn_id]
    turn = next(iter(agent.standing().fold.pins), turns[len(turns) // 2] if turns else 0)
    result = max((event.id for event in events(agent) if event.kind == "tool_result"), default=0)
    kind, _, _rest = deed.partition(" ")
    if kind in ("forget", "remember"):
        ids = [event.id for event in agent.context().messages if (event.turn_id == turn) == (kind == "forget")]
        found = selections.event(stored(agent.log), agent.apply_filter(kind, ids))
        assert found is not None
        assert found.data is not None
        return {"lost": 0, "returned": 0, **found.data["receipt"].get("thinking", {})}
    line = deed.format(turn, result=result) if kind != "/restore" else f"/restore {done}"
    is_previewed = line.startswith(PREVIEWED)
    previewed = agent.do(f"{line} --preview").data.get("thinking") if is_previewed else None
    said = agent.do(line, asking=YES)
    if is_previewed:
        assert said.data.get("thinking") == previewed
    if lost := said.data.get("thinking", {}).get("lost"):
        words = f"{lost} thinking block{'s' * (lost > 1)} can no longer be sent"
        assert words in result_text(said)
        if isinstance(said.effect, Receipt):
            assert words in agent.do(f"/context explain {said.event_id}").text
    return {"lost": 0, "returned": 0, **said.data.get("thinking", {})}


PREVIEWED = ("/clear", "/rewind", "/undo", "/restore", "/summarize", "/context drop", "/context evict")


def test_after_restore_the_blocks_are_sent_again() -> None:
    with played() as play:
        play.say(1)
        play.say(1)  # the third turn brings a state block, which moves after a boundary
        first = play.agent.context().messages[0].id
        dropped = play.agent.do(f"/context drop {first}")
        assert dropped.data["thinking"] == {"lost": 6, "returned": 0}
        back = play.agent.do(f"/restore {dropped.event_id} --preview")
        assert back.data["thinking"] == {"lost": 0, "returned": 6}
        assert "6 thinking blocks could be sent again" in back.text
        play.agent.do(f"/restore {dropped.event_id}")
        play.say(0)
        assert not play.lost
        assert len(play.wire.taken[-1]) == 6
        assert not any(play.wire.entries)


def compacts(play: Played, monkeypatch: pytest.MonkeyPatch) -> tuple[Agent, BoundWire]:
    """Let the provider write the agent's summaries. Return the agent and its wire."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key-1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", play.server.url)
    play.agent.configure("provider_compaction", True)
    return play.agent, play.wire


def test_turns_behind_a_summary_of_the_api_keep_their_thinking(monkeypatch: pytest.MonkeyPatch) -> None:
    with played() as play:
        agent, wire = compacts(play, monkeypatch)
        for calls in (1, 1, 0, 1, 1):
            play.say(calls)
        there, turns = wire.taken[-1] | wire.made[-1], list(dict.fromkeys(m.turn_id for m in agent.context().messages))
        done = agent.do(f"/summarize ..{turns[2]}")
        play.say(1)
        stay = wire.taken[-2] & there
        assert len(stay) == 6
        assert done.data["thinking"] == {"lost": len(there - stay), "returned": 0}
        assert wire.taken[-1] >= stay | wire.made[-2]  # including the thinking after the summary
        assert '"bound"' not in json.dumps([received.body for received in play.server.asked])

        # The summarized messages are back; the thinking after the summary is bound to the summary.
        restored = agent.do(f"/restore {done.event_id}")
        before = wire.taken[-1] | wire.made[-1]
        play.say(0)
        assert set() < wire.taken[-1] < there
        taken = wire.taken[-1]
        assert restored.data["thinking"] == {"lost": len(before - taken), "returned": len(taken - before)}
        assert not any(wire.entries)
        assert not play.server.refusals


def test_a_new_system_prompt_ends_what_a_summary_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with played() as play:
        agent, wire = compacts(play, monkeypatch)
        for _ in range(3):
            play.say(0)
        agent.do(f"/summarize ..{agent.context().messages[0].turn_id}")
        play.say(0)
        assert len(wire.taken[-1]) == 2
        agent.do("/system edit Be brief.")
        play.say(0)
        assert not wire.taken[-1]
        assert not any(wire.entries)


def test_a_model_that_does_not_bind_is_told_nothing() -> None:
    with played() as play:
        play.agent.do("/model anthropic/claude-opus-5")
        play.say(1)
        play.say(1)
        assert "thinking" not in play.agent.do("/undo").data
        assert "thinking" not in play.agent.do("/config set truncate_recent=4000").data
        play.agent.configure("model", "nobody/claude-fable-5-1")
        assert "thinking" not in play.agent.do("/clear").data


def usages(agent: Agent) -> list[Event]:
    return [event for event in events(agent) if event.kind == "usage"]


def test_what_the_provider_dropped_is_recorded() -> None:
    with played() as play:
        play.say(0)
        (signature,) = play.wire.known
        play.wire.known[signature] = play.wire.known[signature]._replace(prefix="another")
        play.say(0)
        entry = {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}
        assert [(event.data or {}).get("altered") for event in usages(play.agent)] == [None, [entry]]


def test_refused_thinking_is_left_out_once_and_stays_out() -> None:
    with played(old=True) as play:
        play.say(0)
        (signature,) = play.wire.known
        play.wire.known[signature] = play.wire.known[signature]._replace(prefix="another")
        seen = play.say(1)
        assert [type(piece) for piece in seen.others if isinstance(piece, Waiting)] == [Waiting]
        assert len(play.server.refusals) == 1
        assert "bound to a different conversation" in play.server.refusals[0]
        assert play.say(0).others
        assert len(play.server.refusals) == 1
        assert signature not in play.wire.taken[-1]
        assert len(play.wire.taken[-1]) == 3
        kept = newest_requests(stored(play.agent.log), play.agent.id, 10)
        assert [sent.thoughtless for sent in kept] == [False, False, True, False, False]
        assert {rebuilt(play.agent, sent.number).verdict for sent in kept} == {"identical"}


def test_nothing_kept_with_a_block_is_sent() -> None:
    with played() as play:
        play.say(1)
        play.say(0)
        blocks = [block for event in events(play.agent) for block in (event.data or {}).get("blocks", ())]
        assert blocks
        assert all(set(block["bound"]) == {"model", "prefix", "after"} for block in blocks)
        assert '"bound"' not in json.dumps([received.body for received in play.server.asked])


def test_an_answer_that_the_library_is_given_is_bound_to_the_request() -> None:
    with played() as play:
        agent = play.agent
        agent.append("user", "Question 0: 0 calls.")
        agent.request()
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "signed"}
        answer = {"content": [thought, {"type": "text", "text": "Answer."}], "stop_reason": "end_turn", "model": "m"}
        agent.append_answer("anthropic", answer)
        agent.end_turn()
        agent.append("user", "And?")
        assert thought in agent.request().body["messages"][1]["content"]
        assert thought not in agent.request("anthropic", "claude-fable-5-1", limit=1).body["messages"][0]["content"]
        agent.do("/system edit Be brief.")
        assert agent.request().thinking == frozenset()


def test_a_summary_is_asked_for_without_thinking() -> None:
    """The request has no tools, so thinking that is bound to tools would be invalid."""
    with played() as play:
        play.say(1)
        asked: list[Request] = []
        answered_by(lambda request: asked.append(request) or "A summary.")  # type: ignore[func-returns-value]
        play.agent.do("/summarize")
        assert [request.thinking for request in asked] == [frozenset()]
        assert b'"thinking"' not in asked[0].bytes
