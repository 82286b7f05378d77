"""The requests of a recorded conversation under one policy, as pieces [SPEC 5.3, 5.7].

The plan of each is the one that a live agent would make, from the plan of the request before. Only what it is measured
by differs: the sizes of pieces, each encoded once, so the cost of a request grows only with its new messages.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec import structs

from foldmark.core.assembly import prompt as prompts
from foldmark.core.assembly.eviction import begins
from foldmark.core.assembly.view import Age, active_from
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import Plan
from foldmark.core.segments import END
from foldmark.cost.history import CostItem, Form, Group, Pieces, ReplayedContext, groups_of
from foldmark.request.material import Material, ReadOnce, opened_after
from foldmark.request.planned import Planner, Requests, thinking_stays
from foldmark.request.recorded import SentPlan
from foldmark.request.standing import Standing, once


class Items(NamedTuple):
    """The items of a plan, the head first; how many groups of the context it knows, and the first active turn. `front`
    are the numbers of items and of groups before that turn."""

    plan: Plan
    items: list[CostItem]
    groups: int
    since: int
    front: tuple[int, int] = (0, 0)


class Replay:
    """Builds the requests of one conversation under a policy, as items. `limit` is the maximum number of tokens that
    the model accepts. Without `notes`, state, scratchpad and memos are not sent."""

    notes = True

    def __init__(self, moment: Snapshot, pieces: Pieces, limit: int | None = None) -> None:
        self.moment, self.pieces, self.limit = moment, pieces, limit
        self.before: SentPlan | None = None
        self.made = Items(Plan(), [], 0, 0)
        self.heads: dict[tuple[int, ...], str] = {}
        self.weights: dict[tuple[int, int, bool], int] = {}
        self.over: dict[Group, CostItem] = {}
        """The groups of finished turns, as they are sent while nothing of them is evicted."""

    def items(self, now: ReplayedContext) -> list[CostItem]:
        """Return the items of the request, the head first. Call this for every request, in order."""
        planner = ReplayedPlanner(self, now)
        plan = planner.next(self.limit)
        self.before = SentPlan(plan, now.at.newest, now.at.record.id)
        self.made = planner.pieces_of(plan)
        return self.made.items

    def request(self, now: ReplayedContext) -> list[CostItem]:
        """Return the items with the frame that providers demand."""
        return self.pieces.framed(self.items(now))


class ReplayedMaterial(Material):
    """What a replayed request is made from; the layer about children is not replayed."""

    def __init__(self, replay: Replay, now: ReplayedContext) -> None:
        pieces, self._now, self._notes_sent = replay.pieces, now, replay.notes
        tools, thoughts = (
            [tool.name for tool in pieces.target.tools],
            thinking_stays(pieces.config, pieces.target.options),
        )
        super().__init__(replay.moment, now.at, pieces.config, pieces.target.dialect, tools=tools, thoughts=thoughts)
        self.weights = replay.weights

    @once
    def messages(self) -> ReadOnce[Event]:
        """Return the visible messages, newest first."""
        return ReadOnce(reversed(self._now.events))

    def _since(self, first: int) -> list[Event]:
        return self._held(first)

    def opened_after(self, first: int, event_id: int) -> Event | None:
        """Return the newest message that opened a turn after an event; the window is not listed for it."""
        return opened_after(self.messages, event_id)

    def anchors(
        self, at: Standing, opener: Event | None, first: int, recorded: int = END
    ) -> dict[str, tuple[int, ...]]:
        """Return the layers in front of a turn."""
        return super().anchors(at, opener, first, recorded) if self._notes_sent else {}


class ReplayedPlanner(Planner):
    """Finds the plan of a replayed request."""

    def __init__(self, replay: Replay, now: ReplayedContext) -> None:
        self._replay, self._now, self._pieces = replay, now, replay.pieces
        super().__init__(
            ReplayedMaterial(replay, now), replay.pieces.target, answers=False, before=lambda *_: replay.before
        )
        self.ruler = replay.pieces.ruler
        self.pieces_of = Requests(now.at.newest, self._items)

    @once
    def head(self) -> str:
        """Return the hash of what precedes the messages; only `system` messages change it."""
        system = tuple(self._material.system)
        if system not in self._replay.heads:
            self._replay.heads[system] = super().head
        return self._replay.heads[system]

    def _size(self, plan: Plan, until: int = END) -> int:
        return self._pieces.size(self._pieces.framed(self.pieces_of(plan, until).items), hour=self._now.hour)

    def _items(self, plan: Plan, until: int) -> Items:
        before = self._replay.made
        same = bool(self._now.old) and before.groups == self._now.old and until == END
        if same and plan.settled < END and structs.replace(plan, later=before.plan.later) == before.plan:
            return self._extended(before, plan)
        if same and plan == before.plan and before.front[1] and not self._now.opened:
            return self._aged(before, plan)
        return self._whole(plan, until)

    def _extended(self, before: Items, plan: Plan) -> Items:
        """Return the items of a plan that only adds to the one before."""
        groups, items = self._now.groups[self._now.old :], [*before.items]
        for group in groups:
            items += self._later(plan, group) if group.first.id not in before.plan.later else ()
            kept = tuple((result, self._config.truncate_recent) for result in group.results)
            items.append(self._pieces.sent(group, self._form(group, before.since, kept)))
        return Items(plan, items, len(self._now.groups), before.since)

    def _aged(self, before: Items, plan: Plan) -> Items:
        """Return the items of a request that is made afresh in the same turn: only that turn is otherwise."""
        known, place = before.front
        groups = self._now.groups[place:]
        events = [event for group in groups for event in group.events]
        results = [event for event in events if event.kind == "tool_result"]
        limits = Age().kept(events, results, before.since, self._config)
        items = before.items[:known]
        items += [self._sent(group, before.since, limits) for group in groups]
        return Items(plan, items, len(self._now.groups), before.since, before.front)

    def _whole(self, plan: Plan, until: int) -> Items:
        material, config, pieces, known = self._material, self._config, self._pieces, self._now.groups
        start, end = (self._place(plan.first), self._place(until + 1)) if plan.first else (0, 0)
        window = material.window(plan.first)
        held = {event.turn_id for event in window} if plan.pins else ()
        front = [g for g in known if g.first.turn_id in plan.pins and g.first.turn_id not in held] if plan.pins else []
        pinned = (event for group in front for event in group.events)
        if plan.settled == END:
            # Made afresh, everything before the active turn is sent as in every other request, and nothing is unseen.
            newest = active_from(material.units[0].events if material.units.reach(1) else ())
            shown, since = list[Event](), newest or active_from(window if until < END else (*pinned, *window))
            over = max(start, self._place(since))
        else:
            # Also what is in no group, such as the result of a call that has left: it may have opened a turn.
            shown, over = [*pinned, *window], start
            since = Age(plan.settled).since(shown)
        groups = known[over:end]
        if any(event.id > until for group in groups for event in group.events):  # an answer opened the turn
            groups = groups_of(event for group in groups for event in group.events if event.id <= until)
        results = [event for group in groups for event in group.events if event.kind == "tool_result"]
        limits = Age(plan.settled, plan.results, plan.bare).kept(shown, results, since, config)
        notes = prompts.joined(material.parts(plan.layers, None))
        stable = [*material.stable, *(() if config.steady else material.parts(plan.layers, None))]
        items, is_placed = [pieces.head(stable, anchors=True)], not notes or not config.steady
        items += [pieces.sent(group, self._form(group, END)) for group in front]
        finished = {} if material.evicted else self._replay.over
        items += [finished.get(group) or self._sent(group, END, {}) for group in known[start : min(over, end)]]
        at = (0, 0)
        for place, group in enumerate(groups, over):
            if at == (0, 0) and is_active(group, since):
                at = len(items), place
                items += () if is_placed else (pieces.note(notes),)
                is_placed = True
            items += self._later(plan, group)
            items.append(self._sent(group, since, limits))
        if not is_placed:
            items.append(pieces.note(notes))
        return Items(plan, items, len(known), since, at if until == END else (0, 0))

    def _place(self, position: int) -> int:
        """Return the number of groups before a position."""
        return bisect_left(self._now.groups, position, key=lambda group: begins(group.first))

    def _sent(self, group: Group, since: int, limits: Mapping[int, int]) -> CostItem:
        """Return a group as it is sent if turn `since` is the first active one."""
        is_over = not is_active(group, since) and limits.keys().isdisjoint(group.results)
        if is_over and (found := self._replay.over.get(group)) is not None and not self._material.evicted:
            return found
        kept = tuple((each, limits[each]) for each in group.results if each in limits)
        item = self._pieces.sent(group, self._form(group, since, kept))
        if is_over and not self._material.evicted:
            self._replay.over[group] = item
        return item

    def _form(self, group: Group, since: int, kept: tuple[tuple[int, int], ...] = ()) -> Form:
        out = self._material.evicted
        evicted = tuple((each, out[each]) for each in group.results if each in out) if out else ()
        return Form(is_active(group, since), kept, evicted, (), self._material.thoughts)

    def _later(self, plan: Plan, group: Group) -> list[CostItem]:
        layers = plan.later.get(group.first.id)
        parts = self._material.parts(layers, group.first, later=True) if layers else []
        return [self._pieces.note(prompts.joined(parts))] if parts else []


class WholeHistory(Replay):
    """Sends the whole history, without shortening anything. State, scratchpad and memos are not sent: only Foldmark has
    them."""

    notes = False


class NewestMessages(WholeHistory):
    """Sends the newest `most` messages, in whole exchanges, as many frameworks do. Nothing is shortened."""

    most = END

    def items(self, now: ReplayedContext) -> list[CostItem]:
        found, count, at = super().items(now), 0, len(now.groups)
        while at and (not count or count + len(now.groups[at - 1].events) <= self.most):
            at -= 1
            count += len(now.groups[at].events)
        left = min(len(now.groups) - at, len(found) - 1)
        return [found[0], *found[len(found) - left :]]

    def fit(self, budget: int, groups: Sequence[Group]) -> None:
        """Set `most` to the largest number of messages, at least one, with which every request of these groups stays
        within the budget."""
        room = budget * self.pieces.ruler.ratio - self.pieces.head([], anchors=False).size
        first = count = size = 0
        for group in groups:
            count, size = count + len(group.events), size + self.pieces.sent(group, Form()).size
            while size > room and first < len(groups):
                gone = groups[first]
                count, size = count - len(gone.events), size - self.pieces.sent(gone, Form()).size
                first += 1
            if first:
                self.most = max(1, min(self.most, count))


TRIGGER, KEEP = 100_000, 3
"""Defaults of Anthropic's `clear_tool_uses_20250919`: the number of tokens above which it clears tool results, and the
number of newest results that it keeps; the minimum to clear is not set. Source:
platform.claude.com/docs/en/build-with-claude/context-editing, autumn 2026."""


class ClearedResults(WholeHistory):
    """Sends the whole history; the provider clears all tool results except the newest [SPEC 5.7]."""

    def __init__(self, moment: Snapshot, pieces: Pieces, limit: int | None = None) -> None:
        super().__init__(moment, pieces, limit)
        self._whole: list[CostItem] = []
        self._cleared: list[CostItem] = []
        self._bytes = 0

    def items(self, now: ReplayedContext) -> list[CostItem]:
        found = super().items(now)
        if found[: len(self._whole)] != self._whole:
            self._whole, self._cleared, self._bytes = [], [], 0
        self._bytes += self.pieces.added(found[len(self._whole) :])
        self._whole = found
        if self.pieces.ruler.tokens(self._bytes) <= TRIGGER:
            return found
        newest = (each for group in reversed(now.groups) for each in reversed(group.results))
        keep, cleared = set(islice(newest, KEEP)), self._cleared
        while len(cleared) < len(found) and keep.isdisjoint(_results(found[len(cleared)])):
            cleared.append(self._without(found[len(cleared)], keep))
        return [*cleared, *(self._without(item, keep) for item in found[len(cleared) :])]

    def _without(self, item: CostItem, keep: set[int]) -> CostItem:
        gone = tuple(each for each in _results(item) if each not in keep)
        return (
            item
            if item.group is None or item.form is None or not gone
            else self.pieces.sent(item.group, item.form._replace(cleared=gone))
        )


def _results(item: CostItem) -> tuple[int, ...]:
    return () if item.group is None else item.group.results


def is_active(group: Group, since: int) -> bool:
    """Return True if a group belongs to the active turn, which is turn `since` or later."""
    first = group.first
    return begins(first) >= first.id and first.turn_id is not None and first.turn_id >= since
