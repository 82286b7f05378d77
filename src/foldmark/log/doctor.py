"""`foldmark doctor`: compare the derived data of a database with its log [SPEC 3, L7]."""

from collections.abc import Iterator

from msgspec import Struct

from foldmark.core.errors import DamagedError, FoldmarkError
from foldmark.core.ports import Snapshot
from foldmark.log.log import Agent, Log


class StoreFinding(Struct, frozen=True):
    """One fault; `agent_id` is set if the stored segments of an agent can be rebuilt."""

    text: str
    agent_id: str | None = None


def examine(log: Log) -> Iterator[StoreFinding]:
    """Yield one finding for each fault in the database, without writing anything.

    Checks SQLite's own structures, the stored sums against a count of the messages, and the stored segments of every
    agent against a full replay of its operations.
    """
    for line in log.store.damage():
        yield StoreFinding(line)
    try:
        agents = log.agents()
    except FoldmarkError as error:
        yield StoreFinding(f"the agents cannot be read: {error}")
        return
    for agent in agents:
        with log.store.read() as moment:
            finding = _compared(moment, agent)
        if finding is not None:
            yield finding


def _compared(moment: Snapshot, agent: Agent) -> StoreFinding | None:
    """Return the fault in the stored segments of an agent; None if there is none."""
    name = agent.name or agent.id[:8]
    try:
        replayed = agent.reader.replay(moment)
    except FoldmarkError as error:
        return StoreFinding(f"{name}: its operations cannot be replayed: {error}")
    try:
        cache = moment.head(agent.id).cache
        # While a planning conversation ends, new messages are not visible, and the stored size is not used.
        sized = cache is None or not replayed.grows or cache[1] == agent.reader.beside(moment, replayed)
        if cache is None or (cache[0] == replayed and sized):
            return None
    except DamagedError as error:
        return StoreFinding(str(error), agent.id)
    except FoldmarkError as error:
        return StoreFinding(f"{name}: its stored segments cannot be read: {error}")
    return StoreFinding(f"{name}: the stored segments or their size differ from the replay", agent.id)


def repair(log: Log, finding: StoreFinding) -> bool:
    """Rebuild the stored segments that a finding is about; return False if it is about something else."""
    if finding.agent_id is None:
        return False
    if any(log.store.damage()):
        return False  # the size stored with the segments would be computed from wrong sums
    agent = log.agent(finding.agent_id)
    with log.store.write() as transaction:  # no other writer can append in the meantime
        fold = agent.reader.replay(transaction)
        transaction.save_fold(fold, agent.reader.beside(transaction, fold))
    return True
