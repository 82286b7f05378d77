"""Run agents on command, for tests of leases: working.py DATABASE [LOOK_SECONDS LEASE_SECONDS].

The process reads commands, one per line, and prints what happens:

    say NAME TEXT       begin a turn of this agent; prints "asked" when its model is asked, and at its end "done NAME",
                        "cancelled NAME" or "error NAME CLASS MESSAGE"
    answer TEXT         the model's whole answer is TEXT; "fail": the answer breaks off;
                        "call TOOL ARGS": the model calls TOOL (for `slash`, as typed). " + " joins several of these
    result TEXT         the tool `hold` answers TEXT; it prints "holding" when it begins
    stop-before         the next tool that begins stops the process with SIGSTOP
    take NAME FILE N    take the lease as soon as the first byte of FILE is N; prints "waiting", then "took" or
                        "error CLASS MESSAGE"
    give-back           give that lease back; prints "gone"

At the end of its input it ends its turns and exits.
"""

import asyncio
import mmap
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Thread, get_ident
from typing import Any

import foldmark
from foldmark import Agent, FoldmarkError, Log
from foldmark.core.errors import ProviderError
from foldmark.core.request import Piece, Request, ToolCall, ToolSpec
from foldmark.operations.effects import Asking
from foldmark.runtime import supervisor
from foldmark.runtime.lease import HeldLease, take
from foldmark.sending.interruption import CURRENT

NUMBERS = count(1)


class Hold:
    """A tool that answers when a `result` line comes, or when its turn is interrupted."""

    spec = ToolSpec("hold", "Waits.", {"type": "object", "properties": {}})
    together = False

    def __init__(self) -> None:
        self.results: SimpleQueue[str] = SimpleQueue()

    def __call__(self, agent: Agent, args: Mapping[str, Any], asking: Asking) -> str:
        with CURRENT.get().ended_by(lambda: self.results.put("interrupted")):
            print("holding", flush=True)
            return self.results.get()


class Model:
    """A model that answers with the lines that it gets."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[str] = asyncio.Queue()

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        print("asked", flush=True)
        for line in (await self.answers.get()).split(" + "):
            kind, _, text = line.partition(" ")
            if kind == "fail":
                raise ProviderError("network", "The line is dead.")
            if kind == "answer":
                yield text
                continue
            tool, _, args = text.partition(" ")
            command, _, rest = args.partition(" ")
            given = {"command": command, "args": rest} if tool == "slash" else {}
            yield ToolCall(f"call-{next(NUMBERS)}", tool, given)

    async def count(self, request: Request) -> int:
        raise NotImplementedError


class Working:
    """Carries out the lines."""

    def __init__(self, log: Log, agents: supervisor.Supervisor, model: Model, hold: Hold) -> None:
        self._log, self._agents, self._model, self._hold = log, agents, model, hold
        self._held: HeldLease | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._run_tool, self._stopping = log.call_tool, False
        log.call_tool = self._call_tool  # type: ignore[method-assign]

    def line(self, line: str) -> None:
        kind, _, rest = line.partition(" ")
        if kind == "say":
            task = asyncio.create_task(self._say(*rest.split(" ", 1)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif kind == "result":
            self._hold.results.put(rest)
        elif kind == "stop-before":
            self._stopping = True
        elif kind == "take":
            self._take(*rest.split(" "))
        elif kind == "give-back":
            if self._held is not None:
                self._held.give_back()
            print("gone", flush=True)
        else:
            self._model.answers.put_nowait(line)

    async def _say(self, name: str, text: str) -> None:
        agent = self._log.find(name)
        self._agents.attended = agent.id
        try:
            await self._agents.say(agent, text)
        except (asyncio.CancelledError, supervisor.TurnInterruptedError):
            print("cancelled", name, flush=True)
        except FoldmarkError as error:
            print("error", name, type(error).__name__, error, flush=True)
        else:
            print("done", name, flush=True)

    def _take(self, name: str, path: str, number: str) -> None:
        agent, self._held = self._log.find(name), None
        with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as shared:
            print("waiting", flush=True)
            while shared[0] != int(number):
                pass
        try:
            self._held = take(agent, self._log.new_id())
        except FoldmarkError as error:
            print("error", type(error).__name__, error, flush=True)
        else:
            print("took", flush=True)

    def _call_tool(self, agent: Agent, name: str, args: Mapping[str, Any], asking: Asking) -> str:
        if self._stopping:
            self._stopping = False
            signal.pthread_kill(get_ident(), signal.SIGSTOP)  # this thread stops here
        return self._run_tool(agent, name, args, asking)


async def main(path: str) -> None:
    """Carry out the lines of standard input."""
    with foldmark.open(path, create=False) as log:
        model, hold, over = Model(), Hold(), asyncio.Event()
        log.add_tool(hold)
        async with supervisor.Supervisor(log, lambda _: model) as agents:
            working, loop = Working(log, agents, model, hold), asyncio.get_running_loop()

            def read() -> None:
                for line in sys.stdin:
                    loop.call_soon_threadsafe(working.line, line.strip())
                loop.call_soon_threadsafe(over.set)

            Thread(target=read, daemon=True).start()
            print("ready", flush=True)
            await over.wait()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        look, lease = map(float, sys.argv[2:])
        vars(supervisor).update(LOOK_SECONDS=look, SECONDS=lease)
    asyncio.run(main(sys.argv[1]))
