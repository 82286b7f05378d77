"""Code shared by all parts of the suite: the fixtures, the harness of a store, functions that fill a store, a second
process."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from enum import Enum
from hashlib import sha256
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from typing import Any, NoReturn, Protocol
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from msgspec import to_builtins

from foldmark.core.agents import AgentRecord, Size, mailed
from foldmark.core.assembly.sent import RequestRecord
from foldmark.core.errors import ConflictError
from foldmark.core.events import Draft, Event
from foldmark.core.ports import Head, Snapshot, Store, Transaction
from foldmark.core.replay import birth
from foldmark.core.request import Edge, Plan
from foldmark.core.segments import END, Segment


class Damage(Enum):
    """Damage to a database by a failing disk or another program, bypassing the store.

    Each kind affects one event, a message in the middle of its agent's log. A read may miss the damage, but
    `foldmark doctor` must find it.
    """

    CONTENT = "the first character of the event's content is replaced"
    DATA = "the event's data is cut short and is no longer JSON"
    SIZE = "the event's stored number of tokens is one more"
    SUM = "a stored sum of tokens that ends with the event is one more"
    COUNT = "a stored number of messages that ends with the event is one more"
    HEAD = "the agent's stored newest event is this one, although there are newer ones"
    FOLD = "the stored segments of the event's agent are cut short and no longer readable"
    INDEX = "the event is missing from the index of words"


class Harness(Protocol):
    """The access to a store and its database that `StoreContract` needs. The fixture `harness` provides it."""

    def fresh(self) -> Store:
        """Open a store over a new, empty database for each call. The suite closes it."""

    def open(self, address: str) -> Store:
        """Open the database at a `Store.address` once more, with its own connection.

        This is called in this process and in others. For the others the harness is pickled, so its contents must
        support pickling and its class must be importable there. If only one connection can reach the database, call
        `pytest.skip` with the reason.
        """

    def counting(self, store: Store) -> AbstractContextManager[list[str]]:
        """Collect the text of every statement that this store sends to its database while the block runs.

        Take the statements from the driver or the database. BEGIN, COMMIT, ROLLBACK and savepoints are not counted, so
        they may be included.
        """

    def plant(self, store: Store, damage: Damage, event_id: int) -> None:
        """Damage the database of a store at one event, without using the store.

        If the database stores no such value, call `pytest.skip` with the reason.
        """

    def move_clock(self, store: Store, seconds: float) -> AbstractContextManager[None]:
        """Move the clock of `Transaction.now` while the block runs, for all connections of this process."""


NOW = "2026-03-01T12:00:00.000000Z"

HARD = "a\0b é e\u0301 😀 \ufeff\u2028\uffff 👩‍👩‍👧 \U0010ffff'\"\\ \r\n\t\x7f\x1b %s ? :x $1 {} \\u0000"
"""Text that databases, drivers and JSON columns handle wrongly."""

examples = settings(
    deadline=None,
    # All examples share one store, in which each creates its own agents; several stores may run the suite.
    suppress_health_check=list(HealthCheck),
)
"""The settings of a random test. The active Hypothesis profile sets the number of examples."""


class Suite:
    """The fixtures of every part of the contract."""

    @pytest.fixture
    def harness(self) -> Harness:
        """The harness of the store (see docs/development/stores.md)."""
        raise NotImplementedError("override `harness` of StoreContract; docs/development/stores.md shows one")

    @pytest.fixture
    def store(self, harness: Harness) -> Iterator[Store]:
        """A store over an empty database, which is checked for damage after the test."""
        store = harness.fresh()
        yield store
        assert list(store.damage()) == []
        store.close()

    @pytest.fixture
    def other(self, harness: Harness, store: Store) -> Iterator[Store]:
        """A second connection to the database of `store`."""
        other = harness.open(store.address)
        yield other
        other.close()

    @pytest.fixture
    def agent(self, store: Store) -> str:
        """A new conversation."""
        return root(store)


def draft(kind: str = "user", content: str = "hello", **more: Any) -> Draft:
    """Return an event to append."""
    return Draft(kind=kind, content=content, created_at=NOW, **more)


def call(call_id: str, name: str = "probe") -> Draft:
    """Return a tool call to append."""
    return draft("tool_call", "{}", data={"call_id": call_id, "name": name})


def hashed(*texts: str) -> dict[str, str]:
    """Return texts, hash -> text."""
    return {sha256(text.encode()).hexdigest(): text for text in texts}


def request(hashes: Mapping[str, str] = {}, **more: Any) -> Draft:
    """Return a request to append, which needs the texts with these hashes, name -> hash. `more` are further fields of
    its `RequestRecord`."""
    about = {"number": 1, "event": 0, "provider": "openai", "model": "gpt-5", "speaks": "openai"}
    sizes = {"sha256": "f" * 64, "bytes": 2**40, "tokens": 7, "output": 4096}
    made = {"edge": Edge(1, "budget", 3), "plan": Plan(1), "digests": {"system": "1" * 64}}
    record = RequestRecord(**{**about, **sizes, **made, **more}, hashes=hashes)
    return draft("request", "", data=to_builtins(record, str_keys=True), actor="system")


def usage(**data: Any) -> Draft:
    """Return a usage to append."""
    return draft("usage", "", data={"fresh": 7, **data}, actor="system")


def add_root(writing: Transaction, name: str | None = None) -> str:
    """Add a conversation and return its uuid, which is its default name."""
    agent = str(uuid4())
    record = AgentRecord(agent, agent if name is None else name, None, 0, NOW)
    writing.create_agent(record, birth(agent), Size(0, 0))
    return agent


def add_fork(writing: Transaction, parent: str) -> str:
    """Fork an agent and return the child's uuid."""
    child = str(uuid4())
    (at,) = writing.append(parent, None, [draft("fork", "", data={"child": child, "start": []})])
    writing.create_agent(AgentRecord(child, None, parent, at, NOW), birth(child, at), Size(0, 0))
    return child


def root(store: Store, name: str | None = None) -> str:
    """Add a conversation in a separate transaction, and return its uuid."""
    with store.write() as writing:
        return add_root(writing, name)


def fork(store: Store, parent: str) -> str:
    """Fork an agent in a separate transaction, and return the child's uuid."""
    with store.write() as writing:
        return add_fork(writing, parent)


def append(store: Store, agent: str, *drafts: Draft, expected: int | None = None) -> list[int]:
    """Append events in a separate transaction, and return their ids."""
    with store.write() as writing:
        return writing.append(agent, expected, drafts)


def erase(writing: Transaction, agent: str, turn: int, last: int | None = None, by: str | None = None) -> int:
    """Erase a turn up to event `last` (default: the whole turn), or the whole agent if `turn` is 0. Agent `by`
    (default: the same agent) records the redaction. Return the id of that event."""
    (event,) = writing.append(by or agent, None, [draft("redact", "", data={"turn": turn})])
    writing.erase(agent, turn, event if last is None else last, event)
    return event


def save_memo(store: Store, content: str, *tags: str, agent: str | None = None) -> int:
    """Save a memo in a separate transaction, and return its id."""
    with store.write() as writing:
        return writing.save_memo(content, tags, agent, "human", NOW)


def send(store: Store, sender: str, recipient: str, *texts: str) -> list[int]:
    """Store mail in a separate transaction, and return the ids."""
    with store.write() as writing:
        return [writing.append(recipient, None, [mailed(sender, text, "human", NOW)])[0] for text in texts]


def roll_back(store: Store, act: Callable[[Transaction], object]) -> None:
    """Run `act` in a transaction that fails at its end."""
    with suppress(ZeroDivisionError), store.write() as writing:
        act(writing)
        raise ZeroDivisionError


def read(store: Store, event_ids: list[int]) -> list[Event]:
    """Return the events with these ids, as currently stored."""
    with store.read() as moment:
        return moment.events(event_ids)


def contents(moment: Snapshot, agent: str) -> list[str]:
    """Return the texts of an agent's messages."""
    return [event.content for event in moment.select((Segment(agent, 1, END),))]


def texts_of(store: Store, agent: str) -> list[str]:
    """Return the texts of an agent's messages, read in a separate moment."""
    with store.read() as moment:
        return contents(moment, agent)


def head_and_texts(store: Store, agent: str) -> tuple[Head, list[str]]:
    """Return the head of an agent, and the texts of its messages."""
    with store.read() as moment:
        return moment.head(agent), contents(moment, agent)


LIMIT = 60.0
"""Maximum number of seconds to wait for a message from another process."""

# A process forked from this one would share its connections.
_CONTEXT = get_context("forkserver") if "forkserver" in get_all_start_methods() else get_context("spawn")

Work = Callable[..., None]
"""Receives in the other process the store, the connection to the process that started it, and further arguments."""


class SecondProcess:
    """Another process with its own connection to a database. It starts its work after `begin`."""

    def __init__(self, open: Callable[[str], Store], address: str, work: Work, *arguments: Any) -> None:
        self._own, other = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_run, args=(open, address, other, work, arguments), daemon=True)
        self._process.start()
        other.close()

    def begin(self) -> None:
        """Wait until the process has opened the database, and have it start its work."""
        assert self.receive() == "ready"
        self._own.send("begin")

    def receive(self) -> Any:
        """Return the next message from the process. Raises EOFError when it has ended."""
        if not self._own.poll(LIMIT):
            raise TimeoutError(f"no message of the other process in {LIMIT:.0f} s")
        return self._own.recv()

    def resume(self) -> None:
        """Let the process continue, if it waits after each message."""
        self._own.send("go on")

    def receive_all(self) -> list[Any]:
        """Return all messages from the process until it ends."""
        found = []
        try:
            while True:
                found.append(self.receive())
        except (EOFError, ConnectionResetError):
            return found

    def kill(self) -> None:
        """Kill the process, as `kill -9` does."""
        self._process.kill()
        self._process.join()

    def close(self) -> None:
        """Wait for the end of the process."""
        self._process.join(LIMIT)
        self.kill()
        self._own.close()
        self._process.close()


def _run(open: Callable[[str], Store], address: str, other: Connection, work: Work, arguments: tuple[Any, ...]) -> None:
    store = open(address)
    other.send("ready")
    other.recv()
    work(store, other, *arguments)
    store.close()


def append_batches(store: Store, connection: Connection, agent: str, size: int) -> NoReturn:
    """Append batch after batch until this process is killed, and send the ids of each stored batch."""
    number = 0
    while True:
        number += 1
        connection.send(append(store, agent, *(draft(content=f"{number}/{part}") for part in range(size))))


def stop_inside(store: Store, connection: Connection, agent: str) -> None:
    """Append an event and send its id. Then wait inside a transaction that has written one record of every kind."""
    connection.send(append(store, agent, draft(content="stored")))
    with store.write() as writing:
        ids = writing.append(agent, None, [draft(content="lost")])
        writing.save_fold(birth(agent, 99), Size(1, 2))
        child = add_fork(writing, agent)
        writing.append(child, None, [draft(content="lost")])
        writing.save_memo("lost", ("lost",), agent, "human", NOW)
        writing.append(child, None, [mailed(agent, "lost", "human", NOW)])[0]
        connection.send(ids)
        connection.recv()  # no answer comes: the process is killed here


def append_metadata(store: Store, connection: Connection, agent: str, times: int) -> None:
    """Append `times` usages to `agent`, each in a transaction, and send their ids."""
    for _ in range(times):
        connection.send(append(store, agent, usage())[0])


def append_in_turn(store: Store, connection: Connection, agent: str, own: str, times: int) -> None:
    """Append `times` events to `agent`, each after the head just read, and send (head, id) for each. After a conflict,
    read the head again. Before each event, append a batch to `own`, an agent that only this process writes to."""
    for number in range(times):
        append(store, own, *(draft(content=f"{number}/{part}") for part in range(3)))
        while True:
            with store.read() as moment:
                head = moment.head(agent).record.head
            try:
                (id,) = append(store, agent, draft(content=str(number)), expected=head)
            except ConflictError:
                continue
            connection.send((head, id))
            break
