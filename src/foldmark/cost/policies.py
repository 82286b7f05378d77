"""Foldmark's two policies for the simulator [SPEC 5.3, 5.7].

They decide as `windowing` and `steady` do, with the same pure functions. Each piece is measured once, so that the cost
of a request grows only with its new pieces.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, compress, islice

from msgspec import Struct

from foldmark.core.assembly import prompt as prompts
from foldmark.core.assembly.eviction import begins
from foldmark.core.assembly.growth import Reach, Sizes, advanced, entering_weight, layers_weight, lowered, room_for
from foldmark.core.assembly.prompt import Layer
from foldmark.core.assembly.view import active_from
from foldmark.core.assembly.window import Steps, Unit, Units, in_steps
from foldmark.core.assembly.wire import weigh
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.segments import END, Segment, since, until
from foldmark.cost.history import Group, Item, Pieces, ReplayedContext, Span
from foldmark.request.sources import Sources
from foldmark.request.standing import Standing, as_of
from foldmark.request.steady import SHAPING, boundary
from foldmark.request.windowing import RESERVE


class Sender:
    """Makes a policy's requests of one conversation, as items; `limit` is the tokens that the model takes."""

    def __init__(self, moment: Snapshot, pieces: Pieces, limit: int | None = None) -> None:
        self.moment = moment
        self.pieces, self.config, self.limit = pieces, pieces.config, limit
        self.ruler = pieces.ruler

    def items(self, now: ReplayedContext) -> list[Item]:
        """Return the present request, its head first. Call it for every request, in order."""
        raise NotImplementedError

    def request(self, now: ReplayedContext) -> list[Item]:
        """Return the items with the frame that `prompt.assemble` puts around them for providers."""
        head, *items = self.items(now)
        if not items:
            return [head, self.pieces.note(prompts.EMPTY)]
        front = [self.pieces.note(prompts.OMITTED)] if items[0].roles[0] == "assistant" else []
        end = [self.pieces.note(prompts.GO_ON)] if items[-1].roles[1] == "assistant" else []
        return [head, *front, *items, *end]

    def size(self, items: Sequence[Item], marks: int = 3) -> int:
        """Return the bytes of a request with `marks` breakpoints among its messages; the first item is its head."""
        return self.added(items) + marks * self.pieces.mark - (len(items) > 1)

    def added(self, items: Sequence[Item]) -> int:
        """Return the bytes that adjacent items add to a request."""
        sent = [item for item in items if item.blocks]  # thinking that is left out leaves no item
        return sum(item.size for item in sent) + sum(map(self.pieces.seam, sent, sent[1:]))

    def sources(self, at: Standing) -> Sources:
        # The layer about children is not replayed.
        tools = [tool.name for tool in self.pieces.target.tools]
        return Sources(self.moment, at, self.config, tools=tools, answers=False)

    def over(self, groups: Sequence[Group], now: ReplayedContext) -> list[Item]:
        return [self.pieces.over(group, now.at.fold.evicted) for group in groups]

    def shown(
        self, groups: Sequence[Group], now: ReplayedContext, since: int, settled: int = END, oldest: int = 0
    ) -> Iterator[Item]:
        """Yield groups as they are sent at event `settled`: those from turn `since` on with results by age
        (`view.tiers`)."""
        active = [_is_active(group, since) for group in groups]
        results = sorted(each for group in compress(groups, active) for each in group.results)
        new = bisect_right(results, settled)
        recent = results[max(0, new - self.config.truncate_recent_count) :]
        least, over = (recent or [END])[0], (results[oldest:] or [END])[0]
        for group, is_active in zip(groups, active, strict=True):
            if not is_active:
                yield self.pieces.over(group, now.at.fold.evicted)
            else:
                newer = len(group.results) - bisect_left(group.results, least)
                yield self.pieces.active(group, now.at.fold.evicted, newer, bisect_left(group.results, over))

    def pinned(
        self, now: ReplayedContext, newest: Sequence[Item], turns: Collection[int | None]
    ) -> dict[int, list[Item]]:
        """Return the pinned turns in front that are not in the window and fit beside the newest turn; `newest` is the
        request of that turn alone, `turns` are those that it holds."""
        pins = sorted(set(now.at.fold.pins).difference(turns))
        found = {turn: self.over([g for g in now.groups if g.first.turn_id == turn], now) for turn in pins}
        size = self.size(newest) + sum(map(self.added, found.values()))
        for turn in pins:
            if self.budget and self.ruler.tokens(size) > self.budget:
                size -= self.added(found.pop(turn))
        return found

    @property
    def budget(self) -> int:
        return self.config.sliding_context_tokens


class EagerSender(Sender):
    """Makes each request anew [S2, S3]: the newest whole turns that fit the budget when the newest one is opened."""

    def __init__(self, moment: Snapshot, pieces: Pieces, limit: int | None = None) -> None:
        super().__init__(moment, pieces, limit)
        self._front: list[Item] = []
        self._turns: dict[int, tuple[list[Item], int]] = {}
        self._aged: list[Item] = []
        self._since = self._active = 0

    def items(self, now: ReplayedContext) -> list[Item]:
        if now.opened or not now.plain or not now.old:
            self._cut(now)
        self._age(now)
        groups = now.groups[self._active + len(self._aged) :]
        return [*self._front, *self._aged, *self.shown(groups, now, self._since)]

    def _age(self, now: ReplayedContext) -> None:
        """Add messages that no longer change while the turn lasts: those in front of the recent results."""
        newest = (each for group in reversed(now.groups[self._active :]) for each in reversed(group.results))
        recent = set(islice(newest, self.config.truncate_recent_count))
        for group in now.groups[self._active + len(self._aged) :]:
            if not recent.isdisjoint(group.results):
                break
            active, evicted = _is_active(group, self._since), now.at.fold.evicted
            self._aged.append(self.pieces.active(group, evicted, 0) if active else self.pieces.over(group, evicted))

    def _cut(self, now: ReplayedContext) -> None:
        """Compute the window. Older turns stay the same for the whole turn."""
        self._aged, self._since, self._active = [], 0, 0
        if not now.plain or not now.old:
            self._turns = {}
        older: list[list[Item]] = []
        turns, pins = set[int | None](), dict[int, list[Item]]()
        if not now.spans:
            head = self.pieces.head(self.sources(now.at).now, anchors=True)
        else:
            newest, *rest = reversed(now.spans)
            settled, end = newest.unit.settled, newest.begin
            self._since, self._active = active_from(newest.unit.events), end
            then = [group for group in now.groups[end:] if begins(group.first) <= settled]
            head = self.pieces.head(self.sources(as_of(self.moment, now.at, settled)).now, anchors=True)
            before = [head, *self.shown(then, now, self._since)]
            turns = set(newest.unit.turns)
            pins = self.pinned(now, before, turns)
            size, before = self.size(before) + sum(map(self.added, pins.values())), before[1:]
            for span in rest[: self.config.context_size - 1 if self.config.context_size else None]:
                items, bytes = self._over(now, span, end)
                size += bytes + (self.pieces.seam(items[-1], before[0]) if items and before else 0)
                size -= sum(self.added(pins[turn]) for turn in span.unit.turns if turn in pins)
                if self.budget and self.pieces.ruler.tokens(size) > self.budget:
                    break
                older.append(items)
                turns |= set(span.unit.turns)
                before, end = items or before, span.begin
            if settled < now.at.newest:
                head = self.pieces.head(self.sources(now.at).now, anchors=True)
        self._front = [head, *_others(pins, turns), *chain.from_iterable(reversed(older))]

    def _over(self, now: ReplayedContext, span: Span, end: int) -> tuple[list[Item], int]:
        if span.unit.opener not in self._turns:
            items = self.over(now.groups[span.begin : end], now)
            self._turns[span.unit.opener] = items, self.added(items)
        return self._turns[span.unit.opener]


class SteadySender(Sender):
    """Sends the same beginning, and new messages, from one boundary to the next [SPEC 5.7]. With `ends`, the end of a
    turn is a boundary as well."""

    ends = False
    notes = True

    def __init__(self, moment: Snapshot, pieces: Pieces, limit: int | None = None) -> None:
        super().__init__(moment, pieces, limit)
        self._settled = -1
        self._items: list[Item] = []
        self._window: list[Event] = []
        self._pins: dict[int, list[Item]] = {}
        self._size: float = 0
        self._reserved, self._quiet = 0, False
        self._shown, self._weighed, self._sizes = _Told(), _Told(), Sizes(self.config)

    def items(self, now: ReplayedContext) -> list[Item]:
        same = now.plain and now.old > 0
        if not same:
            self._quiet, self._reserved = False, 0
        opened = (now.turn or 0) if self.ends else self._opened(now) if now.opened or not same else 0
        if not same or opened > self._settled:
            settled = boundary(self.moment, now.at, self.moment.since(now.at.record.id, opened, SHAPING))
            if settled != self._settled or not now.old:
                self._begin(now, settled)
                return self._items
        self._go_on(now, now.groups[now.old :])
        return self._items

    def _begin(self, now: ReplayedContext, settled: int) -> None:
        """Compute the window as of a boundary, and what came since."""
        before = [event for event in now.events if event.id <= settled]
        units, groups = Units(reversed(before)), [group for group in now.groups if group.events[-1].id <= settled]
        then = as_of(self.moment, now.at, settled)
        self._settled, self._then = settled, self.sources(then)
        # A calibration waits for the next boundary.
        self.ruler = self.pieces.calibrated(then.config.calibration)
        count = self._count(now, units, groups)
        begin = self._first(now, units[count - 1]) if count else len(groups)
        self._window = units.newest(count)
        self._make(now, groups[begin:], settled)
        self._weighed = self._shown.copy()
        self._size = self.size(self._items)
        self._go_on(now, [group for group in now.groups if group.events[-1].id > settled])

    def _first(self, now: ReplayedContext, unit: Unit) -> int:
        """Return the first group of a turn."""
        found = (now.places[event.id] for event in unit.events if event.id in now.places)
        return min(found, default=len(now.groups))

    def _make(self, now: ReplayedContext, groups: Sequence[Group], settled: int, oldest: int = 0) -> None:
        turns = {group.first.turn_id for group in groups}
        since = active_from(event for group in groups for event in group.events if event.id <= settled)
        layers = (self._then if settled == self._settled else self.sources(as_of(self.moment, now.at, settled))).now
        self._shown = _Told(settled, {layer.memo for layer in layers if layer.memo is not None})
        anchors = prompts.joined(layer for layer in layers if self.notes and layer.layer in prompts.ANCHORS)
        active = next((index for index, group in enumerate(groups) if _is_active(group, since)), len(groups))
        shown = list(self.shown(groups, now, since, settled, oldest))
        if anchors:
            shown.insert(active, self.pieces.note(anchors))
        self._items = [self.pieces.head(layers, anchors=False), *_others(self._pins, turns), *shown]

    def _go_on(self, now: ReplayedContext, groups: Sequence[Group]) -> None:
        new = sorted((e for group in groups for e in group.events if e.id > self._settled), key=lambda event: event.id)
        settled = self._grow(now, new)
        for group in groups:
            if group.events[-1].id > settled:
                if _opens(group.first) and (layers := self._news(now, group.first, self._shown)):
                    self._items.append(self.pieces.note(prompts.joined(layers)))
                self._items.append(self.pieces.active(group, now.at.fold.evicted))
        if any(_opens(event) for event in new):
            self._quiet = now.plain

    def _grow(self, now: ReplayedContext, new: Sequence[Event]) -> int:
        """Add messages by their weights, in steps as `growth.advanced` finds them; return the event up to which the
        request was made anew by that, 0 if it was not."""
        if not self.budget and self.limit is None:
            return 0
        beside = {event.id: self._beside(now, event) for event in new if _opens(event)}
        weights, taken = [entering_weight(event, self.config) for event in new], 0
        newest = self.pieces.calibrated(now.at.config.calibration).ratio if self.limit else 0
        most = room_for(self.budget, self.limit, self.ruler.ratio, newest)
        if self._size + sum(weights) + sum(beside.values()) > most:
            steps = list[Reach]()

            def lower(events: Sequence[Event]) -> tuple[Reach, int]:
                nonlocal taken
                self._window += events[taken:]
                taken = len(events)
                reach, self._size = self._lowered(most)
                steps.append(reach)
                return reach._replace(cut=0), self._size

            advanced(new, Reach(0, self._settled), self._size, lambda _: most, self.config, lower, beside)
            if steps:
                self._remake(now, steps[-1])
        self._window += new[taken:]
        self._size += sum(weights[taken:]) + sum(beside.get(event.id, 0) for event in new[taken:])
        return new[taken - 1].id if taken else 0

    def _lowered(self, room: float) -> tuple[Reach, int]:
        fixed = self.pieces.head(self._then.now, anchors=True, alone=True).size
        self._window.sort(key=lambda event: event.id)
        reach, size = lowered(self._window, room * self.config.sliding_context_low_water, fixed, self._sizes)
        self._window = self._window[reach.cut :]
        return reach, size

    def _remake(self, now: ReplayedContext, reach: Reach) -> None:
        left = {event.id for event in self._window}
        self._make(now, [group for group in now.groups if group.first.id in left], reach.settled, reach.oldest)

    def _beside(self, now: ReplayedContext, opener: Event) -> int:
        """Return the weight in bytes of new layers in front of a message, although a step may have included some of
        them."""
        return layers_weight(self._news(now, opener, self._weighed))

    def _news(self, now: ReplayedContext, opener: Event, told: "_Told") -> list[Layer]:
        """Return a state, a scratchpad and memos that came since the last turn was opened."""
        if not self.notes:
            return []
        state = scratchpad = None
        if not self._quiet:
            own = (Segment(now.at.record.id, told.upto + 1, opener.id),)
            new = since(until(now.at.visible, opener.id), told.upto + 1)
            state, scratchpad = self.moment.newest("state", new), self.moment.newest("scratchpad", own)
        (picked,) = self._then.picked([opener])
        layers = self._then.news(picked, state, scratchpad, told.memos)
        told.memos |= {layer.memo for layer in layers if layer.memo is not None}
        told.upto = opener.id
        return layers

    # The window, by the weights of turns

    def _steps(self, now: ReplayedContext, total: int) -> Steps:
        step = max(1, round((1 - self.config.sliding_context_low_water) * self.budget))
        if not self._reserved:
            alone = self.pieces.head(self.sources(now.at).without_anchors, anchors=False, alone=True).size
            self._reserved = self.pieces.plain.tokens(alone) + min(RESERVE, self.budget // 4)
        return Steps(step, self.budget - self._reserved, self.pieces.plain.tokens(total))

    def _opened(self, now: ReplayedContext) -> int:
        """Return the turn at which the window's beginning moved last, as `Windowing.opened`."""
        if not now.spans or not self.budget or self.config.context_size:
            return now.spans[-1].unit.opener if now.spans and self.config.context_size else 0
        upto, spans, tokens = [0, *(span.upto for span in now.spans)], now.spans, self.pieces.plain.tokens
        steps, index = self._steps(now, upto[-1]), len(spans) - 1
        if (total := tokens(upto[index] + weigh(spans[index].unit.events[0]))) <= steps.room:
            return 0
        least = steps.room + (total - steps.room - 1) // steps.step * steps.step
        while index and tokens(upto[index - 1] + weigh(spans[index - 1].unit.events[0])) > least:
            index -= 1
        return now.spans[index].unit.opener

    def _count(self, now: ReplayedContext, units: Units, groups: Sequence[Group]) -> int:
        """Return the number of units in the window at a boundary."""
        turns, self._pins = self.config.context_size, {}
        if not units.reach(1):
            return 0
        head, newest = self.pieces.head(self._then.now, anchors=True), units[0]
        alone = self.shown(groups[self._first(now, newest) :], now, active_from(newest.events))
        self._pins = self.pinned(now, [head, *alone], newest.turns)
        if not self.budget:
            return min(turns or units.all(), units.all())
        then = [span for span in now.spans if span.unit.opener <= self._settled]
        before = [0, *(span.upto for span in then)]
        before[-1] -= sum(weigh(event) for event in then[-1].unit.events if event.id > self._settled)

        def fits(count: int) -> bool:
            window = groups[self._first(now, units[count - 1]) :]
            pins = _others(self._pins, {turn for index in range(count) for turn in units[index].turns})
            items = [head, *pins, *self.shown(window, now, active_from(units.newest(count)))]
            return self.ruler.tokens(self.size(items)) <= self.budget

        def in_front(count: int) -> int:
            return self.pieces.plain.tokens(before[-count - 1])

        return in_steps(units, turns, self._steps(now, before[-1]), in_front, fits).units


class _Told(Struct):
    """The event up to which changes were reported, and the memos that were picked."""

    upto: int = 0
    memos: set[int] = set()

    def copy(self) -> "_Told":
        return _Told(self.upto, set(self.memos))


def _others(pins: Mapping[int, list[Item]], turns: Collection[int | None]) -> list[Item]:
    """Return pinned turns that are not among these."""
    return [item for turn, items in pins.items() if turn not in turns for item in items]


def _opens(event: Event) -> bool:
    """Return True if a person opened a turn with this event."""
    return event.kind == "user" and event.id == event.turn_id


def _is_active(group: Group, since: int) -> bool:
    first = group.first
    return begins(first) >= first.id and first.turn_id is not None and first.turn_id >= since
