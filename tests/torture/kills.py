"""Kills writers at random moments and checks afterwards that nothing is missing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evidence import Evidence, go_on
from looking import open_log
from swarm import WRITERS, Swarm, kill_some
from writers import DONE, REFUSED, TRY, UNKNOWN, Said

KILLS_PER_DATABASE = 50
"""Number of kills after which the writers get a new database, so that each check stays small."""


BEGUN, KINDS = 150, {"turn", "operation", "mail", "erase", "shared", "metadata"}
"""Number of records from all writers before the first kill, and things done by then, so that there is something to
lose."""


@dataclass
class Toll:
    """Counts of the kills, records and events of databases, and the faults found."""

    kills: int = 0
    struck: int = 0
    said: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    events: int = 0
    faults: list[str] = field(default_factory=list)

    def look(self, address: str, swarm: Swarm) -> None:
        """Continue to work in a database whose writers have ended, check it and add the results."""
        with open_log(address) as log:
            go_on(log)
            self.add(Evidence(log, swarm.said), swarm.said)

    def add(self, evidence: Evidence, said: Sequence[Said]) -> None:
        """Add the records of one database and the faults found in it."""
        self.faults += evidence.faults()
        self.events += len(evidence.by_id)
        self.said += Counter(each.state for each in said)
        self.done += Counter(each.what for each in said if each.state == DONE)

    @property
    def told(self) -> str:
        """A summary in one line."""
        said = self.said
        return (
            f"{self.kills} kills, {self.struck} within a call; {said[DONE]} of {said[TRY]} things acknowledged, "
            f"{said[REFUSED]} refused, {said[UNKNOWN]} failed; {self.events} events, {len(self.faults)} faults"
        )


def kills(fresh: Callable[[], str], count: int, seed: str) -> Toll:
    """Kill `count` writers in all. The remaining writers of each database are killed last and count too. `fresh`
    returns the address of a new database."""
    toll = Toll()
    while toll.kills < count:
        address, chance = fresh(), random.Random(f"{seed}/{toll.kills}")
        with Swarm(address, f"{seed}/{toll.kills}") as swarm:
            one_by_one = max(0, min(KILLS_PER_DATABASE, count - toll.kills) - WRITERS)
            swarm.listen(lambda: _begun(swarm.said))
            toll.struck += kill_some(swarm, one_by_one, chance)
            for number in list(swarm.lives):
                toll.struck += swarm.kill(number)
        toll.kills += one_by_one + WRITERS
        toll.look(address, swarm)
    return toll


def _begun(said: Sequence[Said]) -> bool:
    return len(said) > BEGUN and {each.what for each in said if each.state == DONE} >= KINDS
