"""`foldmark doctor`: does what is stored beside the log equal what the log gives [SPEC 3, L7]?"""

from collections.abc import Iterator

from msgspec import Struct

from foldmark.core.errors import DamagedError, FoldmarkError
from foldmark.core.replay import Fold
from foldmark.log.log import Agent, Log


class Finding(Struct, frozen=True):
    """One thing that is wrong; `agent_id` where the stored segments of an agent can be rebuilt."""

    text: str
    agent_id: str | None = None


def examine(log: Log) -> Iterator[Finding]:
    """What is wrong with the database, one finding each; nothing if it is sound. Writes nothing.

    Checks SQLite's own structures, the stored sums against a count of the messages, and the stored segment cache of
    every agent against a full replay of its operations.
    """
    for line in log.store.damage():
        yield Finding(line)
    try:
        agents = log.agents()
    except FoldmarkError as error:
        yield Finding(f"the agents cannot be read: {error}")
        return
    for agent in agents:
        name = agent.name or agent.id[:8]
        try:
            replayed = agent.replay()
        except FoldmarkError as error:
            yield Finding(f"{name}: its operations cannot be replayed: {error}")
            continue
        try:
            # Looked at twice: somebody may record an operation between one reading and the next.
            differs = _differs(log, agent, replayed) and _differs(log, agent, agent.replay())
        except DamagedError as error:
            yield Finding(str(error), agent.id)
            continue
        except FoldmarkError as error:
            yield Finding(f"{name}: its stored segments cannot be read: {error}")
            continue
        if differs:
            yield Finding(f"{name}: the stored segments or their size differ from the replay", agent.id)


def _differs(log: Log, agent: Agent, replayed: Fold) -> bool:
    cache = log.store.head(agent.id).cache
    if cache is None:
        return False
    # What is appended while a planning conversation ends is not visible: only then the size beside is not used.
    return cache[0] != replayed or (replayed.grows and cache[1] != agent.beside(replayed))


def repair(log: Log, finding: Finding) -> bool:
    """Rebuild the stored segments that a finding is about; False if it is about something else."""
    if finding.agent_id is None:
        return False
    if any(log.store.damage()):
        return False  # the size beside the segments would be made from sums that are wrong
    agent = log.agent(finding.agent_id)
    with log.store.appending(agent.id, None):  # nobody writes meanwhile
        fold = agent.replay()
        log.store.save_fold(fold, agent.beside(fold))
    return True
