"""What a writer process does to a database until somebody kills it, and what it says of each thing it does.

A writer does one thing after the other, each under a key of its own. The key stands in the content of every message, in
the reason of every operation and in the text of every mail, so that whoever reads the database knows what was recorded.
It says `TRY` before it begins a thing and one of the others when the call has returned; who was killed in between does
not know what came of it.
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
from foldmark.core.events import Event

TRY, DONE, REFUSED, UNKNOWN = "try", "done", "refused", "unknown"

_NOTHING = re.compile(r"nothing (of it )?was recorded", re.IGNORECASE)
"""An error that says so is held to it."""

SHARED = ("shared-1", "shared-2")
"""Conversations that all writers append to."""

FORKS = 3
"""The most children that a writer forks from its conversation."""


class Said(NamedTuple):
    """One record of a writer.

    `facts` is what was acknowledged: (event id, content) of every message for a turn and a message; the event's id, and
    of a fork the child's uuid, for an operation; the turn for an erasure that is tried; the mail's id; the ids of the
    mail that was delivered. `text` is the error.
    """

    state: str
    key: str
    what: str
    facts: tuple[Any, ...] = ()
    text: str = ""


def name_of(number: int) -> str:
    """The conversation that writer `number` alone appends to."""
    return f"writer-{number}"


def prepare(address: str, writers: int) -> None:
    """Make the database and its conversations."""
    with open_log(address, create=True) as log:
        for name in (*SHARED, *(name_of(number) for number in range(writers))):
            log.agent(name)


def write(address: str, there: Connection, number: int, run: int, seed: str, limits: Callable[[], None] | None) -> None:
    """Write until killed; `limits` is called first. `run` is how many writers of this number there were before."""
    if limits is not None:
        limits()
    Writer(address, there, number, run, random.Random(f"{seed}/{number}/{run}")).run()


class Telling(Protocol):
    """What a writer says goes there."""

    def send(self, said: Said) -> None:
        """Take one record."""


class Writer:
    """One life of a writer."""

    log: Log
    agent: Agent
    told: StoreError | None = None

    def __init__(self, address: str, there: Telling, number: int, run: int, chance: random.Random) -> None:
        self.address, self.there, self.number, self.run_number, self.chance = address, there, number, run, chance
        self.done = 0

    def run(self) -> None:
        """Do one thing after the other; where the database fails, open it again."""
        while True:
            try:
                with open_log(self.address) as log:
                    self.begin(log)
                    while True:
                        self.go_on()
            except StoreError as error:
                if error is not self.told:
                    self.there.send(Said(UNKNOWN, "", "open", (), str(error)))
                sleep(0.1)  # do not let a database that is down keep a processor busy

    def begin(self, log: Log) -> None:
        """Work with an open database."""
        self.log, self.agent = log, log.agent(name_of(self.number))

    def go_on(self) -> None:
        """Do one thing."""
        self.chance.choices([deed for deed, _ in DEEDS], [weight for _, weight in DEEDS])[0](self)

    @contextmanager
    def trying(self, what: str, *facts: Any) -> Iterator[Trial]:
        """Say that something is tried, and what came of it."""
        self.done += 1
        trial = Trial(f"{self.number}.{self.run_number}.{self.done}")
        self.there.send(Said(TRY, trial.key, what, facts))
        try:
            yield trial
        except (CommandError, ConflictError) as error:
            self.there.send(Said(REFUSED, trial.key, what, (), str(error)))
            self.agent.context()  # take note of what is there now
        except StoreError as error:
            state = REFUSED if _NOTHING.search(str(error)) else UNKNOWN
            self.there.send(Said(state, trial.key, what, (), str(error)))
            self.told = error
            raise
        else:
            self.there.send(Said(DONE, trial.key, what, tuple(trial.facts)))

    # What it does

    def whole_turn(self) -> None:
        """Append a turn with everything in it, in one transaction."""
        with self.trying("turn") as trial:
            say_turn(self.agent, trial, self.chance.randint(1, 3))

    def message(self) -> None:
        """Append one message by itself, and end its turn by itself."""
        with self.trying("message") as trial:
            text = f"{trial.key}/1/1 a message of its own"
            trial.facts.append((self.agent.append("user", text), text))
        with self.trying("end"):
            self.agent.end_turn()

    def shared(self) -> None:
        """Append to a conversation that the others append to as well."""
        agent = self.log.agent(self.chance.choice(SHARED))
        with self.trying("shared") as trial:
            try:
                say_turn(agent, trial, 1)
            except ConflictError:
                agent.context()
                raise

    def operation(self) -> None:
        """Do something that changes the context."""
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
        """Take back an operation."""
        with self.log.store.read() as moment:
            operations = [event.id for event in moment.operations(self.agent.id)]
        with self.trying("operation") as trial:
            target = self.chance.choice(operations[-8:]) if operations else 0
            trial.facts.append(self.agent.do(f"/restore {target} -- {trial.key}").event_id)

    def fork(self) -> None:
        """Fork a child, and say something in it or in one that there is."""
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
        """Erase a turn for good; none that carries mail, because the mail would go with it."""
        with self.log.store.read() as moment:
            # All of their messages: one that carries mail may be forgotten while its turn is still seen.
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
        """Take the mail that has come."""
        with self.trying("deliver") as trial:
            trial.facts += [mail["id"] for mail in self.agent.do("/check-mail").data["mail"]]

    def turns(self) -> dict[int, list[Event]]:
        """The turns of the context, each with its visible messages."""
        found = defaultdict[int, list[Event]](list)
        for message in self.agent.context().messages:
            if message.turn_id is not None:
                found[message.turn_id].append(message)
        return found


class Trial:
    """Something that is tried, and what is to be acknowledged of it."""

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
)
