"""A call of a tool, and its conversation: the one that the client names, or the server's."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import msgspec
from msgspec import Struct

from foldmark.app import Setup
from foldmark.core import selections
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.ports import WAITING, Progress
from foldmark.core.request import ToolCall
from foldmark.core.segments import END, Segment
from foldmark.core.wording import listing
from foldmark.log import Agent, Log
from foldmark.log.listening import wait_for
from foldmark.log.live_session import client_session
from foldmark.runtime.lease import HeldLease, LeaseError, take

ARGUMENT = "conversation"
"""The argument that every tool about a conversation has in addition to its own."""

_SCHEDULING = "wait_for_previous"
"""The argument that Gemini CLI adds to every tool for its own use, and passes on to the server."""

PATIENCE = 1.0
"""Maximum seconds that a call waits for a conversation that another client uses."""

CALL_SECONDS = 2.0
"""Maximum seconds to look for a call: it is recorded once the whole answer that contains it has arrived."""

NEWEST = 10
"""Number of conversations, those with the newest events, among which to look for a running session."""


class Conversations:
    """The conversations of one database. It is opened for each request, because a server runs for days.

    `default` is the name of the conversation for calls that name none.
    """

    def __init__(self, setup: Setup, default: str | None) -> None:
        self.setup, self.default = setup, default

    @property
    def exist(self) -> bool:
        """True if there is a database."""
        return self.setup.has_database

    def log(self) -> AbstractContextManager[Log]:
        """Open the log for a block. Raises StoreError, also if there is no database yet."""
        return self.setup.log(create=False)

    @contextmanager
    def agent(
        self, named: Any, *, any_will_do: bool = False, writes: bool = False, call: ToolCall | None = None
    ) -> Iterator[Agent]:
        """Yield the agent with this name, uuid or beginning of a uuid; by default the server's, or the one whose model
        waits for `call`, or with `any_will_do` the one with the newest event.

        With `writes`, hold its lease during the block, so that no other program runs it. Raises CommandError,
        LeaseError, StoreError.
        """
        if not isinstance(named, str | None):
            raise CommandError(f"{ARGUMENT} must be a conversation's name, not {named!r:.60}")
        with self.log() as log:
            wanted = named or self.default
            caller = _caller(log, call) if call is not None and not wanted else None
            agent = caller or (log.find(wanted) if wanted else _unnamed(log, any_will_do, writes))
            with _leased(agent) if writes else nullcontext():
                yield agent


class ToolUse(Struct, frozen=True):
    """One call of a tool. `agreed` is the key of the question that the person has agreed to. `here` is True if the
    client works in this process's folder."""

    conversations: Conversations
    arguments: Mapping[str, Any]
    progress: Progress
    agreed: str | None = None
    here: bool = True


def _caller(log: Log, call: ToolCall) -> Agent | None:
    """Return the agent whose model waits for this call: that of a coding agent whose requests Foldmark records. The
    call may come a moment before it is recorded, or even before its prompt is, when no turn is open yet. Raises
    CommandError if several agents wait for such a call."""

    def waiting() -> list[str]:
        with log.store.read() as moment:
            asked = {
                record.id: list(moment.select((Segment(record.id, 0, END),), WAITING, expected=END))
                for record in moment.agents()
                if record.open_turn is not None
            }
        return [agent for agent, calls in asked.items() if any(_is(call, event) for event in calls)]

    if not _may_come(log):
        return None
    found = wait_for(log.store, waiting, CALL_SECONDS)
    if len(found) > 1:
        raise CommandError(
            f"{len(found)} sessions wait for such a call, so the one that calls is not certain; name it as "
            f"`{ARGUMENT}`: {listing(each[:8] for each in found)}"
        )
    return log.agent(found[0]) if found else None


def _may_come(log: Log) -> bool:
    """Return True if a turn is open, or if one of the newest conversations is a session that a gateway records."""
    with log.store.read() as moment:
        at_work = any(record.open_turn is not None for record in moment.agents())
        newest = selections.conversations(moment)[:NEWEST]
    return at_work or any(client_session(log.agent(each.id)) is not None for each in newest)


def own_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call that are meant for its tool."""
    return {name: value for name, value in arguments.items() if name != _SCHEDULING}


def _is(call: ToolCall, event: Event) -> bool:
    """Return True if a recorded call is this one. Clients prefix the server's name: `mcp__foldmark__slash`, or
    `mcp_foldmark_slash` in Gemini CLI."""
    name = str((event.data or {}).get("name", ""))
    if "__" in name:
        own = name.rpartition("__")[2] == call.name
    else:
        own = name.startswith("mcp_") and name.endswith(f"_{call.name}")
    return own and own_arguments(msgspec.json.decode(event.content)) == call.args


def _unnamed(log: Log, any_will_do: bool, writes: bool) -> Agent:
    with log.store.read() as moment:
        records = selections.conversations(moment)
    if not records:
        raise CommandError("there is no conversation yet; `foldmark chat` starts one")
    if any_will_do:
        return log.agent(records[0].id)
    names = listing((record.name for record in reversed(records)), 40)
    if writes:
        raise CommandError(
            f"Foldmark does not record this chat. If the person means another conversation, name it as `{ARGUMENT}`; "
            f"available: {names}"
        )
    raise CommandError(f"name a conversation as `{ARGUMENT}`; available: {names}")


@contextmanager
def _leased(agent: Agent) -> Iterator[None]:
    """Hold the lease of an agent during the block, so that another program's turn is not disturbed. Wait for calls of
    other clients, which are short."""

    def free() -> HeldLease | None:
        with suppress(LeaseError):
            return take(agent, agent.log.new_id())
        return None

    held = wait_for(agent.log.store, free, PATIENCE) or take(agent, agent.log.new_id())
    try:
        yield
    finally:
        held.give_back()
