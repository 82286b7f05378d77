"""Retries (SPEC 6): their number, their waits, and the point after which there are none."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

import pytest

from foldmark.core.errors import ContextOverflowError, ProviderError
from foldmark.core.request import Edge, Manifest, Piece, Request, Stopped, Thought, ToolCall, Usage, Waiting
from foldmark.providers.retrying import LONGEST, RetryingProvider

REQUEST = Request("openai", "m", "openai", {}, b"{}", 1, Manifest((), (), Edge(None, None, 0)))
DONE = Stopped("end", "stop")

RATE = ProviderError("rate", "Too many requests.")
BUSY = ProviderError("busy", "Overloaded.")
CUT = ProviderError("network", "The connection broke.")


Attempt: TypeAlias = Sequence[Piece | BaseException]


class Moody:
    """A provider that plays its attempts, each a list of pieces that may end with an error."""

    def __init__(self, *attempts: Attempt) -> None:
        self.attempts, self.asked, self.closed = list(attempts), 0, 0

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        assert request is REQUEST
        self.asked += 1
        try:
            for piece in self.attempts.pop(0):
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            self.closed += 1

    async def count(self, request: Request) -> int:
        assert request is REQUEST
        self.asked += 1
        for piece in self.attempts.pop(0):
            if isinstance(piece, BaseException):
                raise piece
        return 42


class Watch:
    """A clock that records the requested waits and does not wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


def patient(provider: Moody, watch: Watch, chance: float = 1.0, **more: Any) -> RetryingProvider:
    return RetryingProvider(provider, sleep=watch.sleep, random=lambda: chance, **more)


def told(provider: RetryingProvider) -> tuple[list[Piece], ProviderError | None]:
    """Return the pieces of an answer, and its error if it failed."""
    pieces: list[Piece] = []

    async def listen() -> None:
        async for piece in provider.answer(REQUEST):
            pieces.append(piece)

    try:
        asyncio.run(listen())
    except ProviderError as error:
        return pieces, error
    return pieces, None


def test_an_immediate_answer_is_passed_on_unchanged() -> None:
    watch = Watch()
    answer: list[Piece] = [Thought("hm"), "Hel", "lo", ToolCall("c", "n", {}), Usage(1, 2, 3, 4), DONE]
    provider = Moody(answer)
    assert told(patient(provider, watch)) == (answer, None)
    assert (provider.asked, provider.closed, watch.waits) == (1, 1, [])


@pytest.mark.parametrize("error", [RATE, BUSY, CUT], ids=lambda error: error.kind)
def test_temporary_failures_are_retried(error: ProviderError) -> None:
    watch, provider = Watch(), Moody([error], ["Hello", DONE])
    assert told(patient(provider, watch)) == ([Waiting(1.0, str(error)), "Hello", DONE], None)
    assert (provider.asked, provider.closed, watch.waits) == (2, 2, [1.0])


def test_each_wait_is_reported_before_it_begins() -> None:
    watch, provider = Watch(), Moody([RATE], ["Hello"])

    async def listen() -> None:
        async with aclosing(patient(provider, watch).answer(REQUEST)) as pieces:
            assert await anext(pieces) == Waiting(1.0, "Too many requests.")
            assert (watch.waits, provider.asked, provider.closed) == ([], 1, 1)
            assert await anext(pieces) == "Hello"
            assert (watch.waits, provider.asked) == ([1.0], 2)

    asyncio.run(listen())


def test_waits_double_up_to_the_maximum() -> None:
    watch, provider = Watch(), Moody(*([RATE] for _ in range(8)), ["Hello"])
    pieces, error = told(patient(provider, watch, attempts=9, base=2.0, most=20.0))
    assert watch.waits == [2.0, 4.0, 8.0, 16.0, 20.0, 20.0, 20.0, 20.0]
    assert error is None
    assert [piece.seconds for piece in pieces if isinstance(piece, Waiting)] == watch.waits


@pytest.mark.parametrize("chance", [0.0, 0.25, 0.999])
def test_a_random_part_shortens_a_wait_by_up_to_half(chance: float) -> None:
    watch = Watch()
    told(patient(Moody([BUSY], [BUSY], [BUSY], ["Hello"]), watch, chance))
    assert watch.waits == [whole * (1 + chance) / 2 for whole in (1, 2, 4)]


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_no_retry_is_earlier_than_the_provider_asked(chance: float) -> None:
    watch = Watch()
    asks = [[ProviderError("rate", "Slow down.", seconds)] for seconds in (30.0, 0.0, 0.5, LONGEST)]
    told(patient(Moody(*asks, ["Hello"]), watch, chance))
    assert [wait >= asked for wait, asked in zip(watch.waits, (30.0, 0.0, 0.5, LONGEST), strict=True)] == [True] * 4
    assert watch.waits[0] <= 31.0  # and not much later
    assert watch.waits[1] >= 1.0  # no flood of requests if the provider asks for no wait


def test_a_wait_that_is_too_long_fails_at_once() -> None:
    watch, provider = Watch(), Moody([ProviderError("rate", "No more today.", 7200.0)])
    pieces, error = told(patient(provider, watch))
    assert error is not None
    assert (error.kind, error.retry_after, pieces) == ("rate", 7200.0, [])
    assert str(error) == "No more today. It asks to wait 7,200 seconds; Foldmark waits at most 120."
    assert (provider.asked, watch.waits) == (1, [])


def test_after_all_attempts_the_last_failure_is_raised() -> None:
    watch, provider = Watch(), Moody([BUSY], [CUT], [ProviderError("rate", "Too many requests.", 7.0)])
    pieces, error = told(patient(provider, watch, attempts=3))
    assert error is not None
    assert (str(error), error.kind, error.retry_after) == ("Too many requests. (after 3 attempts)", "rate", 7.0)
    assert pieces == [Waiting(1.0, "Overloaded."), Waiting(2.0, "The connection broke.")]
    assert (provider.asked, provider.closed, len(watch.waits)) == (3, 3, 2)


def test_there_are_five_attempts_by_default() -> None:
    watch, provider = Watch(), Moody(*([BUSY] for _ in range(9)))
    _, error = told(patient(provider, watch))
    assert (provider.asked, str(error)) == (5, "Overloaded. (after 5 attempts)")


@pytest.mark.parametrize(
    "error",
    [
        *(ProviderError(kind, "No.") for kind in ("sdk", "key", "request", "answer")),
        ContextOverflowError("Too long.", 250_000, 200_000),
    ],
    ids=lambda error: error.kind,
)
def test_permanent_failures_are_not_retried(error: ProviderError) -> None:
    watch, provider = Watch(), Moody([RATE], [error])
    pieces, raised = told(patient(provider, watch))
    assert raised is error
    assert (pieces, provider.asked, provider.closed) == ([Waiting(1.0, "Too many requests.")], 2, 2)


@pytest.mark.parametrize("first", ["Hel", Thought("hm"), Usage(fresh=3)], ids=["text", "thought", "usage"])
def test_after_a_shown_piece_a_failure_is_final(first: Piece) -> None:
    watch, provider = Watch(), Moody([first, CUT], ["Hello"])
    assert told(patient(provider, watch)) == ([first], CUT)
    assert (provider.asked, provider.closed, watch.waits) == (1, 1, [])


def test_cancelling_a_wait_ends_it() -> None:
    provider, waiting = Moody([RATE], ["Hello"]), asyncio.Event()

    async def forever(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    async def listen() -> None:
        task = asyncio.create_task(collect(RetryingProvider(provider, sleep=forever)))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(listen())
    assert (provider.asked, provider.closed) == (1, 1)


def test_a_cancelled_answer_is_not_retried() -> None:
    watch, provider = Watch(), Moody([asyncio.CancelledError()], ["Hello"])
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(collect(patient(provider, watch)))
    assert (provider.asked, provider.closed, watch.waits) == (1, 1, [])


def test_closing_the_stream_closes_the_answer() -> None:
    watch, provider = Watch(), Moody(["Hel", "lo"])

    async def listen() -> None:
        async with aclosing(patient(provider, watch).answer(REQUEST)) as pieces:
            assert await anext(pieces) == "Hel"
            assert provider.closed == 0
        assert provider.closed == 1

    asyncio.run(listen())
    assert (provider.asked, watch.waits) == (1, [])


def test_counting_is_retried() -> None:
    watch, provider = Watch(), Moody([RATE], [CUT], [])
    assert asyncio.run(patient(provider, watch).count(REQUEST)) == 42
    assert (provider.asked, watch.waits) == (3, [1.0, 2.0])


def test_counting_fails_as_answering_does() -> None:
    watch = Watch()
    with pytest.raises(ProviderError, match=r"^Overloaded\. \(after 2 attempts\)$"):
        asyncio.run(patient(Moody([RATE], [BUSY]), watch, attempts=2).count(REQUEST))
    with pytest.raises(ProviderError, match="7,200 seconds"):
        asyncio.run(patient(Moody([ProviderError("rate", "No.", 7200.0)]), watch).count(REQUEST))
    with pytest.raises(ProviderError, match=r"^It cannot count\.$"):
        asyncio.run(patient(Moody([ProviderError("request", "It cannot count.")]), watch).count(REQUEST))
    assert watch.waits == [1.0]


async def collect(provider: RetryingProvider) -> list[Piece]:
    return [piece async for piece in provider.answer(REQUEST)]
