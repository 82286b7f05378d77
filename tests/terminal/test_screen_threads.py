"""The threads of the application: Textual's, that of the chat, one of a tool, and one in which the screens read."""

import asyncio
import threading
from pathlib import Path

import pytest
from driven import driven

from foldmark.log import Log
from foldmark.providers.offline import OfflineModel
from foldmark.tools.working.paths import work_in

MOST = 4
"""Maximum number of threads that exist while a line is carried out."""


def test_a_line_needs_no_more_than_four_threads(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = {*threading.enumerate()} - {threading.current_thread()}
    there, start = set[threading.Thread](), threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        there.add(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    work_in(log, tmp_path)

    async def talk() -> None:
        async with driven(log.agent("notes"), lambda _: OfflineModel(0.01)) as chat:
            for line, shown, key in (
                ("hello", "", ""),
                ('call bash {"command": "echo ran"}', "F8 answer", "f8"),
                ("/context show", "", ""),
                ("hello again", "I am the", "ctrl+c"),
                ("!echo ran", "", ""),
            ):
                there.clear()
                there.update({*threading.enumerate()} - others)
                await chat.type(line)
                if shown:
                    await chat.until(shown)
                    await chat.press(key)
                if key == "f8":
                    await chat.press("y")
                await chat.until(lambda: chat.app.idle)
                await chat.still()
                assert len(there) <= MOST, (line, [each.name for each in there])
            await chat.until("(interrupted")

    asyncio.run(talk())
