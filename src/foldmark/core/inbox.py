"""What others write towards an agent: mail, its end, the archive. It stands beside the log and never enters the check
of who appends to the agent next [SPEC 2, 6].

A dead agent's log stays readable and its open turn can still be closed; nothing new begins in it. A deleted one takes
nothing at all.
"""

from typing import Literal, Protocol

from msgspec import Struct

from foldmark.core.events import MESSAGE_KINDS, OPERATION_KINDS, Draft

MAIL = "[Mail from "
"""Begins a message that carries mail."""


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
    """Why an ended agent does not take an event; None if it does.

    Of a killed one the turn under way may still be closed, with what had been said; metadata and a person's own
    operations, a fork above all, are recorded too. A mark is not: nothing will come after it.
    """
    if end.killer is None:
        return f"{end.told}; nothing can be added to it"
    begins = draft.kind in MESSAGE_KINDS and (open_turn is None or (draft.kind == "user" and draft.actor != "system"))
    if begins or draft.kind == "mark" or (draft.kind in OPERATION_KINDS and draft.actor == "model"):
        return f"{end.told}; its log stays readable, and a person can /fork it"
    return None


def mail_head(sender: str, sent_at: str) -> str:
    """The line in front of mail, as its recipient reads it: `[Mail from 1a2b3c4d at 2026-03-01 12:00]`."""
    return f"{MAIL}{sender[:8]} at {minute(sent_at)}]"


def minute(time: str) -> str:
    """A time as a person reads it: `2026-03-01 12:00` of `2026-03-01T12:00:00.000000Z`."""
    return time[:16].replace("T", " ")


def _who(actor: str) -> str:
    return {"human": "a person", "model": "a model"}.get(actor, "the system")


Fate = Literal["waits", "begun", "killed"]
"""An agent waits to be run, or it has begun (it has a message of its own, or its model was asked), or it was killed."""


class InboxView(Protocol):
    """What a `Snapshot` shows of what others wrote towards agents."""

    def unread(self, agent_id: str) -> list[Mail]:
        """The mail that no event has carried to the agent yet, oldest first."""

    def unread_count(self, agent_id: str) -> int:
        """How much mail no event has carried to the agent yet."""

    def end(self, agent_id: str) -> End | None:
        """How the agent ended; None if it goes on. That it was deleted counts before that it was killed."""

    def fates(self, agent_id: str) -> dict[str, Fate]:
        """What became of each agent that was forked from this one, by its uuid."""

    def archived(self, agent_id: str) -> str | None:
        """Since when a conversation is in the archive."""


class Inbox(InboxView, Protocol):
    """What a `Transaction` writes towards agents."""

    def send(self, sender: str, recipient: str, content: str, actor: str, sent_at: str) -> int:
        """Store mail and return its id; ids increase in the order of commits."""

    def carried(self, mail_id: int, event_id: int) -> None:
        """Mail is read: `event_id`, of its recipient, holds its text from now on."""

    def kill(self, agent_id: str, killer: str, actor: str, died_at: str) -> None:
        """An agent that is alive is dead from now on, by a command of agent `killer`."""

    def delete(self, agent_id: str, actor: str, deleted_at: str) -> None:
        """The agent loses its name and all mail to it that is unread; it is not found any more but by its uuid."""

    def rename(self, agent_id: str, name: str) -> None:
        """Give a conversation another name. Raises StoreError if there is one of that name."""

    def archive(self, agent_id: str, archived_at: str | None) -> None:
        """Put a conversation into the archive, or with None take it out."""
