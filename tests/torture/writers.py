"""A writer process: it works on a database until it is killed, and reports each thing that it does.

A writer does one thing at a time, each under its own key. The key is in the content of every message, the reason of
every operation and the text of every mail, so that a reader of the database can tell what was recorded. The writer
reports `TRY` before each call and one of the other states when the call has returned. If it is killed in between, the
outcome is unknown.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from time import sleep
from typing import Any, NamedTuple, Protocol

from looking import open_log

from foldmark import Agent, CommandError, ConflictError, Log, StoreError
from foldmark.core import selections
from foldmark.core.events import Event

TRY, DONE, REFUSED, UNKNOWN = "try", "done", "refused", "unknown"

_NOTHING = re.compile(r"nothing (of it )?was recorded", re.IGNORECASE)
"""If an error says this, the check requires that nothing was recorded."""

SHARED = ("shared-1", "shared-2")
"""Conversations that all writers append to."""

FORKS = 3
"""Maximum number of children that a writer forks from its conversation."""


class Said(NamedTuple):
    """One record of a writer.

    `facts` is what was acknowledged. For a turn or a message: (event id, content) of every message; for an operation:
    the event's id, with the child's uuid for a fork; for metadata: the event's id; for the try of an erasure: the turn;
    for mail: its id; for a delivery: the ids of the delivered mail. `text` is the error.
    """

    state: str
    key: str
    what: str
    facts: tuple[Any, ...] = ()
    text: str = ""


def name_of(number: int) -> str:
    """Return the name of the conversation that only writer `number` appends to."""
    return f"writer-{number}"


def prepare(address: str, writers: int) -> None:
    """Create the database and its conversations."""
    with open_log(address, create=True) as log:
        for name in (*SHARED, *(name_of(number) for number in range(writers))):
            log.agent(name)


def write(address: str, there: Connection, number: int, run: int, seed: str, limits: Callable[[], None] | None) -> None:
    """Write until killed, after a call to `limits`. `run` is the count of earlier writers with this number."""
    if limits is not None:
        limits()
    Writer(address, there, number, run, random.Random(f"{seed}/{number}/{run}")).run()


class Telling(Protocol):
    """Receives the records of a writer."""

    def send(self, said: Said) -> None:
        """Take one record."""


class Writer:
    """A writer from its start until it is killed."""

    log: Log
    agent: Agent
    told: StoreError | None = None

    def __init__(self, address: str, there: Telling, number: int, run: int, chance: random.Random) -> None:
        self.address, self.there, self.number, self.run_number, self.chance = address, there, number, run, chance
        self.done = 0

    def run(self) -> None:
        """Do one thing after the other. If the database fails, open it again."""
        while True:
            try:
                with open_log(self.address) as log:
                    self.begin(log)
                    while True:
                        self.go_on()
            except StoreError as error:
                if error is not self.told:
                    self.there.send(Said(UNKNOWN, "", "open", (), str(error)))
                sleep(0.1)  # no busy loop while the database is down

    def begin(self, log: Log) -> None:
        """Use an open database."""
        self.log, self.agent = log, log.agent(name_of(self.number))

    def go_on(self) -> None:
        """Do one random thing."""
        self.chance.choices([deed for deed, _ in DEEDS], [weight for _, weight in DEEDS])[0](self)

    @contextmanager
    def trying(self, what: str, *facts: Any) -> Iterator[Trial]:
        """Report the try of something and its outcome."""
        self.done += 1
        trial = Trial(f"{self.number}.{self.run_number}.{self.done}")
        self.there.send(Said(TRY, trial.key, what, facts))
        try:
            yield trial
        except (CommandError, ConflictError) as error:
            self.there.send(Said(REFUSED, trial.key, what, (), str(error)))
            self.agent.context()  # learn the current head
        except StoreError as error:
            state = REFUSED if _NOTHING.search(str(error)) else UNKNOWN
            self.there.send(Said(state, trial.key, what, (), str(error)))
            self.told = error
            raise
        else:
            self.there.send(Said(DONE, trial.key, what, tuple(trial.facts)))

    # The writer's deeds

    def whole_turn(self) -> None:
        """Append a complete turn in one transaction."""
        with self.trying("turn") as trial:
            say_turn(self.agent, trial, self.chance.randint(1, 3))

    def message(self) -> None:
        """Append one message and end its turn, each in its own transaction."""
        with self.trying("message") as trial:
            text = f"{trial.key}/1/1 a message of its own"
            trial.facts.append((self.agent.append("user", text), text))
        with self.trying("end"):
            self.agent.end_turn()

    def shared(self) -> None:
        """Append to a conversation that other writers append to as well."""
        agent = self.log.agent(self.chance.choice(SHARED))
        with self.trying("shared") as trial:
            try:
                say_turn(agent, trial, 1)
            except ConflictError:
                agent.context()
                raise

    def operation(self) -> None:
        """Do a random operation on the context."""
        turn = self.chance.choice(list(self.turns()) or [0])
        line = self.chance.choice(
            (f"/mark M{turn % 3}", f"/rewind M{turn % 3}", f"/context drop {turn}", "/undo", f"/pin {turn}", "/clear")
        )
        with self.trying("operation") as trial:
            trial.facts.append(self.agent.do(f"{line} -- {trial.key}").event_id)

    def forget(self) -> None:
        """Forget some of the newest messages."""
        visible = [message.id for message in self.agent.context().messages][-12:]
        with self.trying("operation") as trial:
            ids = self.chance.sample(visible, min(3, len(visible)))
            trial.facts.append(self.agent.apply_filter("forget", ids, criteria="chance", reason=trial.key))

    def restore(self) -> None:
        """Restore an operation."""
        with self.log.store.read() as moment:
            operations = [event.id for event in selections.operations(moment, self.agent.id)]
        with self.trying("operation") as trial:
            target = self.chance.choice(operations[-8:]) if operations else 0
            trial.facts.append(self.agent.do(f"/restore {target} -- {trial.key}").event_id)

    def fork(self) -> None:
        """Fork a child or, if there are `FORKS` of them, append a turn to one."""
        children = self.agent.children
        if len(children) < FORKS:
            with self.trying("fork") as trial:
                result = self.agent.do(f"/fork -- {trial.key}")
                trial.facts += [result.event_id, result.data["child"]]
        else:
            child = self.chance.choice(children)
            with self.trying("turn") as trial:
                say_turn(child, trial, 1)

    def erase(self) -> None:
        """Erase a turn for good. Turns that carry mail are spared, because the mail would be erased too."""
        with self.log.store.read() as moment:
            # Read invisible messages too: the one that carries mail may be forgotten while its turn is still visible.
            whole = moment.turns(list(self.turns()))
            own = [
                turn
                for turn, messages in whole.items()
                if all(
                    each.agent_id == self.agent.id and "[Mail from" not in each.content
                    for each in moment.events([message.id for message in messages])
                )
            ]
        if own:
            turn = self.chance.choice(own)
            with self.trying("erase", turn) as trial:
                trial.facts.append(self.agent.do(f"/message remove {turn} --yes -- {trial.key}").event_id)

    def send(self) -> None:
        """Send mail to another writer's conversation."""
        other = self.log.agent(name_of((self.number + self.chance.randint(1, 2)) % self.chance.randint(4, 8)))
        if other != self.agent:
            with self.trying("mail") as trial:
                trial.facts.append(self.agent.do(f"/send {other.id} mail {trial.key}").data["mail"])

    def deliver(self) -> None:
        """Deliver the waiting mail."""
        with self.trying("deliver") as trial:
            trial.facts += [mail["id"] for mail in self.agent.do("/check-mail").data["mail"]]

    def metadata(self) -> None:
        """Record a usage of this conversation, of a child or of another writer, who may be in the middle of a call."""
        other = self.log.agent(name_of(self.chance.randrange(4)))
        agent = self.chance.choice((self.agent, other, *self.agent.children))
        with self.trying("metadata") as trial:
            trial.facts.append(agent.record("usage", data={"key": trial.key}))

    def turns(self) -> dict[int, list[Event]]:
        """Return the turns of the context, each with its visible messages."""
        found = defaultdict[int, list[Event]](list)
        for message in self.agent.context().messages:
            if message.turn_id is not None:
                found[message.turn_id].append(message)
        return found


class Trial:
    """Something that is tried, with its key and the facts to acknowledge."""

    def __init__(self, key: str) -> None:
        self.key, self.facts = key, list[Any]()


def say_turn(agent: Agent, trial: Trial, calls: int) -> None:
    """Append a whole turn in one transaction: a question, calls with their results, an answer with its state."""
    parts, number = 3 + 2 * calls, 0

    def text(what: str) -> str:
        nonlocal number
        number += 1
        return f"{trial.key}/{number}/{parts} {what}"

    found = []
    with agent.batch():
        found.append((agent.append("user", asked := text("please look")), asked))
        for call in range(calls):
            call_id = f"{trial.key}-{call}"
            said = f'"{text("where to look")}"'
            found.append((agent.append_tool_call("read_file", said[1:-1], call_id=call_id), said))
            found.append((agent.append_tool_result(call_id, read := text("found " * 40)), read))
        found.append((agent.append("assistant", told := text("that is what there is")), told))
        found.append((agent.record("state", state := text("Goal: go on")), state))
        agent.end_turn()
    trial.facts += found


DEEDS: tuple[tuple[Callable[[Writer], None], int], ...] = (
    (Writer.whole_turn, 8),
    (Writer.message, 3),
    (Writer.shared, 4),
    (Writer.operation, 6),
    (Writer.forget, 2),
    (Writer.restore, 2),
    (Writer.fork, 2),
    (Writer.erase, 2),
    (Writer.send, 4),
    (Writer.deliver, 2),
    (Writer.metadata, 6),
)
