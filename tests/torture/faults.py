"""Faults of the machine under a database: a full disk, read-only files, a clock that goes back.

Each fault hits a database that eight writers use or have used. Afterwards the fault is over, work continues, and
nothing that was acknowledged may be missing.
"""

from __future__ import annotations

import random
import re
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

from evidence import Evidence, go_on
from kills import Toll
from looking import open_log
from swarm import WRITERS, Swarm, kill_some
from writers import DONE, UNKNOWN, Said, Writer, name_of, prepare

from foldmark import FoldmarkError, Log
from foldmark.core.codec import timestamp, utc
from foldmark.runtime.lease import take

FULL = 1_600_000
"""Size of the disk in bytes: enough for the initial database and some turns."""

FULL_TEXT = r"the disk is full: nothing was recorded|Is the disk full or gone\? Nothing was recorded"
LENT_TEXT = r"is being run by process \d+ on .*; wait until it is idle"
READ_ONLY_TEXT = r"is read-only: nothing was recorded\. Allow writing to it, or work on a copy"


@dataclass
class Fault:
    """The name of a fault, the errors that users saw (with counts), and what was missing afterwards."""

    name: str
    errors: Counter[str] = field(default_factory=Counter)
    toll: Toll = field(default_factory=Toll)

    def hear(self, said: list[Said], clear: str) -> None:
        """Count the errors of a store. An error that does not match `clear` counts as a fault."""
        for each in said:
            if re.search(clear, each.text):
                self.errors[plain(each.text)] += 1
            elif each.state == UNKNOWN:
                self.toll.faults.append(f"unclear: {each.text}")

    def attempt(self, act: Callable[[], object], clear: str) -> bool:
        """Call `act`. If it fails, note the error and return False."""
        try:
            act()
        except FoldmarkError as error:
            self.hear([Said(UNKNOWN, "", "expected", (), str(error))], clear)
            return False
        return True

    def expect(self, act: Callable[[], object], clear: str) -> None:
        """Call `act`, which must fail, and note the error."""
        if self.attempt(act, clear):
            self.toll.faults.append(f"{self.name}: nothing failed")


def plain(text: str) -> str:
    """Return the error text without the parts that differ between runs."""
    for pattern, instead in (
        (r"postgresql://\S*/\w+", "postgresql://server/chat"),
        (r'(file|socket) "[^"]*"', r'\1 "…"'),
        (r"\S*/\S+\.db", "chat.db"),
    ):
        text = re.sub(pattern, instead, text)
    return re.sub(r"process \d+ on \S+ \(since .*? UTC\)", "process 4711 on host (since …)", text)


# A full disk


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[bool]:
    """Mount a disk of `size` bytes at `folder` for the block. Yield False if this user may not mount disks."""
    folder.mkdir()
    mounted = _run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder))
    try:
        yield mounted
    finally:
        if mounted:
            _run("umount", "--lazy", str(folder))


def grow(folder: Path) -> None:
    """Enlarge a small disk."""
    _run("mount", "-o", "remount,size=1g", str(folder))


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def small_files(size: int) -> None:
    """Limit the files that this process writes to `size` bytes."""
    sys.dont_write_bytecode = True  # the limit would truncate compiled modules
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def full_disk(folder: Path, times: int, seed: str) -> Fault | None:
    """Work until the disk is full and `times` attempts have failed, kill two writers, then make room. Return None if
    this user may not mount disks."""
    with small_disk(folder / "disk", FULL) as mounted:
        if not mounted:
            return None
        fault, address = Fault("full disk"), str(folder / "disk" / "log.db")
        with Swarm(address, seed) as swarm:
            _fail(fault, swarm, times, seed)
            grow(folder / "disk")
            done_again(swarm)
        fault.toll.look(address, swarm)
    return fault


def full_files(folder: Path, times: int, seed: str) -> Fault:
    """Do the same with a file size limit for each process (RLIMIT_FSIZE) instead of a disk."""
    fault, address = Fault("full disk (RLIMIT_FSIZE)"), str(folder / "limited.db")
    with Swarm(address, seed, limits=partial(small_files, FULL // 2)) as swarm:
        _fail(fault, swarm, times, seed)
    fault.toll.look(address, swarm)
    return fault


def _fail(fault: Fault, swarm: Swarm, times: int, seed: str) -> None:
    failed = re.compile(FULL_TEXT)
    swarm.listen(lambda: sum(bool(failed.search(each.text)) for each in swarm.said) >= times)
    fault.toll.kills = 2
    fault.toll.struck = kill_some(swarm, 2, random.Random(seed))
    fault.hear(swarm.said, FULL_TEXT)


def done_again(swarm: Swarm) -> None:
    """Wait until every writer has done something more, to show that writers continue after a fault without help."""
    before = {life: life.count(DONE) for life in swarm.lives.values()}
    swarm.listen(lambda: all(life.count(DONE) > done for life, done in before.items()))


# Read-only


def read_only(folder: Path, seed: str) -> Fault:
    """Kill all writers, make the file (and its folder, if a disk can be mounted) read-only, then writable again."""
    with small_disk(folder / "protected", 100_000_000) as mounted:
        place = folder / "protected"
        fault, address = Fault("read-only folder" if mounted else "read-only file"), str(place / "log.db")
        with Swarm(address, seed) as swarm:
            fault.toll.kills, fault.toll.struck = 3, kill_some(swarm, 3, random.Random(seed))
        Path(address).chmod(0o400)
        if mounted:
            _run("mount", "-o", "remount,ro", str(place))
        with open_log(address) as log:
            agents = log.agents()
            before = {agent.id: [message.id for message in agent.context().messages] for agent in agents}
            for act in (
                lambda: agents[0].append("user", "no"),
                lambda: agents[0].do("/mark"),
                lambda: agents[0].do(f"/send {agents[1].id} no"),
            ):
                fault.expect(act, READ_ONLY_TEXT)
        if mounted:
            _run("mount", "-o", "remount,rw", str(place))
        Path(address).chmod(0o600)
        with open_log(address) as log:
            after = {agent.id: [message.id for message in agent.context().messages] for agent in log.agents()}
        if before != after:
            fault.toll.faults.append("what was shown of the read-only database is not what is shown afterwards")
        fault.toll.look(address, swarm)
    return fault


# The clock


def clock_back(address: str, deeds: int, seed: str) -> Fault:
    """Work with a clock that goes back an hour and then forward again."""
    fault, said, chance = Fault("clock of a program back an hour"), Heard(), random.Random(seed)
    prepare(address, WRITERS)
    with open_log(address) as log:
        right = log.clock
        for run, hours in enumerate((0, -1, 0)):
            log.clock = partial(moved, right, hours)
            work(log, run, deeds, said, chance)
            for agent in log.agents():
                ids = [message.id for message in agent.context().messages]
                if ids != sorted(ids):
                    fault.toll.faults.append(f"{agent.name}: the messages of its context are not in their order")
                agent.request(provider="openai", model="gpt-5")
    _lend(fault, address)
    with open_log(address) as log:
        go_on(log)
        evidence = Evidence(log, said)
        fault.toll.add(evidence, said)
        times = [event.created_at for events in evidence.events.values() for event in events]
        if times == sorted(times):
            fault.toll.faults.append("the clock did not go back")
    return fault


def _lend(fault: Fault, address: str) -> None:
    """Check that a program with a wrong clock cannot take over an agent that another program runs."""
    with open_log(address) as one, open_log(address) as two:
        for hours in (-1, 1):
            two.clock = partial(moved, one.clock, hours)
            held = take(one.agent(name_of(0)), "one")
            fault.expect(lambda: take(two.agent(name_of(0)), "two"), LENT_TEXT)
            held.check()
            held.give_back()
            take(two.agent(name_of(0)), "two").give_back()


def moved(clock: Callable[[], str], hours: int) -> str:
    """Return the time of `clock`, shifted by `hours`."""
    return timestamp(utc(clock()) + timedelta(hours=hours))


class Heard(list[Said]):
    """Replaces the connection for a writer that runs in this process."""

    send = list.append


def work(log: Log, run: int, deeds: int, heard: Heard, chance: random.Random) -> None:
    """Run the writers in this process, one after the other."""
    for number in range(WRITERS):
        writer = Writer(log.store.address, heard, number, run, chance)
        writer.begin(log)
        for _ in range(deeds):
            writer.go_on()
