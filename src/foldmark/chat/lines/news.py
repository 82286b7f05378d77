"""What was recorded in a live session while the chat is open, as lines [SPEC 5.7]."""

from collections.abc import Iterator, Sequence

from foldmark.chat.display.operated import line
from foldmark.chat.lines.screen import message_text
from foldmark.chat.live import fullness
from foldmark.core.events import MESSAGE_KINDS
from foldmark.core.segments import contains
from foldmark.log import Agent
from foldmark.operations.history import operations
from foldmark.request.planning import talk


def news(agent: Agent, events: Sequence[int]) -> Iterator[str]:
    """Yield the messages and operations among these events of an agent, and the meter if a turn has ended. What belongs
    to a planning conversation is shown by its preview."""
    with agent.reading() as (moment, at):
        found, planned = moment.events(list(events)), talk(moment, at)
        done = {each.event.id: line(each) for each in operations(moment, at)}
    for event in found:
        if event.kind in MESSAGE_KINDS:
            text = "" if contains(planned, agent.id, event.id) else message_text(event)
        else:
            text = f"({done[event.id]})" if event.id in done else ""
        if text:
            yield text
    if any(event.kind == "turn_ended" for event in found):
        yield fullness(agent)
