"""Foldmark's two policies for the simulator [SPEC 5.3, 5.7].

`Windowing` itself decides where the window begins; here it measures pieces instead of whole requests. From there a
request grows as in `steady`, with the same pure functions. Each piece is measured once, so the cost of a request grows
only with its new pieces.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import compress, islice, pairwise

from msgspec import Struct

from foldmark.core.assembly import prompt as prompts
from foldmark.core.assembly.eviction import begins
from foldmark.core.assembly.growth import Reach, Sizes, advanced, entering_weight, layers_weight, lowered, room_for
from foldmark.core.assembly.view import active_from
from foldmark.core.assembly.window import Unit, Units
from foldmark.core.events import OPENING_KINDS, Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import Part
from foldmark.core.segments import END, Segment, since, until
from foldmark.cost.history import CostItem, Group, Pieces, ReplayedContext
from foldmark.request.sources import Pinned, Sources
from foldmark.request.standing import Standing, as_of
from foldmark.request.steady import SHAPING, boundary
from foldmark.request.windowing import Windowing


class Sender:
    """Builds the requests of one conversation under a policy, as items. `limit` is the maximum number of tokens that
    the model accepts."""

    def __init__(self, moment: Snapshot, pieces: Pieces, limit: int | None = None) -> None:
        self.moment = moment
        self.pieces, self.config, self.limit = pieces, pieces.config, limit
        self.ruler = pieces.ruler
        self._turns: dict[int, tuple[list[CostItem], int]] = {}

    def items(self, now: ReplayedContext) -> list[CostItem]:
        """Return the items of the request, the head first. Call this for every request, in order."""
        raise NotImplementedError

    def request(self, now: ReplayedContext) -> list[CostItem]:
        """Return the items with the frame that `prompt.assemble` puts around them for providers."""
        head, *items = self.items(now)
        if not items:
            return [head, self.pieces.note(prompts.EMPTY)]
        front = [self.pieces.note(prompts.OMITTED)] if items[0].roles[0] == "assistant" else []
        end = [self.pieces.note(prompts.GO_ON)] if items[-1].roles[1] == "assistant" else []
        return [head, *front, *items, *end]

    def size(self, items: Sequence[CostItem], marks: int = 3) -> int:
        """Return the bytes of a request with `marks` breakpoints among its messages; the first item is its head."""
        return self.added(items) + marks * self.pieces.mark - (len(items) > 1)

    def added(self, items: Sequence[CostItem]) -> int:
        """Return the bytes that adjacent items add to a request."""
        sent = [item for item in items if item.blocks]  # thinking that is left out leaves no item
        return sum(item.size for item in sent) + sum(map(self.pieces.seam, sent, sent[1:]))

    def sources(self, now: ReplayedContext, at: Standing) -> Sources:
        # The layer about children is not replayed.
        tools = [tool.name for tool in self.pieces.target.tools]
        return Sources(self.moment, at, self.config, tools=tools, answers=False, read=now.read)

    def over(self, groups: Sequence[Group], now: ReplayedContext) -> list[CostItem]:
        return [self.pieces.over(group, now.at.fold.evicted) for group in groups]

    def unit_over(self, now: ReplayedContext, unit: Unit) -> tuple[list[CostItem], int]:
        """Return the items of a turn that is over, and the bytes that they add."""
        if unit.opener not in self._turns:
            places = sorted({now.places[event.id] for event in unit.events if event.id in now.places})
            items = self.over([now.groups[place] for place in places], now)
            self._turns[unit.opener] = items, self.added(items)
        return self._turns[unit.opener]

    def shown(
        self, groups: Sequence[Group], now: ReplayedContext, since: int, settled: int = END, oldest: int = 0
    ) -> Iterator[CostItem]:
        """Yield groups as they are sent at event `settled`. From turn `since` on, the age of a result decides how it is
        cut (`view.tiers`)."""
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

    def measured(self, window: "PieceWindowing", count: int, pins: Sequence[Pinned]) -> int:
        """Return the bytes of a request with the newest `count` units and these pins."""
        raise NotImplementedError

    def pinned(self, now: ReplayedContext, pins: Sequence[Pinned], turns: Collection[int | None]) -> list[CostItem]:
        """Return the pinned turns that are not among `turns`; they precede the window."""
        outside = {pin.turn for pin in pins}.difference(turns)
        return self.over([group for group in now.groups if group.first.turn_id in outside], now)

    @property
    def budget(self) -> int:
        return self.config.sliding_context_tokens


class EagerSender(Sender):
    """Builds each request independently of the one before [S2, S3]: the newest whole turns that fit the budget when the
    newest turn is opened."""

    def __init__(self, moment: Snapshot, pieces: Pieces, limit: int | None = None) -> None:
        super().__init__(moment, pieces, limit)
        self._front: list[CostItem] = []
        self._aged: list[CostItem] = []
        self._since = self._active = 0

    def items(self, now: ReplayedContext) -> list[CostItem]:
        if now.opened or not now.plain or not now.old:
            self._cut(now)
        self._age(now)
        groups = now.groups[self._active + len(self._aged) :]
        return [*self._front, *self._aged, *self.shown(groups, now, self._since)]

    def _age(self, now: ReplayedContext) -> None:
        """Add the messages that no longer change during the turn, that is, those before the recent results."""
        newest = (each for group in reversed(now.groups[self._active :]) for each in reversed(group.results))
        recent = set(islice(newest, self.config.truncate_recent_count))
        for group in now.groups[self._active + len(self._aged) :]:
            if not recent.isdisjoint(group.results):
                break
            active, evicted = _is_active(group, self._since), now.at.fold.evicted
            self._aged.append(self.pieces.active(group, evicted, 0) if active else self.pieces.over(group, evicted))

    def _cut(self, now: ReplayedContext) -> None:
        """Compute the window. Older turns stay the same for the whole turn."""
        if not now.plain or not now.old:
            self._turns = {}
        sources = self.sources(now, now.at)
        self._aged, self._since, self._active = [], 0, 0
        head = self.pieces.head(sources.now, anchors=True)
        if not sources.units.reach(1):
            self._front = [head]
            return
        settled, newest = sources.settled, sources.units[0]
        self._since, self._active = active_from(newest.events), now.first(newest)
        window = PieceWindowing(self, now, sources, [group for group in now.groups if begins(group.first) <= settled])
        count = window.cut().units
        older = [item for index in range(count - 1, 0, -1) for item in self.unit_over(now, sources.units[index])[0]]
        self._front = [head, *self.pinned(now, window.kept, window.turns(count)), *older]

    def measured(self, window: "PieceWindowing", count: int, pins: Sequence[Pinned]) -> int:
        units, now = window.units, window.now
        head = self.pieces.head(window.sources.then, anchors=True)
        newest = list(self.shown(window.groups[now.first(units[0]) :], now, self._since))
        front = self.pinned(now, pins, window.turns(count))
        older = [self.unit_over(now, units[index]) for index in range(count - 1, 0, -1)]
        size = self.size([head, *front, *newest]) + sum(bytes for _, bytes in older)
        ends = [each for each in (front, *(items for items, _ in older), newest) if each]
        seams = sum(self.pieces.seam(before[-1], after[0]) for before, after in pairwise(ends))
        return size + seams - (self.pieces.seam(front[-1], newest[0]) if front and newest else 0)


class SteadySender(Sender):
    """Sends the same beginning, and new messages, from one boundary to the next [SPEC 5.7]. With `ends`, the end of a
    turn is a boundary as well."""

    ends = False
    notes = True

    def __init__(self, moment: Snapshot, pieces: Pieces, limit: int | None = None) -> None:
        super().__init__(moment, pieces, limit)
        self._settled = -1
        self._items: list[CostItem] = []
        self._window: list[Event] = []
        self._pins: list[Pinned] = []
        self._size: float = 0
        self._quiet = False
        self._shown, self._weighed, self._sizes = _Reported(), _Reported(), Sizes(self.config)

    def items(self, now: ReplayedContext) -> list[CostItem]:
        same = now.plain and now.old > 0
        if not same:
            self._quiet = False
        opened = 0
        if self.ends:
            opened = now.turn or 0
        elif now.opened or not same:
            opened = PieceWindowing(self, now, self.sources(now, now.at)).opened()
        if not same or opened > self._settled:
            settled = boundary(self.moment, now.at, self.moment.since(now.at.record.id, opened, SHAPING))
            if settled != self._settled or not now.old:
                self._begin(now, settled)
                return self._items
        self._go_on(now, now.groups[now.old :])
        return self._items

    def _begin(self, now: ReplayedContext, settled: int) -> None:
        """Compute the window as of a boundary, and add the messages since then."""
        groups = [group for group in now.groups if group.events[-1].id <= settled]
        then = as_of(self.moment, now.at, settled)
        self._settled, self._then = settled, self.sources(now, then)
        # A new calibration takes effect at the next boundary.
        self.ruler = self.pieces.calibrated(then.config.calibration)
        window, units = PieceWindowing(self, now, self._then, groups), self._then.units
        count = window.cut().units
        begin = now.first(units[count - 1]) if count else len(groups)
        self._window, self._pins = units.newest(count), window.kept if count else []
        self._make(now, groups[begin:], settled)
        self._weighed = self._shown.copy()
        self._size = self.size(self._items)
        self._go_on(now, [group for group in now.groups if group.events[-1].id > settled])

    def _make(self, now: ReplayedContext, groups: Sequence[Group], settled: int, oldest: int = 0) -> None:
        turns = {group.first.turn_id for group in groups}
        since = active_from(event for group in groups for event in group.events if event.id <= settled)
        layers = (
            self._then if settled == self._settled else self.sources(now, as_of(self.moment, now.at, settled))
        ).now
        self._shown = _Reported(settled, {layer.memo for layer in layers if layer.memo is not None})
        anchors = prompts.joined(layer for layer in layers if self.notes and layer.layer in prompts.ANCHORS)
        active = next((index for index, group in enumerate(groups) if _is_active(group, since)), len(groups))
        shown = list(self.shown(groups, now, since, settled, oldest))
        if anchors:
            shown.insert(active, self.pieces.note(anchors))
        self._items = [self.pieces.head(layers, anchors=False), *self.pinned(now, self._pins, turns), *shown]

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
        """Add messages by their weights, with the steps that `growth.advanced` finds. Return the event up to which a
        step rebuilt the request, or 0 without a step."""
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
        """Return the weight in bytes of the new layers before a message, even if a step already included some of
        them."""
        return layers_weight(self._news(now, opener, self._weighed))

    def _news(self, now: ReplayedContext, opener: Event, reported: "_Reported") -> list[Part]:
        """Return the layers of a state, a scratchpad and memos that are new since the last turn was opened."""
        if not self.notes:
            return []
        state = scratchpad = None
        if not self._quiet:
            own = (Segment(now.at.record.id, reported.until + 1, opener.id),)
            new = since(until(now.at.visible, opener.id), reported.until + 1)
            state, scratchpad = self.moment.newest("state", new), self.moment.newest("scratchpad", own)
        (picked,) = self._then.picked([opener])
        layers = self._then.news(picked, state, scratchpad, reported.memos)
        reported.memos |= {layer.memo for layer in layers if layer.memo is not None}
        reported.until = opener.id
        return layers

    def measured(self, window: "PieceWindowing", count: int, pins: Sequence[Pinned]) -> int:
        head, units, now = self.pieces.head(self._then.now, anchors=True), window.units, window.now
        groups = window.groups[now.first(units[count - 1]) :]
        shown = self.shown(groups, now, active_from(units.newest(count)))
        return self.size([head, *self.pinned(now, pins, window.turns(count)), *shown])


class _Reported(Struct):
    """The event up to which changes were reported, and the memos that were picked."""

    until: int = 0
    memos: set[int] = set()

    def copy(self) -> "_Reported":
        return _Reported(self.until, set(self.memos))


class PieceWindowing(Windowing):
    """Decides where the window begins, as for a request, but measures requests by the pieces of a sender. `groups` are
    those up to the event at which the window is measured."""

    def __init__(self, sender: Sender, now: ReplayedContext, sources: Sources, groups: Sequence[Group] = ()) -> None:
        super().__init__(sources, sender.config, sender.pieces.target, None)
        self.sender, self.now, self.sources, self.groups, self.ruler = sender, now, sources, groups, sender.ruler

    @property
    def units(self) -> Units:
        """The visible turns, newest first."""
        return self.sources.units

    def turns(self, count: int) -> set[int | None]:
        """Return the turns of the newest `count` units."""
        return self._turns(count)

    def measured(self, count: int, pins: Sequence[Pinned]) -> int:
        return self.sender.measured(self, count, pins)

    def _measured(self, count: int) -> int:
        return self.measured(count, self.kept)

    def fixed(self) -> int:
        return self.sender.pieces.head(self.sources.without_anchors, anchors=False, alone=True).size

    def _rough(self, unit: Unit) -> int:
        return self.sender.unit_over(self.now, unit)[1]


def _opens(event: Event) -> bool:
    """Return True if this event of the user's side opened a turn."""
    return event.kind in OPENING_KINDS and event.id == event.turn_id


def _is_active(group: Group, since: int) -> bool:
    first = group.first
    return begins(first) >= first.id and first.turn_id is not None and first.turn_id >= since
