"""The agents of one conversation as a tree: their ends, their leases, their mail [SPEC 2, 4, 6].

Mail waits in the log of its recipient and is delivered exactly once. An agent is running if its lease is in force and
the process that holds the lease is not known to have ended.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from foldmark.core import selections
from foldmark.core.agents import (
    AgentRecord,
    Lease,
    Mail,
    Size,
    archived,
    deleted,
    killed,
    mail_head,
    mailed,
    renamed,
    unarchived,
)
from foldmark.core.assembly.layers import WAITS, WAITS_FOR_MESSAGE
from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.ports import Snapshot
from foldmark.log.log import Agent
from foldmark.request.layers import is_delegation
from foldmark.request.planning import not_while_planning
from foldmark.request.standing import end_of


class TreeNode(NamedTuple):
    """An agent in its tree; `depth` is 0 for the agent at which the walk started."""

    agent: Agent
    depth: int


def ancestors(agent: Agent) -> Iterator[Agent]:
    """Yield the parent, its parent, and so on; the root agent last."""
    while parent := agent.parent:
        yield parent
        agent = parent


def root(agent: Agent) -> Agent:
    """Return the root agent: the conversation that this agent belongs to."""
    with agent.log.store.read() as moment:
        top = selections.root_of(moment, agent.id)
    return agent if top == agent.id else agent.log.agent(top)


def tree(agent: Agent) -> list[TreeNode]:
    """Return an agent and its descendants, each before its children, in the order of their births."""
    found, waiting = [], [TreeNode(agent, 0)]
    with agent.log.store.read():  # all children as of one moment
        while waiting:
            place = waiting.pop()
            found.append(place)
            waiting += [TreeNode(child, place.depth + 1) for child in reversed(place.agent.children)]
    return found


def kill(by: Agent, target: Agent, actor: str) -> list[Agent]:
    """Kill an agent and its descendants, on a command in agent `by`, and return those that were alive [SPEC 6].

    A person may kill any fork, a model only descendants of its own agent; no agent can kill itself. Their logs stay.
    Raises CommandError.
    """
    log = by.log
    with log.store.write() as transaction:
        if target == by:
            raise CommandError("an agent cannot kill itself; its parent, or a person in another agent, can")
        if (end := end_of(transaction, target.id)) is not None:
            raise CommandError(f"{end.sentence}; it cannot be killed again")
        above = list(ancestors(target))
        if target in ancestors(by):
            raise CommandError(
                f"{label(target)} is an ancestor of this agent, which would end with it; kill it from another agent"
            )
        if not above:
            raise CommandError(f"{label(target)} is not a child; a person can /session archive or /session delete it")
        if actor != "human" and by not in above:
            raise CommandError(f"{label(target)} is not a descendant of this agent; only those can be killed")
        if (end := end_of(transaction, by.id)) is not None and actor != "human":
            raise CommandError(f"{end.sentence}; it cannot kill other agents")
        living = [place.agent for place in tree(target) if end_of(transaction, place.agent.id) is None]
        for agent in living:
            transaction.append(agent.id, None, [killed(by.id, actor, log.clock())])
    for agent in living:
        log.tell("killed", agent.id)
    return living


def delete(conversation: Agent, actor: str) -> list[Agent]:
    """Delete a conversation with all its forks, erase the content of their events, and return the deleted agents.

    This is one transaction. Afterwards the name is free; unread mail to the agents is gone, mail that they sent stays.
    """
    log = conversation.log
    with log.store.write() as transaction:
        _check_there(transaction, conversation)
        gone = [place.agent for place in tree(conversation)]
        for agent in reversed(gone):
            agent.redact_all(actor=actor)
        for agent in gone:
            transaction.append(agent.id, None, [deleted(actor, log.clock())])
    for agent in gone:
        agent.name = None
        log.tell("killed", agent.id)
    return gone


def rename(conversation: Agent, name: str, actor: str) -> None:
    """Rename a conversation. Raises CommandError if the name is taken or invalid."""
    log = conversation.log
    log.check_new(name)
    with log.store.write() as transaction:
        _check_there(transaction, conversation)
        log.check_new(name)  # the name cannot be taken from here on
        transaction.append(conversation.id, None, [renamed(name, actor, log.clock())])
    conversation.name = name


def archive(conversation: Agent, actor: str) -> None:
    """Archive a conversation. Raises CommandError if it is already archived."""
    log = conversation.log
    with log.store.write() as transaction:
        _check_there(transaction, conversation)
        record = transaction.agent(conversation.id)
        if record is not None and (since := selections.event(transaction, record.archived)) is not None:
            when = log.given.minute(since.created_at)
            raise CommandError(f"{label(conversation)} was already archived on {when}; `unarchive` brings it back")
        transaction.append(conversation.id, None, [archived(actor, log.clock())])


def unarchive(conversation: Agent, actor: str) -> bool:
    """Bring a conversation back from the archive. Return False if it is not archived."""
    log = conversation.log
    with log.store.read() as moment:
        record = moment.agent(conversation.id)
    is_archived = record is not None and bool(record.archived)
    if is_archived:
        with log.store.write() as transaction:
            _check_there(transaction, conversation)
            transaction.append(conversation.id, None, [unarchived(actor, log.clock())])
    return is_archived


def _check_there(moment: Snapshot, agent: Agent) -> None:
    """Raise CommandError if the agent was deleted in the meantime."""
    if (end := end_of(moment, agent.id)) and end.killer is None:
        raise CommandError(f"{end.sentence}")


def waits_for(moment: Snapshot, child: AgentRecord) -> str | None:
    """Return the state in words of a living fork that has not begun: it waits to be run, or for its first message.
    None for any other agent, and for a sub-agent of a coding agent, which the coding agent runs."""
    if child.parent is None or child.ended or child.fate != "waits":
        return None
    born = selections.event(moment, child.fork_event)
    if born is None or born.actor == "system":
        return None
    return WAITS if is_delegation(moment, born) else WAITS_FOR_MESSAGE


def label(agent: Agent) -> str:
    """Return an agent's name for use in a sentence: `conversation 'default'`, `agent 1a2b3c4d`."""
    return f"conversation '{agent.name}'" if agent.name else f"agent {agent.id[:8]}"


class RuntimeLocation(NamedTuple):
    """The location of a runtime: a machine, distinguished from others of the same name, and a process on it."""

    host: str
    process: int


def here() -> RuntimeLocation:
    """Return the location of this process."""
    return RuntimeLocation(_host(), os.getpid())


def alive(lease: Lease, now: str) -> bool:
    """Return True if the holder still runs the agent: the lease has not expired, and the holder's process is not known
    to have ended."""
    if lease.until <= now:
        return False
    if lease.host != _host() or os.name == "nt":  # on Windows signal 0 would be delivered
        return True
    return not _has_ended(lease.process)


def running(agent: Agent) -> Lease | None:
    """Return the agent's lease if somebody runs it; None otherwise."""
    with agent.log.store.read() as moment:
        lease = moment.lease(agent.id)
        return lease if lease is not None and alive(lease, moment.now()) else None


def _has_ended(process: int) -> bool:
    """Return True if a process on this machine has ended; on Linux even if its parent has not collected it yet."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:  # the process belongs to another user
        pass
    with suppress(OSError):
        # "ID (NAME) STATE ...", where the name may contain anything; `Z` has ended, `X` is about to disappear.
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b") ")[2][:1] in (b"Z", b"X")
    return False


@cache
def _host() -> str:
    from socket import gethostname  # takes 2 ms

    marks = [gethostname()]
    with suppress(OSError):  # containers may share a name but not their processes
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        marks += [boot.strip()[:8], str(Path("/proc/self/ns/pid").readlink())]
    return " ".join(marks)


_FORGED = re.compile(r"(^|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])(?=\s*\[(?:mail from |foldmark:))", re.IGNORECASE)


class Delivery(Struct, frozen=True):
    """Mail that event `event_id` delivered, as shown in `content`, and the context's size `before` and `after`."""

    event_id: int
    mail: tuple[Mail, ...]
    content: str
    before: Size
    after: Size

    @property
    def senders(self) -> list[str]:
        """The uuids of the senders, distinct, in the order of their first mail."""
        return list(dict.fromkeys(mail.sender for mail in self.mail))


def send(sender: Agent, recipient: Agent, text: str, actor: str) -> int:
    """Store mail and return its id. Raises CommandError for empty mail, mail to oneself, and mail to or from a dead
    agent."""
    content = sender.log.secrets.hidden(well_formed(text))
    if recipient == sender:
        raise CommandError("an agent does not send mail to itself; `/note TEXT` adds to this context")
    if not content.strip():
        raise CommandError("there is nothing to send: the message is empty")
    with sender.log.store.write() as transaction:
        for agent in (recipient, sender):
            if (end := end_of(transaction, agent.id)) is not None:
                raise CommandError(f"{end.sentence}; nothing was sent")
        (mail_id,) = transaction.append(recipient.id, None, [mailed(sender.id, content, actor, sender.log.clock())])
    sender.log.tell("mail", recipient.id)
    return mail_id


def deliver(agent: Agent) -> Delivery | None:
    """Deliver all unread mail into the agent's log as one message; return None and write nothing if there is none.

    One transaction reads the mail and appends the message that carries it. The message joins the open turn, or forms a
    separate turn if none is open. Raises CommandError if the agent is dead, ConflictError.
    """
    with agent.reading() as (moment, at):
        _check_alive(moment, agent)
        if not selections.unread(moment, agent.id):
            return None
        not_while_planning(moment, at, "the mail would leave the context with it")
    with agent.batch() as transaction:
        mail = tuple(selections.unread(transaction, agent.id))
        if not mail:
            return None
        # The agent may just have been killed. The append alone would succeed, since a dead agent's turn can be closed.
        _check_alive(transaction, agent)
        content, opens = "\n\n".join(_shown(each) for each in mail), agent.open_turn is None
        data = {"mail": [{"id": each.id, "from": each.sender, "sent_at": each.sent_at} for each in mail]}
        before = agent.standing().size
        event_id = agent.append("user", content, data=data, actor="system")
        if opens:
            agent.end_turn()
        return Delivery(event_id, mail, content, before, agent.standing().size)


def _check_alive(moment: Snapshot, agent: Agent) -> None:
    if (end := end_of(moment, agent.id)) is not None:
        raise CommandError(f"{end.sentence}; it gets no more mail")


def _shown(mail: Mail) -> str:
    # Text from one agent must not pass as mail from another.
    quoted = _FORGED.sub(lambda found: f"{found[1]}> ", mail.content)
    return f"{mail_head(mail.sender, mail.sent_at)}\n{quoted}"
