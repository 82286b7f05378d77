"""Work that a second process does over a store, for the tests that kill it or race with it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from foldmark.core.agents import Size
from foldmark.core.errors import ConflictError
from foldmark.core.ports import Store, Transaction
from foldmark.core.replay import birth
from foldmark.testing.suite import NOW, add_fork, append, draft

LIMIT = 60.0
"""Seconds after which a process that says nothing is taken for stuck."""

# A process that is forked from this one would share its connections.
_CONTEXT = get_context("forkserver") if "forkserver" in get_all_start_methods() else get_context("spawn")

Work = Callable[..., None]
"""Called in the process with the store, the connection to who started it, and what else was given."""


class Elsewhere:
    """A process with a connection of its own to a database. It waits for `begin`."""

    def __init__(self, open: Callable[[str], Store], address: str, work: Work, *given: Any) -> None:
        self._here, there = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_run, args=(open, address, there, work, given), daemon=True)
        self._process.start()
        there.close()

    def begin(self) -> None:
        """Wait until the database is open, and let the work begin."""
        assert self.heard() == "ready"
        self._here.send("begin")

    def heard(self) -> Any:
        """The next thing that the process says. Raises EOFError when it has ended."""
        if not self._here.poll(LIMIT):
            raise TimeoutError("the other process says nothing")
        return self._here.recv()

    def rest(self) -> list[Any]:
        """All that the process says until it ends."""
        found = []
        try:
            while True:
                found.append(self.heard())
        except (EOFError, ConnectionResetError):
            return found

    def kill(self) -> None:
        """End the process as `kill -9` does."""
        self._process.kill()
        self._process.join()

    def close(self) -> None:
        """Wait for the end of the process."""
        self._process.join(LIMIT)
        self.kill()
        self._here.close()
        self._process.close()


def _run(open: Callable[[str], Store], address: str, there: Connection, work: Work, given: tuple[Any, ...]) -> None:
    store = open(address)
    there.send("ready")
    there.recv()
    work(store, there, *given)
    store.close()


def append_batches(store: Store, there: Connection, agent: str, size: int) -> NoReturn:
    """Append one batch after the other until somebody ends the process; say the ids of each that is stored."""
    number = 0
    while True:
        number += 1
        there.send(append(store, agent, *(draft(content=f"{number}/{part}") for part in range(size))))


def stop_inside(store: Store, there: Connection, agent: str) -> None:
    """Append an event and say its id; then stop in a transaction in which something of everything was written."""
    there.send(append(store, agent, draft(content="stored")))
    with store.write() as writing:
        ids = writing.append(agent, None, [draft(content="lost")])
        writing.save_fold(birth(agent, 99), Size(1, 2))
        child = add_fork(writing, agent)
        writing.append(child, None, [draft(content="lost")])
        writing.save_memo("lost", ("lost",), agent, "human", NOW)
        writing.send(agent, child, "lost", "human", NOW)
        there.send(ids)
        there.recv()  # nobody answers


def append_in_turn(store: Store, there: Connection, agent: str, own: str, times: int) -> None:
    """Append so many events, each behind the head that was read before; say (head, id) of each. What somebody else
    appended first is read again. In between append batches to an agent of this process's own."""
    for number in range(times):
        append(store, own, *(draft(content=f"{number}/{part}") for part in range(3)))
        while True:
            with store.read() as moment:
                head = moment.head(agent).record.head
            try:
                (id,) = append(store, agent, draft(content=str(number)), expected=head)
            except ConflictError:
                continue
            there.send((head, id))
            break


def copy_into(store: Store, there: Connection, open: Callable[[str], Store], address: str) -> None:
    """Copy everything into the database at `address` in small steps; say each time that one is done."""
    from foldmark.copying import copy, copying

    copying._EVENTS, copying._AT_ONCE = 4, 2
    target = open(address)
    write = target.write

    @contextmanager
    def told() -> Iterator[Transaction]:
        with write() as writing:
            yield writing
        there.send("done")

    target.write = told  # type: ignore[method-assign]
    copy(store, target)
    target.close()
