"""Ask a model over its provider, and wait: for a complete answer to a question, or for a count of tokens.

The client of a session that runs under `foldmark live` has a model and credentials of its own: it answers the questions
of its commands (`CLIENT`).
"""

import os
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING

from foldmark.core.errors import FoldmarkError, ProviderError
from foldmark.settings.given import Settings

if TYPE_CHECKING:
    from foldmark.core.ports import Provider
    from foldmark.core.request import Piece, Request

CLIENT: "ContextVar[Callable[[Request], str] | None]" = ContextVar("client", default=None)
"""Returns the answer of the client whose command runs in this thread; None if no client is to be asked."""

COUNT_EVERY = 1.0
"""Minimum seconds between two requests for a count, which are free but rate-limited."""

_counted = 0.0


def complete(request: "Request", given: Settings) -> str:
    """Return the text of the complete answer to a request, of the client or the model. Raises the same errors as
    `pieces`."""
    client = CLIENT.get()
    return provided(request, given) if client is None else client(request)


def provided(request: "Request", given: Settings) -> str:
    """Return the text of the model's complete answer to a request. Raises the same errors as `pieces`."""
    return "".join(piece for piece in pieces(request, given) if isinstance(piece, str))


def pieces(request: "Request", given: Settings) -> "list[Piece]":
    """Wait for the model's complete answer to a request. Raises FoldmarkError, also for an incomplete answer."""
    import asyncio
    from contextlib import aclosing

    from foldmark.core.request import Stopped
    from foldmark.providers.retrying import streams_closed
    from foldmark.sending.interruption import CURRENT

    name = _name(request)

    async def whole() -> "list[Piece]":
        with CURRENT.get().cancels():
            try:
                return await asked()
            finally:
                await streams_closed()

    async def asked() -> "list[Piece]":
        async with aclosing(provider(name, given, attempts=3).answer(request)) as pieces:
            found = [piece async for piece in pieces]
        stopped = next((piece for piece in found[::-1] if isinstance(piece, Stopped)), Stopped("end", ""))
        if stopped.why in ("length", "refused"):
            what = "was cut off" if stopped.why == "length" else "is a refusal"
            raise ProviderError("answer", f"the answer of {name} {what} ({stopped.said}); nothing was changed")
        return found

    try:
        return asyncio.run(whole())
    except asyncio.CancelledError:
        raise FoldmarkError("the question to the model was interrupted; nothing was changed") from None


def count(request: "Request", given: Settings) -> int:
    """Wait for the provider's count of the tokens in a request. Raises FoldmarkError."""
    import asyncio
    import time

    global _counted
    time.sleep(max(0.0, _counted + COUNT_EVERY - time.monotonic()))
    try:
        return asyncio.run(provider(_name(request), given, attempts=2).count(request))
    finally:
        _counted = time.monotonic()


def provider(name: str, settings: Settings, delay: float = 0.0, attempts: int = 5) -> "Provider":
    """Return the provider for a model name in the form of `Config.model`. `delay` is the number of seconds between
    words of the offline model.

    A request is sent up to `attempts` times while the provider cannot answer. Keys come from the environment. Errors
    are raised only by requests: CommandError for an unknown provider, ProviderError for a missing key or SDK.
    """
    if name.partition("/")[0] == "offline":
        from foldmark.providers.offline import OfflineModel

        return OfflineModel(delay)
    from foldmark.providers.retrying import LazyProvider
    from foldmark.settings.access import obstacle

    return LazyProvider(partial(connected, name, settings, attempts), partial(obstacle, name, os.environ, settings))


def connected(name: str, settings: Settings, attempts: int) -> "Provider":
    """Return the provider for a model name of any provider but `offline`, with its SDK imported; otherwise like
    `provider`. Raises CommandError for an unknown provider, ProviderError for a missing key or SDK."""
    from importlib import import_module

    from foldmark.providers.registry import check_model, provider_spec
    from foldmark.providers.retrying import RetryingProvider
    from foldmark.settings.access import access

    check_model(name, settings.dialects)
    kind, _, model = name.partition("/")
    reached = access(kind, os.environ, settings)
    module = import_module(provider_spec(kind, settings.dialects).module)
    return RetryingProvider(module.connect(model, reached), attempts)


def _name(request: "Request") -> str:
    return "offline" if request.provider == "offline" else f"{request.provider}/{request.model}"
