"""What is sent of a tool result that was evicted [SPEC 5.7]. Pure.

It stays in the log and in the context; a line takes its place in what is sent, so its call keeps a result.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from foldmark.core.events import Event

PLACEHOLDER = '[Evicted: {length:,} characters. query_db(sql="SELECT content FROM messages WHERE id={id}") shows them'
"""What stands where an evicted result was; `{id}` is its event's."""


def placeholder(event: Event, by: int) -> str:
    """Return the line that is sent in place of a result that operation `by` evicted, 0 for one that this agent cannot
    take back."""
    back = f"; /restore {by} sends it again" if by else ""
    return f"{PLACEHOLDER.format(length=len(event.content), id=event.id)}{back}.]"


def is_longer(event: Event) -> bool:
    """Return True for a tool result that holds more than the line that would be sent in its place."""
    if event.kind != "tool_result":
        return False
    return bool((event.data or {}).get("blocks")) or len(event.content) > len(placeholder(event, event.id))


def as_sent(event: Event, evicted: Mapping[int, int]) -> Event:
    """Return the event as it is sent: an evicted result with its placeholder, and without its images."""
    if event.kind != "tool_result" or event.id not in evicted:
        return event
    data = {key: value for key, value in (event.data or {}).items() if key in ("call_id", "is_error")}
    return replace(event, content=placeholder(event, evicted[event.id]), data=data)


def all_as_sent(events: Iterable[Event], evicted: Mapping[int, int]) -> Iterable[Event]:
    """Return the events as they are sent, in order."""
    return (as_sent(event, evicted) for event in events) if evicted else events
