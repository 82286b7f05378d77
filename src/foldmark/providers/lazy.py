"""A provider that is made when it is first asked: what is wrong with a key or an SDK is then part of a turn, and what
the person wrote has been recorded [SPEC 6]."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import cached_property

from foldmark.core.ports import Provider
from foldmark.core.request import Piece, Request


class LazyProvider:
    """What `make` makes, and whatever that raises when it is asked."""

    def __init__(self, make: Callable[[], Provider]) -> None:
        self._make = make

    @cached_property
    def _provider(self) -> Provider:
        return self._make()

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer. Raises as `make`, ProviderError."""
        async with aclosing(self._provider.answer(request)) as pieces:
            async for piece in pieces:
                yield piece

    async def count(self, request: Request) -> int:
        """The tokens of a request as the provider counts them. Raises as `make`, ProviderError."""
        return await self._provider.count(request)
