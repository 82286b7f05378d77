"""Time for streams that were left in the middle: SDKs leave the generators behind them to the collector, and those are
closed by the event loop, one layer in each of its rounds. A loop that ends before would lose them with a complaint."""

from asyncio import sleep

ROUNDS = 50


async def streams_closed() -> None:
    """Let the event loop go on for a moment, before it ends."""
    for _ in range(ROUNDS):
        await sleep(0)
