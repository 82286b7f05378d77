"""Eight writer processes that can be killed and replaced, and all their records."""

from __future__ import annotations

import random
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from time import monotonic, sleep

from writers import TRY, Said, prepare, write

WRITERS = 8

SILENCE = 60.0
"""Seconds of silence after which the writers are considered stuck."""

LONGEST = 600.0
"""Maximum number of seconds to wait for the writers."""

# Fork from a process that has already imported everything and has no database open: 10 ms for a start instead of 400.
CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *("foldmark.app", "foldmark.commands", "foldmark.providers.registry", "foldmark.settings.loading"),
        *("foldmark.stores.sqlite.store", "foldmark.stores.postgres.store", "foldmark.core.assembly.wire"),
        *("writers", "history", "foldmark.testing"),
    ]
)


class Life:
    """One writer process, from its start to its end, with its records."""

    def __init__(self, address: str, number: int, run: int, seed: str, limits: Callable[[], None] | None) -> None:
        self.number, self.run, self.said = number, run, list[Said]()
        self.here, there = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(target=write, args=(address, there, number, run, seed, limits), daemon=True)
        self.process.start()
        there.close()

    @property
    def answers(self) -> int:
        """The number of calls that have returned."""
        return len(self.said) - self.count(TRY)

    def count(self, state: str) -> int:
        """Return the number of records with a state."""
        return sum(said.state == state for said in self.said)

    def kill(self) -> None:
        """Kill the process as `kill -9` does, and read its remaining records."""
        self.process.kill()
        self.process.join()
        while self._hear():
            pass
        self.here.close()

    def _hear(self) -> bool:
        try:
            self.said.append(self.here.recv())
        except (EOFError, OSError):
            return False
        return True

    def hear(self) -> None:
        """Read one record. Raises AssertionError if the process has ended without a kill."""
        assert self._hear(), f"writer {self.number} ended by itself: {self.said[-3:]}"


class Swarm:
    """All writers of a database. Leaving the block kills them.

    They open it at the address `through`, if given. Each process first calls `limits`.
    """

    def __init__(
        self, address: str, seed: str, *, through: str | None = None, limits: Callable[[], None] | None = None
    ) -> None:
        prepare(address, WRITERS)
        self._given = through or address, seed, limits
        self.ended: list[Life] = []
        self.lives: dict[int, Life] = {}

    def __enter__(self) -> Swarm:
        for number in range(WRITERS):
            self._start(number, 0)
        return self

    def __exit__(self, *_: object) -> None:
        for number in list(self.lives):
            self.kill(number)

    def _start(self, number: int, run: int) -> None:
        address, seed, limits = self._given
        self.lives[number] = Life(address, number, run, seed, limits)

    def kill(self, number: int) -> bool:
        """Kill a writer. Return True if the kill came in the middle of a call."""
        life = self.lives.pop(number)
        life.kill()
        self.ended.append(life)
        return bool(life.said) and life.said[-1].state == TRY

    def replace(self, number: int) -> bool:
        """Kill a writer and start its successor. Return True if the kill came in the middle of a call."""
        struck = self.kill(number)
        self._start(number, self.ended[-1].run + 1)
        return struck

    def listen(self, enough: Callable[[], bool]) -> None:
        """Read the records of all writers until `enough` returns True."""
        until = monotonic() + LONGEST
        by_connection = {life.here: life for life in self.lives.values()}
        while not enough():
            ready = wait(list(by_connection), timeout=SILENCE)
            assert ready, "the writers say nothing any more"
            assert monotonic() < until, f"the writers do not get on: {self.said[-3:]}"
            for each in ready:
                assert isinstance(each, Connection)
                by_connection[each].hear()

    @property
    def said(self) -> list[Said]:
        """All records until now."""
        return [said for life in (*self.ended, *self.lives.values()) for said in life.said]


def kill_some(swarm: Swarm, count: int, chance: random.Random) -> int:
    """Kill `count` writers one after the other, each at a random moment of its work. Return the number of kills in the
    middle of a call."""
    struck = 0
    for _ in range(count):
        number = chance.randrange(WRITERS)
        life = swarm.lives[number]
        enough = life.answers + chance.randint(0, 5)
        swarm.listen(lambda: life.answers >= enough)  # noqa: B023 - it is used before the next round
        sleep(chance.uniform(0.0, 0.005))  # somewhere in the next call
        struck += swarm.replace(number)
    return struck
