"""What a message holds besides its text, and how much of that is sent [SPEC 5.2].

Images and documents of users and of results are sent in every dialect; those of results only while their turn is
active, if truncation is on. What a provider wants to see again (thinking with its signature) is sent while its turn is
active, in its own dialect. Of the rest of `data["blocks"]` nothing is sent.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.media import Document, Medium, media_of
from foldmark.core.wording import count

IMPORTED = "imported"
"""In a kept block, and never sent: the model thought it in another program's conversation, behind another system prompt
and with other tools."""


class Attached(NamedTuple):
    """What is sent of an event besides its text, and what a person is told of it."""

    media: tuple[Medium, ...] = ()
    kept: tuple[dict[str, Any], ...] = ()
    detail: str = ""


NOTHING = Attached()


def attached(events: Iterable[Event], dialect: str, config: Config, since: int, window: int) -> dict[int, Attached]:
    """What is sent of events besides their texts, by event, for those that hold more than text."""
    found = {}
    for event in events:
        if not (event.data or {}).get("blocks"):
            continue
        active = event.turn_id is not None and event.turn_id >= since and event.id >= window
        if event.kind in ("user", "tool_result"):
            over = event.kind == "tool_result" and config.truncation and not active
            found[event.id] = _shown(event, dialect, over=over)
        elif event.kind == "assistant":
            found[event.id] = _answered(event, dialect, active)
    return found


def family(dialect: str) -> str:
    """A dialect, or what stands for the several that are one."""
    return "gemini" if dialect in ("gemini", "gemini_gca", "google") else dialect


def _shown(event: Event, dialect: str, *, over: bool) -> Attached:
    media, others = media_of(event.data, dialect)
    said = []
    if media:
        documents = sum(isinstance(each, Document) for each in media)
        kinds = (len(media) - documents, "image"), (documents, "document")
        number = " and ".join(count(many, kind) for many, kind in kinds if many)
        said.append(f"{number} not sent: the turn is over" if over else f"with {number}")
    if others:
        said.append(f"without {count(others, 'block')} that cannot be sent")
    return Attached(() if over else tuple(media), (), "; ".join(said))


def _answered(event: Event, dialect: str, active: bool) -> Attached:
    blocks = (event.data or {}).get("blocks")
    kept = tuple(each for each in blocks if isinstance(each, dict)) if isinstance(blocks, list) else ()
    what = count(len(kept), "block")
    if not kept:
        return NOTHING
    if event.dialect is None or family(event.dialect) != family(dialect):
        return Attached(detail=f"without {what} of {event.dialect or 'another format'}")
    return Attached((), kept, f"with {what}") if active else Attached(detail=f"without {what}: the turn is over")
