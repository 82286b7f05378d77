"""Pydantic AI's own provider classes send requests to a loopback server that refuses as the real servers do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from plan import Reply, Say, Think, Use, Wire
from server import Loopback
from wire_anthropic import AnthropicWire
from wire_openai import OpenAIWire, ResponsesWire

import foldmark

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.models import Model

    from foldmark.integrations.pydantic_ai import FoldmarkHistory


def model_of(wire: Wire, url: str) -> tuple[Model[Any], Any]:
    """Return a Pydantic AI model and its client. The caller closes the client.

    The SDKs are imported here: that takes two seconds, and most workers collect these tests without running them.
    """
    if isinstance(wire, AnthropicWire):
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        claude = AsyncAnthropic(base_url=url, api_key="test-key")
        return AnthropicModel(wire.model, provider=AnthropicProvider(anthropic_client=claude)), claude

    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(base_url=url, api_key="test-key")
    kind = OpenAIChatModel if isinstance(wire, OpenAIWire) else OpenAIResponsesModel
    return kind(wire.model, provider=OpenAIProvider(openai_client=client)), client


@pytest.fixture
def log() -> Iterator[foldmark.Log]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log


WIRES = [OpenAIWire(), ResponsesWire(), AnthropicWire()]


async def streamed(_: Any, events: AsyncIterable[Any]) -> None:
    """Read all events. With an event handler, Pydantic AI requests a stream, the only form that the server supports."""
    async for _event in events:
        pass


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.provider)
def test_a_conversation_with_tools_and_operations(log: foldmark.Log, wire: Wire) -> None:
    calls = (Use("c1", "look", {"at": "sun"}), Use("c2", "look", {"at": "moon"}))
    answers = [
        Reply((Think("Let me see.", "c2lnbmVk"), Say(("Let me ", "look.")), *calls), "calls"),
        Reply((Say(("Both are round.",)),)),
        Reply((Use("c3", "look", {"at": "sea"}),), "calls"),
        Reply((Use("c4", "clear", {}),), "calls"),
        Reply((Say(("Cleared.",)),)),
        Reply((Say(("An answer.",)),)),
        Reply((Say(("Another.",)),)),
        Reply((Say(("The last.",)),)),
    ]

    async def talk(url: str) -> None:
        history = FoldmarkHistory(log)
        model, client = model_of(wire, url)
        agent = Agent(model, system_prompt="Be kind.", capabilities=[history])

        @agent.tool_plain
        def look(at: str) -> str:
            """Look at something."""
            return f"seen the {at}"

        @agent.tool_plain
        def clear() -> str:
            """Go back."""
            return history.do("/clear HERE", actor="model").text

        async def say(prompt: str) -> None:
            await agent.run(prompt, event_stream_handler=streamed)

        await say("Look at both")
        history.do("/mark HERE")
        await say("Go back")
        forgot = history.agent.apply_filter(
            "forget", [event.id for event in history.agent.context().messages if "seen the sun" in event.content]
        )
        await say("And now?")
        history.do(f"/restore {forgot}")
        await say("And with all of it?")
        first = next(event.id for event in history.agent.context().messages if event.kind == "user")
        history.agent.apply_filter("forget", [first])
        agent = Agent(model, capabilities=[FoldmarkHistory(log)], tools=[look, clear])
        await say("From the log alone")
        await client.close()

    with Loopback(wire, answers) as server:
        asyncio.run(talk(server.url))
    assert not server.refusals
    assert server.left == 0
    asked = [[each for each in wire.texts(request.body) if each[0] != "thinking"] for request in server.asked]
    looked = [("call", "look"), ("call", "look"), ("result", "seen the sun"), ("result", "seen the moon")]
    opening = [("user", "Look at both"), ("assistant", "Let me look.")]
    assert asked[1] == [("system", "Be kind."), *opening, *looked]
    assert asked[4][: len(asked[1]) + 1] == [*asked[1], ("assistant", "Both are round.")]
    assert "Rewound to 'HERE' at your request" in asked[4][-1][1]
    assert asked[5][1:4] == [*opening, ("user", "[Earlier conversation omitted.]")]
    assert asked[6][1 : len(looked) + 3] == [*opening, *looked]
    assert asked[7][1:3] == [("user", "[Earlier conversation omitted.]"), ("assistant", "Let me look.")]
    assert asked[7][-1] == ("user", "From the log alone")
