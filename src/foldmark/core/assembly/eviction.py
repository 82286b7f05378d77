"""Messages that are sent in another form: evicted results as placeholders, summaries in a provider's own form [SPEC
5.7].

An evicted result stays in the log and in the context. A one-line placeholder is sent in its place, so that its call
still has a result. `superseded.py` knows which results later calls made stale.

A `summary` event keeps the form of a provider in `native`, under the name of its reader: `anthropic` and
`openai_responses` (a list of blocks or items), `openai_agents` (items of the Agents SDK, as JSON text) or
`pydantic_ai`. Other readers get the messages that the summary replaces. A summary has the position of the first message
that it replaces, unless a coding agent made it behind the messages that it keeps.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from foldmark.core.assembly.superseded import Superseded, stale
from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.patterns import pattern

AGENTS_SDK, RESPONSES = "openai_agents", "openai_responses"
"""Readers of the same items."""

CLIENT_OPENING = "[Earlier messages were left out.]"
"""The text of the user message that is put first if a coding agent would otherwise send none, or an answer first."""

OPAQUE = "[A compaction by the provider, which only its own models can read; /restore brings the messages back.]"
"""The text of a summary that only its provider can read."""


_CLIENT_PLACEHOLDER = pattern(r"\[Evicted: [\d,]+ characters\. Only the user can bring them back\.\]")


def forms(event: Event) -> dict[str, Any]:
    """Return the forms of a summary, reader -> form; empty for any other message."""
    found = (event.data or {}).get("native") if event.kind == "summary" else None
    return found if isinstance(found, dict) else {}


def blocks_of(event: Event, reader: str) -> tuple[dict[str, Any], ...]:
    """Return a summary in the form that `reader` reads; empty if it has no such form."""
    known = forms(event)
    items, own = known.get(reader), known.get(AGENTS_SDK)
    if items is None and reader == RESPONSES and isinstance(own, dict):
        try:
            items = msgspec.json.decode(own["json"])
        except (KeyError, TypeError, msgspec.MsgspecError, UnicodeError, RecursionError):
            items = None
    valid = isinstance(items, list) and all(isinstance(each, dict) for each in items)
    return tuple(items) if valid and items else ()


def begins(event: Event) -> int:
    """Return the id that decides a message's position: for a summary, the id of the first message that it replaced
    unless it stands `last`, otherwise its own."""
    if event.kind != "summary" or (event.data or {}).get("last") is True:
        return event.id
    ranges = (event.data or {}).get("ranges")
    firsts = [each[1] for each in ranges if isinstance(each, list | tuple)] if isinstance(ranges, list | tuple) else []
    return min(event.id, *(first for first in firsts if isinstance(first, int)), event.id)


def in_place(events: Iterable[Event]) -> list[Event]:
    """Return messages in the order of the log, but each summary at the beginning of the messages that it replaced."""
    found = list(events)
    for late in [event for event in found if event.kind == "summary" and begins(event) < event.id]:
        found.remove(late)
        index = next((i for i, event in enumerate(found) if begins(event) > begins(late)), len(found))
        found.insert(index, late)
    return found


def in_place_newest_first(events: Iterable[Event]) -> Iterator[Event]:
    """Yield messages in the reverse order of `in_place`, newest first, reading only as many as needed."""
    summaries: list[Event] = []
    for event in events:
        while summaries and begins(summaries[-1]) > event.id:
            yield summaries.pop()
        if event.kind == "summary" and begins(event) < event.id:
            summaries.append(event)
            summaries.sort(key=lambda each: (begins(each), each.id))
        else:
            yield event
    yield from reversed(summaries)


PLACEHOLDER = '[Evicted: {length:,} characters. query_db(sql="SELECT content FROM messages WHERE id={id}") shows them'
"""The beginning of an evicted result's placeholder; `{id}` is the id of its event."""


def stale_at(events: Iterable[Event], settled: int) -> dict[int, Superseded]:
    """Return the results among messages that are stale at event `settled`, by their ids."""
    exchanged = [event for event in events if event.id <= settled and event.kind in ("tool_call", "tool_result")]
    calls = {event.id: event for event in exchanged if event.kind == "tool_call"}
    answered = [(calls[event.answers], event) for event in exchanged if event.answers in calls]
    return stale(sorted(answered, key=lambda pair: pair[0].id))


def placeholder(event: Event, by: int) -> str:
    """Return the placeholder of a result that operation `by` evicted; `by` is 0 if this agent cannot undo it."""
    return placeholder_text(len(event.content), event.id, by)


def placeholder_text(length: int, event_id: int, by: int) -> str:
    """Return the placeholder of a result of `length` characters."""
    back = f"; /restore {by} sends it again" if by else ""
    return f"{PLACEHOLDER.format(length=length, id=event_id)}{back}.]"


def client_placeholder(length: int) -> str:
    """Return the placeholder of a result of `length` characters for a coding agent, which has no tools of Foldmark."""
    return f"[Evicted: {length:,} characters. Only the user can bring them back.]"


def is_client_placeholder(text: str) -> bool:
    """Return True for a text that `client_placeholder` returns."""
    return _CLIENT_PLACEHOLDER.fullmatch(text) is not None


def is_longer(event: Event) -> bool:
    """Return True for a tool result that is longer than its placeholder."""
    if event.kind != "tool_result":
        return False
    return bool((event.data or {}).get("blocks")) or len(event.content) > len(placeholder(event, event.id))


def as_sent(event: Event, evicted: Mapping[int, int]) -> Event:
    """Return the event as it is sent: an evicted result as its placeholder, without images."""
    if event.kind != "tool_result" or event.id not in evicted:
        return event
    return without_content(event, placeholder(event, evicted[event.id]))


def without_content(event: Event, text: str) -> Event:
    """Return a tool result with a text in place of its content."""
    data = {key: value for key, value in (event.data or {}).items() if key in ("call_id", "is_error")}
    return replace(event, content=text, data=data)


def all_as_sent(events: Iterable[Event], evicted: Mapping[int, int]) -> Iterable[Event]:
    """Return the events as they are sent, in order."""
    return (as_sent(event, evicted) for event in events) if evicted else events


def evicted_as_sent(
    events: Sequence[Event], evicted: Mapping[int, int], config: Config, settled: int, uncut: int | None = None
) -> tuple[list[Event], dict[int, str]]:
    """Return the events as they are sent, and a note for a person about each evicted result, by its id.

    With `evict_superseded`, results that were stale at event `settled`, the boundary, are evicted as well, except
    result `uncut` and those that are not longer than their placeholders.
    """
    found = stale_at(events, settled) if config.evict_superseded else {}
    spared = {*evicted, uncut}
    superseded = {e.id: found[e.id] for e in events if e.id in found and e.id not in spared and is_longer(e)}
    notes = {e.id: f"{len(e.content):,} characters" for e in events if e.id in evicted}
    shown: list[Event] = []
    for event in all_as_sent(events, evicted):
        if newer := superseded.get(event.id):
            deed = "read {} again" if newer.how == "read" else "wrote {}"
            mark = PLACEHOLDER.format(length=len(event.content), id=event.id)
            notes[event.id] = (
                f"{len(event.content):,} characters, since call {newer.by} {deed.format(newer.path)}; "
                "/config set evict_superseded=off sends it again"
            )
            event = without_content(event, f"{mark}; a later call {deed.format('this file')}.]")
        shown.append(event)
    return shown, notes
