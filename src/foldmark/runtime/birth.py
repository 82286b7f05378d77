"""How a child begins: what it is told before its model is asked for the first time [SPEC 6]."""

from foldmark.conversation import Agent
from foldmark.core.birth import birth_message
from foldmark.core.codec import operation_of
from foldmark.core.events import Event, Fork

LOOKED_BACK = 50
"""Messages of the parent among which the words are looked for that it forked with."""


def born(agent: Agent) -> bool:
    """Append the birth message to a child that nobody has talked to yet; whether it is one.

    A person who forks has said what is to be done, as a user message. Where that is not the newest thing that the child
    sees, or where a model forked (whose words the fork left out), the child is told who it is and what it is there for.
    """
    parent, at = agent.parent, agent.standing()
    if parent is None or at.record.messages or at.store.newest_sent(agent.id, 1):
        return False
    event = at.store.event(at.record.fork_event)
    operation = operation_of(event) if event is not None else None
    if event is None or not isinstance(operation, Fork):
        return False
    newest = next(at.store.messages(at.visible, newest_first=True), None)
    if event.actor == "human" and newest is not None and newest.kind == "user":
        return True
    words = _words(parent, event) if event.actor == "model" else ""
    told = birth_message(agent.id, parent.id, operation.mark, words)
    agent.append("user", told, actor="system", data={"birth": True})
    return True


def _words(parent: Agent, fork: Event) -> str:
    """What the parent's model said last in the turn in which it forked."""
    store, before = parent.log.store, fork.id
    for _ in range(LOOKED_BACK):
        message = store.message_before(parent.id, before - 1)
        if message is None or message.turn_id != fork.turn_id:
            break
        if message.kind == "assistant":
            found = store.event(message.id)
            return found.content if found is not None else ""
        before = message.id
    return ""
