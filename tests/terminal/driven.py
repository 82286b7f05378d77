"""The application on a log, driven by a pilot: type, wait for the screen, and use a sample conversation."""

import asyncio
from asyncio import sleep
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from time import monotonic

from textual._compositor import LayoutUpdate
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Input, TextArea

import foldmark
from foldmark.core.ports import Provider
from foldmark.log import Agent, Log
from foldmark.providers.offline import OfflineModel
from foldmark.terminal.application import ChatApplication
from foldmark.terminal.screens import KeyLine
from patience import LIMIT

BEGIN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def open_log(path: Path) -> Log:
    """Open a log whose times and ids are the same in every run, with one second between two events."""
    log = foldmark.open(str(path), settings={})
    seconds, ids = count(), count(1)
    log.clock = lambda: (BEGIN + timedelta(seconds=next(seconds))).isoformat(timespec="microseconds")
    log.new_id = lambda: f"00000000-0000-4000-8000-{next(ids):012d}"
    return log


class Driven:
    """A running application. `screen` is its screen as text."""

    def __init__(self, app: ChatApplication, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def lines(self) -> list[list[Strip]]:
        """The lines of the screen. A picture would take seven times as long."""
        drawn = self.app.screen._compositor.render_update(full=True, screen_stack=self.app._background_screens)
        assert isinstance(drawn, LayoutUpdate)
        return [[*row] for row in drawn.strips]

    @property
    def screen(self) -> str:
        """The screen as lines of text."""
        return "\n".join("".join(strip.text for strip in row).rstrip() for row in self.lines)

    async def until(self, what: str | Callable[[], object]) -> None:
        """Wait until a text is shown or a condition holds."""
        end, pause = monotonic() + LIMIT, 0.02
        while not (what in self.screen if isinstance(what, str) else what()):
            assert monotonic() < end, f"{what!r} did not come; the screen:\n{self.screen}"
            await sleep(pause)
            pause = min(1.5 * pause, 0.2)

    async def still(self) -> None:
        """Wait until no worker runs and the screen has stopped changing. Cursors stop blinking."""
        for field in (*self.app.screen.query(TextArea), *self.app.screen.query(Input)):
            field.cursor_blink = False  # a picture shows the cursor, on a slow machine too
        before = ""
        while (now := self.screen) != before or any(each.is_running for each in self.app.workers):
            before = now
            for _ in range(3):
                await self.pilot.pause(0.05)

    async def type(self, text: str) -> None:
        """Type a line into the prompt and send it."""
        self.app.chat.prompt.focus()
        self.app.chat.prompt.insert(text)
        await self.pilot.press("enter")

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)


@asynccontextmanager
async def driven(
    agent: Agent, models: Callable[[str], Provider] = lambda _: OfflineModel(), size: tuple[int, int] = (100, 30)
) -> AsyncIterator[Driven]:
    """Run the application on an agent, up to its greeting; at the end of the block, leave it and end its thread. The
    clock of its answers stands still."""
    app = ChatApplication(agent, models)
    app.chat.transcript.clock = lambda: 0.0
    try:
        async with app.run_test(size=size) as pilot:
            found = Driven(app, pilot)
            await found.until(lambda: app.chat.attended)
            await found.until(lambda: app.chat.query_one(KeyLine).children)  # the line of keys is filled last
            # Lines that arrive before the log is read would appear after lines that are typed meanwhile.
            await found.until(lambda: not any(each.is_running for each in app.workers))
            yield found
            if not app.ended:
                assert found.screen  # the last frame can be drawn
            app.action_leave()
            await found.until(lambda: app.ended)
    finally:
        app.end()


def run(agent: Agent, act: Callable[[Driven], Awaitable[object]]) -> None:
    """Run the application on an agent, and act on it."""

    async def play() -> None:
        async with driven(agent) as chat:
            await act(chat)

    asyncio.run(play())


def prompts(agent: Agent) -> list[str]:
    """Return the texts of the person's messages in the context."""
    return [each.content for each in agent.context().messages if each.kind == "user"]


def sample(log: Log) -> Agent:
    """Return a conversation with tool calls, a mark and a dropped turn."""
    agent = log.agent("notes")
    _turn(agent, "Why does the import of tags fail?", "read_file", {"path": "tags.py"}, "def tags(text):\n" * 20)
    agent.do("/mark BEFORE_PLUGINS")
    file = {"path": "src/export/registry.py"}
    dropped = _turn(agent, "Try a plugin system for exporters.", "read_file", file, "EXPORTERS = {}\n" * 86)
    tests = {"command": "pytest tests/export"}
    _turn(agent, "Run the whole test suite.", "bash", tests, "FAILED tests/export/test_csv.py\n" * 120)
    agent.do(f"/context drop {dropped} -- led nowhere")
    folder = {"path": "src/export"}
    _turn(agent, "Now the simple way: a module per format.", "list_files", folder, "csv.py\njson.py\nxml.py\n")
    return agent


def story(log: Log) -> Agent:
    """Return a real course of work: a fault is found, an idea leads nowhere and is dropped, the fix holds."""
    agent = log.agent("export")
    agent.append("user", "The CSV export loses the last rows of a large note. Where?")
    source = "import csv\nclass CsvExport:\n    SIZE = 500\n" + "    batch.append(row(note))\n" * 67
    _call(agent, "read_file", {"path": "src/export/csv.py"}, source)
    agent.append(
        "assistant",
        "In `write()` of **src/export/csv.py**: rows are written in batches of 500, and the file is closed before the "
        "last, shorter batch is written.",
    )
    agent.end_turn()
    dropped = agent.append("user", "Would pandas do this better?")
    _call(agent, "bash", {"command": "pip download pandas"}, "Collecting pandas: wheel, 12.8 MB\n" * 60)
    agent.append("assistant", "It would, for three more dependencies and 60 MB. The fix is two lines without it.")
    agent.end_turn()
    agent.do(f"/context drop {dropped} -- too heavy")
    agent.append("user", "Then fix it, with a test.")
    _call(agent, "bash", {"command": "pytest -q tests/export"}, ".............\n13 passed in 0.41s\n")
    agent.append(
        "assistant",
        "Fixed. The rest of a batch is written before the file is closed:\n\n"
        "```python\nif batch:\n    self._write(batch)\nself._file.close()\n```\n\n"
        "The new test exports 501 rows and counts them.",
    )
    agent.end_turn()
    return agent


def _call(agent: Agent, tool: str, arguments: dict[str, str], result: str) -> None:
    call = f"call_{tool}_{len(result)}"
    agent.append_tool_call(tool, arguments, call_id=call)
    agent.append_tool_result(call, result)


def _turn(agent: Agent, text: str, tool: str, arguments: dict[str, str], result: str) -> int:
    """Append a turn in which the model calls a tool once, and return its id."""
    turn = agent.append("user", text)
    agent.append_tool_call(tool, arguments, call_id=f"call_{turn}")
    agent.append_tool_result(f"call_{turn}", result)
    agent.append("assistant", f"I looked at it, and the answer to “{text}” is **short**:\n\n```python\nprint(1)\n```")
    agent.end_turn()
    return turn
