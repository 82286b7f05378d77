"""Placeholders for evicted tool results [SPEC 5.7]. Pure functions.

An evicted result stays in the log and in the context. A one-line placeholder is sent in its place, so its call keeps a
result.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.superseded import Superseded, stale_at

PLACEHOLDER = '[Evicted: {length:,} characters. query_db(sql="SELECT content FROM messages WHERE id={id}") shows them'
"""The placeholder of an evicted result; `{id}` is its event's."""


def placeholder(event: Event, by: int) -> str:
    """Return the placeholder of a result evicted by operation `by`; 0 if this agent cannot undo the eviction."""
    back = f"; /restore {by} sends it again" if by else ""
    return f"{PLACEHOLDER.format(length=len(event.content), id=event.id)}{back}.]"


def is_longer(event: Event) -> bool:
    """Return True for a tool result that is longer than its placeholder."""
    if event.kind != "tool_result":
        return False
    return bool((event.data or {}).get("blocks")) or len(event.content) > len(placeholder(event, event.id))


def as_sent(event: Event, evicted: Mapping[int, int]) -> Event:
    """Return the event as it is sent: an evicted result as its placeholder, without images."""
    if event.kind != "tool_result" or event.id not in evicted:
        return event
    return _replaced(event, placeholder(event, evicted[event.id]))


def _replaced(event: Event, text: str) -> Event:
    data = {key: value for key, value in (event.data or {}).items() if key in ("call_id", "is_error")}
    return replace(event, content=text, data=data)


def all_as_sent(events: Iterable[Event], evicted: Mapping[int, int]) -> Iterable[Event]:
    """Return the events as they are sent, in order."""
    return (as_sent(event, evicted) for event in events) if evicted else events


def evicted_as_sent(
    events: Sequence[Event], evicted: Mapping[int, int], config: Config, settled: int, uncut: int | None = None
) -> tuple[list[Event], dict[int, str]]:
    """Return the events as they are sent, and a note for a person about each evicted result, by its id.

    With `evict_superseded`, results that were stale at event `settled`, the boundary, are evicted as well; except
    result `uncut`, and those shorter than their placeholders.
    """
    found = stale_at(events, settled) if config.evict_superseded else {}
    spared = {*evicted, uncut}
    stale = {e.id: found[e.id] for e in events if e.id in found and e.id not in spared and is_longer(e)}
    told = {e.id: f"{len(e.content):,} characters" for e in events if e.id in evicted}
    told |= {e.id: f"{len(e.content):,} characters, {_why(stale[e.id])}" for e in events if e.id in stale}
    shown = [_replaced(e, _outdated(e, stale[e.id])) if e.id in stale else e for e in events]
    return list(all_as_sent(shown, evicted)), told


def _outdated(event: Event, stale: Superseded) -> str:
    how = "read this file again" if stale.how == "read" else "wrote this file"
    return f"{PLACEHOLDER.format(length=len(event.content), id=event.id)}; a later call {how}.]"


def _why(stale: Superseded) -> str:
    how = f"read {stale.path} again" if stale.how == "read" else f"wrote {stale.path}"
    return f"since call {stale.by} {how}; /config set evict_superseded=off sends it again"
