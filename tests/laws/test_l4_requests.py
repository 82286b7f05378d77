"""Law L4 (SPEC 3, 5.2): whatever the operations, in whatever order, every provider accepts the request.

The histories are those of `test_all_operations`, whose messages carry blocks of every kind here, in every dialect, with
changes of settings among them; the validators are written from the providers' documented rules. What a request holds is
checked beside its form: every visible message of the window and of the pinned turns is sent or said to be left out, and
every text is sent as often as the manifest says. `FOLDMARK_DEEP=1` runs 2,000 histories.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from random_logs import (
    MODELS,
    TARGETS,
    answered,
    block,
    texts_of,
    tool_lists,
    unknown,
    violations,
)
from side_by_side import Pair
from test_all_operations import CALL_IDS, WHO, Histories

from foldmark.core.request import Request, ToolSpec

SETTINGS = [
    *(f"sliding_context_tokens={tokens}" for tokens in (0, 1, 600, 2000, 10_000, 12_000, 100_000)),
    *(f"sliding_context_low_water={share}" for share in (0.6, 0.8, 1.0)),
    *(f"context_size={turns}" for turns in (0, 1, 3)),
    *(f"thinking={level}" for level in ("default", "off", "low", "medium", "high")),
    *("truncation=off", "truncation=on", "truncate_inactive=3", "truncate_active=0", "truncate_recent=5"),
    *("truncate_shape=head-tail", "isolation=off", "isolation=on", "system=Answer in verse."),
]
ANCHORS = ("state", "scratchpad", "memos")
LONG = 2500  # characters, so that a few turns fill the smaller windows


class Requests(Histories):
    """Random histories whose requests are looked at when they end, and now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.luggage: list[Any] = []  # blocks that go with the next messages
        self.dialect: str | None = "openai"
        self.tools: tuple[ToolSpec, ...] = ()
        self.long = 0  # messages that are still to be long

    def teardown(self) -> None:
        try:
            for pair in self.pairs:
                for number, provider in enumerate(MODELS):
                    models = MODELS[provider]
                    self.accepted(pair, provider, models[(self.newest() + number) % len(models)])
        finally:
            super().teardown()

    # -- messages that carry something -------------------------------------------------------------

    def carried(self) -> dict[str, Any] | None:
        return {"blocks": self.luggage.pop()} if self.luggage else None

    def lengthened(self, text: str) -> str:
        self.long -= 1
        return f"{text} {'x' * LONG}" if self.long >= 0 else text

    def say(self, pair: Pair, kind: str, text: str | None = None) -> int:
        text = text or self.lengthened(self.text())
        event_id = self.seen(pair.real.append(kind, text, data=self.carried(), dialect=self.spoken(kind)))
        pair.model.append(kind, event_id)
        self.stored[event_id] = (kind, text)
        return event_id

    def spoken(self, kind: str) -> str | None:
        return None if kind in ("user", "system") else self.dialect

    def call(self, pair: Pair, call_id: str, name: str = "probe", args: dict[str, Any] | None = None) -> None:
        number = len(self.ids)
        name = name if name != "probe" else ("probe", "mcp.server/probe", "", "n" * 70)[number % 4]
        data = {"thought_signature": "c2ln"} if self.dialect and "gemini" in self.dialect and number % 3 else None
        event_id = self.seen(
            pair.real.append_tool_call(name, args or {"n": number}, call_id=call_id, dialect=self.dialect, data=data)
        )
        pair.model.append("tool_call", event_id, call_id)

    def result(self, pair: Pair, call_id: str, happened: str = "") -> None:
        text, kind = self.lengthened(self.text()), pair.model.result_kind(call_id)
        failed, data = len(self.ids) % 5 == 0, self.carried()
        event_id = self.seen(
            pair.real.append_tool_result(call_id, text, dialect=self.dialect, is_error=failed, data=data)
        )
        pair.model.append(kind, event_id, call_id)
        if kind == "user":
            self.quotes[event_id] = [happened, text[:200]]
        else:
            self.stored[event_id] = (kind, text)

    def wordless(self, pair: Pair, kind: str, blocks: Any, **more: Any) -> None:
        """A message with blocks and without a text."""
        event_id = self.seen(pair.real.append(kind, "", data={"blocks": blocks}, **more))
        pair.model.append(kind, event_id)
        self.stored[event_id] = (kind, "")

    @rule(luggage=st.lists(st.lists(block, max_size=3), min_size=1, max_size=6))
    def pack(self, luggage: list[Any]) -> None:
        self.luggage = luggage

    @rule(messages=st.integers(1, 8))
    def talk_long(self, messages: int) -> None:
        self.long = messages

    @rule(dialect=st.sampled_from([None, "openai", "anthropic", "gemini", "gemini_gca"]))
    def speak(self, dialect: str | None) -> None:
        self.dialect = dialect

    @rule(who=WHO, kept=answered, words=st.booleans(), calls=st.integers(0, 2), results=st.booleans())
    def answer_with_thinking(
        self, who: int, kept: tuple[str, list[Any]], words: bool, calls: int, results: bool
    ) -> None:
        """As a provider answers: what it thought, with or without words, alone or in front of calls."""
        pair = self.pair(who)
        if pair.model.open_exchanges():
            return
        self.dialect, self.luggage = kept[0], []
        if words:
            self.luggage = [kept[1]]
            self.say(pair, "assistant")
        else:
            self.wordless(pair, "assistant", kept[1], dialect=kept[0])
        for call_id in CALL_IDS[:calls]:
            self.call(pair, call_id)
        for call_id in CALL_IDS[:calls] if results else ():
            self.result(pair, call_id)

    @rule(who=WHO, kind=st.sampled_from(["user", "assistant", "tool"]), blocks=st.lists(block, max_size=3))
    def show_without_a_word(self, who: int, kind: str, blocks: list[Any]) -> None:
        self.wordless(self.pair(who), kind, blocks)

    @rule(who=WHO, kept=st.one_of(st.none(), answered), ends=st.booleans())
    def interrupted_answer(self, who: int, kept: tuple[str, list[Any]] | None, ends: bool) -> None:
        pair, text = self.pair(who), self.text()
        more: dict[str, Any] = {"dialect": kept[0], "data": {"blocks": kept[1]}} if kept else {}
        event_id = self.seen(pair.real.append("assistant", text, interrupted=True, **more))
        pair.model.append("assistant", event_id)
        self.stored[event_id] = ("assistant", text)
        if ends:
            pair.real.end_turn(interrupted=True)
            pair.model.end_turn()

    @rule(who=WHO)
    def remind(self, who: int) -> None:
        pair, text = self.pair(who), f"[Foldmark: your context is 60% full. {self.text()}]"
        event_id = self.seen(pair.real.append("user", text, actor="system", data={"reminder": True}))
        pair.model.append("user", event_id)
        self.stored[event_id] = ("user", text)

    # -- requests ------------------------------------------------------------------------------------

    @rule(who=WHO, setting=st.sampled_from(SETTINGS))
    def change_a_setting(self, who: int, setting: str) -> None:
        pair = self.pair(who)
        self.seen(pair.real.do(f"/config set {setting}").data["event"])

    @rule(tools=tool_lists)
    def change_the_tools(self, tools: tuple[ToolSpec, ...]) -> None:
        self.tools = tools

    @rule(who=WHO, target=st.sampled_from(TARGETS), limit=st.sampled_from([None, None, 1, 3000]))
    def ask(self, who: int, target: tuple[str, str], limit: int | None) -> None:
        self.accepted(self.pair(who), *target, limit)

    def accepted(self, pair: Pair, provider: str, model: str, limit: int | None = None) -> None:
        given = pair.real.log.tools
        pair.real.log.tools = lambda: self.tools
        try:
            request = pair.real.request(provider=provider, model=model, limit=limit)
        finally:
            pair.real.log.tools = given
        assert unknown(violations(provider, model, request.body)) == []
        accounts_for(request, pair.real)
        sends_what_it_says(request)


def accounts_for(request: Request, agent: Any) -> None:
    """Each visible message of the window and of the pinned turns is a part or left out, once; and nothing else is."""
    accounted = [part.event for part in request.manifest.parts if part.event is not None and part.layer not in ANCHORS]
    accounted += [left.event for left in request.manifest.left_out]
    assert len(set(accounted)) == len(accounted), "nothing is sent twice, or sent and left out"
    context, first = agent.context(), request.manifest.edge.first
    visible = [m for m in context.messages if m.kind != "system"]
    expected = {m.id for m in context.messages if m.kind == "system" or (first is not None and m.id >= first)}
    pinned = {m.id for m in visible if m.turn_id in context.pins}
    # The end of a planning conversation that took itself out is still shown to whoever has it [SPEC 4.2].
    closing = agent.standing().fold.closing
    assert expected | pinned <= set(accounted)
    assert closing is not None or set(accounted) <= expected | pinned
    assert request.manifest.edge.before == sum(1 for m in visible if first is not None and m.id < first)


def sends_what_it_says(request: Request) -> None:
    """Every text of the manifest is sent, as often as it says, and every call with its arguments; texts are unique."""
    parts = [part for part in request.manifest.parts if part.kind != "tool_call" and part.text.strip()]
    sent, said = "\n".join(texts_of(request.body)), "\n".join(part.text for part in parts)
    for part in parts:
        assert sent.count(part.text.strip()) == said.count(part.text.strip()), part
    calls = [part.text for part in request.manifest.parts if part.kind == "tool_call"]
    assert [f"{name}({args})" for name, args in calls_of(request.body)] == calls
    assert all(left.detail for left in request.manifest.left_out)


def calls_of(value: Any) -> Iterator[tuple[str, str]]:
    """The name and the arguments of every call in a body, in order, whatever its dialect."""
    if isinstance(value, list):
        for item in value:
            yield from calls_of(item)
    elif isinstance(value, dict):
        if value.get("type") == "tool_use":
            yield value["name"], msgspec.json.encode(value["input"]).decode()
        elif value.get("type") == "function_call":
            yield value["name"], value["arguments"]
        elif "functionCall" in value:
            yield value["functionCall"]["name"], msgspec.json.encode(value["functionCall"]["args"]).decode()
        elif isinstance(value.get("function"), dict) and "arguments" in value["function"]:
            yield value["function"]["name"], value["function"]["arguments"]
        else:
            for item in value.values():
                yield from calls_of(item)


Requests.TestCase.settings = settings(
    max_examples=int(os.environ.get("L4_EXAMPLES", 2_000)) if os.environ.get("FOLDMARK_DEEP") == "1" else 80,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestRequests = Requests.TestCase
