"""A custom wire format, and a provider that speaks it: `foldmark chat --model echo/any`.

A body is `{"model": ..., "lines": [...]}`, one line for the system field, each message and each call with its result.
An answer is `{"text": ...}`. The server is this process: it repeats the last line.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

from foldmark.core.assembly.caching import Block, block
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.view import Calls
from foldmark.core.request import PLAIN, Options, Piece, Request, Stopped, ToolSpec
from foldmark.dialects.dialect import Dialect
from foldmark.providers.registry import Access, ProviderSpec


def encode(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> dict[str, Any]:
    """Return the body for a prompt; this wire has no tools, so calls are sent as text."""
    lines = [f"system: {prompt.system}"] if prompt.system else []
    for step in prompt.steps:
        if isinstance(step, Calls):
            lines += [f"assistant: {step.text}"] if step.text else []
            lines += [f"{call.name}({call.arguments}): {call.result}" for call in step.calls]
        else:
            lines.append(f"{step.role}: {step.text}")
    return {"model": model, "lines": lines}


def parse(answer: dict[str, Any]) -> tuple[Piece, ...]:
    """Return an answer in Foldmark's terms."""
    return str(answer["text"]), Stopped("end", "echo")


def blocks(body: dict[str, Any]) -> Iterator[Block]:
    """Yield what a cache would keep: each line."""
    for line in body["lines"]:
        yield block("line", line)


ECHO = Dialect(
    name="echo",
    recorded="echo",
    encode=encode,
    parse=parse,
    blocks=blocks,
    on_the_wire="nothing: it stays in this process",
)
PROVIDER = ProviderSpec(name="echo", dialect="echo", module="echo_dialect")


def connect(model: str, access: Access) -> "Echo":
    """Return the provider of a model."""
    return Echo()


class Echo:
    """A provider that repeats the last line of a request."""

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer."""
        for piece in parse({"text": request.body["lines"][-1].partition(": ")[2]}):
            yield piece

    async def count(self, request: Request) -> int:
        """Return the tokens of a request: one for each line."""
        return len(request.body["lines"])
