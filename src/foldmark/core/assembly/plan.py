"""The plan of a request: where its window begins, and in which form its messages are sent [SPEC 5.3, 5.7].

The next request is the last one plus what is new. What was sent is a fact: the plan is recorded with the request, and
the next one starts from it. Between two boundaries the plan stays the same, but for layers before new messages, so a
request begins with the whole of the one before. At a boundary, and when a request has outgrown its room, a plan is made
anew: the newest whole turns up to low water, with everything shortened as of now.
"""

from collections.abc import Callable, Collection
from itertools import pairwise
from math import inf
from typing import NamedTuple, TypeAlias

import msgspec

from foldmark.core.assembly.eviction import begins
from foldmark.core.assembly.media import Accepts, media_of
from foldmark.core.assembly.view import active_from, bare, is_foreign, tiers
from foldmark.core.assembly.window import Units, limit_of_turns
from foldmark.core.assembly.wire import FRAME, shown_bytes, weight
from foldmark.core.config import Config
from foldmark.core.events import ANSWER_KINDS, Event
from foldmark.core.request import BOUND, Plan


class Room(NamedTuple):
    """The room of a request: `fill` returns the share of it that the request of a plan fills, `refused` is True for a
    plan whose request is too long for the model, `scale` is the share that one byte fills, as far as is known, and
    `low` is low water."""

    fill: Callable[[Plan], float]
    refused: Callable[[Plan], bool]
    scale: float
    low: float


APART = 100
"""The most bytes by which two requests differ besides their turns: cache marks, and what providers demand in front of a
first message."""


class More(NamedTuple):
    """The bytes that one request has more than another one: the least and the most, which are infinite where there are
    the provider's own blocks, or images, whose sizes are estimates."""

    least: float
    most: float


class Turns:
    """The visible turns, newest first, with the estimated bytes that they add to a request made as of now; `fixed` are
    the bytes of everything else, `most` is the maximum number of turns in a window (0: any). `weights` keeps what
    messages weigh, for other objects with the same settings; `unknown` are messages that may be sent in another form
    than others."""

    def __init__(
        self,
        units: Units,
        most: int,
        fixed: int,
        config: Config,
        dialect: Accepts,
        *,
        thoughts: bool,
        weights: dict[tuple[int, int, bool], int] | None = None,
        pinned: Collection[int] = (),
        unknown: Collection[int | None] = (),
    ) -> None:
        self._pinned, self._unknown = frozenset(pinned), unknown
        self.units, self._config, self._dialect, self._thoughts = units, config, dialect, thoughts
        self._weights = {} if weights is None else weights
        self._most, self._limit = limit_of_turns(units, most), most
        self._fixed, self._sums, self._least, self._likely, self._gaps = fixed, [fixed], [0], [0.0], [0]
        newest = units[0].events if units.reach(1) else ()
        self._active = active_from(newest)
        self._answered = max((event.id for event in newest if event.kind in ANSWER_KINDS), default=0)
        results = sorted(event.id for event in newest if self._is_active_result(event))
        self._limits = tiers([each for each in results if each < self._answered], config)
        self._limits |= {each: config.truncate_recent for each in results if each > self._answered}

    def bytes(self, count: int) -> int:
        """Return the bytes of a request with the newest `count` turns, which must exist."""
        while len(self._sums) <= count:
            events = self.units[len(self._sums) - 1].events
            self._sums.append(self._sums[-1] + sum(map(self.weigh, events)))
        return self._sums[count]

    def between(self, count: int, other: int) -> "More":
        """Return the bytes that a request with the newest `other` turns has more than one with `count`; they are
        negative if `other` is the smaller number."""
        less, more = min(count, other), max(count, other)
        self._read(more)
        least = self._least[more] - self._least[less]
        most = inf if self._gaps[more] > self._gaps[less] else self.bytes(more) - self.bytes(less)
        return More(least - APART, most + APART) if other > count else More(-most - APART, APART - least)

    def likely(self, count: int) -> float:
        """Return the bytes that a request with the newest `count` turns is likely to have."""
        self._read(count)
        return self._fixed + self._likely[count]

    def _read(self, count: int) -> None:
        while len(self._least) <= count:
            unit = self.units[len(self._least) - 1]
            is_pinned = not self._pinned.isdisjoint(unit.turns)
            known = not is_pinned and not any(
                e.id in self._unknown or (e.data or {}).get("blocks") for e in unit.events
            )
            least, most = sum(map(self._least_of, unit.events)) if known else 0, sum(map(self.weigh, unit.events))
            self._least.append(self._least[-1] + least)
            self._likely.append(self._likely[-1] + (0 if is_pinned else (least + most) / 2))
            self._gaps.append(self._gaps[-1] + (not known))

    def _least_of(self, event: Event) -> int:
        if event.kind == "tool_call":  # how a wire writes arguments is its own affair
            return 0
        return max(0, self.weigh(event) - FRAME * (event.kind != "tool_result"))

    def weigh(self, event: Event) -> int:
        """Return the bytes that a message adds."""
        return self._weight(event, self._limits.get(event.id, self._config.truncate_inactive))

    def within(self, bytes: float) -> int:
        """Return how many of the newest turns, at least one, have at most these bytes."""
        count = 1
        while not self.is_all(count) and (bytes == inf or self.bytes(count + 1) <= bytes):  # weighs nothing in vain
            count += 1
        return count

    def is_all(self, count: int) -> bool:
        """Return True if there are only so many turns, or if no more may be sent."""
        return self._most(count + 1) <= count

    def count(self, position: int) -> int:
        """Return how many turns, at least one, begin at a position or later, even if fewer may be sent."""
        count = 1
        while self.units.reach(count + 1) and self.first(count + 1) >= position:
            count += 1
        return count

    def too_many(self, position: int) -> bool:
        """Return True if more turns begin at a position or later than may be sent."""
        return bool(self._limit) and self.units.reach(1) and self._most(self.count(position)) < self.count(position)

    def first(self, count: int) -> int:
        """Return the position at which the newest `count` turns begin."""
        return begins(self.units[count - 1].events[0])

    def sent(self, plan: Plan) -> int:
        """Return the bytes of the request of a plan."""
        total = self._fixed
        for index in range(self.count(plan.first)):
            for event in self.units[index].events:
                new = event.id > plan.settled
                total += self._weight(event, self._config.truncate_recent if new else self._config.truncate_inactive)
        return total

    def cuts(self) -> list[tuple[int, int, int]]:
        """Return what can be cut in the active turn, in order: the newest result that is then cut as if the turn were
        over, the newest one that is cut to nothing, and the bytes that the last cut saves. Results that the model has
        not answered are not cut, because it would never see them whole."""
        events = (e for e in self.units[0].events if self._is_active_result(e) and e.id < self._answered)
        results, least = sorted(events, key=lambda event: event.id), self._config.truncate_inactive
        over = [self._weight(event, min(least, self._limits[event.id])) for event in results]
        sizes = list(zip(results, over, strict=True))
        cuts = [(event.id, 0, self.weigh(event) - size) for event, size in sizes]
        further = ((each.id, size - self._weight(each, bare(len(each.content)))) for each, size in sizes)
        return [*cuts, *((results[-1].id, event_id, saved) for event_id, saved in further)]

    @property
    def exchange(self) -> float:
        """The mean bytes of an exchange of the newest turn, as it enters a request."""
        events = self.units[0].events
        answers = sum(
            event.kind in ANSWER_KINDS and before.kind not in ANSWER_KINDS for before, event in pairwise(events)
        )
        return sum(self._weight(event, self._config.truncate_recent) for event in events) / max(1, answers)

    def _is_active_result(self, event: Event) -> bool:
        return event.kind == "tool_result" and event.turn_id is not None and event.turn_id >= self._active

    def _weight(self, event: Event, kept: int) -> int:
        active = event.turn_id is not None and event.turn_id >= self._active
        key = event.id, kept, active
        if key not in self._weights:
            self._weights[key] = sent_weight(event, self._config, self._dialect, kept, active, thoughts=self._thoughts)
        return self._weights[key]


def sent_weight(event: Event, config: Config, dialect: Accepts, kept: int, active: bool, *, thoughts: bool) -> int:
    """Return the estimated bytes of a message in a request; `kept` are the characters of a result that are sent."""
    is_without_call = event.kind == "tool_result" and event.answers is None
    if is_without_call or (config.isolation and is_foreign(event, dialect)):
        return 0  # it is not sent
    kept = kept if config.truncation else len(event.content)
    size = weight(event.kind, event.content, event.data, event.interrupted, event.id, kept, config.truncate_shape)
    blocks = (event.data or {}).get("blocks")
    if not blocks:
        return size
    if event.kind == "assistant" and (active or thoughts):  # blocks that the provider expects back
        for block in blocks if isinstance(blocks, list) else [blocks]:
            sent = {k: v for k, v in block.items() if k != BOUND} if isinstance(block, dict) else block
            size += len(msgspec.json.encode(sent)) + 1
    if event.kind == "tool_result" and active:
        size += sum(map(shown_bytes, media_of(event.data)[0]))
    return size


Make: TypeAlias = Callable[[int, int, int], Plan]
"""Returns the plan of a boundary that begins at a position, with the results of the active turn up to one event cut as
if the turn were over, and up to another one cut to nothing."""

MEASURED = 3
"""The number of requests that are measured to find a plan, unless none of them fits. In a step, the one that has
outgrown its room is the first."""

NEAR = 0.95
"""The share of low water from which on a window is large enough."""


def chosen(turns: Turns, room: Room, make: Make, kept: int = 0, *, step: bool = False) -> Plan:
    """Return the plan of a boundary: everything if it fits, otherwise the newest whole turns up to low water.

    A window that began at position `kept` is kept if it still fits and is not much smaller. In a `step`, everything
    goes down to low water, and a turn that is too large alone further, if low water would not last. The sizes of turns
    are estimates; each request that is measured corrects them.
    """
    if not turns.units.reach(1):
        return make(0, 0, 0)
    measured: dict[int, float] = {}
    scale, low, high = room.scale, room.low * NEAR, room.low / NEAR
    count = min(turns.count(kept), turns.within(inf)) if kept else _expected(turns, room, scale, step)
    while count not in measured and len(measured) < MEASURED - step:
        fill = measured[count] = room.fill(make(turns.first(count), 0, 0))
        scale = fill / turns.bytes(count)
        if turns.is_all(count) and fill <= (1 if not step else room.low if count > 1 else _target(turns, room, scale)):
            return make(turns.first(count), 0, 0)
        if count > 1 and low <= fill <= (1 if kept and len(measured) == 1 else high):
            return make(turns.first(count), 0, 0)
        count = _expected(turns, room, scale, step)
    fitting = [count for count, fill in measured.items() if fill <= 1]
    count = max((each for each in fitting if measured[each] <= high), default=min(fitting, default=min(measured)))
    while measured[count] > 1 and count > 1:
        count = min(count - 1, _expected(turns, room, scale, step))
        measured[count] = room.fill(make(turns.first(count), 0, 0))
        scale = measured[count] / turns.bytes(count)
    fill, most = measured[count], 1.0
    if count == 1 and (step or not turns.is_all(1)):
        most = _target(turns, room, scale) if step else high
    if fill <= most:
        return make(turns.first(count), 0, 0)
    return _cut(turns, room, make, scale, fill, len(measured) + step)


def _expected(turns: Turns, room: Room, scale: float, step: bool) -> int:
    """Return how many turns are expected to reach low water, or all if all are expected to fit and it is no `step`."""
    every = turns.within(1 / scale if scale else inf)
    return every if turns.is_all(every) and not (step and scale) else turns.within(room.low / scale)


AHEAD = 10
"""The number of further requests of a turn for which room is made when it has outgrown its room."""


LEAST = 0.4
"""A step never reduces a turn below this share of its room."""


def _target(turns: Turns, room: Room, scale: float) -> float:
    """Return the share of the room to which a turn that has outgrown it is reduced: low water, or less if low water
    would not last."""
    return min(room.low, max(LEAST, 1 - AHEAD * turns.exchange * scale))


def _cut(turns: Turns, room: Room, make: Make, scale: float, fill: float, measured: int) -> Plan:
    """Return the plan of the newest turn alone, which is too large, with its oldest results cut. `measured` is the
    number of requests that were measured before."""
    cuts, first, target = turns.cuts(), turns.first(1), _target(turns, room, scale)
    plan, count = make(first, 0, 0), 0
    while fill > target and count < len(cuts):
        over = (fill - target) / scale
        while count < len(cuts) and over > 0:
            over, count = over - cuts[count][2], count + 1
        plan = make(first, *cuts[count - 1][:2])
        before, fill, measured = fill, room.fill(plan), measured + 1
        if (measured >= MEASURED and fill <= 1) or before - fill >= (before - target) / 2:
            break
    return plan


def steady(
    previous: Plan | None,
    grown: Callable[[Plan], Plan] | None,
    turns: Callable[[], Turns],
    room: Room,
    make: Make,
    most: int = 0,
) -> Plan:
    """Return the next plan of the policy `steady`: the `previous` one, `grown` by the layers in front of new messages,
    as long as it fits and has at most `most` turns (0: any number); a new one at a boundary, for which there is no
    `grown`.

    If the newest turn alone does not fit, a new plan for it is used only if it makes room for many more requests, or if
    the model would refuse the request: what does not fit is sent, and the beginning of the request stays as it was.
    """
    if previous is None or grown is None or not previous.first:
        return chosen(turns(), room, make, previous.first if previous is not None else 0)
    plan = grown(previous)
    if most and turns().too_many(plan.first):
        return chosen(turns(), room, make)
    fill = room.fill(plan)
    if fill <= 1:
        return plan
    scale = fill / turns().sent(plan)
    anew = chosen(turns(), room._replace(scale=scale), make, step=True)
    after = room.fill(anew)
    if after <= 1 or anew.first > plan.first or (after < fill and room.refused(plan)):
        return anew
    return anew if fill - after >= 1 - _target(turns(), room, scale) else plan


def widest(
    turns: Turns,
    fill: Callable[[int], float],
    scale: float,
    late: int = 0,
    most: int | None = None,
    *,
    sure: bool = False,
    alone: float | None = None,
) -> int:
    """Return the largest number of turns, at least one and at most `most`, whose request fits: the first that does not
    fit ends the window [S3]. `scale` is the share that a byte fills (0: everything fits); the messages of the newest
    turn that do not count have `late` bytes. If `sure`, requests differ by their turns only and are measured in bytes,
    so that those that were measured tell of others whether they fit. `alone` is the share of the newest turn if it was
    measured. More turns than one are never returned without having been measured."""
    if not scale:
        return turns.within(inf)
    fits, fails = 1, None if most is None else most + 1
    whole, left = 1 / scale, {} if alone is None else {1: (1 - alone) / scale}
    while True:
        fits, fails = _proven(turns, left, fits, fails) if sure else (fits, fails)
        is_found = turns.is_all(fits) or fails == fits + 1
        if is_found and (fits == 1 or fits in left):
            return fits
        count = fits if is_found else _likely(turns, left, whole, late, fits, fails)
        left[count] = (1 - fill(count)) / scale
        if left[count] >= 0:
            fits = count
        else:
            fails = count
            if is_found:  # what another wire adds is not known
                sure, fits = False, max((number for number, bytes in left.items() if bytes >= 0), default=1)


def _proven(turns: Turns, left: dict[int, float], fits: int, fails: int | None) -> tuple[int, int | None]:
    """Return how many turns surely fit, and from how many on they surely do not (None: not known); `left` are the bytes
    that the measured numbers of turns leave."""
    while fails != fits + 1 and not turns.is_all(fits):
        more = [(turns.between(count, fits + 1), bytes) for count, bytes in left.items()]
        if any(each.least > bytes for each, bytes in more):
            return fits, fits + 1
        if not any(each.most <= bytes for each, bytes in more):
            break
        fits += 1
    while fails is not None and fails > fits + 1:
        if not any(turns.between(count, fails - 1).least > bytes for count, bytes in left.items()):
            break
        fails -= 1
    return fits, fails


def _likely(turns: Turns, left: dict[int, float], whole: float, late: int, fits: int, fails: int | None) -> int:
    """Return how many turns are likely to fit, at least one more than `fits`, by the bytes that the measured numbers of
    turns leave of the `whole`; before anything is measured, by what turns are likely to have."""
    known = sorted(left, key=lambda count: abs(left[count]))[:2]
    measured = known[0] if known else 1
    rest = left.get(measured, whole + late - turns.likely(1))
    share = 1.0
    if len(known) == 2 and turns.likely(known[1]) != turns.likely(measured):
        share = (left[known[1]] - rest) / (turns.likely(measured) - turns.likely(known[1]))
    elif measured > 1:
        share = (whole - rest) / max(1, turns.likely(measured) - late)
    count = fits + 1
    while count + 1 != fails and not turns.is_all(count):
        if (turns.likely(count + 1) - turns.likely(measured)) * share > rest:
            break
        count += 1
    return count
