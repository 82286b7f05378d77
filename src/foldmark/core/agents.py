"""Agents, and the data kept beside their events: mail, ends, the archive, leases, the list of changes [SPEC 2, 6, 9].

None of these data change a head, so they never conflict with an append. The log of a dead agent stays readable and its
open turn can still be closed, but no new turn can begin. A deleted agent accepts no events.

A runtime takes an agent's lease before it runs the agent, renews the lease while it works, and gives it back at the
end. A runtime that finds an expired lease takes it over and closes the open turn, because the process that held it has
crashed.

A cursor in the list of changes is a text that only its store can read. An event id cannot serve as a cursor: a store
may assign an id before the event is committed, so a listener that has seen id 8 would miss id 7, committed later.

Times have the form of `Event.created_at`.
"""

from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.core.events import MESSAGE_KINDS, METADATA_KINDS, OPERATION_KINDS, Draft

DEFAULT = "default"
"""The conversation of a chat that names none."""

MAIL_BEGINS = "[Mail from "
"""Prefix of a message that carries mail."""


class Size(NamedTuple):
    """A number of messages and the sum of their tokens, as fixed at append."""

    messages: int
    tokens: int

    def plus(self, other: "Size") -> "Size":
        """Return the sum of both."""
        return Size(self.messages + other.messages, self.tokens + other.tokens)

    def less(self, other: "Size") -> "Size":
        """Return this size minus the other."""
        return Size(self.messages - other.messages, self.tokens - other.tokens)


class AgentRecord(Struct, frozen=True):
    """An agent as the store knows it.

    A root agent has a name and no parent. A fork has a parent and `fork_event`, the parent's event that stores its
    start. `head` is the id of the newest event of its timeline, which a writer expects, and `last` that of its newest
    event of any class (`core.events.METADATA_KINDS`); both are 0 if there is none. `open_turn` is the turn that has not
    ended. The record of a `deleted` agent remains only to explain its uuid.
    """

    id: str
    name: str | None
    parent: str | None
    fork_event: int
    created_at: str
    head: int = 0
    last: int = 0
    open_turn: int | None = None
    messages: int = 0
    tokens: int = 0
    deleted: bool = False

    @property
    def newest(self) -> int:
        """The id of the newest event of the agent's timeline, or else of the fork that created it, which precedes all
        its events."""
        return self.head or self.fork_event

    @property
    def next_possible(self) -> int:
        """An id above those of all recorded events of the agent, and above that of the fork that created it: the id of
        an event that is only supposed."""
        return max(self.last, self.fork_event) + 1

    @property
    def own(self) -> Size:
        """The size of all messages that the agent itself appended, visible or not."""
        return Size(self.messages, self.tokens)


class Mail(Struct, frozen=True):
    """A message from one agent to another; `actor` is the actor that sent it, `sent_at` is in UTC like
    `Event.created_at`. `event` is the event that carried it, None while it is unread."""

    id: int
    sender: str
    recipient: str
    actor: str
    sent_at: str
    content: str
    event: int | None = None


class End(Struct, frozen=True):
    """The end of an agent: killed by a command of agent `killer`, or deleted with its conversation (`killer` None)."""

    agent: str
    actor: str
    at: str
    killer: str | None = None

    @property
    def how(self) -> str:
        """`deleted on 2026-03-01 12:00 by a person`, `dead: killed by agent 5e6f7a8b at 2026-03-01 12:00`."""
        return self.how_at(minute(self.at))

    def how_at(self, at: str) -> str:
        """Return `how` with the time as it is shown to a person."""
        if self.killer is None:
            return f"deleted on {at} by {_actor_name(self.actor)}"
        killer = self.killer[:8]
        by = f"agent {killer}" if self.actor == "model" else f"{_actor_name(self.actor)} in {killer}"
        return f"dead: killed by {by} at {at}"

    @property
    def sentence(self) -> str:
        """`agent 1a2b3c4d was deleted on 2026-03-01 12:00 by a person`."""
        return f"agent {self.agent[:8]} {'was' if self.killer is None else 'is'} {self.how}"


def refused(end: End, draft: Draft, open_turn: int | None) -> str | None:
    """Return why an ended agent refuses an event; None if it accepts it.

    The answer so far of a killed agent is accepted, also if it opens a turn, and its open turn can be closed. Metadata
    and a person's own operations, such as a fork, are also accepted, but marks are not, because no message will follow
    them.
    """
    if end.killer is None:
        return f"{end.sentence}; nothing can be added to it"
    so_far = draft.kind == "assistant" and draft.interrupted
    new = open_turn is None and not so_far
    begins = draft.kind in MESSAGE_KINDS and (new or (draft.kind == "user" and draft.actor != "system"))
    if begins or draft.kind == "mark" or (draft.kind in OPERATION_KINDS and draft.actor == "model"):
        return f"{end.sentence}; its log stays readable, and a person can /fork it"
    return None


def mail_head(sender: str, sent_at: str) -> str:
    """Return the line before mail: `[Mail from 1a2b3c4d at 2026-03-01 12:00]`."""
    return f"{MAIL_BEGINS}{sender[:8]} at {minute(sent_at)}]"


def minute(time: str) -> str:
    """Return a time for a person: `2026-03-01 12:00` of `2026-03-01T12:00:00.000000Z`."""
    return time[:16].replace("T", " ")


def _actor_name(actor: str) -> str:
    return {"human": "a person", "model": "a model"}.get(actor, "the system")


Fate = Literal["waits", "begun", "killed"]
"""An agent waits to be run, has begun (it has its own message, or its model was asked), or was killed."""


class InboxView(Protocol):
    """The part of `Snapshot` that reads inboxes."""

    def unread(self, agent_id: str) -> list[Mail]:
        """Return the agent's unread mail, oldest first."""

    def unread_count(self, agent_id: str) -> int:
        """Return the number of unread mails of the agent."""

    def end(self, agent_id: str) -> End | None:
        """Return the agent's end; None if it is alive. Deletion takes precedence over a kill."""

    def fates(self, agent_id: str) -> dict[str, Fate]:
        """Return the fate of each agent forked from this one, by its uuid."""

    def archived(self, agent_id: str) -> str | None:
        """Return the time at which a conversation was archived; None if it is not archived."""


class Inbox(InboxView, Protocol):
    """The part of `Transaction` that writes inboxes."""

    def send(self, sender: str, recipient: str, content: str, actor: str, sent_at: str) -> int:
        """Store mail and return its id; ids increase in the order of commits."""

    def carried(self, mail_id: int, event_id: int) -> None:
        """Mark mail as read: `event_id`, of its recipient, now holds its text."""

    def kill(self, agent_id: str, killer: str, actor: str, died_at: str) -> None:
        """Record that a command of agent `killer` killed a living agent."""

    def delete(self, agent_id: str, actor: str, deleted_at: str) -> None:
        """Delete the agent. It loses its name and its unread mail and can then be found only by its uuid."""

    def rename(self, agent_id: str, name: str) -> None:
        """Give a conversation another name. Raises StoreError if the name is taken."""

    def archive(self, agent_id: str, archived_at: str | None) -> None:
        """Archive a conversation, or unarchive it if `archived_at` is None."""


MODEL, TOOLS = "waiting for the model", "executing tools"
"""States of a running agent [SPEC 6]. An agent without a valid lease is idle or dead."""


class Lease(Struct, frozen=True):
    """The right of runtime `holder`, a uuid, in process `process` of `host`, to run `agent` at least until `until`.

    `state` is MODEL or TOOLS; `interrupt` is True if the holder was asked to end the turn.
    """

    agent: str
    holder: str
    host: str
    process: int
    state: str
    taken_at: str
    until: str
    interrupt: bool = False


class LeasesView(Protocol):
    """The part of `Snapshot` that reads leases."""

    def lease(self, agent_id: str) -> Lease | None:
        """Return the agent's lease, expired or not; None if nobody runs it."""

    def leases(self) -> list[Lease]:
        """Return all leases, including expired ones."""


class Leases(LeasesView, Protocol):
    """The part of `Transaction` that writes leases."""

    def lend(self, lease: Lease) -> None:
        """Store a lease, replacing the agent's previous one, which the caller has checked in the same transaction."""

    def renew(self, holder: str, until: str) -> list[Lease]:
        """Extend all leases of a runtime and return them."""

    def lease_state(self, agent_id: str, holder: str, state: str) -> None:
        """Set the agent's state, if `holder` still holds its lease."""

    def give_back(self, agent_id: str, holder: str) -> None:
        """End the agent's lease if `holder` still holds it."""

    def ask_interrupt(self, agent_id: str) -> None:
        """Ask the lease's holder to end the agent's turn."""


MAIL = "mail"
"""The kind of a change that announces mail."""

LIVES = ("born", "renamed", "archived", "unarchived", "killed", "deleted")
"""Kinds of changes to an agent; `born` is created or forked."""

PAGE = 1000
"""Maximum number of events or changes on a page."""


class Change(NamedTuple):
    """A committed event; or, with `event_id` None, mail sent to an agent (`kind` is `MAIL`) or a change of an agent
    (`kind` is one of `LIVES`).

    A change says only where to look, because its subject may have been erased or changed since.
    """

    agent_id: str
    event_id: int | None
    kind: str

    @property
    def is_metadata(self) -> bool:
        """True for an event of the class metadata, which changes no context."""
        return self.event_id is not None and self.kind in METADATA_KINDS


class Changes(NamedTuple):
    """A page of changes, and the cursor after the last of them."""

    changes: list[Change]
    cursor: str


class ChangesView(Protocol):
    """Reads the changes committed since an earlier `Snapshot`."""

    def changes(self, after: str | None, limit: int) -> Changes:
        """Return up to `limit` changes after cursor `after`; without a cursor, no changes and the cursor of this
        moment.

        A reader that continues from the cursor of each page gets every change exactly once, whichever process committed
        it. Changes of one conversation and its forks come in the order of their ids; no other order is guaranteed.
        Raises CommandError for an invalid cursor, and StoreError inside a transaction, whose changes may never be
        committed.
        """


class Watch(Protocol):
    """Waits for commits to one database by any process. It is thread-safe and holds no lock of the store while it
    waits."""

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for a commit that this watch has not reported yet.

        Every commit counts, including those of leases and settings. Return True after a commit, False after the
        timeout, or at once if the watch or its store is closed.
        """

    def close(self) -> None:
        """Close this watch, and end any wait in another thread."""


def check_limit(limit: object, most: int = PAGE) -> None:
    """Raise CommandError if `limit` is not a number from 1 to `most`."""
    if not isinstance(limit, int) or not 1 <= limit <= most:
        raise CommandError(f"limit must be a number from 1 to {most}, not {str(limit)[:40]}")


def check_name(name: str) -> None:
    """Raise CommandError if a conversation cannot have this name."""
    if is_uuid(name) or not name.strip() or len(name) > 200 or not name.isprintable():
        raise CommandError(
            f"invalid name {name[:40]!r}: a conversation's name has 1 to 200 printable characters and is not a uuid"
        )


def is_uuid(text: str) -> bool:
    """Return True if `text` has the form of a uuid: 8-4-4-4-12 hexadecimal digits."""
    parts = text.lower().split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and all(c in "0123456789abcdef" for c in "".join(parts))
