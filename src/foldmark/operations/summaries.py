"""Resolve the range that a summary replaces [SPEC 3, 5.7]: everything after a mark, a span, or the messages that a
provider has summed up in its own form."""

from collections.abc import Iterable
from typing import Any

from foldmark.core import selections
from foldmark.core.assembly.eviction import begins
from foldmark.core.codec import Secrets, operation_of
from foldmark.core.errors import CommandError
from foldmark.core.events import ROLES, Event, Summary
from foldmark.core.ports import Snapshot
from foldmark.core.replay import recorded, taken_back
from foldmark.core.request import Compacted
from foldmark.core.segments import END, Segment, Segments, contains, intersect, normal, since, subtract, until
from foldmark.operations.decide import whole_exchanges
from foldmark.operations.places import marked, without_open
from foldmark.request.exchanges import messages_in, ranges_of, reaching, visible_after
from foldmark.request.standing import Standing, of_kind, state_of

SPAN = ".."
"""Separates the ends of a span."""


def summary(moment: Snapshot, at: Standing, name: str | None) -> Summary:
    """Return a summary of everything visible after a mark, or in a span such as `12..M`, or in the whole context. It
    leaves out the open exchange."""
    if name is not None and name not in at.fold.marks and SPAN in name:
        return _summary_of_span(moment, at, name)
    ranges = at.visible
    if name is not None:
        name, _, position = marked(moment, at, name)
        ranges = visible_after(moment, at, position)
    ranges = without_open(moment, at, ranges)
    if not moment.size(ranges).messages:
        raise CommandError(f"there is nothing {f'after mark {name!r} ' if name else ''}to summarize")
    state = state_of(moment, at)
    return Summary(reaching(moment, at, ranges), name, state.content if state else None)


def _summary_of_span(moment: Snapshot, at: Standing, span: str) -> Summary:
    """Return a summary of the messages between two marks or messages; an omitted one is the beginning or the end.

    A summary inside the span counts by its own position, and its source is replaced with it. The state block moves to
    the new summary only if it was in the span: a later one stays in force anyway.
    """
    first, last = _bounds(moment, at, span)
    summaries = list(moment.select(at.visible, "summary", expected=END))
    inside = [each for each in summaries if first <= begins(each) <= last]
    ranges = normal((*subtract(until(since(at.visible, first), last), _places(summaries)), *_places(inside)))
    ranges, widened = whole_exchanges(moment, at, messages_in(moment, ranges))
    ranges = without_open(moment, at, ranges)
    if not moment.size(intersect(at.visible, ranges)).messages:
        raise CommandError(
            f"nothing in {span} can be summarized: nothing in it is visible, or its calls have no results yet"
        )
    state = state_of(moment, at)
    carried = state is not None and contains(ranges, state.agent_id, state.id)
    operations = [operation_of(each) for each in inside]
    # Messages that inner summaries replaced must stay out when one of these is restored.
    before = [segment for each in operations if isinstance(each, Summary) for segment in each.ranges]
    return Summary(normal((*ranges, *before)), None, state.content if state and carried else None, None, span, widened)


def _places(events: Iterable[Event]) -> list[Segment]:
    return [Segment(each.agent_id, each.id, each.id) for each in events]


def _bounds(moment: Snapshot, at: Standing, span: str) -> tuple[int, int]:
    """Return the first and the last id that a span names. A mark's name may contain the dots as well."""
    places = [place for place in range(len(span)) if span.startswith(SPAN, place)]
    ways = [(span[:place], span[place + len(SPAN) :]) for place in places]
    # A name with dots can be split in several ways; the first split with known ends is used.
    known = [way for way in ways if all(not end or end in at.fold.marks or end.isdecimal() for end in way)]
    first, last = (known or ways)[0]
    begin = _bound(moment, at, first, last=False) if first else 1
    end = _bound(moment, at, last, last=True) if last else at.newest
    if begin > end and first and last:
        raise CommandError(f"the span {span} is reversed; name the earlier end first")
    return begin, end


def _bound(moment: Snapshot, at: Standing, name: str, *, last: bool) -> int:
    """Return the id at which a span begins (after a mark, or at a message) or ends (before a mark, or with the turn
    that a message opened)."""
    if name in at.fold.marks or not (name.isascii() and name.isdecimal()):
        return marked(moment, at, name)[2] + (0 if last else 1)
    event_id = int(name)
    event = selections.event(moment, event_id) if event_id < END else None
    known = event is not None and event.kind in ROLES and contains(at.lineage, event.agent_id, event_id)
    if event is None or not known or event.erased_by is not None:
        raise CommandError(f"there is no message {name[:40]} in this conversation; `/context show` shows ids")
    if event.kind == "summary":
        return begins(event)
    turn = moment.turns([event_id])[event_id] if last else []
    return max([event_id, *(each.id for each in turn if contains(at.lineage, each.agent_id, each.id))])


def provider_summary(
    moment: Snapshot, at: Standing, form: dict[str, Any] | None, within: Iterable[Segment] | None = None
) -> Summary:
    """Return a summary, in a provider's own form, of everything visible, or of everything visible `within` segments.

    It may replace nothing: a provider can begin with a summary of messages that the log never held. Without `within`,
    `system` messages stay: the request holds them separately from the messages that a provider sums up.
    """
    try:
        every = summary(moment, at, None)
    except CommandError:
        return Summary((), native=form)
    if within is None:
        system = moment.lookup(of_kind(moment, at, "system", at.visible))
        ranges: Segments = subtract(every.ranges, ranges_of(moment, at, system))
    else:
        ranges = intersect(every.ranges, normal(within))
    operations = recorded(selections.operations(moment, at.record.id))
    back = taken_back(operations)
    for id, operation in reversed(operations):
        if isinstance(operation, Summary) and id not in back and contains(ranges, at.record.id, id):
            ranges = normal((*ranges, *operation.ranges))
    return Summary(ranges, None, every.state, form)


def provider_form(secrets: Secrets, compacted: Compacted, reader: str) -> dict[str, Any] | None:
    """Return a provider's summary in the form of `reader`. Return None without a reader, or if the summary contains a
    key: without the key the provider's signature would not match."""
    items = list(compacted.items)
    return {reader: items} if reader and (not secrets or secrets.hidden_in(items) == items) else None
