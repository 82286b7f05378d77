"""The line of the meter in terminals of every width: the state and the share of the limit are always there."""

import asyncio

import pytest
from driven import driven, sample

from foldmark.log import Log
from foldmark.terminal.meter import WAITING


@pytest.mark.parametrize(
    ("width", "idle", "waiting"),
    [
        (80, "notes · offline · idle", f"notes · offline · {WAITING}"),
        (60, "notes · offline · idle", f"notes · {WAITING}"),
        (40, "idle", WAITING),
        (30, "idle", WAITING),
    ],
)
def test_a_narrow_terminal_keeps_the_state_and_the_share(log: Log, width: int, idle: str, waiting: str) -> None:
    async def look() -> None:
        async with driven(sample(log), size=(width, 24)) as chat:
            for state, shown in ((False, idle), (True, waiting)):
                chat.app.chat.meter.show_own(waiting=state)
                await chat.until(shown)
                line = chat.screen.split("\n")[0]
                assert line.startswith(f" {shown} ")
                numbers = width > 40 or (width == 40 and not state)
                assert line.endswith("⚪ 2% · 2.8K of 100K budget" if numbers else "⚪ 2%")

    asyncio.run(look())
