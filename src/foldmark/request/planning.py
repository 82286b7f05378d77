"""The planning conversation: a person and a model agree which messages to forget or to remember [SPEC 4.2, S1].

Its state is computed here, from events alone. A `command` event opens it, and another one records each preview. The ids
that a model names are checked against these previews and never trusted. A planning conversation is over when a filter
for it is recorded (with ids: applied; without ids: cancelled), when `/clear` or a rewind to before its start removes
it, or when its first message leaves the context in another way. Restoring such an operation does not open it again. A
preview that has left the context no longer counts.

A preview with matches is an offer. It is valid for the person's next message only: a message other than a reply to it
ends the planning conversation, unless the model previews again before that turn ends. A change of the segments ends the
offer.

Outside of a chat there is no planning conversation: the `command` event of the preview is all that is recorded, and the
offer stands `alone`.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from msgspec import Struct, convert

from foldmark.core import selections
from foldmark.core.codec import operation_of
from foldmark.core.errors import CommandError
from foldmark.core.events import CONTEXT_KINDS, Clear, Drop, Event, Filter, Operation, Rewind, Summary, Undo
from foldmark.core.ports import Snapshot
from foldmark.core.replay import replay
from foldmark.core.segments import END, Segment, Segments, contains, intersect, normal, subtract
from foldmark.request.standing import Standing, latest, showing


class RecordedPreview(Struct, frozen=True):
    """The last preview: the ids that match, and the event that recorded them.

    `runs` is the number of ids, in order, in each range on display. `asked` is True if Foldmark has asked "yes or no?"
    after an answer in doubt; `words` if no model previewed, so that none reads other criteria either; `alone` if there
    is no planning conversation; `agreed` if the person has said yes to such an offer before a model applies it.
    """

    mode: str
    criteria: str
    ids: tuple[int, ...]
    runs: tuple[int, ...] = ()
    event_id: int = 0
    asked: bool = False
    words: bool = False
    alone: bool = False
    agreed: bool = False

    @property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The ids of each range."""
        ends = [*accumulate(self.runs or [len(self.ids)])]
        return tuple(self.ids[begin:end] for begin, end in zip([0, *ends], ends, strict=False) if end > begin)


class Planning(Struct, frozen=True):
    """An open planning conversation: its first message, its criteria, its previews."""

    first: int
    mode: str
    criteria: str
    preview: RecordedPreview | None = None

    @property
    def since(self) -> int:
        """The newest preview, or else the beginning: later messages refer to it."""
        return self.first if self.preview is None else self.preview.event_id


def planning(moment: Snapshot, at: Standing) -> Planning | None:
    """Return the open planning conversation; None if there is none."""
    own = at.record.id
    found = _read(at.newest_of.get("command"))
    if found is None or not moment.size((Segment(own, found.first, found.first),)).messages:
        return None
    operations = selections.operations(moment, own, after=found.first, until=at.newest)
    if any(ends(operation_of(event), own, found.first) for event in operations):
        return None
    # The newest visible record counts: a preview that has left the context does not.
    return _read(latest(moment, at, "command", intersect(at.visible, (Segment(own, found.first, at.newest),))))


def ends(operation: Operation, own: str, first: int) -> bool:
    """Return True if an operation ends the planning conversation that begins with event `first`."""
    match operation:
        case Filter(planning=(start, _)) if start == first:
            return True
        case Clear():
            return True
        case Rewind(position=position):
            return position < first
        case Filter(ranges=ranges) | Drop(ranges=ranges) | Undo(ranges=ranges) | Summary(ranges=ranges):
            return contains(ranges, own, first)
        case _:
            return False


def offered(moment: Snapshot, at: Standing) -> RecordedPreview | None:
    """Return the preview that a person can still agree to, regardless of later messages; None without one."""
    open_one = planning(moment, at)
    preview = _alone(at) if open_one is None else open_one.preview
    if preview is None or not preview.ids:
        return None
    since = selections.operations(moment, at.record.id, after=preview.event_id)
    # After one of these the offer may differ from the preview that the person has seen.
    return None if any(event.kind in CONTEXT_KINDS for event in since) else preview


def replies(moment: Snapshot, at: Standing, event_id: int) -> list[Event]:
    """Return the messages of people since event `event_id`: a preview, or the beginning of a planning conversation."""
    since = intersect(at.visible, (Segment(at.record.id, event_id + 1, at.newest),))
    return [event for event in moment.select(since) if event.kind == "user" and event.actor == "human"]


def offer(moment: Snapshot, at: Standing) -> RecordedPreview | None:
    """Return the open offer: a preview without a reply so far. None without one."""
    preview = offered(moment, at)
    return None if preview is None or replies(moment, at, preview.event_id) else preview


def passed(moment: Snapshot, at: Standing) -> tuple[int, int] | None:
    """Return the first message of the planning conversation and the message that ends it, unless the model previews
    again in that turn; None if no message ends it.

    A plain yes to an offer does not end it: the model may still apply the offer. Neither does a question about the
    offer.
    """
    open_one = planning(moment, at)
    if open_one is None:
        return None
    from foldmark.text.consent import is_look, is_yes  # takes 3 ms, and planning is rare

    later = replies(moment, at, open_one.since)
    if later and (is_yes(later[0].content) or is_look(later[0].content)) and offered(moment, at) is not None:
        later = later[1:]
    return (open_one.first, later[0].id) if later else None


def unpreviewed(moment: Snapshot, at: Standing) -> bool:
    """Return True if a planning conversation has just begun: without a preview, and without a reply by a person."""
    open_one = planning(moment, at)
    return open_one is not None and open_one.preview is None and not replies(moment, at, open_one.since)


def result_of(moment: Snapshot, at: Standing, preview: RecordedPreview) -> int | None:
    """Return the tool result that showed the preview to the model."""
    after = selections.message_after(moment, at.record.id, preview.event_id)
    return after.id if after is not None and after.kind == "tool_result" else None


def not_while_planning(moment: Snapshot, at: Standing, why: str) -> None:
    """Raise CommandError if a planning conversation is open, or ends with the open turn."""
    if planning(moment, at) is not None:
        raise CommandError(f"a planning conversation is open, and {why}; agree to the filter or /cancel first")
    if at.fold.leaving is not None:
        raise CommandError(
            f"a planning conversation leaves the context at the end of this turn, and {why}; wait until it has ended"
        )


def talk(moment: Snapshot, at: Standing) -> Segments:
    """Return the segments of the open planning conversation, or the visible part of the one just closed in the open
    turn."""
    own = at.record.id
    if (open_one := planning(moment, at)) is not None:
        return (Segment(own, open_one.first, END),)
    if at.fold.closing is None or at.fold.leaving is None:
        return ()
    filter_id, first = at.fold.closing
    # The filter already hides the conversation; a replay without the filter gives the part that the turn still shows.
    others = [(event.id, operation_of(event)) for event in selections.operations(moment, own) if event.id != filter_id]
    return intersect(replay(at.origin, others).segments, (Segment(own, first, END),))


def shown_while_leaving(moment: Snapshot, at: Standing) -> Standing:
    """Return the standing with a planning conversation that has just ended: the model still has to report that, so the
    messages stay until the end of the turn."""
    return at if at.fold.leaving is None else showing(moment, at, normal((*at.fold.segments, *talk(moment, at))))


def beside(moment: Snapshot, at: Standing) -> Standing:
    """Return the standing without the planning conversation, as another program's model is given it."""
    said = talk(moment, at) if "command" in at.newest_of else ()
    return showing(moment, at, subtract(at.fold.segments, said)) if said else at


def opening(first: int, mode: str, criteria: str) -> dict[str, Any]:
    """Return the data of the `command` event that opens a planning conversation."""
    return {"name": mode, "planning": {"first": first, "mode": mode, "criteria": criteria}}


def previewed(
    talk: Planning | None,
    mode: str,
    criteria: str,
    ids: Sequence[int],
    runs: Sequence[int],
    *,
    asked: bool = False,
    words: bool = False,
    agreed: bool = False,
) -> dict[str, Any]:
    """Return the data of the `command` event that records a preview; without a planning conversation, that of an offer
    alone."""
    flags = {name: True for name, value in (("asked", asked), ("words", words), ("agreed", agreed)) if value}
    preview = {"mode": mode, "criteria": criteria, "ids": list(ids), "runs": list(runs), **flags}
    began = {} if talk is None else opening(talk.first, talk.mode, talk.criteria)
    return {**began, "name": "preview", "preview": preview}


def _read(event: Event | None) -> Planning | None:
    data = (event.data or {}) if event else {}
    return None if "planning" not in data else Planning(**data["planning"], preview=_preview_in(event))


def _alone(at: Standing) -> RecordedPreview | None:
    """Return the preview that the newest `command` event recorded without a planning conversation."""
    event = at.newest_of.get("command")
    return None if event is None or "planning" in (event.data or {}) else _preview_in(event)


def _preview_in(event: Event | None) -> RecordedPreview | None:
    data = (event.data or {}) if event else {}
    shown = data.get("preview")
    if event is None or not shown:
        return None
    return convert({**shown, "event_id": event.id, "alone": "planning" not in data}, RecordedPreview)
