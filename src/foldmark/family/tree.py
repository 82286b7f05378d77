"""The agents of one conversation as a tree, and how they end: kill, archive, delete [SPEC 4, 6]."""

from collections.abc import Iterator
from typing import NamedTuple

from foldmark.core.errors import CommandError
from foldmark.core.inbox import minute
from foldmark.core.ports import Snapshot
from foldmark.log.log import Agent


class TreeNode(NamedTuple):
    """An agent in its tree; `depth` is 0 for the agent at which the walk began."""

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
        top = moment.root_of(agent.id)
    return agent if top == agent.id else agent.log.agent(top)


def family(agent: Agent) -> list[TreeNode]:
    """Return an agent and its descendants, each before its children, in the order of their births."""
    found, waiting = [], [TreeNode(agent, 0)]
    with agent.log.store.read():  # all children as of one moment
        while waiting:
            place = waiting.pop()
            found.append(place)
            waiting += [TreeNode(child, place.depth + 1) for child in reversed(place.agent.children)]
    return found


def kill(by: Agent, target: Agent, actor: str) -> list[Agent]:
    """Kill an agent and its descendants, by a command of agent `by`, and return those that were alive [SPEC 6].

    A person may kill any fork, a model those of its own agent only; no agent kills itself. Their logs stay. Raises
    CommandError.
    """
    log = by.log
    with log.store.write() as transaction:
        if target == by:
            raise CommandError("an agent cannot kill itself; its parent, or a person in another agent, can")
        if (end := transaction.end(target.id)) is not None:
            raise CommandError(f"{end.told}; it cannot be killed again")
        above = list(ancestors(target))
        if target in ancestors(by):
            raise CommandError(
                f"{label(target)} is above this agent, which would end with it; it cannot be killed here"
            )
        if not above:
            raise CommandError(
                f"{label(target)} is nobody's child; a person can /session archive or /session delete it"
            )
        if actor != "human" and by not in above:
            raise CommandError(f"{label(target)} is not a descendant of this agent; only those can be killed")
        if (end := transaction.end(by.id)) is not None and actor != "human":
            raise CommandError(f"{end.told}; it ends nobody any more")
        living = [place.agent for place in family(target) if transaction.end(place.agent.id) is None]
        for agent in living:
            transaction.kill(agent.id, by.id, actor, log.clock())
    for agent in living:
        log.tell("killed", agent.id)
    return living


def delete(conversation: Agent, actor: str) -> list[Agent]:
    """Delete a conversation with all its forks, erase the content of their events, and return these agents.

    This is one transaction. The name is free afterwards; unread mail to the agents is gone, mail that they sent stays.
    """
    log = conversation.log
    with log.store.write() as transaction:
        _check_there(transaction, conversation)
        gone = [place.agent for place in family(conversation)]
        for agent in reversed(gone):
            agent.redact_all(actor=actor)
        for agent in gone:
            transaction.delete(agent.id, actor, log.clock())
    for agent in gone:
        agent.name = None
        log.tell("killed", agent.id)
    return gone


def rename(conversation: Agent, name: str) -> None:
    """Give a conversation another name. Raises CommandError if the name is taken or invalid."""
    conversation.log.check_new(name)
    with conversation.log.store.write() as transaction:
        _check_there(transaction, conversation)
        conversation.log.check_new(name)  # the name cannot be taken from here on
        transaction.rename(conversation.id, name)
    conversation.name = name


def archive(conversation: Agent) -> None:
    """Archive a conversation. Raises CommandError if it is archived already."""
    with conversation.log.store.write() as transaction:
        _check_there(transaction, conversation)
        if since := transaction.archived(conversation.id):
            raise CommandError(
                f"{label(conversation)} is archived since {minute(since)}; /session switch brings it back"
            )
        transaction.archive(conversation.id, conversation.log.clock())


def _check_there(moment: Snapshot, agent: Agent) -> None:
    """Raise CommandError if the agent was deleted meanwhile."""
    if (end := moment.end(agent.id)) and end.killer is None:
        raise CommandError(f"{end.told}")


def label(agent: Agent) -> str:
    """Return the name of an agent in a sentence: `conversation 'default'`, `agent 1a2b3c4d`."""
    return f"conversation '{agent.name}'" if agent.name else f"agent {agent.id[:8]}"
