"""What a message holds besides its text, and how much of that is sent [SPEC 5.2].

Images and documents are sent in every dialect; those of results only while their turn is active, if truncation is on.
Provider-specific blocks are sent in their own dialect: thinking with its signature while its turn is active, or always
with `thoughts`; tools that the provider ran itself, citations and the like always; the name of a container until the
container expires, measured by the time of the newest message. A summary is sent in the form of its reader, if it has
one. Other contents of `data["blocks"]` are not sent.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from foldmark.core.codec import stored_time, utc
from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.media import Document, Medium, media_of
from foldmark.core.native import blocks_of
from foldmark.core.wording import count

IMPORTED = "imported"
"""Key in a kept block, never sent: the model thought it in another program's conversation, with another system prompt
and other tools."""

CONTAINER = "container"
"""Type of a kept block that names the container in which a provider ran code."""

_THOUGHTS = (None, "thinking", "redacted_thinking", "reasoning", "reasoning_content", "reasoning_details")
"""Types of thinking; None is Gemini's, whose signed parts have no type."""


class Accepts(Struct, frozen=True, kw_only=True):
    """The parts of recorded messages that a dialect can send.

    `recorded` is the name with which its own are recorded; blocks and tool messages recorded with one of `also` are its
    own as well. `reads` is the reader whose form of a summary it takes (`core.native`), empty for none. Images of a
    type in `refused` are not sent.
    """

    recorded: str
    also: tuple[str, ...] = ()
    reads: str = ""
    refused: tuple[str, ...] = ()

    def owns(self, recorded: str | None) -> bool:
        """Return True for what was recorded in this dialect, or in none."""
        return recorded in (None, self.recorded, *self.also)


class Attached(NamedTuple):
    """Content that is sent with an event's text: media and kept blocks, and a note about them for a person."""

    media: tuple[Medium, ...] = ()
    kept: tuple[dict[str, Any], ...] = ()
    detail: str = ""


NOTHING = Attached()


def attached(
    events: Sequence[Event],
    dialect: Accepts,
    config: Config,
    since: int,
    window: int,
    thoughts: bool = False,
) -> dict[int, Attached]:
    """Return what is sent of events besides their texts, by event id, for events that hold more than text.

    With `thoughts` thinking is sent when its turn is over, too.
    """
    found = {}
    now = max((event.created_at for event in events), default="")
    for event in events:
        if event.kind == "summary" and (form := blocks_of(event, dialect.reads)):
            detail = f"in the form of {dialect.reads}; /restore {event.id} brings back what it stands for"
            found[event.id] = Attached((), form, detail)
        if not (event.data or {}).get("blocks"):
            continue
        active = event.turn_id is not None and event.turn_id >= since and event.id >= window
        if event.kind in ("user", "tool_result"):
            over = event.kind == "tool_result" and config.truncation and not active
            found[event.id] = _shown(event, dialect, over=over)
        elif event.kind == "assistant":
            found[event.id] = _answered(event, dialect, active or thoughts, now)
    return found


def _shown(event: Event, dialect: Accepts, *, over: bool) -> Attached:
    media, others = media_of(event.data, dialect.refused)
    said = []
    if media:
        documents = sum(isinstance(each, Document) for each in media)
        kinds = (len(media) - documents, "image"), (documents, "document")
        number = " and ".join(count(many, kind) for many, kind in kinds if many)
        said.append(f"{number} not sent: the turn is over" if over else f"with {number}")
    if others:
        said.append(f"without {count(others, 'block')} that cannot be sent")
    return Attached(() if over else tuple(media), (), "; ".join(said))


def _answered(event: Event, dialect: Accepts, active: bool, now: str) -> Attached:
    blocks = (event.data or {}).get("blocks")
    every = tuple(each for each in blocks if isinstance(each, dict)) if isinstance(blocks, list) else ()
    if not every:
        return NOTHING
    if event.dialect is None or not dialect.owns(event.dialect):
        return Attached(detail=f"without {count(len(every), 'block')} of {event.dialect or 'another format'}")
    kept = tuple(each for each in every if active or not is_thought(each))
    over = len(every) - len(kept)
    kept = tuple(each for each in kept if each.get("type") != CONTAINER or not _expired(each, now))
    said = [f"with {count(len(kept), 'block')}"] if kept else []
    said += [f"without {count(over, 'block')}: the turn is over"] if over else []
    return Attached((), kept, "; ".join(said))


def is_thought(block: dict[str, Any]) -> bool:
    """Return True for a kept block of thinking."""
    kind = block.get("type")
    return kind in _THOUGHTS if isinstance(kind, str | None) else False


def _expired(block: dict[str, Any], now: str) -> bool:
    """Return True if a container has expired. Only times in the log decide, so that a request is deterministic."""
    about = block.get(CONTAINER)
    until = about.get("expires_at") if isinstance(about, dict) else None
    try:
        return isinstance(until, str) and utc(until) <= stored_time(now)
    except ValueError:
        return False
