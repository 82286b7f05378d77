"""The inbox of an agent, which others write: mail, its end, the archive. It stands beside the log and never enters the
check of who appends to the agent next [SPEC 2, 6].

A dead agent's log stays readable and its open turn can still be closed; nothing new begins in it. A deleted agent takes
no events.
"""

from typing import Literal, Protocol

from msgspec import Struct

from foldmark.core.events import MESSAGE_KINDS, OPERATION_KINDS, Draft

MAIL = "[Mail from "
"""Beginning of a message that carries mail."""


class Mail(Struct, frozen=True):
    """A message from one agent to another; `actor` is who had it sent, `sent_at` is UTC as `Event.created_at`."""

    id: int
    sender: str
    recipient: str
    actor: str
    sent_at: str
    content: str


class End(Struct, frozen=True):
    """How an agent ended: killed by a command of agent `killer`, or deleted with its conversation (`killer` None)."""

    agent: str
    actor: str
    at: str
    killer: str | None = None

    @property
    def how(self) -> str:
        """`deleted on 2026-03-01 12:00 by a person`, `dead: killed by agent 5e6f7a8b at 2026-03-01 12:00`."""
        if self.killer is None:
            return f"deleted on {minute(self.at)} by {_who(self.actor)}"
        killer = self.killer[:8]
        by = f"agent {killer}" if self.actor == "model" else f"{_who(self.actor)} in {killer}"
        return f"dead: killed by {by} at {minute(self.at)}"

    @property
    def told(self) -> str:
        """`agent 1a2b3c4d was deleted on 2026-03-01 12:00 by a person`."""
        return f"agent {self.agent[:8]} {'was' if self.killer is None else 'is'} {self.how}"


def refused(end: End, draft: Draft, open_turn: int | None) -> str | None:
    """Return why an ended agent refuses an event; None if it accepts it.

    A killed agent's open turn may still be closed, with the answer so far; metadata and a person's own operations, such
    as a fork, are recorded too. A mark is not: no message will follow it.
    """
    if end.killer is None:
        return f"{end.told}; nothing can be added to it"
    begins = draft.kind in MESSAGE_KINDS and (open_turn is None or (draft.kind == "user" and draft.actor != "system"))
    if begins or draft.kind == "mark" or (draft.kind in OPERATION_KINDS and draft.actor == "model"):
        return f"{end.told}; its log stays readable, and a person can /fork it"
    return None


def mail_head(sender: str, sent_at: str) -> str:
    """Return the line in front of mail: `[Mail from 1a2b3c4d at 2026-03-01 12:00]`."""
    return f"{MAIL}{sender[:8]} at {minute(sent_at)}]"


def minute(time: str) -> str:
    """Return a time for a person: `2026-03-01 12:00` of `2026-03-01T12:00:00.000000Z`."""
    return time[:16].replace("T", " ")


def _who(actor: str) -> str:
    return {"human": "a person", "model": "a model"}.get(actor, "the system")


Fate = Literal["waits", "begun", "killed"]
"""An agent waits to be run, has begun (it has a message of its own, or its model was asked), or was killed."""


class InboxView(Protocol):
    """The part of `Snapshot` that reads inboxes."""

    def unread(self, agent_id: str) -> list[Mail]:
        """Return the agent's unread mail, oldest first."""

    def unread_count(self, agent_id: str) -> int:
        """Return the number of unread mails of the agent."""

    def end(self, agent_id: str) -> End | None:
        """Return how the agent ended; None if it is alive. Deletion takes precedence over a kill."""

    def fates(self, agent_id: str) -> dict[str, Fate]:
        """Return the fate of each agent forked from this one, by its uuid."""

    def archived(self, agent_id: str) -> str | None:
        """Return the time since when a conversation is archived; None if it is not."""


class Inbox(InboxView, Protocol):
    """The part of `Transaction` that writes inboxes."""

    def send(self, sender: str, recipient: str, content: str, actor: str, sent_at: str) -> int:
        """Store mail and return its id; ids increase in the order of commits."""

    def carried(self, mail_id: int, event_id: int) -> None:
        """Mark mail as read: `event_id`, of its recipient, now holds its text."""

    def kill(self, agent_id: str, killer: str, actor: str, died_at: str) -> None:
        """Record that a living agent was killed by a command of agent `killer`."""

    def delete(self, agent_id: str, actor: str, deleted_at: str) -> None:
        """Delete the agent: it loses its name and its unread mail, and is found only by its uuid from now on."""

    def rename(self, agent_id: str, name: str) -> None:
        """Give a conversation another name. Raises StoreError if the name is taken."""

    def archive(self, agent_id: str, archived_at: str | None) -> None:
        """Archive a conversation, or take it out of the archive with None."""
