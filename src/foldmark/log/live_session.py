"""Conversations that a gateway records while a coding agent runs [SPEC 5.7]: recognize one, and measure how full its
agent's context is."""

from collections.abc import Iterator

from foldmark.core import selections
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.replay import recorded, taken_back
from foldmark.log.log import Agent
from foldmark.request.client_requests import LEFT, NextRequest
from foldmark.request.passed_requests import client_record
from foldmark.request.standing import Standing
from foldmark.request.usage import usage_of


def left_out(moment: Snapshot, at: Standing) -> Iterator[Event]:
    """Yield the operations that removed messages because the client had left them out, oldest first."""
    return (
        event
        for event in selections.operations(moment, at.record.id)
        if event.kind == "filter" and event.reason == LEFT
    )


def check_not_compacted(moment: Snapshot, at: Standing, position: int) -> None:
    """Raise CommandError for a rewind to `position` if the client has replaced messages before it since, as in a
    compaction: what it put in their place would leave, and nothing would come back."""
    left = [event for event in left_out(moment, at) if event.id > position]
    back = taken_back(recorded(selections.operations(moment, at.record.id))) if left else ()
    for event in left:
        first = min((first for _, first, _ in (event.data or {}).get("ranges", ())), default=position + 1)
        if first <= position and event.id not in back:
            raise CommandError(
                f"the agent has replaced messages before this mark since, as in a compaction (operation {event.id}): "
                f"/restore {event.id} brings them back, then go back to the mark"
            )


def client_session(agent: Agent, wire: str = "") -> str | None:
    """Return the client's id of the session that a gateway recorded into this conversation; None for any other
    conversation, or if the name of its `wire` is given and differs."""
    with agent.reading() as (moment, _):
        about = client_record(moment, agent.id)
    if about is None or (wire and about.get("wire") != wire):
        return None
    return str(about.get("session", ""))


def check_not_live(agent: Agent) -> None:
    """Raise CommandError for a live conversation: its prompts and answers belong to its own coding agent."""
    if client_session(agent) is not None:
        raise CommandError(
            "prompts for this session belong in the agent that runs it: type this in the agent. To ask here instead, "
            "/fork makes a copy, and /switch goes there"
        )


def client_tokens(agent: Agent, moment: Snapshot, at: Standing) -> int:
    """Return the tokens of the client's next request (`NextRequest`). Before any answer, the estimate of the messages;
    if an older version recorded the newest answer, the provider's count of that request and its answer, adjusted by the
    estimates of the messages that were added or left since."""
    if (request := NextRequest.of(moment, at)) is not None:
        return request.tokens()
    newest = selections.recent(moment, "usage", agent.id, at.last, 1)
    usage = usage_of(newest[0].data) if newest else None
    if usage is None:
        return at.size.tokens
    then = agent.stood(moment, newest[0].id)
    counted = usage.fresh + usage.cache_read + usage.cache_write + usage.output
    return max(0, counted + at.size.tokens - then.size.tokens)
