"""Clients that use the same agents concurrently and note the begin, end and answer of each call. Their notes are
checked for linearizability, agent by agent."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any, NamedTuple

from linearizability import Call, check, explain, settled
from looking import events_of, open_log
from swarm import CONTEXT, SILENCE

from foldmark import Agent, CommandError, ConflictError, Log, StoreError
from foldmark.core.events import METADATA_KINDS, Event
from foldmark.core.ports import Snapshot

CLIENTS = 8

AGENTS = ("one", "two", "three")

METADATA = "metadata"
"""What a note of a recorded usage says that it is: no call that the model of an agent knows."""


class Noted(NamedTuple):
    """One record of a client: call `key` on `agent` begins or, with `ended`, its outcome."""

    key: str
    agent: str
    call: Call
    ended: bool


def record(address: str, there: Connection, client: int, run: int, calls: int, seed: str) -> None:
    """Run a client that makes `calls` calls."""
    with open_log(address) as log:
        there.send("ready")
        clients = Client(log, there.send, client, run, random.Random(f"{seed}/{client}/{run}"))
        for _ in range(calls):
            clients.call()


class Client:
    """Calls random methods of shared agents and notes their answers."""

    def __init__(self, log: Log, note: Callable[[Noted], Any], number: int, run: int, chance: random.Random) -> None:
        self._log, self._note, self._number, self._run, self._chance = log, note, number, run, chance
        self._agents = {name: log.agent(name) for name in AGENTS}  # each agent keeps the head that it last read
        self._done = 0

    def call(self) -> None:
        """Make one call and note it, and often record metadata of some agent before it."""
        chance, name = self._chance, self._chance.choice(AGENTS)
        if chance.random() < 0.5:
            self._record_metadata(chance.choice(AGENTS))
        agent = self._agents[name]
        what = chance.choices(("append", "read", "mark", "rewind", "clear", "undo", "drop"), (8, 6, 2, 2, 1, 2, 2))[0]
        argument = ""
        if what in ("mark", "rewind"):
            argument = chance.choice("MN")
        elif what == "drop":
            turns = sorted({message.turn_id for message in agent.context().messages if message.turn_id})
            argument = str(chance.choice(turns or [1]))
        self._done += 1
        key = f"{self._number}.{self._run}.{self._done}"
        begun = Call(self._number, monotonic(), 0.0, what, "unknown", argument, agent.timeline.head)
        self._note(Noted(key, name, begun, False))
        answer = self._answer(agent, begun, key)
        if answer is not None:
            self._note(Noted(key, name, answer._replace(end=monotonic()), True))

    def _record_metadata(self, name: str) -> None:
        """Record a usage, whatever the agent's head is; no conflict is an answer to that."""
        try:
            event_id = self._agents[name].record("usage", data={"fresh": self._number})
        except StoreError:
            return
        now = monotonic()
        call = Call(self._number, now, now, METADATA, "done", ids=(event_id,))
        self._note(Noted(f"{METADATA} {event_id}", name, call, True))

    def _answer(self, agent: Agent, call: Call, key: str) -> Call | None:
        """Make a call and return it with its answer, or None if its outcome is unknown."""
        try:
            if call.what == "read":
                events, visible = seen(agent)
                return call._replace(answer="done", ids=events, visible=visible)
            if call.what == "append":
                with agent.batch():
                    ids = [agent.append("user", f"{key} said"), agent.append("assistant", "answered")]
                    ids.append(agent.end_turn() or 0)
                return call._replace(answer="done", ids=tuple(ids))
            line = {"drop": "context drop"}.get(call.what, call.what)
            event_id = agent.do(f"/{line} {call.argument} -- {key}").event_id
            assert event_id is not None
            return call._replace(answer="done", ids=(event_id,))
        except ConflictError as error:
            if self._chance.random() < 0.8:  # otherwise the client keeps its old head
                agent.context()
            return call._replace(answer="conflict", expected=error.expected, found=error.found)
        except CommandError:
            return call._replace(answer="refused")
        except StoreError:
            return None


def seen(agent: Agent) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids of an agent's timeline and of the messages in its context, from one snapshot."""
    with agent.log.store.read() as moment:
        visible = tuple(message.id for message in agent.context().messages)
        return tuple(event.id for event in timeline_of(moment, agent.id)), visible


def timeline_of(moment: Snapshot, agent_id: str) -> list[Event]:
    """Return the events of an agent's timeline, in order: what its writers conflict about."""
    return [event for event in events_of(moment, agent_id) if event.kind not in METADATA_KINDS]


@dataclass
class Recorded:
    """A history and the checker's verdict on it."""

    calls: int = 0
    answers: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    kills: int = 0
    together: int = 0
    looked: int = 0
    metadata: int = 0
    faults: list[str] = field(default_factory=list)

    def judge(self, log: Log, noted: list[Noted]) -> None:
        """Check the notes about each agent, with a final read of the agent as the last call."""
        for name in AGENTS:
            agent = log.agent(name)
            beside = {id for each in noted if each.agent == name and each.call.what == METADATA for id in each.call.ids}
            with log.store.read() as moment:
                recorded_ids = {event.id for event in events_of(moment, agent.id) if event.kind in METADATA_KINDS}
            self.metadata += len(beside)
            if lost := beside - recorded_ids:
                self.faults.append(f"{name}: acknowledged metadata {sorted(lost)} is not there")
            mine = [each for each in noted if each.agent == name and each.call.what != METADATA]
            begun = {each.key: each.call for each in mine if not each.ended}
            calls = begun | {each.key: each.call for each in mine if each.ended}
            recorded = _recorded(agent, list(calls))
            events, visible = seen(agent)
            now = monotonic()
            last = Call(-1, now, now, "read", "done", ids=events, visible=visible)
            history = [*settled(list(calls.values()), recorded), last]
            verdict = check(history)
            self.calls += len(calls)
            self.looked += verdict.looked
            self.together = max(self.together, _together(history))
            for call in calls.values():
                self.answers[call.answer] += 1
            if not verdict.linearizable:
                self.faults.append(f"{name}: {explain(history, verdict)}")

    @property
    def told(self) -> str:
        """A summary in one line."""
        answers = ", ".join(f"{number} {answer}" for answer, number in sorted(self.answers.items()))
        return (
            f"{self.calls} calls ({answers}), up to {self.together} at the same time, {self.kills} clients killed, "
            f"{self.metadata} usages recorded beside; {self.looked} states looked at, "
            f"{len(self.faults)} histories without an order"
        )


def _recorded(agent: Agent, keys: list[str]) -> dict[int, tuple[int, ...]]:
    """Return the ids of the recorded events of each key, by the key's position in `keys`."""
    places, found = {key: number for number, key in enumerate(keys)}, dict[int, tuple[int, ...]]()
    with agent.log.store.read() as moment:
        events = timeline_of(moment, agent.id)
    for at, event in enumerate(events):
        if event.kind == "user" and (number := places.get(event.content.split()[0])) is not None:
            found[number] = tuple(each.id for each in events[at : at + 3])
        elif (number := places.get((event.data or {}).get("reason", ""))) is not None:
            found[number] = (event.id,)
    return found


def _together(calls: list[Call]) -> int:
    """Return the maximum number of simultaneous calls."""
    times = sorted([(call.begin, 1) for call in calls] + [(call.end, -1) for call in calls])
    most = now = 0
    for _, change in times:
        now += change
        most = max(most, now)
    return most


def histories(address: str, calls: int, kills: int, seed: str) -> Recorded:
    """Let 8 clients make `calls` calls each in a new database, kill and replace `kills` of them on the way, and check
    their notes."""
    found, noted = Recorded(), list[Noted]()
    with open_log(address, create=True) as log:
        for name in AGENTS:
            log.agent(name)
    chance = random.Random(seed)
    clients = {}

    def start(number: int, run: int) -> None:
        here, there = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=record, args=(address, there, number, run, calls, seed), daemon=True)
        process.start()
        there.close()
        clients[here] = number, run, process

    for number in range(CLIENTS):
        start(number, 0)
    at = sorted(chance.sample(range(CLIENTS * calls // 2), kills))
    while clients:
        ready = wait(list(clients), timeout=SILENCE)
        assert ready, "the clients say nothing any more"
        for each in ready:
            assert isinstance(each, Connection)
            number, run, process = clients[each]
            try:
                message = each.recv()
            except (EOFError, ConnectionResetError):
                process.join()
                each.close()
                del clients[each]
                if process.exitcode != 0 and found.kills < kills:
                    found.kills += 1
                    start(number, run + 1)
                else:
                    assert process.exitcode == 0, f"client {number} ended with {process.exitcode}: {noted[-1:]}"
                continue
            if message == "ready":
                continue
            noted.append(message)
            if at and sum(each.call.what != METADATA for each in noted) > 2 * at[0]:
                process.kill()
                process.join()
                if process.exitcode != 0:  # otherwise it had already finished
                    at.pop(0)
    with open_log(address) as log:
        found.judge(log, noted)
    return found
