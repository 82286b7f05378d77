"""Which conversation a client means: the one it names, or the one that the server was started with."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from foldmark.app import Setup
from foldmark.core.agents import AgentRecord
from foldmark.core.errors import CommandError
from foldmark.core.wording import listing
from foldmark.log import Agent, Log
from foldmark.log.listening import wait_for
from foldmark.runtime.lease import HeldLease, LeaseError, take

ARGUMENT = "conversation"
"""The argument that every tool about a conversation takes besides its own."""

PATIENCE = 1.0
"""Maximum seconds that a call waits for a conversation that another client uses."""


class Conversations:
    """The conversations of one database, which is opened anew for every request: a server lives for days.

    `default` is the name of the conversation that is meant where none is named.
    """

    def __init__(self, setup: Setup, default: str | None) -> None:
        self.setup, self.default = setup, default

    @property
    def exist(self) -> bool:
        """True if there is a database."""
        return self.setup.has_database

    @contextmanager
    def log(self) -> Iterator[Log]:
        """Open the log. Raises StoreError, also if there is no database yet."""
        with self.setup.log(create=False) as log:
            yield log

    @contextmanager
    def agent(self, named: Any, *, any_will_do: bool = False, writes: bool = False) -> Iterator[Agent]:
        """Yield the agent with this name, uuid or beginning of a uuid; by default the server's, or with `any_will_do`
        the one with the newest event.

        With `writes` its lease is held during the block, so that nobody else runs it. Raises CommandError, LeaseError,
        StoreError.
        """
        if not isinstance(named, str | None):
            raise CommandError(f"{ARGUMENT} must be a conversation's name, not {named!r:.60}")
        with self.log() as log:
            wanted = named or self.default
            agent = log.find(wanted) if wanted else _unnamed(log, any_will_do)
            with _leased(agent) if writes else nullcontext():
                yield agent


def all_conversations(log: Log) -> list[AgentRecord]:
    """Return all conversations, oldest first: one statement, however many there are."""
    with log.store.read() as moment:
        return [record for record in moment.agents() if record.name is not None and not record.deleted]


def _unnamed(log: Log, any_will_do: bool) -> Agent:
    records = all_conversations(log)
    if not records:
        raise CommandError("there is no conversation yet; `foldmark chat` starts one")
    if any_will_do:
        return log.agent(max(records, key=lambda record: record.newest).id)
    names = listing((record.name for record in records), 40)
    raise CommandError(f"name a conversation as `{ARGUMENT}`; available: {names}")


@contextmanager
def _leased(agent: Agent) -> Iterator[None]:
    """Hold the lease of an agent during the block, so that a turn of another program is not disturbed. Wait for calls
    of other clients, which are short."""

    def free() -> HeldLease | None:
        with suppress(LeaseError):
            return take(agent, agent.log.new_id())
        return None

    held = wait_for(agent.log.store, free, PATIENCE) or take(agent, agent.log.new_id())
    try:
        yield
    finally:
        held.give_back()
