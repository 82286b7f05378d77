"""Write a conversation, or only its context, as JSON [docs/reference/export.md].

Each event is one line, whatever characters are in its texts. Events are read as they are written, so a document needs
little memory.
"""

from collections.abc import Generator, Iterator
from typing import Any

from msgspec import to_builtins

from foldmark.core.events import Event
from foldmark.core.ports import Progress, Snapshot
from foldmark.core.segments import contains
from foldmark.documents.attachments import attachments
from foldmark.documents.layout import CONTEXT_FORMAT, CONTEXT_VERSION, FORMAT, VERSION, EventEntry, Origin, Start
from foldmark.documents.past import PastEvent, carried_data, is_carried, past, shown, without_consent
from foldmark.log import Agent
from foldmark.rendering import json_line
from foldmark.request.standing import Standing, state_of


def conversation_json(agent: Agent, version: str, progress: Progress) -> Generator[str, None, None]:
    """Yield the pieces of the document of an agent's whole history, written by Foldmark `version`. `progress` receives
    the number of the agent's messages so far and of all."""
    with agent.reading() as (moment, at):
        fields = {"format": FORMAT, "version": VERSION, **_about(agent, at, version)}
        if at.record.parent is not None:
            fields["start"] = to_builtins(_start(at))
        yield _opening(fields, "events")
        yield from _rows(_entries(moment, at, progress))
    yield "\n]\n}\n"


def context_json(agent: Agent, version: str, progress: Progress) -> Generator[str, None, None]:
    """Yield the pieces of the document of an agent's context: its messages with role and content, as they are sent."""
    with agent.reading() as (moment, at):
        state = state_of(moment, at)
        fields = {"format": CONTEXT_FORMAT, "version": CONTEXT_VERSION, **_about(agent, at, version)}
        fields |= {"up_to": at.newest, "state": state.content if state else None, "scratchpad": at.scratchpad}
        yield _opening(fields, "messages")
        yield from _rows(_messages(moment, at, progress))
    yield "\n]\n}\n"


def _about(agent: Agent, at: Standing, version: str) -> dict[str, Any]:
    record = at.record
    ancestors = list(dict.fromkeys(segment.agent for segment in at.lineage if segment.agent != record.id))
    origin = Origin(agent.name, record.id, record.created_at, ancestors)
    return {"foldmark": version, "exported_at": agent.log.clock(), "conversation": to_builtins(origin)}


def _start(at: Standing) -> Start:
    """Return what a fork began with."""
    scratchpad = at.handed_down.get("scratchpad")
    return Start(
        list(at.origin.pins),
        list(at.origin.evicted),
        without_consent(at.inherited),
        scratchpad if isinstance(scratchpad, str) else None,
    )


def _opening(fields: dict[str, Any], last: str) -> str:
    """Return the beginning of a document: each member on one line, then that of the array `last`."""
    lines = [f"{json_line(name)}: {json_line(value)}" for name, value in fields.items()]
    return "{\n" + ",\n".join(lines) + f",\n{json_line(last)}: [\n"


def _rows(values: Iterator[Any]) -> Iterator[str]:
    first = True
    for value in values:
        yield json_line(value) if first else f",\n{json_line(value)}"
        first = False


def _entries(moment: Snapshot, at: Standing, progress: Progress) -> Iterator[EventEntry]:
    done, total = 0, at.record.messages
    for each in past(moment, at):
        event = each.event
        if not is_carried(event.kind, event.data):
            continue
        yield _entry(at, event, each)
        if event.role is not None and not each.inherited and each.erased is None:
            done += 1
            if done % 100 == 0:
                progress(min(done, total), total)
    progress(total, total)


def _entry(at: Standing, event: Event, each: PastEvent) -> EventEntry:
    is_message = event.role is not None and each.erased is None
    return EventEntry(
        id=event.id,
        kind=event.kind,
        actor=event.actor,
        created_at=event.created_at,
        turn=event.turn_id,
        role=event.role,
        content=event.content,
        data=carried_data(event.kind, event.data),
        dialect=event.dialect,
        answers=event.answers,
        interrupted=event.interrupted,
        inherited=each.inherited,
        erased=each.erased,
        damaged=event.damaged,
        in_context=contains(at.visible, event.agent_id, event.id) if is_message else None,
        tokens=event.tokens if is_message else None,
    )


def _messages(moment: Snapshot, at: Standing, progress: Progress) -> Iterator[dict[str, Any]]:
    total = at.size.messages
    for done, event in enumerate(shown(moment, at), 1):
        yield _message(event)
        if done % 100 == 0 or done == total:
            progress(done, total)


def _message(event: Event) -> dict[str, Any]:
    """Return a message in a simple form; members that say nothing are left out."""
    data = event.data or {}
    more = {
        "tool": data.get("name") if event.kind == "tool_call" else None,
        "call_id": event.call_id,
        "is_error": True if data.get("is_error") is True else None,
        "interrupted": event.interrupted or None,
        "attachments": [each.data() for each in attachments(event)] or None,
    }
    fixed = {"role": event.role, "content": event.content, "id": event.id, "kind": event.kind}
    found = {name: value for name, value in more.items() if value is not None}
    return {**fixed, "turn": event.turn_id, "created_at": event.created_at, **found}
