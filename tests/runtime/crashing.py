"""Play a turn with everything in it, in a process that kills itself at a given step, for tests of what it leaves.

The program reads lines of STEP, DATABASE and TOLD, separated by tabs. For each line it forks a process that plays the
turn in the database that `prepare` has made, and kills itself at that step. A step is a number and a kind, such as
`2 before COMMIT`; `0` means no step. The program then prints the exit code, or the negated signal number. The steps
are just before and just after every COMMIT, and before, during and after every answer of the model and every tool. The
process writes to the file TOLD what has happened so far, one JSON value per line:

    ["event", id, kind, content]    a transaction that recorded this event has returned
    ["sent", text]                  a transaction that sent this mail has returned
    ["asked", n] ["ran", call]      the n-th request reached the model, a tool began
    ["step", step]                  a step was reached; a killed process was killed at the last one
"""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

import foldmark
from foldmark import Agent, Log
from foldmark.core import selections
from foldmark.core.ports import Transaction
from foldmark.core.request import Kept, Piece, Request, Stopped, Thought, ToolCall, ToolSpec, Usage
from foldmark.operations.effects import Asking
from foldmark.runtime.supervisor import Supervisor

PARENT, OTHER, HOLDER, CHILD = (f"{n}0000000-0000-4000-8000-000000000000" for n in range(1, 5))
MODEL = "anthropic/claude-test"
MAIL = {"to-child": CHILD, "to-another": OTHER, "to-parent": PARENT}
"""The mail of the turn: text and recipient."""

THINKING = {"type": "thinking", "thinking": "Two files.", "signature": "c2ln"}
STATE = "\n\n### STATE\nGoal: look\nContext: two files\nResolved: both\nTechnical Anchors: none"


def prepare(path: Path) -> None:
    """Create a conversation that has one finished turn, and another one that nobody runs."""
    with foldmark.open(path) as log:
        log.new_id = _ids(1)
        agent = log.agent("default")
        agent.do(f"/model {MODEL}")
        agent.do("/config set warn_threshold=1")
        agent.append("user", "Earlier. " + "word " * 1000)
        agent.append("assistant", f"Yes.{STATE}")
        agent.end_turn()
        log.agent("another")


class Steps:
    """Counts the steps of each kind, writes them to the file, and kills the process at step `last`."""

    def __init__(self, told: int, last: str) -> None:
        self._told, self._last, self._lock, self._reached = told, last, Lock(), Counter[str]()

    def tell(self, *what: Any) -> None:
        os.write(self._told, (json.dumps(what) + "\n").encode())

    def __call__(self, where: str) -> None:
        with self._lock:
            self._reached[where] += 1
            step = f"{self._reached[where]} {where}"
            self.tell("step", step)
            if step == self._last:
                os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, log: Log) -> None:
        """Turn the commits of the log's connection into steps, and write down what its transactions record."""
        store: Any = log.store
        whole, seen = store.write, {"events": _newest(store, "events")}

        @contextmanager
        def write() -> Iterator[Transaction]:
            with store.connector.lock:
                outermost = store.open.moment is None
                with whole() as transaction:
                    yield transaction
                if outermost:
                    recorded()

        def recorded() -> None:
            for id, *event in store.connector.db.execute(
                "SELECT id, kind, content FROM events WHERE id > ? ORDER BY id", [seen["events"]]
            ):
                seen["events"] = id
                self.tell("event", id, *event)
                if event[0] == "mail":
                    self.tell("sent", event[1])

        def committing() -> bool:
            self("before COMMIT")
            return False

        def committed(*_: Any) -> int:
            self("behind COMMIT")
            return 0

        # Only a crash of the machine loses writes that were not flushed to the disk; a killed process loses none.
        store.connector.db.execute("PRAGMA synchronous = OFF")
        store.write = write
        store.connector.db.set_commit_hook(committing)
        store.connector.db.set_wal_hook(committed)


class Playing:
    """The model of both agents; it plays the answers of each in order."""

    def __init__(self, log: Log, steps: Steps) -> None:
        self._log, self._steps, self._asked = log, steps, count(1)
        self._left = {PARENT: iter(self._parent()), CHILD: iter(self._child())}

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        self._steps("before a request")
        self._steps.tell("asked", next(self._asked))
        born = "You are agent 40000000" in json.dumps(request.body["messages"])
        pieces = next(self._left[CHILD if born else PARENT])
        for number, piece in enumerate(pieces):
            if number == len(pieces) // 2:
                self._steps("inside an answer")
            if callable(piece):
                await piece()
            else:
                yield piece
        self._steps("behind an answer")

    async def count(self, request: Request) -> int:
        raise NotImplementedError

    def _parent(self) -> Iterator[Sequence["_Played"]]:
        looks = [ToolCall(f"look-{n}", "look", {"n": n}) for n in (1, 2)]
        usage = Usage(1000, 500, 50, 20)
        yield [Thought("Two"), Kept(THINKING), "I look ", "at both.", *looks, usage, Stopped("calls", "tool_use")]
        yield ["I mark.", slash("mark", "BEFORE")]
        yield ["You, child, look again.", slash("fork", "BEFORE")]
        yield [slash("send", f"{CHILD} to-child"), slash("send", f"{OTHER} to-another")]
        yield ["I wait.", self._mail(PARENT), slash("check-mail"), ToolCall("look-3", "look", {"n": 3})]
        yield [Kept(THINKING), "That led nowhere.", slash("clear", "BEFORE"), usage]
        yield ["Both ", f"are good.{STATE}", Usage(9000, 0, 0, 30), Stopped("end", "end_turn")]

    def _child(self) -> Iterator[Sequence["_Played"]]:
        yield ["I look.", ToolCall("look-4", "look", {"n": 4})]
        yield [self._mail(CHILD), slash("check-mail")]
        yield ["I report.", slash("send", f"{PARENT} to-parent")]
        yield [f"Reported.{STATE}", Usage(9000, 0, 0, 30)]

    def _mail(self, agent_id: str) -> Callable[[], Awaitable[None]]:
        async def come() -> None:
            while not self._unread(agent_id):
                await asyncio.sleep(0.001)

        return come

    def _unread(self, agent_id: str) -> int:
        with self._log.store.read() as moment:
            return len(selections.unread(moment, agent_id))


_Played = Piece | Callable[[], Awaitable[None]]


class Look:
    """A custom tool that may run in parallel with others."""

    spec = ToolSpec("look", "Looks.", {"type": "object", "properties": {"n": {"type": "integer"}}})
    together = True

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def __call__(self, agent: Agent, args: Mapping[str, Any], asking: Asking) -> str:
        self._steps("inside a tool")
        return f"look {args['n']} " + "x" * 700


def slash(command: str, args: str = "") -> ToolCall:
    """Return a call of `slash` whose id names its command."""
    return ToolCall(f"{command}-{args[-10:]}", "slash", {"command": command, "args": args})


def play(path: str, told: str, last: str) -> None:
    """Play the turn, with the child's turn in parallel, under a supervisor."""
    steps = Steps(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND), last)
    with foldmark.open(path, create=False) as log:
        log.new_id = _ids(3)
        log.add_tool(Look(steps))
        run = log.call_tool

        def call_tool(agent: Agent, name: str, args: Mapping[str, Any], asking: Asking) -> str:
            steps("before a tool")
            steps.tell("ran", name, args)
            try:
                return run(agent, name, args, asking)
            finally:
                steps("behind a tool")

        log.call_tool = call_tool  # type: ignore[method-assign]
        steps.watch(log)
        asyncio.run(_play(log, steps))


async def _play(log: Log, steps: Steps) -> None:
    model = Playing(log, steps)
    async with Supervisor(log, lambda _: model) as supervisor:
        supervisor.attended = PARENT
        await supervisor.say(log.agent(PARENT), "Go.")
        await supervisor.settled()


def _ids(first: int) -> Callable[[], str]:
    numbers = count(first)
    return lambda: f"{next(numbers)}0000000-0000-4000-8000-000000000000"


def _newest(store: Any, table: str) -> int:
    ((newest,),) = store.connector.db.execute(f"SELECT coalesce(max(id), 0) FROM {table}")
    return int(newest)


def main() -> None:
    """Fork a process for each line. This process imports everything first, and starts no thread."""
    import foldmark.commands
    import foldmark.dialects.anthropic.messages
    import foldmark.dialects.dialect
    import foldmark.providers.registry
    import foldmark.request.prepare
    import foldmark.request.sent
    import foldmark.tokens.counting
    import foldmark.tools  # noqa: F401

    for line in sys.stdin:
        step, path, told = line.rstrip("\n").split("\t")
        if (process := os.fork()) == 0:
            play(path, told, step)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
