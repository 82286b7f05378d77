"""One request to a model and its streamed answer. Pieces are collected for the log and shown at once, except the state
block at the end [SPEC 7]."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from foldmark.core.assembly.sent import SentRequest
from foldmark.core.errors import ContextOverflowError, ProviderError
from foldmark.core.ports import Provider
from foldmark.core.request import Compacted, Kept, Piece, Request, Stopped, ToolCall, Usage, Waiting
from foldmark.log import Agent
from foldmark.request.prepare import without_thinking
from foldmark.text.state import Hiding

_REFUSED = (
    "the provider refused the model's earlier thinking, because it is bound to a different conversation; it is left out"
)


class StreamedAnswer:
    """A model's answer to one request, as received so far."""

    def __init__(self, request: Request | None = None) -> None:
        self.request = request
        self.sent: SentRequest | None = None
        """The request as it was recorded, once it is sent."""
        self.pieces: list[str] = []
        self.calls: list[ToolCall] = []
        self.kept: list[dict[str, Any]] = []
        self.compacted: list[Compacted] = []
        self.usage: Usage | None = None
        self.stopped: Stopped | None = None

    @property
    def text(self) -> str:
        """All text of the answer."""
        return "".join(self.pieces)

    @property
    def dialect(self) -> str | None:
        """The dialect of the answer's calls and blocks."""
        return self.request.dialect if self.request else None

    @property
    def goes_on(self) -> bool:
        """True if the provider only wrote a summary; the answer needs another request."""
        return bool(self.compacted) and self.stopped is not None and self.stopped.why == "compacted"

    def reader(self, agent: Agent) -> str:
        """Return the reader that the answer's summaries are written for (`core.assembly.eviction`)."""
        from foldmark.providers.registry import dialect_of

        if not self.compacted or self.request is None:
            return ""
        return dialect_of(self.request.provider, agent.log.given.dialects).reads

    def take(self, piece: Piece) -> None:
        """Add a piece; thoughts and waiting notices are not kept."""
        match piece:
            case str():
                self.pieces.append(piece)
            case ToolCall():
                self.calls.append(piece)
            case Kept():
                self.kept.append(piece.block)
            case Compacted():
                self.compacted.append(piece)
            case Usage():
                self.usage = piece
            case Stopped():
                self.stopped = piece
            case _:
                pass


class HeldBackText:
    """Holds text back until it is known whether the answer counts; other pieces are shown at once."""

    def __init__(self, show: Callable[[Piece], None]) -> None:
        self._show, self._text = show, list[str]()

    def __call__(self, piece: Piece) -> None:
        if isinstance(piece, str):
            self._text.append(piece)
        else:
            self._show(piece)

    def release(self) -> None:
        """Show the text held back so far."""
        for text in self._text:
            self._show(text)


async def stream(agent: Agent, provider: Provider, answer: StreamedAnswer, show: Callable[[Piece], None]) -> int | None:
    """Send `answer.request` and collect the pieces in `answer`, where they remain if this is interrupted. Each request
    is recorded before it is sent [SPEC 5.6].

    If the provider refuses the model's earlier thinking, the request is sent once more without it, and `show` gets a
    notice. If the provider finds the request too long, it is sent once more with a smaller window; that window's size
    in tokens is returned, since it also limits the turn's next requests. Raises ProviderError, StoreError.
    """
    assert answer.request is not None
    try:
        await _gather(agent, provider, answer, show)
    except ContextOverflowError as error:
        before, limit = answer.request, error.within(answer.request.tokens)
        smaller = agent.next_request(before.provider, before.model, limit=limit)
        if answer.pieces or answer.calls or smaller.tokens >= before.tokens:
            raise
        answer.request = smaller
        await _gather(agent, provider, answer, show)
        return limit
    return None


async def _gather(agent: Agent, provider: Provider, answer: StreamedAnswer, show: Callable[[Piece], None]) -> None:
    """Send the request; if the provider refuses the model's earlier thinking, send it once more without it."""
    try:
        await _sent(agent, provider, answer, show)
    except ProviderError as error:
        assert answer.request is not None
        if error.kind != "bound" or answer.pieces or answer.request.thoughtless:
            raise
        show(Waiting(0, _REFUSED))
        answer.request = without_thinking(answer.request, agent.log.given.dialects)
        await _sent(agent, provider, answer, show)


async def _sent(agent: Agent, provider: Provider, answer: StreamedAnswer, show: Callable[[Piece], None]) -> None:
    assert answer.request is not None
    answer.sent = agent.record_sent(answer.request)
    hiding, whole = Hiding(), False
    try:
        async with aclosing(provider.answer(answer.request)) as pieces:
            async for piece in pieces:
                answer.take(piece)
                shown = hiding.feed(piece) if isinstance(piece, str) else piece
                if shown:
                    show(shown)
        whole = True
    finally:
        if rest := hiding.end(interrupted=not whole):
            show(rest)
