"""Where a request that only grows stands: how far back it reaches and what of it is settled [SPEC 5.7]. Pure functions.

Between two boundaries nothing that was sent changes. What an operation, a new turn or a setting changed is a boundary
that the log names. The others follow from sizes: a request that would pass what it may hold is brought to low water in
one step, at the first moment at which the model was asked with too much; from there it grows again. So where a request
stands is found by going through what came since the newest boundary that the log names, in order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from foldmark.core.answer import BOUND
from foldmark.core.config import Config
from foldmark.core.events import ANSWER_KINDS, Event
from foldmark.core.media import media_of
from foldmark.core.prompt import Layer
from foldmark.core.view import active_from, tiers
from foldmark.core.weight import shown_bytes, weight
from foldmark.core.window import Units

SAFE = 0.95
"""The share of the model's window that weights may fill: they are estimates, and a provider refuses what is too
much."""


class Reach(NamedTuple):
    """How far back a request reaches into the messages that it could hold: without the first `cut`. What stood there at
    event `settled` stays as it was then, with the active turn's `oldest` results, so many, cut as if it were over."""

    cut: int
    settled: int
    oldest: int = 0


def followed(
    events: Sequence[Event],
    reach: Reach,
    size: float,
    room: Callable[[int], float],
    config: Config,
    lower: Callable[[Sequence[Event]], tuple[Reach, int]],
    beside: Mapping[int, int] = MappingProxyType({}),
) -> Reach:
    """Where the request stands after `events`, the visible messages in order from where it began at the boundary.

    `size` is the bytes of the request at event `reach.settled`, `room` what it may have, as is known at an event;
    `lower` brings messages to low water (`lowered`); `beside` is the bytes of what is put in front of a message, by its
    event.
    """
    waiting: set[int] = set()
    answering = False
    # While a turn is too large whatever is cut of it, each step is undone by the next: only the last one is made.
    stuck, last = False, 0
    for index, event in enumerate(events):
        if event.id == event.turn_id or (event.kind in ANSWER_KINDS and not answering):
            waiting.clear()  # what got no result by now is over
        if stuck and event.id == event.turn_id:
            further, size = lower(events[reach.cut : last + 1])
            size += sum(entered(each, config) for each in events[last + 1 : index])
            reach, stuck = further._replace(cut=reach.cut + further.cut), False
        answering = event.kind in ANSWER_KINDS
        if event.kind == "tool_call":
            waiting.add(event.id)
        waiting.discard(event.answers or 0)
        if event.id <= reach.settled:
            continue
        size += entered(event, config) + beside.get(event.id, 0)
        # Nothing that comes later moves this: also where the answer never came, the model was asked.
        if size > room(event.id) and not answering and not waiting:
            last = index
            if stuck:
                continue
            further, size = lower(events[reach.cut : index + 1])
            reach = further._replace(cut=reach.cut + further.cut)
            stuck = size - _whole(events[: index + 1], config) > room(event.id)
    if stuck and events[last].id > reach.settled:
        further, _ = lower(events[reach.cut : last + 1])
        reach = further._replace(cut=reach.cut + further.cut)
    return reach


def _whole(events: Sequence[Event], config: Config) -> int:
    """The most bytes by which the newest results are longer than they will be when their turn is over."""
    found = 0
    for event in reversed(events):
        if event.kind in ANSWER_KINDS:
            break
        if event.kind == "tool_result":
            found += max(0, entered(event, config) - _size(event, config, config.truncate_inactive, True))
    return found


class Sizes:
    """The bytes of messages as they are sent under some settings, each worked out once; an event's never changes."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._known: dict[tuple[int, int | None, bool], int] = {}

    def of(self, event: Event, kept: int | None, active: bool) -> int:
        """The bytes of a message of which so many characters are kept, as a tool result in a turn that is over if that
        is None."""
        key = event.id, kept, active
        if key not in self._known:
            self._known[key] = _size(event, self.config, kept, active)
        return self._known[key]


def lowered(events: Sequence[Event], low: float, fixed: int, known: Sizes) -> tuple[Reach, int]:
    """The request of these messages brought down to `low` bytes, and its bytes: the active turn's results in tiers,
    then without the oldest turns, then with the active turn's oldest results cut as if it were over. Results that the
    model has not answered to yet are not cut: it would never see them.

    `fixed` is the bytes of what stands there beside the turns.
    """
    since, config = active_from(events), known.config
    results = sorted(e.id for e in events if e.kind == "tool_result" and _is_active(e, since))
    limits = tiers(results, config)
    sizes = {e.id: known.of(e, limits.get(e.id), _is_active(e, since)) for e in events}
    total, cut = fixed + sum(sizes.values()), 0
    units = Units(reversed(events if total > low and not (since and _is_active(events[0], since)) else ()))
    count = units.all()
    # Where nobody opened a turn, all are active, and only the newest has to stay.
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
    """Return the bytes that a request may have: `budget` tokens (0: no budget) of `ratio` bytes, as calibrated at the
    boundary, and within what the model takes, `limit` tokens (None: not known) of `newest` bytes, as calibrated now.

    A calibration does not wait where the model's own limit is concerned: the provider would refuse a longer request.
    """
    return min(filter(None, (budget * ratio, (limit or 0) * newest * SAFE)))


def put_in(layers: Iterable[Layer]) -> int:
    """Return the bytes that weigh of layers in front of a message."""
    return sum(weight("user", layer.text, None, False, 0) for layer in layers)


def entered(event: Event, config: Config) -> int:
    """The bytes of a message as it enters a request."""
    return _size(event, config, config.truncate_recent, True)


def _size(event: Event, config: Config, kept: int | None, active: bool) -> int:
    characters = len(event.content) if not config.truncation else config.truncate_inactive if kept is None else kept
    shape = config.truncate_shape
    size = weight(event.kind, event.content, event.data, event.interrupted, event.id, characters, shape)
    blocks = (event.data or {}).get("blocks") if active else None
    if not blocks or event.kind not in ("assistant", "tool_result"):
        return size
    if event.kind == "assistant":  # what the provider wants to see again
        return size + sum(map(_block_size, blocks if isinstance(blocks, list) else [blocks]))
    return size + sum(map(shown_bytes, media_of(event.data)[0]))


def _block_size(block: object) -> int:
    if isinstance(block, dict):
        block = {name: value for name, value in block.items() if name != BOUND}
    return len(msgspec.json.encode(block)) + 1


def _is_active(event: Event, since: int) -> bool:
    return event.turn_id is not None and event.turn_id >= since
