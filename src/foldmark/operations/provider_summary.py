"""Decide what a summary in a provider's own form replaces [SPEC 5.7]."""

from collections.abc import Iterable
from typing import Any

from foldmark.core.codec import Secrets
from foldmark.core.errors import CommandError
from foldmark.core.events import Summary
from foldmark.core.ports import Snapshot
from foldmark.core.replay import recorded, taken_back
from foldmark.core.request import Compacted
from foldmark.core.segments import Segment, Segments, contains, intersect, normal, subtract
from foldmark.operations import decide
from foldmark.request.exchanges import ranges_of
from foldmark.request.standing import Standing, of_kind


def standing_for(
    moment: Snapshot, at: Standing, form: dict[str, Any] | None, within: Iterable[Segment] | None = None
) -> Summary:
    """Return a summary, in a provider's own form, of what is visible, `within` these segments if they are given.

    It may replace nothing: a provider can begin with a summary of messages that the log never held. Without `within`,
    `system` messages stay: they are in the request beside what a provider sums up.
    """
    try:
        every = decide.summary(moment, at, None)
    except CommandError:
        return Summary((), native=form)
    if within is None:
        system = moment.lookup(of_kind(moment, at, "system", at.visible))
        ranges: Segments = subtract(every.ranges, ranges_of(moment, at, system))
    else:
        ranges = intersect(every.ranges, normal(within))
    operations = recorded(moment.operations(at.record.id))
    back = taken_back(operations)
    for id, operation in reversed(operations):
        if isinstance(operation, Summary) and id not in back and contains(ranges, at.record.id, id):
            ranges = normal((*ranges, *operation.ranges))
    return Summary(ranges, None, every.state, form)


def form_of(secrets: Secrets, made: Compacted, reader: str) -> dict[str, Any] | None:
    """Return a provider's summary in the form of `reader`; None without one, and if it contains a key: without the key
    it is not what the provider signed."""
    items = list(made.items)
    return {reader: items} if reader and (not secrets or secrets.hidden_in(items) == items) else None
