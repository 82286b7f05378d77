"""Where a summary stands: in front of what it left standing [SPEC 5.7]."""

from collections.abc import Iterable, Iterator

from foldmark.core.events import Event


def begins(event: Event) -> int:
    """Return the id where a message stands: its own, or of a summary where what it replaced began."""
    ranges = (event.data or {}).get("ranges") if event.kind == "summary" else None
    firsts = [each[1] for each in ranges if isinstance(each, list | tuple)] if isinstance(ranges, list | tuple) else []
    return min(event.id, *(first for first in firsts if isinstance(first, int)), event.id)


def in_place(events: Iterable[Event]) -> list[Event]:
    """Return messages in the order of the log, but each summary where what it replaced began."""
    found = list(events)
    for late in [event for event in found if event.kind == "summary" and begins(event) < event.id]:
        found.remove(late)
        index = next((i for i, event in enumerate(found) if begins(event) > begins(late)), len(found))
        found.insert(index, late)
    return found


def in_place_newest_first(events: Iterable[Event]) -> Iterator[Event]:
    """As `in_place`, of messages that come newest first; reads no more than it gives, but for summaries."""
    held: list[Event] = []
    for event in events:
        while held and begins(held[-1]) > event.id:
            yield held.pop()
        if event.kind == "summary" and begins(event) < event.id:
            held.append(event)
            held.sort(key=lambda each: (begins(each), each.id))
        else:
            yield event
    yield from reversed(held)
