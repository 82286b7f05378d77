"""Agents, what others record about them, mail and what became of them, leases, the list of changes [SPEC 2, 6, 9].

None of these move a head, so they never conflict with an append. The log of a dead agent stays readable and its open
turn can still be closed, but no new turn can begin. A deleted agent accepts no events.

A runtime takes an agent's lease before it runs the agent, renews the lease while it works, and gives it back at the
end. A runtime that finds an expired lease takes it over and closes the open turn, because the process that held it has
crashed.

A cursor in the list of changes is a text that only its store can read. An event id cannot serve as a cursor: a store
may assign an id before the event is committed, so a listener that has seen id 8 would miss id 7, committed later.

Times have the form of `Event.created_at`.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.core.events import FATE_KINDS, MESSAGE_KINDS, OPERATION_KINDS, REQUEST_KINDS, Draft, Event
from foldmark.core.segments import END

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
    ended. `asked` is the newest record of a request, 0 if its model was never asked. `killed`, `deleted` and `archived`
    are the events that say so, 0 if that is not so. The record of a `deleted` agent remains only to explain its uuid.
    `root` is the root agent of its tree, which may be the agent itself.
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
    asked: int = 0
    killed: int = 0
    deleted: int = 0
    archived: int = 0
    root: str = ""

    @property
    def fate(self) -> "Fate":
        """What became of a fork."""
        return "killed" if self.killed else "begun" if self.messages or self.asked else "waits"

    @property
    def ended(self) -> int:
        """The event that ended the agent, 0 if it is alive. Deletion takes precedence over a kill."""
        return self.deleted or self.killed

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
    """A message from one agent to another: an event of its recipient. `actor` sent it at `sent_at`, in UTC like
    `Event.created_at`."""

    id: int
    sender: str
    recipient: str
    actor: str
    sent_at: str
    content: str

    @classmethod
    def of(cls, event: Event) -> "Mail":
        """Return the mail of an event."""
        sender = str((event.data or {}).get("from", ""))
        return cls(event.id, sender, event.agent_id, event.actor, event.created_at, event.content)


class End(Struct, frozen=True):
    """The end of an agent: killed by a command of agent `killer`, or deleted with its conversation (`killer` None)."""

    agent: str
    actor: str
    at: str
    killer: str | None = None

    @classmethod
    def of(cls, event: Event) -> "End":
        """Return the end that an event records."""
        killer = (event.data or {}).get("by") if event.kind == "killed" else None
        return cls(event.agent_id, event.actor, event.created_at, killer)

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


def mailed(sender: str, content: str, actor: str, at: str) -> Draft:
    """Return the event of mail to the agent in whose log it is recorded. A message carries it to the agent's model: one
    whose data name it (`mail_of`); until then it is unread. Erasing that message's turn erases it as well."""
    return Draft(kind="mail", created_at=at, content=content, data={"from": sender}, actor=actor)


def mail_of(data: Mapping[str, Any] | None) -> list[int]:
    """Return the ids of the mail that a message carries, given its data."""
    found = (data or {}).get("mail")
    ids = [each.get("id") for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return [id for id in ids if isinstance(id, int) and 0 < id < END]


def renamed(name: str, actor: str, at: str) -> Draft:
    """Return the event of another name for a conversation."""
    return Draft(kind="renamed", created_at=at, content=name, actor=actor)


def archived(actor: str, at: str) -> Draft:
    """Return the event that archives a conversation."""
    return Draft(kind="archived", created_at=at, actor=actor)


def unarchived(actor: str, at: str) -> Draft:
    """Return the event that brings a conversation back from the archive."""
    return Draft(kind="unarchived", created_at=at, actor=actor)


def killed(by: str, actor: str, at: str) -> Draft:
    """Return the event of a living agent that was killed by a command of another one."""
    return Draft(kind="killed", created_at=at, data={"by": by}, actor=actor)


def deleted(actor: str, at: str) -> Draft:
    """Return the event that deletes an agent. It loses its name and can then be found only by its uuid."""
    return Draft(kind="deleted", created_at=at, actor=actor)


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


BORN = "born"
"""The kind of the change that announces a new agent, created or forked. It has no event."""

LIVES = (BORN, *FATE_KINDS)
"""Kinds of changes of what became of an agent."""

PAGE = 1000
"""Maximum number of events or changes on a page."""


class Change(NamedTuple):
    """A committed event; or, with `event_id` None, a new agent (`kind` is `BORN`).

    A change says only where to look, because its subject may have been erased or changed since.
    """

    agent_id: str
    event_id: int | None
    kind: str

    @property
    def about_request(self) -> bool:
        """True for an event that says what was sent to a model or what it cost: it changes nothing that is shown of an
        agent but that."""
        return self.kind in REQUEST_KINDS


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
