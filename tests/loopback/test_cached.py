"""The part of each request that a provider's cache held, and the reasons for each miss, by its counts (SPEC 5.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import wire_openai
from plan import Fail, Reply, Say, Think, Use, Wire
from server import Loopback
from talking import Seen, connect, conversation
from wire_anthropic import AnthropicWire
from wire_openai import OpenAIWire, ResponsesWire

from caches import Sent
from foldmark import Agent
from foldmark.core.errors import ProviderError
from foldmark.core.request import Usage
from foldmark.cost.misses import newest_turn
from foldmark.cost.spending import rules_of
from foldmark.providers import openai_api
from foldmark.request.prepare import prepare
from foldmark.runtime.loop import turn
from foldmark.sending.rebuilding import rebuilt
from sampled import sampled

WORDS = "what was said of it, and what came of that, " * 150


class Talk:
    """A conversation with a provider that has a cache, and with its own clock."""

    def __init__(self, agent: Agent, wire: Wire, server: Loopback, bodies: list[Any]) -> None:
        self.agent, self.wire, self.server, self.bodies = agent, wire, server, bodies
        self.fails, self._caches = False, dict[str, Sent]()
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)
        agent.log.clock = lambda: f"{self.now:%Y-%m-%dT%H:%M:%S.%fZ}"

    def say(self, text: str | None, minutes: float = 1, *, fail: bool = False) -> dict[str, Any]:
        """Run a turn this many minutes later. Return the record of its last request."""
        self.now += timedelta(minutes=minutes)
        self.fails = fail
        asyncio.run(turn(self.agent, connect(self.wire, self.server.url), text, Seen().show))
        assert self.server.refusals == []
        found: dict[str, Any] = self.row()
        return found

    def cache(self, model: str) -> Sent:
        """Return the provider's cache for a model."""
        rules = rules_of(self.agent.log.model_named(f"{self.wire.provider}/{model}"))
        return self._caches.setdefault(model, Sent(rules, 3.0))

    def forget(self) -> None:
        """Empty the provider's cache."""
        self._caches.clear()

    def row(self, at: int = 0) -> Any:
        return self.agent.do("/context sent").data["sent"][at]

    def why(self) -> list[tuple[str, int | None]]:
        """Return the reasons for the newest request's miss: (reason, event)."""
        return [(each["why"], each["event"]) for each in self.row()["cache"]["reasons"]]


@contextmanager
def talk(
    wire: Wire, *, calls: int = 0, look: str = WORDS, thought: str = "", said: str = "", **settings: object
) -> Iterator[Talk]:
    """Open a conversation with `calls` calls of the tool `look` in each turn, a `thought` before each, and `said` in
    each answer."""
    bodies: list[Any] = []
    steps = {"left": 0}

    def answer(body: Any) -> Reply | Fail:
        if there.fails:
            return Fail("request")
        bodies.append(body)
        fields = {key: value for key, value in body.items() if key != "prompt_cache_key"}
        length = len(str(fields)) // 3
        bill = there.cache(body["model"]).bill(WIRE_DIALECT[wire.provider], fields, length, there.now.timestamp())
        usage = Usage(bill.fresh, bill.read, bill.write, 20)
        if steps["left"] < calls:
            steps["left"] += 1
            thoughts = (Think(thought, "c2lnbmF0dXJl"),) if thought else ()
            return Reply((*thoughts, Use(f"c{len(bodies)}", "look", {})), "calls", usage)
        steps["left"] = 0
        return Reply((Say((f"Answer {len(bodies)}. {said}",)),), "end", usage)

    with conversation(wire, {"look": lambda _: look}) as agent, Loopback(wire, answer) as server:
        for key, value in {"context_policy": "steady", **settings}.items():
            agent.do(f"/config set {key}={value}")
        there = Talk(agent, wire, server, bodies)
        yield there


WIRE_DIALECT = {"anthropic": "anthropic", "openai": "openai", "openai_responses": "openai"}


def test_a_cache_miss_is_explained() -> None:
    with talk(AnthropicWire()) as it:
        first = it.say(WORDS)["cache"]
        assert (first["read"], first["missed"], it.why()) == (0, 0, [("first", None)])
        second = it.say(WORDS)["cache"]
        assert (second["held"], second["missed"], it.why()) == (first["written"], 0, [])
        third = it.say("Go on.", minutes=12)["cache"]
        assert (third["read"], third["missed"]) == (0, second["read"] + second["written"])
        assert it.why() == [("pause", None)]
        line = it.agent.do("/context sent").text.splitlines()[0]
        assert line.endswith(f"missed {third['missed']:,}: a pause of 12 min; the cache keeps a request for 5 min")
        dropped = it.agent.do(f"/context drop {it.row(-1)['turn']}").event_id
        assert it.say("And now?")["cache"]["missed"] > 0
        assert it.why() == [("operation", dropped)]
        it.agent.do("/mark M")
        assert (it.say("Go on.")["cache"]["missed"], it.why()) == (0, [])
        it.agent.do("/config set system=Briefly.")
        assert it.say("Go on.")["cache"]["missed"] > 0
        assert it.why() == [("settings", None)]


def test_a_cache_miss_without_a_change_is_the_providers() -> None:
    with talk(AnthropicWire()) as it:
        it.say(WORDS)
        it.forget()
        assert it.say("Go on.")["cache"]["missed"] > 0
        assert it.why() == [("provider", None)]


def test_a_provider_that_reports_nothing_about_its_cache_has_missed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(reply: Reply) -> dict[str, int]:
        return {"prompt_tokens": reply.usage.input, "completion_tokens": reply.usage.output}

    monkeypatch.setattr(wire_openai, "_chat_usage", silent)
    with talk(OpenAIWire()) as it:
        for _ in range(2):
            it.say(WORDS)
        assert (it.row()["cache"]["missed"], it.why()) == (0, [("unknown", None)])
        line = it.agent.do("/context sent").text.splitlines()[0]
        assert line.endswith("cache unknown: the provider reports nothing about its cache")
        newest = newest_turn(it.agent)
        assert newest is not None
        assert newest.text == "Cache: unknown: the provider reports nothing about its cache."


def test_thinking_leaves_with_its_turn() -> None:
    with talk(AnthropicWire(), calls=1, look="Yes.", thought=WORDS, said=WORDS, context_policy="eager") as it:
        it.say("Look.")
        it.say("And now?")
        first = it.row(1)["cache"]
        assert ([each["why"] for each in first["reasons"]], first["missed"] > 0) == (["older"], True)


def test_another_model_and_other_tools() -> None:
    with talk(OpenAIWire()) as it:
        it.say(WORDS * 3)
        it.agent.do("/model openai/gpt-5.1")
        it.say("Go on.")
        assert it.why() == [("model", None)]
        it.agent.do("/config set tools=slash")
        it.say("Go on.")
        assert [why for why, _ in it.why()] == ["settings", "system", "tools"]


@pytest.mark.parametrize("policy", ["eager", "steady"])
def test_changes_by_policy_explain_a_cache_miss(policy: str) -> None:
    with talk(AnthropicWire(), calls=8, context_policy=policy, sliding_context_tokens=24_000) as it:
        for _ in range(3):
            it.say(WORDS)
        rows = it.agent.do("/context sent").data["sent"]
        causes = {each["why"] for row in rows for each in row["cache"]["reasons"]}
        assert causes == ({"results"} if policy == "eager" else {"window"})
        missed = [row for row in rows if row["cache"]["missed"]]
        assert len(missed) > 5 if policy == "eager" else 0 < len(missed) <= 5
        # A single request shows the same as the list, however old it is.
        for row in sampled(rows, 6):
            assert it.agent.do(f"/context sent {row['id']}").data["cache"] == row["cache"]


def test_the_detail_of_the_meter() -> None:
    with talk(AnthropicWire(), calls=1) as it:
        assert newest_turn(it.agent) is None
        it.say(WORDS)
        it.say(WORDS)
        rows = [it.row(at)["cache"] for at in range(2)]
        read, wrote = (sum(row[way] for row in rows) for way in ("read", "written"))
        line = f"Cache: in the newest turn 2 requests read {read:,} tokens and wrote {wrote:,}."
        assert newest_turn(it.agent) == (line, 0)
        it.say("Go on.", minutes=90)
        missed = it.row(1)["cache"]["missed"]
        kept = newest_turn(it.agent)
        assert kept is not None
        assert kept.missed == missed
        why = "a pause of 90 min; the cache keeps a request for 5 min"
        assert kept.text.endswith(f" Request 5 missed {missed:,}: {why}.")
        assert it.agent.do("/context show").text.endswith(f"⚪\n{kept.text}")


@pytest.mark.parametrize("again", ["Go on.", None])
def test_a_failed_request_is_not_compared_with_the_next_one(again: str | None) -> None:
    with talk(AnthropicWire()) as it:
        it.say(WORDS)
        with pytest.raises(ProviderError):
            it.say("And?", fail=True)
        assert it.row()["cache"] is None
        assert it.say(again)["cache"]["missed"] == 0
        assert it.row(1)["cache"] is None
        assert it.agent.do("/context sent 2").data["cache"] is None


def test_a_request_that_cannot_be_rebuilt_explains_no_miss() -> None:
    with talk(AnthropicWire(), calls=1, look="Yes.", thought=WORDS, said=WORDS, context_policy="eager") as it:
        it.say("Look.")
        turn = it.row()["turn"]
        it.say("And now?")
        it.say("And then?")
        before = it.row(1)["cache"]
        assert [each["why"] for each in before["reasons"]] == ["older"]
        it.agent.do(f"/message remove {turn} --yes")
        after = it.row(1)["cache"]
        assert [each["why"] for each in after["reasons"]] == ["unknown"]
        assert after["missed"] == before["missed"]
        # The erased turn's cost is erased with it, so of the next turn only its own cost is known.
        assert (it.row(3)["cache"]["missed"], it.row(4)["cache"]) == (None, None)


# How long the cache is kept


def marks(body: Any) -> list[dict[str, Any]]:
    """Return the cache marks of a request to Anthropic."""
    found = []
    blocks = [*body.get("tools", ()), *body.get("system", ()), *(b for m in body["messages"] for b in m["content"])]
    for block in blocks:
        found += [block["cache_control"]] if "cache_control" in block else []
    return found


def test_an_hour_if_that_is_set() -> None:
    with talk(AnthropicWire(), cache_ttl="1h") as it:
        it.say(WORDS)
        assert it.say(WORDS, minutes=50)["cache"]["missed"] == 0
        assert {each.get("ttl") for body in it.bodies for each in marks(body)} == {"1h"}
        assert it.row()["cache_ttl"] == "1h"
        at, own = it.agent.standing(), it.agent.standing().config
        with it.agent.log.store.read() as moment:
            question: dict[str, Any] = {"purpose": "state", "instruction": "Write a state block."}
            asked = prepare(moment, at, own, "anthropic", it.wire.model, **question)
        assert {each.get("ttl", "5m") for each in marks(asked.body)} == {"5m"}


def test_an_hour_once_the_pauses_ask_for_it() -> None:
    """This is the default. The change comes at the beginning of a turn, leaves the sent content as it is, and is
    recorded."""
    with talk(AnthropicWire(), calls=2) as it:
        it.say(WORDS * 3)
        for _ in range(4):
            it.say("Go on.", minutes=12)
        asked = [{each.get("ttl", "5m") for each in marks(body)} for body in it.bodies]
        assert asked == [{"5m"}] * 6 + [{"1h"}] * 9
        rows = it.agent.do("/context sent").data["sent"]
        assert [row["cache_ttl"] for row in rows] == ["1h"] * 9 + ["5m"] * 6
        assert [bool(row["cache"]["missed"]) for row in rows[::-1]][2::3] == [False] * 5
        assert [bool(row["cache"]["missed"]) for row in rows[::-1]][::3] == [False, True, True, False, False]
        assert {rebuilt(it.agent, row["id"]).verdict for row in rows} == {"identical"}
        for before, after in zip(it.bodies, it.bodies[1:], strict=False):
            assert plain(after)[: len(plain(before))] == plain(before)
        settled = it.agent.request().manifest.plan.settled
        it.agent.do("/config set cache_ttl=5m")
        assert it.agent.request().manifest.plan.settled == settled
        it.say("Go on.")
        assert it.why() == []
        assert {each.get("ttl", "5m") for each in marks(it.bodies[-1])} == {"5m"}


def plain(body: Any) -> list[Any]:
    """Return the blocks of a request without their cache marks."""
    blocks = [*body["system"], *(block for message in body["messages"] for block in message["content"])]
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks]


# OpenAI's key


@pytest.mark.parametrize("wire", [OpenAIWire(), ResponsesWire()], ids=lambda wire: wire.provider)
def test_openai_itself_gets_a_key_for_each_agent(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    with talk(wire) as it:
        it.say("Hello?")
        monkeypatch.setattr(openai_api, "OWN_HOSTS", ("127.0.0.1",))
        it.agent.do("/undo")
        it.say("Hello?")
        it.say("And now?")
        other, own, again = it.bodies
        assert own == {**other, "prompt_cache_key": it.agent.id}
        assert again["prompt_cache_key"] == it.agent.id
        assert {rebuilt(it.agent, sent).verdict for sent in (1, 2, 3)} == {"identical"}
