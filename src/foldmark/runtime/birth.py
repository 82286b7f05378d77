"""The birth of a child: the message that it gets before its model is asked for the first time [SPEC 6]."""

from foldmark.core.assembly.layers import birth_message
from foldmark.core.codec import operation_of
from foldmark.core.events import Fork
from foldmark.log import Agent
from foldmark.request.layers import words_of


def born(agent: Agent) -> bool:
    """Append the birth message to a child that has no message yet; return True if it is one.

    A person who forks has given the task as a user message. If that is not the newest message that the child sees, or a
    model forked (whose words the fork left out), the child is told who it is and what its task is.
    """
    with agent.reading() as (moment, at):
        parent = at.record.parent
        if parent is None or at.record.messages or moment.newest_sent(agent.id, 1):
            return False
        event = moment.event(at.record.fork_event)
        operation = operation_of(event) if event is not None else None
        if event is None or not isinstance(operation, Fork):
            return False
        newest = next(moment.messages(at.visible, newest_first=True), None)
        if event.actor == "human" and newest is not None and newest.kind == "user":
            return True
        words = words_of(moment, event) if event.actor == "model" else None
    told = birth_message(agent.id, parent, operation.mark, words.content if words is not None else "")
    agent.append("user", told, actor="system", data={"birth": True})
    return True
