"""Compute the reach of a growing request: how far back it goes, and which part of it is settled [SPEC 5.7].

Between two boundaries nothing that was sent changes: each request begins with the whole of the one before, and a
provider's cache can hold it. Operations, settings and steps of the window are boundaries that follow from the log
itself. The other boundaries follow from sizes. When the model is first asked with a request above the limit, the
request is reduced to low water in one step, and grows again from there. So the reach is found by walking through the
events since the newest boundary in the log, in order. It is never stored.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from foldmark.core.assembly.media import media_of
from foldmark.core.assembly.view import active_from, tiers
from foldmark.core.assembly.window import Units
from foldmark.core.assembly.wire import shown_bytes, weight
from foldmark.core.config import Config
from foldmark.core.events import ANSWER_KINDS, Event
from foldmark.core.request import BOUND, Part

SAFE = 0.95
"""The share of the model's window that weights may fill, because weights are estimates and a provider refuses a request
that is too long."""


class Reach(NamedTuple):
    """The reach of a request: of the messages that it could hold, the first `cut` are left out. Everything up to event
    `settled` stays as it was then, with the first `oldest` results of the active turn cut as if the turn were over."""

    cut: int
    settled: int
    oldest: int = 0


def advanced(
    events: Sequence[Event],
    reach: Reach,
    size: float,
    room: Callable[[int], float],
    config: Config,
    lower: Callable[[Sequence[Event]], tuple[Reach, int]],
    beside: Mapping[int, int] = MappingProxyType({}),
) -> Reach:
    """Return the reach after `events`, the visible messages in order from the beginning of the request at the boundary.

    `size` is the bytes of the request at event `reach.settled`, `room` returns its limit as known at an event; `lower`
    reduces messages to low water (`lowered`); `beside` maps a message to the bytes of the layers before it.
    """
    waiting: set[int] = set()
    answering = False
    # If no cut makes a turn small enough, each step would undo the previous one, so only the last step is made.
    stuck, last = False, 0
    for index, event in enumerate(events):
        if event.id == event.turn_id or (event.kind in ANSWER_KINDS and not answering):
            waiting.clear()  # calls that still have no result are over
        if stuck and event.id == event.turn_id:
            further, size = lower(events[reach.cut : last + 1])
            size += sum(entering_weight(each, config) for each in events[last + 1 : index])
            reach, stuck = further._replace(cut=reach.cut + further.cut), False
        answering = event.kind in ANSWER_KINDS
        if event.kind == "tool_call":
            waiting.add(event.id)
        waiting.discard(event.answers or 0)
        if event.id <= reach.settled:
            continue
        size += entering_weight(event, config) + beside.get(event.id, 0)
        # A boundary is final even if no answer came, because the model was asked.
        if size > room(event.id) and not answering and not waiting:
            last = index
            if stuck:
                continue
            further, size = lower(events[reach.cut : index + 1])
            reach = further._replace(cut=reach.cut + further.cut)
            stuck = size - _shrinkage(events[: index + 1], config) > room(event.id)
    if stuck and events[last].id > reach.settled:
        further, _ = lower(events[reach.cut : last + 1])
        reach = further._replace(cut=reach.cut + further.cut)
    return reach


def _shrinkage(events: Sequence[Event], config: Config) -> int:
    """Return the maximum number of bytes that the newest results lose when their turn ends."""
    found = 0
    for event in reversed(events):
        if event.kind in ANSWER_KINDS:
            break
        if event.kind == "tool_result":
            found += max(0, entering_weight(event, config) - _size(event, config, config.truncate_inactive, True))
    return found


class Sizes:
    """The bytes of messages as sent under some settings, each computed once: an event never changes."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._known: dict[tuple[int, int | None, bool], int] = {}

    def of(self, event: Event, kept: int | None, active: bool) -> int:
        """Return the bytes of a message that keeps this many characters (None: as many as a tool result keeps in a turn
        that is over)."""
        key = event.id, kept, active
        if key not in self._known:
            self._known[key] = _size(event, self.config, kept, active)
        return self._known[key]


def lowered(events: Sequence[Event], low: float, fixed: int, known: Sizes) -> tuple[Reach, int]:
    """Return the reach of a request reduced to `low` bytes, and its bytes. The active turn's results are cut in tiers
    first, then the oldest turns are left out, then the active turn's oldest results are cut as if the turn were over.
    Results that the model has not answered yet are not cut, because it would never see them whole.

    `fixed` is the number of bytes outside of the turns.
    """
    since, config = active_from(events), known.config
    results = sorted(e.id for e in events if e.kind == "tool_result" and _is_active(e, since))
    limits = tiers(results, config)
    sizes = {e.id: known.of(e, limits.get(e.id), _is_active(e, since)) for e in events}
    total, cut = fixed + sum(sizes.values()), 0
    units = Units(reversed(events if total > low and not (since and _is_active(events[0], since)) else ()))
    count = units.all()
    # If no message opened a turn, all units are active and only the newest must stay.
    while count > 1 and total > low and not (since and any(_is_active(e, since) for e in units[count - 1].events)):
        count -= 1
        cut += len(units[count].events)
        total -= sum(sizes[event.id] for event in units[count].events)
    by_id, oldest = {event.id: event for event in events}, 0
    answered = max((event.id for event in events if event.kind in ANSWER_KINDS), default=0)
    while total > low and oldest < len(results) and results[oldest] < answered:
        event = by_id[results[oldest]]
        total += known.of(event, config.truncate_inactive, True) - sizes[event.id]
        oldest += 1
    return Reach(cut, max(event.id for event in events), oldest), total


def room_for(budget: int, limit: int | None, ratio: float, newest: float) -> float:
    """Return the maximum bytes of a request: `budget` tokens (0: no budget) of `ratio` bytes, as calibrated at the
    boundary, but at most the model's `limit` tokens (None: unknown) of `newest` bytes, as calibrated now.

    The model's own limit uses the newest calibration, because the provider would refuse a longer request.
    """
    return min(filter(None, (budget * ratio, (limit or 0) * newest * SAFE)))


def layers_weight(layers: Iterable[Part]) -> int:
    """Return the weight in bytes of layers before a message."""
    return sum(weight("user", layer.text, None, False, 0) for layer in layers)


def entering_weight(event: Event, config: Config) -> int:
    """Return the bytes of a message as it enters a request."""
    return _size(event, config, config.truncate_recent, True)


def _size(event: Event, config: Config, kept: int | None, active: bool) -> int:
    characters = len(event.content) if not config.truncation else config.truncate_inactive if kept is None else kept
    shape = config.truncate_shape
    size = weight(event.kind, event.content, event.data, event.interrupted, event.id, characters, shape)
    blocks = (event.data or {}).get("blocks") if active else None
    if not blocks or event.kind not in ("assistant", "tool_result"):
        return size
    if event.kind == "assistant":  # blocks that the provider expects back
        for block in blocks if isinstance(blocks, list) else [blocks]:
            sent = {k: v for k, v in block.items() if k != BOUND} if isinstance(block, dict) else block
            size += len(msgspec.json.encode(sent)) + 1
        return size
    return size + sum(map(shown_bytes, media_of(event.data)[0]))


def _is_active(event: Event, since: int) -> bool:
    return event.turn_id is not None and event.turn_id >= since
