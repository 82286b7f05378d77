"""Law L4 (SPEC 3, 5.2): whatever the operations, in whatever order, every provider accepts the request.

The histories are those of `test_all_operations`. Here the messages carry blocks of every kind, in every dialect, and
settings change between them. The validators follow the providers' documented rules. The content of a request is checked
as well as its form: every visible message of the window and of the pinned turns is sent or reported as left out, and
every text is sent as often as the manifest says. `FOLDMARK_DEEP=1` runs 2,000 histories.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from naive_model import NaiveAgent
from random_logs import (
    MODELS,
    TARGETS,
    answered,
    block,
    blocks,
    many_blocks,
    texts_of,
    tool_lists,
    violations,
)
from side_by_side import Pair, check_placeholders
from test_all_operations import CALL_IDS, WHO, Histories

from foldmark.core.config import THINKING as THINKING_LEVELS
from foldmark.core.request import Request, ToolSpec

BUDGETS = [f"sliding_context_tokens={tokens}" for tokens in (0, 1, 600, 2000, 4000, 10_000, 11_000, 100_000)]
LOW_WATER = [f"sliding_context_low_water={share}" for share in (0.6, 0.8, 1.0)]
LEVELS = [f"thinking={level}" for level in THINKING_LEVELS]
SETTINGS = [
    *(*BUDGETS, *LOW_WATER, *LEVELS),
    *(f"context_size={turns}" for turns in (0, 1, 3)),
    *("truncation=off", "truncation=on", "truncate_inactive=3", "truncate_active=0", "truncate_recent=5"),
    *(
        "context_policy=steady",
        "context_policy=eager",
        "truncate_shape=head-tail",
        "isolation=off",
        "isolation=on",
        "system=Answer in verse.",
    ),
]
DIALECT = st.sampled_from([None, "openai", "anthropic", "gemini", "gemini_gca"])
WORDS = st.sampled_from([True, True, False])
ANCHORS = ("state", "scratchpad", "memos")
LONG = 2500  # characters, so that a few turns fill the smaller windows


class Requests(Histories):
    """Random histories whose requests are checked now and then, and at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.luggage: list[Any] = [None]  # the blocks that messages carry, in turn
        self.dialect: str | None = None
        self.tools: tuple[ToolSpec, ...] = ()
        self.long = 0  # every n-th message is long; 0: none

    @initialize(
        turns=st.integers(0, 3),
        luggage=st.lists(blocks, max_size=12),
        dialect=DIALECT,
        tools=tool_lists,
        long=st.sampled_from([0, 0, 1, 2, 3]),
        given=st.tuples(*map(st.sampled_from, (BUDGETS, LOW_WATER, LEVELS, SETTINGS))),
    )
    def conversation(
        self, turns: int, luggage: list[Any], dialect: str | None, tools: Any, long: int, given: tuple[str, ...]
    ) -> None:
        self.luggage, self.dialect, self.tools, self.long = luggage or [None], dialect, tools, long
        self.add(self.log.agent("default"), NaiveAgent())
        for setting in given:
            self.change_a_setting(0, setting)
        for calls in range(turns):
            self.whole_turn(0, calls, calls == 1)

    def teardown(self) -> None:
        try:
            for pair in self.pairs:
                for number, provider in enumerate(MODELS):
                    models = MODELS[provider]
                    self.accepted(pair, provider, models[(self.newest() + number) % len(models)])
        finally:
            super().teardown()

    # -- messages with blocks ----------------------------------------------------------------------

    def carried(self) -> dict[str, Any] | None:
        blocks = self.luggage[len(self.ids) % len(self.luggage)]
        return None if blocks is None else {"blocks": blocks}

    def lengthened(self, text: str) -> str:
        return f"{text} {'x' * LONG}" if self.long and len(self.ids) % self.long == 0 else text

    def say(self, pair: Pair, kind: str, text: str | None = None) -> int:
        text = text or self.lengthened(self.text())
        event_id = self.seen(pair.real.append(kind, text, data=self.carried(), dialect=self.spoken(kind)))
        pair.model.append(kind, event_id)
        self.stored[event_id] = (kind, text)
        return event_id

    def spoken(self, kind: str) -> str | None:
        return None if kind in ("user", "client", "system") else self.dialect

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
        """Append a message with blocks and without text."""
        event_id = self.seen(pair.real.append(kind, "", data={"blocks": blocks}, **more))
        pair.model.append(kind, event_id)
        self.stored[event_id] = (kind, "")

    @rule(luggage=st.lists(blocks, min_size=1, max_size=6), dialect=DIALECT)
    def pack(self, luggage: list[Any], dialect: str | None) -> None:
        self.luggage, self.dialect = luggage, dialect

    @rule(
        who=WHO,
        opens=st.booleans(),
        steps=st.lists(st.tuples(answered, st.integers(0, 2), WORDS, st.booleans()), min_size=1, max_size=3),
        shown=many_blocks,
        missing=st.booleans(),
        whom=st.lists(st.sampled_from(TARGETS), max_size=4),
    )
    def work(self, who: int, opens: bool, steps: list[Any], shown: list[Any], missing: bool, whom: list[Any]) -> None:
        """Record a part of a turn as the runtime does, and check some of its requests.

        A model answers with its thinking, with or without text, alone or before calls; results hold images.
        """
        pair = self.pair(who)
        if opens:
            self.end(pair)
            self.say(pair, "user")
        for (dialect, kept), calls, words, apart in steps:
            if pair.model.open_exchanges():
                break
            self.dialect = dialect
            if apart:  # as an import records it
                self.wordless(pair, "assistant", kept, dialect=dialect)
            luggage, self.luggage = self.luggage, [None if apart else kept]
            if words:
                self.say(pair, "assistant")
            elif not apart:
                self.wordless(pair, "assistant", kept, dialect=dialect)
            self.luggage = [shown]
            for call_id in CALL_IDS[:calls]:
                self.call(pair, call_id)
            for call_id in CALL_IDS[missing:calls]:
                self.result(pair, call_id)
            self.luggage = luggage
            for target in whom:
                self.accepted(pair, *target)

    @rule(who=WHO, kind=st.sampled_from(["user", "client", "assistant", "tool"]), blocks=st.lists(block, max_size=3))
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
            self.talked_past(pair, event_id)
            pair.model.end_turn()

    @rule(who=WHO)
    def remind(self, who: int) -> None:
        pair, text = self.pair(who), f"[Foldmark: your context is 60% full. {self.text()}]"
        event_id = self.seen(pair.real.append("user", text, actor="system", data={"reminder": True}))
        pair.model.append("user", event_id)
        self.stored[event_id] = ("user", text)

    @rule(who=WHO, most=st.integers(1, 4), whom=st.sampled_from(TARGETS))
    def pin_the_oldest(self, who: int, most: int, whom: tuple[str, str]) -> None:
        """Pin turns before the window, and more of them than there is room for."""
        pair = self.pair(who)
        turns = {m.id: m.turn for m in pair.model.lineage()}
        seen = [turns[id] for id in pair.model.visible() if turns[id] is not None]
        for turn in [turn for turn in dict.fromkeys(seen) if turn not in self.erased][:most]:
            self.operate(pair, f"/pin {turn}", lambda turn=turn: pair.model.pin(turn))  # type: ignore[misc]
        self.accepted(pair, *whom)

    # -- requests ------------------------------------------------------------------------------------

    @rule(who=WHO, setting=st.sampled_from(SETTINGS))
    def change_a_setting(self, who: int, setting: str) -> None:
        key, _, value = setting.partition("=")
        self.change(self.pair(who), key, value)

    @rule(tools=tool_lists)
    def change_the_tools(self, tools: tuple[ToolSpec, ...]) -> None:
        self.tools = tools

    # `test_all_operations` checks contexts, refusals and displays.
    same_as_the_model = malformed_command = not_for_models = explain = look_back = request = None  # type: ignore

    @rule(who=WHO, whom=st.sampled_from(TARGETS), limit=st.sampled_from([None, None, 1, 3000]))
    def ask(self, who: int, whom: tuple[str, str], limit: int | None) -> None:
        self.accepted(self.pair(who), *whom, limit)

    def accepted(self, pair: Pair, provider: str, model: str, limit: int | None = None) -> None:
        given = pair.real.log.tools
        pair.real.log.tools = lambda: self.tools
        try:
            request = pair.real.request(provider=provider, model=model, limit=limit)
        finally:
            pair.real.log.tools = given
        assert violations(provider, model, request.body) == []
        accounts_for(request, pair.real)
        sends_what_it_says(request)
        check_placeholders(request, pair.model)


def accounts_for(request: Request, agent: Any) -> None:
    """Check that each visible message of the window and of the pinned turns, and no other, is sent or left out once."""
    accounted = [part.event for part in request.manifest.parts if part.event is not None and part.layer not in ANCHORS]
    accounted += [left.event for left in request.manifest.left_out]
    assert len(set(accounted)) == len(accounted), "nothing is sent twice, or sent and left out"
    context, first = agent.context(), request.manifest.edge.first
    visible = [m for m in context.messages if m.kind != "system"]
    expected = {m.id for m in context.messages if m.kind == "system" or (first is not None and m.id >= first)}
    # A summary stands where the messages it replaced began. If that is before the window, it may be cut.
    summaries = [m for m in visible if m.kind == "summary"]
    moved = {m.id for m in summaries if first is not None and min(each[1] for each in m.data["ranges"]) < first}
    cut = (moved & expected) - set(accounted)
    expected -= cut
    pinned = {m.id for m in visible if m.turn_id in context.pins}
    # A planning conversation that its own filter has hidden is still sent until its turn ends [SPEC 4.2].
    leaving = agent.standing().fold.leaving
    assert expected | pinned <= set(accounted)
    if leaving is None:
        assert set(accounted) <= expected | pinned
        # A pinned summary is sent, but still stands before the window.
        apart = {part.event for part in request.manifest.parts if part.layer == "pinned"}
        apart |= {left.event for left in request.manifest.left_out if left.why == "pins"}
        before = [m for m in visible if first is not None and (m.id < first or m.id in cut | (moved & apart))]
        # A pinned summary counts if it stands there. Its part does not show that: it may be newer than the window.
        either = {m.id for m in visible if m.id in moved & pinned} - {m.id for m in before}
        assert len(before) <= request.manifest.edge.before <= len(before) + len(either)


def sends_what_it_says(request: Request) -> None:
    """Check that every text of the manifest is sent as often as it says, and every call with its arguments. Texts are
    unique."""
    parts = [part for part in request.manifest.parts if part.kind != "tool_call" and part.text.strip()]
    sent, said = "\n".join(texts_of(request.body)), "\n".join(part.text for part in parts)
    for part in parts:
        assert sent.count(part.text.strip()) == said.count(part.text.strip()), part
    calls = [part.text for part in request.manifest.parts if part.kind == "tool_call"]
    assert [f"{name}({args})" for name, args in calls_of(request.body)] == calls
    assert all(left.detail for left in request.manifest.left_out)


def calls_of(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the arguments of every call in a body, in order, for any dialect."""
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
    max_examples=int(os.environ.get("L4_EXAMPLES", 2_000)) if os.environ.get("FOLDMARK_DEEP") == "1" else 5,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestRequests = Requests.TestCase
