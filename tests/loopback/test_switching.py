"""One conversation that moves from provider to provider, each with its own SDK (SPEC 5.2).

Text is sent to all; calls and results are sent only to providers of their dialect, also when one of these returns.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan import Fail, Part, Reply, Say, Think, Use, Wire
from scenarios import TOOLS
from server import Loopback
from talking import ALL, Seen, connect, conversation, messages, missing, use

from foldmark import Agent
from foldmark.core.errors import ProviderError
from foldmark.runtime.loop import turn

BY_NAME: dict[str, Wire] = {wire.provider: wire for wire in ALL}

_SIGNED = "c2lnbmF0dXJl"


def _answers(number: int) -> tuple[Reply, Reply]:
    """Return an answer with thinking, text and two calls, then a final answer."""
    uses = [Use(f"c{call}", "look", {"at": f"place-{number}-{call}"}, _SIGNED) for call in (1, 2)]
    first: tuple[Part, ...] = (Think(f"Thought {number}.", _SIGNED), Say((f"Looking, {number}.",)), *uses)
    return Reply(first, "calls"), Reply((Say((f"Answer {number}.",)),))


async def _turn(agent: Agent, wire: Wire, number: int, order: Sequence[Wire]) -> None:
    """Run turn `number` of the conversation and check its two requests."""
    with Loopback(wire, _answers(number)) as server:
        await turn(agent, connect(wire, server.url), f"Question {number}?", Seen().show)
        assert (server.refusals, server.left) == ([], 0)
        bodies = [received.body for received in server.asked]
    texts = [
        said
        for each in range(number)
        for said in (
            ("user", f"Question {each}?"),
            ("assistant", f"Looking, {each}."),
            ("assistant", f"Answer {each}."),
        )
    ]
    ours = [each for each in range(number) if _family(order[each]) == _family(wire)]
    for step, body in enumerate(bodies):
        now = [("user", f"Question {number}?"), *([("assistant", f"Looking, {number}.")] if step else [])]
        assert missing(wire.texts(body), [*texts, *now]) is None
        written = json.dumps(body)
        seen = [*ours, number] if step else ours
        for each in range(number + 1):
            # The place is in the call and in its result if these are visible, and nowhere else.
            for call in (1, 2):
                assert written.count(f"place-{each}-{call}") == (2 if each in seen else 0)
            shown = step == 1 and each == number
            assert f"Thought {each}." not in written or shown
        found = [said for kind, said in wire.texts(body) if kind == "result"]
        assert missing([("result", each) for each in found], [("result", f"seen place-{e}-1") for e in seen]) is None
        assert len(found) == 2 * len(seen)


def _family(wire: Wire) -> str:
    return wire.provider.partition("_")[0]


def converse(names: Sequence[str]) -> None:
    """Run a conversation with these providers, one turn each."""
    order = [BY_NAME[name] for name in names]
    with conversation(order[0], TOOLS) as agent:
        agent.configure("context_policy", "eager")  # each turn has its own server, which knows no other's thinking

        async def talk() -> None:
            for number, wire in enumerate(order):
                use(agent, wire)
                await _turn(agent, wire, number, order)

        asyncio.run(talk())
        assert [text for kind, text in messages(agent) if kind == "user"] == [
            f"Question {number}?" for number in range(len(order))
        ]


def test_from_anthropic_to_gemini_to_openai_and_back() -> None:
    converse(("anthropic", "gemini", "openai", "anthropic"))


@pytest.mark.parametrize(
    "names", [("openai", "openai_responses"), ("gemini", "gemini_gca")], ids=lambda names: names[0]
)
def test_what_speaks_one_dialect_shares_its_calls(names: tuple[str, str]) -> None:
    converse((*names, *names))


@settings(max_examples=max(2, settings().max_examples // 10))
@given(st.lists(st.sampled_from(sorted(BY_NAME)), min_size=2, max_size=5))
def test_any_order(names: list[str]) -> None:
    converse(names)


def test_another_provider_continues_where_one_failed() -> None:
    """The second provider gets the text, but none of the calls that only the first one understands."""
    first, second = BY_NAME["anthropic"], BY_NAME["gemini"]
    begun, done = _answers(0)
    with conversation(first, TOOLS) as agent:
        with Loopback(first, [begun, Fail("busy", 503)]) as server, pytest.raises(ProviderError):
            asyncio.run(turn(agent, connect(first, server.url), "Question 0?", Seen().show))
        assert (server.refusals, server.left) == ([], 0)
        use(agent, second)
        with Loopback(second, [done]) as server:
            asyncio.run(turn(agent, connect(second, server.url), "Go on.", Seen().show))
        assert (server.refusals, server.left) == ([], 0)
        body = server.asked[0].body
    wanted = [("user", "Question 0?"), ("assistant", "Looking, 0."), ("user", "Go on.")]
    assert missing(second.texts(body), wanted) is None
    assert "place-0" not in json.dumps(body)
