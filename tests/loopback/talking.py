"""Helpers of this folder's suites for talking to a loopback provider through its real SDK."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, NamedTuple

from plan import Part, Say, Think, Use, Wire
from server import Received
from wire_anthropic import AnthropicWire
from wire_gemini import GcaWire, GeminiWire
from wire_openai import OpenAIWire, ResponsesWire

import foldmark
from foldmark import Agent, Event, Log
from foldmark.core.errors import ProviderError
from foldmark.core.ports import Provider
from foldmark.core.request import Kept, Piece, Request, Stopped, Thought, ToolCall, ToolSpec, Usage
from foldmark.operations.effects import Asking
from foldmark.providers.registry import BUILT_IN, Access
from foldmark.runtime.loop import Shown
from stored import stored

ALL: tuple[Wire, ...] = (AnthropicWire(), OpenAIWire(), ResponsesWire(), GeminiWire(), GcaWire())

KEY = "test-key-7f3a91c2"

Tools = dict[str, Callable[[Any], str]]
"""A test's own tools: each takes the arguments as the model gave them."""

Shape = list[tuple[Any, ...]]
"""An answer without its streaming: ("thought", text), ("text", text), ("call", name, args)."""

_TRANSPORT = ("stream", "stream_options", "project", "user_prompt_id")


class Heard(NamedTuple):
    """The pieces of a provider's answer, and its error if it failed."""

    pieces: list[Piece]
    error: ProviderError | None

    @property
    def text(self) -> str:
        return "".join(piece for piece in self.pieces if isinstance(piece, str))

    @property
    def calls(self) -> list[ToolCall]:
        return [piece for piece in self.pieces if isinstance(piece, ToolCall)]

    @property
    def kept(self) -> list[dict[str, Any]]:
        return [piece.block for piece in self.pieces if isinstance(piece, Kept)]

    @property
    def usage(self) -> list[Usage]:
        return [piece for piece in self.pieces if isinstance(piece, Usage)]

    @property
    def stops(self) -> list[str]:
        return [piece.why for piece in self.pieces if isinstance(piece, Stopped)]

    @property
    def shape(self) -> Shape:
        found: Shape = []
        for piece in self.pieces:
            match piece:
                case str():
                    _add(found, "text", piece)
                case Thought(text):
                    _add(found, "thought", text)
                case ToolCall():
                    found.append(("call", piece.name, piece.args))
        return found


def shape_of(parts: Sequence[Part], wire: Wire) -> Shape:
    """Return the expected shape of an answer with these parts."""
    found: Shape = []
    for part in parts:
        match part:
            case Say(pieces):
                _add(found, "text", "".join(pieces))
            case Think(text) if thinks(wire):
                _add(found, "thought", text)
            case Use():
                found.append(("call", part.name, part.args if part.raw is None else _value(part.raw)))
    return found


def thinks(wire: Wire) -> bool:
    """Return True if the protocol shows the model's thinking; Chat Completions do not."""
    return wire.provider != "openai"


def connect(wire: Wire, url: str) -> Provider:
    """Connect the real provider to this address."""
    module = importlib.import_module(BUILT_IN[wire.provider].module)
    project = "test-project" if wire.provider == "gemini_gca" else None
    provider: Provider = module.connect(wire.model, Access(key=KEY, base_url=url, project=project))
    assert KEY not in repr(provider)
    return provider


@contextmanager
def conversation(wire: Wire, tools: Tools | None = None) -> Iterator[Agent]:
    """Open a conversation with the wire's model in memory. At the end, none of its events may hold the key."""
    with foldmark.open(":memory:") as log:
        own_tools(log, tools or {})
        agent = log.agent("default")
        use(agent, wire)
        yield agent
        assert KEY not in repr(events(agent))


def use(agent: Agent, wire: Wire) -> None:
    agent.do(f"/model {wire.provider}/{wire.model}")


def own_tools(log: Log, tools: Tools) -> None:
    """Add the test's own tools to the existing ones."""
    there, call_there = list(log.tools()), log.call_tool
    schema = {"type": "object", "properties": {"at": {"type": "string"}}}
    specs = [*there, *(ToolSpec(name, f"Runs {name}.", schema) for name in tools)]

    def call(agent: Agent, name: str, args: Any, asking: Asking) -> str:
        return tools[name](args) if name in tools else call_there(agent, name, args, asking)

    log.tools, log.call_tool = lambda: specs, call  # type: ignore[method-assign]


async def listen(provider: Provider, request: Request) -> Heard:
    """Return the whole answer to a request. It must not contain the key."""
    pieces: list[Piece] = []
    error = None
    try:
        async with aclosing(provider.answer(request)) as answer:
            async for piece in answer:
                pieces.append(piece)
    except ProviderError as raised:
        error = raised
    assert KEY not in repr(pieces) + repr(error) + str(error)
    return Heard(pieces, error)


class Seen:
    """The pieces that an interface was shown of its turns."""

    def __init__(self) -> None:
        self.text, self.others = "", list[Piece]()
        self.calls = list[ToolCall]()
        self.show = Shown(self._text, self.calls.append, self.others.append)

    def _text(self, piece: str) -> None:
        self.text += piece


def events(agent: Agent) -> list[Event]:
    """Return all recorded events; the conversation is the only one in its database."""
    return stored(agent.log).events(range(1, agent.standing().last + 1))


def messages(agent: Agent) -> list[tuple[str, str]]:
    """Return the kinds and texts of the messages in the context."""
    return [(message.kind, message.content) for message in agent.context().messages]


def arrived(received: Received) -> dict[str, Any]:
    """Return the body as the encoder made it, without the fields that sending adds."""
    return {key: value for key, value in received.body.items() if key not in _TRANSPORT}


def sent(request: Request) -> Any:
    """Return the body of a request, decoded from its JSON."""
    return json.loads(request.bytes)


def missing(texts: Sequence[tuple[str, str]], wanted: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the first wanted text that is not in the texts in this order, or None; a part of a text is enough."""
    rest = iter(texts)
    for kind, text in wanted:
        if not any(kind == found and text in said for found, said in rest):
            return kind, text
    return None


def _value(raw: str) -> Any:
    """Decode the text of arguments, or return it unchanged if it is not JSON."""
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def _add(shape: Shape, kind: str, text: str) -> None:
    if shape and shape[-1][0] == kind:
        shape[-1] = (kind, shape[-1][1] + text)
    elif text:
        shape.append((kind, text))
