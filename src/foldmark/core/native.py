"""Provider-native summaries: made by a provider or another program, which alone reads them in their own form [SPEC
5.7].

A `summary` event keeps that form in `native`, under the name of its reader: `anthropic` and `openai_responses` (a list
of blocks or items), `openai_agents` (items of the Agents SDK, as JSON text) or `pydantic_ai`. All others are shown the
messages that the summary replaces. This module also decides where a summary stands: in front of the messages that it
left.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from foldmark.core.events import Event

AGENTS_SDK, RESPONSES = "openai_agents", "openai_responses"
"""Readers of the same items."""

OPAQUE = "[A compaction by the provider, which only its own models can read; /restore brings the messages back.]"
"""The text of a summary that only its provider can read."""


def forms(event: Event) -> dict[str, Any]:
    """Return the forms of a summary, reader -> form; empty for any other message."""
    found = (event.data or {}).get("native") if event.kind == "summary" else None
    return found if isinstance(found, dict) else {}


def blocks_of(event: Event, reader: str) -> tuple[dict[str, Any], ...]:
    """Return a summary in the form that `reader` reads; empty where there is none."""
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
    """Return the id that decides a message's place: its own, or for a summary that of the first message it replaced."""
    if event.kind != "summary":
        return event.id
    ranges = (event.data or {}).get("ranges")
    firsts = [each[1] for each in ranges if isinstance(each, list | tuple)] if isinstance(ranges, list | tuple) else []
    return min(event.id, *(first for first in firsts if isinstance(first, int)), event.id)


def in_place(events: Iterable[Event]) -> list[Event]:
    """Return messages in the order of the log, but each summary at the beginning of what it replaced."""
    found = list(events)
    for late in [event for event in found if event.kind == "summary" and begins(event) < event.id]:
        found.remove(late)
        index = next((i for i, event in enumerate(found) if begins(event) > begins(late)), len(found))
        found.insert(index, late)
    return found


def in_place_newest_first(events: Iterable[Event]) -> Iterator[Event]:
    """Yield messages as `in_place`, newest first; reads no more than it gives, except for summaries."""
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
