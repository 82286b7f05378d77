"""Wrappers of a provider: one retries failed requests, the other creates the provider on first use [SPEC 6].

Each wait is about twice as long as the one before, with a random part so that many clients do not return at the same
moment, and never shorter than the provider asked for. Once a piece of an answer has been shown, a failure is final.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import cached_property
from itertools import count as numbers_from

from foldmark.core.errors import FoldmarkError, ProviderError
from foldmark.core.ports import Provider
from foldmark.core.request import Piece, Request, Waiting

LONGEST = 120.0
"""Maximum number of seconds that a provider may ask to wait. If it asks for more, the request fails at once."""


ROUNDS = 50
"""Number of event-loop rounds in which abandoned streams are closed."""


class RetryingProvider:
    """Sends a request to `provider` up to `attempts` times. Waits begin at about `base` seconds and grow to at most
    `most`.

    `sleep` accepts seconds; `random` returns a number from 0 to 1. Failures that are not temporary
    (`ProviderError.passes`) are raised at once.
    """

    def __init__(
        self,
        provider: Provider,
        attempts: int = 5,
        base: float = 1.0,
        most: float = 60.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._provider, self._attempts = provider, attempts
        self._base, self._most, self._sleep, self._random = base, most, sleep, random

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer, with a `Waiting` before each wait. Raises ProviderError."""
        for attempt in numbers_from(1):
            begun = False
            try:
                async with aclosing(self._provider.answer(request)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
            except ProviderError as error:
                if begun:
                    raise
                seconds, reason = self._wait(error, attempt), str(error)
            else:
                return
            yield Waiting(seconds, reason)
            await self._sleep(seconds)

    async def count(self, request: Request) -> int:
        """Return the tokens of a request as the provider counts them. Raises ProviderError."""
        attempt = 1
        while True:
            try:
                return await self._provider.count(request)
            except ProviderError as error:
                seconds = self._wait(error, attempt)
            await self._sleep(seconds)
            attempt += 1

    def _wait(self, error: ProviderError, attempt: int) -> float:
        """Return the seconds to wait after this many attempts. Raises ProviderError if another attempt is pointless."""
        if not error.passes:
            raise error
        delay = error.retry_after
        if delay is not None and delay > LONGEST:
            text = f"{error} It asks to wait {delay:,.0f} seconds; Foldmark waits at most {LONGEST:.0f}."
            raise ProviderError(error.kind, text, delay) from error
        if attempt >= self._attempts:
            after = "1 attempt" if attempt == 1 else f"{attempt} attempts"
            raise ProviderError(error.kind, f"{error} (after {after})", delay) from error
        chance = self._random()
        grown = min(self._most, self._base * 2.0 ** (attempt - 1)) * (1 + chance) / 2
        return grown if delay is None else max(grown, delay + self._base * chance)


class LazyProvider:
    """The provider that `make` creates on first use. An error about a key or an SDK is then raised in a turn, after the
    person's message was recorded; `obstacle` returns it before, without an import of the SDK."""

    def __init__(self, make: Callable[[], Provider], obstacle: Callable[[], str | None] = lambda: None) -> None:
        self._make, self.obstacle = make, obstacle

    @cached_property
    def _provider(self) -> Provider:
        return self._make()

    def prepare(self) -> None:
        """Create the provider now, which imports its SDK, so that a person who is still typing does not have to wait
        later. Errors are raised when the provider is used."""
        with suppress(FoldmarkError):
            _ = self._provider

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer. Raises the errors of `make`, ProviderError."""
        async with aclosing(self._provider.answer(request)) as pieces:
            async for piece in pieces:
                yield piece

    async def count(self, request: Request) -> int:
        """Return the tokens of a request as the provider counts them. Raises the errors of `make`, ProviderError."""
        return await self._provider.count(request)


async def streams_closed() -> None:
    """Let the event loop run for a moment before it ends. SDKs leave the generators of abandoned streams to the garbage
    collector, and the event loop closes them, one layer per round. A loop that ended earlier would warn about them."""
    for _ in range(ROUNDS):
        await asyncio.sleep(0)
