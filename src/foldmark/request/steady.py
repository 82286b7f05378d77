"""Requests that only grow: the boundary of a request, and the prompt that follows from it [SPEC 5.7].

A provider's cache serves a request cheaply if it begins with the whole of the previous one. So the policy `steady`
keeps everything that was sent, in the form in which it was sent, until a boundary. Changes that would alter earlier
messages, such as shortening a result because it has become old, wait for the next boundary. Everything is computed from
the log: making a request writes nothing, so the same log gives the same request in every process.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from foldmark.core.agents import AgentRecord
from foldmark.core.assembly import prompt as prompts
from foldmark.core.assembly.eviction import blocks_of, evicted_as_sent
from foldmark.core.assembly.growth import Reach, Sizes, advanced, layers_weight, lowered, room_for
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.view import active_from, view
from foldmark.core.assembly.window import Units
from foldmark.core.codec import operation_of
from foldmark.core.config import Config
from foldmark.core.events import OPENING_KINDS, Event, Pin, Summary, shapes
from foldmark.core.ports import Since, Snapshot
from foldmark.core.request import Edge, Family, Part
from foldmark.core.segments import END, Segment, Segments, contains
from foldmark.request.exchanges import standing_without
from foldmark.request.layers import children_layer, children_of, families_at, report_bytes
from foldmark.request.sources import Sources, VisibleMessages
from foldmark.request.standing import Standing, as_of, of_kind, once
from foldmark.request.windowing import Target, Windowing, first_of
from foldmark.tokens.counting import BytesRuler, ruler

Room = Callable[[int], float]


SHAPING = ("config", "summary", "system")
"""The `NEWEST_KINDS` that `boundary` reads."""


def boundary(moment: Snapshot, at: Standing, since: Since) -> int:
    """Return the newest boundary in the log: the event after which `since` begins, or an operation, a setting or a
    `system` message in it. Operations that change nothing that is sent are not boundaries, such as marks. A
    hypothetical operation counts as the newest."""
    if at.fold.at > at.newest:
        return at.newest
    events = [event for event in since.events if event.id <= at.newest]
    shaping = [event.id for event in events if shapes(event)]
    changed = (
        event.id
        for event in reversed(events)
        if event.kind == "config"
        and _chosen((event.data or {}).get("settings")) != _chosen(as_of(moment, at, event.id - 1, since).settings)
    )
    return max([since.after, at.record.fork_event, *shaping, next(changed, 0)])


class Swap(NamedTuple):
    """A native summary as a boundary, and the standing without it. Its sources were sent before, and the turns from
    event `kept` on stay as they were sent."""

    summary: Event
    kept: int
    without: Standing


def swapped(moment: Snapshot, at: Standing, newest: int, reads: str) -> Swap | None:
    """Return the summary that is the newest boundary, if turns remain after it and the provider `reads` it."""
    if at.fold.at > at.newest or "summary" not in at.newest_of:  # the agent recorded none
        return None
    event = moment.event(newest)
    # The data of other operations is not read, so that damaged data does no harm.
    pin = operation_of(event) if event is not None and event.kind == "pin" else None
    if isinstance(pin, Pin) and pin.turn < newest:  # a pin of the summary itself
        event = moment.event(pin.turn)
    if event is None or event.kind != "summary" or event.agent_id != at.record.id:
        return None
    summary = operation_of(event)
    if not isinstance(summary, Summary) or not summary.kept or not blocks_of(event, reads):
        return None
    without = standing_without(moment, at, event.id)
    return None if without is None else Swap(event, summary.kept, without)


def _chosen(settings: object) -> dict[str, object]:
    """Return the settings that change the requests when they are set."""
    kept = ("calibration", "cache_ttl")
    return {k: v for k, v in settings.items() if k not in kept} if isinstance(settings, dict) else {}


class SteadyPrompt:
    """Builds the prompt of one context as it has grown since its boundary.

    `instruction` is a final user message that is not in the log; `tools` are the names of the offered tools. Children
    are reported only if the request `answers`.
    """

    def __init__(
        self,
        moment: Snapshot,
        at: Standing,
        config: Config,
        target: Target,
        instruction: str | None,
        *,
        tools: Collection[str],
        answers: bool,
        swaps: bool = True,
    ) -> None:
        self._plain = partial(
            SteadyPrompt, moment, at, config, target, instruction, tools=tools, answers=answers, swaps=False
        )
        self._moment, self._at, self._config, self._target = moment, at, config, target
        self._instruction, self._tools, self._answers = instruction, tools, answers
        self._read = VisibleMessages(moment, at, config)
        newest, since = self._boundary(at)
        self._swap = swapped(moment, at, newest, target.dialect.reads) if swaps else None
        if self._swap is not None:
            self._at, before = self._swap.without, self._swap.summary.id - 1
            self._read = VisibleMessages(moment, self._at, config)
            fold = msgspec.structs.replace(self._at.fold, at=min(self._at.fold.at, before))
            newest, since = self._boundary(as_of(moment, msgspec.structs.replace(self._at, fold=fold), before))
        self._now = self._sources(self._at)
        self._recorded = since
        then = self._as_of(newest)
        # A new calibration takes effect at the next boundary.
        self._config = msgspec.structs.replace(config, calibration=then.config.calibration)
        self._then = self._sources(then)
        self.windowing = Windowing(self._then, self._config, target, None)
        self.families: dict[int, Family] = {}
        self._found: tuple[object, dict[int, list[Part]]] = (None, {})

    @property
    def units(self) -> Units:
        """The visible turns, newest first."""
        return self._now.units

    @once
    def _forked(self) -> list[AgentRecord]:
        return children_of(self._moment, self._at)

    def _boundary(self, at: Standing) -> tuple[int, Since]:
        sources = self._sources(at)
        opened = Windowing(sources, self._config, self._target, None).opened()
        since = self._moment.since(at.record.id, opened)
        return boundary(self._moment, at, since), since

    def _as_of(self, event_id: int) -> Standing:
        return as_of(self._moment, self._at, event_id, self._recorded)

    def _behind_boundary(self, kind: str, settled: int, segments: Segments) -> list[int]:
        """Return the ids of the events of a kind after an event, inside segments."""
        found = [e for e in self._recorded.events if e.kind == kind and settled < e.id <= self._at.newest]
        return [event.id for event in found if contains(segments, event.agent_id, event.id)]

    def windowed(self, limit: int | None) -> tuple[Prompt, Edge]:
        """Return the prompt and its edge; `limit` is the maximum number of tokens that the model accepts."""
        begun, edge = self.windowing.windowed(limit)
        settled = self._then.settled
        since = [event for event in self._read.since(settled) if event.kind != "system"]
        events, reach = [*self._window(edge.before), *since], Reach(0, settled)
        room, later = self._room(limit), list[Event]()
        if self._swap is not None:
            later = [event for event in events if event.id > self._swap.summary.id]
            events = [event for event in events if event.id < self._swap.summary.id]
        if room is not None and since:
            beside, lower = self._beside(events, settled), self._lowered(room)
            reach = advanced(events, reach, self._measured(begun), room, self._config, lower, beside)
        if self._swap is not None:
            return self._behind(self._swap, events[reach.cut :], later, reach, room, limit)
        prompt, shown = self._prompt(events[reach.cut :], reach), events[reach.cut :]
        edge = msgspec.structs.replace(
            edge,
            first=first_of(shown) or None,
            before=self._now.count - len(shown),
            settled=reach.settled,
            oldest=reach.oldest,
        )
        if not reach.cut:
            return prompt, edge
        most = min(filter(None, (self._config.sliding_context_tokens, limit)))
        return prompt, msgspec.structs.replace(edge, why="budget", limit=most, step=0, turn=None)

    def _behind(
        self, swap: Swap, events: list[Event], later: list[Event], reach: Reach, room: Room | None, limit: int | None
    ) -> tuple[Prompt, Edge]:
        """Return the prompt after a native summary: the turns that stay, as they were sent, and the `later` messages.
        If that would exceed the limit, the summary is a boundary like any other."""
        kept = [event for event in events if event.id >= swap.kept]
        summary = view([swap.summary], self._target.dialect, self._config)
        whole = self._prompt([*events, *later], reach)
        ids = {event.call_id for event in events if event.id < swap.kept and event.kind == "tool_call"}
        # The window has passed the summary, or calls that stay would be separated from calls that leave.
        full = swap.kept not in whole.turns or any(
            event.call_id in ids for event in (*kept, *later) if event.kind == "tool_call"
        )
        prompt = whole if full else prompts.starting_with(whole, swap.kept, summary)
        if not full and room is not None:
            then = prompts.starting_with(self._prompt(events, reach), swap.kept, summary)
            size, at = self._measured(then), Reach(0, swap.summary.id)
            full = advanced([*kept, *later], at, size, room, self._config, self._lowered(room)) != at
        if full:
            plain = self._plain()
            prompt_and_edge = plain.windowed(limit)
            self.windowing, self.families = plain.windowing, plain.families
            return prompt_and_edge
        since = active_from(event for event in events if event.id <= reach.settled)
        gone = [e for e in events if e.id < swap.kept and e.kind == "tool_result" and (e.turn_id or 0) >= since]
        oldest = max(0, reach.oldest - len(gone))
        first_reported = 0 if prompt.anchored >= 0 else swap.kept
        self.families = {at: each for at, each in self.families.items() if at >= swap.kept or at == first_reported}
        first = first_of([*kept, *later]) or None
        return prompt, Edge(first, None, 0, settled=reach.settled, oldest=oldest)

    def _measured(self, prompt: Prompt) -> int:
        encoded = self.windowing.encoded(prompt)
        return self.windowing.plain.size(encoded.body, encoded.data, prompt.media)

    def _sources(self, at: Standing) -> Sources:
        # Reports about children stay where they were first made: see `_children`.
        read = self._read if self._read.holds(at) else None
        return Sources(self._moment, at, self._config, tools=self._tools, answers=False, read=read)

    def _window(self, before: int) -> list[Event]:
        """Return the messages of the window as it began at the boundary, with `before` messages before it."""
        units, count, left = self._then.units, 0, self._then.count - before
        while left > 0 and units.reach(count + 1):
            left -= len(units[count].events)
            count += 1
        return units.newest(count)

    def _room(self, limit: int | None) -> Room | None:
        """Return a function from an event to the maximum bytes of a request at that event; None without a limit."""
        budget, own = self._config.sliding_context_tokens, Segment(self._at.record.id, self._then.settled + 1, END)
        if not budget and limit is None:
            return None
        calibrated = self._behind_boundary("config", self._then.settled, (own,)) if limit is not None else []
        ratios = [(0, self._ratio(self._config))]
        ratios += [(each, self._ratio(self._as_of(each).config)) for each in calibrated]

        def known(event_id: int) -> float:
            now = next(ratio for event, ratio in reversed(ratios) if event <= event_id)
            return room_for(budget, limit, ratios[0][1], now)

        return known

    def _ratio(self, config: Config) -> float:
        """Return the bytes per token, as calibrated."""
        found = ruler(self._target.provider, self._target.model, config)
        return found.ratio if isinstance(found, BytesRuler) else self.windowing.plain.ratio

    def _lowered(self, room: Room) -> Callable[[Sequence[Event]], tuple[Reach, int]]:
        def lower(events: Sequence[Event]) -> tuple[Reach, int]:
            bare = prompts.assemble(self._then.now, view((), self._target.dialect, self._config))
            fixed = len(self.windowing.encoded(bare).data)
            shown, _ = evicted_as_sent(events, self._then.evicted, self._config, events[-1].id)
            low = room(events[-1].id) * self._config.sliding_context_low_water
            return lowered(shown, low, fixed, Sizes(self._config))

        return lower

    def _prompt(self, events: Sequence[Event], reach: Reach) -> Prompt:
        at = self._then if reach.settled == self._then.settled else self._sources(self._as_of(reach.settled))
        pins, gone = self.windowing.pinned(event.turn_id for event in events)
        first = first_of(events)
        window = view(
            [*pins, *events],
            self._target.dialect,
            self._config,
            first,
            uncut=self._now.preview,
            evicted=self._then.evicted,
            settled=reach.settled,
            oldest=reach.oldest,
            thoughts=self.windowing.thoughts,
        )
        layers = [*at.now, *filter(None, [at.summary(first) if first else None])]
        news, reports = self._news(at.now, events, reach.settled, first), self._children(events, reach.settled)
        later = {place: [*news.get(place, ()), *reports.get(place, ())] for place in {**news, **reports}}
        prompt = prompts.assemble(layers, window, self._instruction, anchors_last=True, later=later)
        return prompt._replace(left_out=(*gone, *prompt.left_out))

    def _beside(self, events: Sequence[Event], settled: int) -> dict[int, int]:
        """Return the weight in bytes of the layers before each message that opened a turn since the boundary.

        Reports about children depend on earlier requests, but steps must not. So space is reserved for the number of
        children at that time.
        """
        born = [child.fork_event for child in self._forked] if self._answers else []
        news, found = self._news(self._then.now, events, settled, first_of(events)), dict[int, int]()
        for opener in _openers(events, settled):
            found[opener.id] = layers_weight(news.get(opener.id, ()))
            children = sum(event < opener.id for event in born)
            if children or (self._answers and self._at.record.parent is not None):
                found[opener.id] += report_bytes(children)
        return found

    def _news(self, layers: Sequence[Part], events: Sequence[Event], settled: int, first: int) -> dict[int, list[Part]]:
        """Return the layers that changed since the boundary, by the message that opened the first turn after the
        change: a state, a scratchpad, memos that were not picked before, a summary of the messages before the window's
        `first` message. This is called twice: to weigh the layers and to insert them."""
        openers = _openers(events, settled)
        if not openers:
            return {}
        key = settled, first, tuple(opener.id for opener in openers)
        if self._found[0] == key:
            return self._found[1]
        at = self._at
        states = self._behind_boundary("state", settled, at.visible)
        notes = self._behind_boundary("scratchpad", settled, (Segment(at.record.id, 1, END),))
        memos = {layer.memo for layer in layers if layer.memo is not None}
        before, again, newest = settled, 0, list[tuple[int, int, int]]()
        for opener in openers:
            if self._swap is not None and opener.id > self._swap.summary.id and not again:
                # The summary includes the layers before older turns, so the layers are sent once more.
                states, before, again = of_kind(self._moment, at, "state", at.visible), 0, opener.id
                notes = of_kind(self._moment, at, "scratchpad", (Segment(at.record.id, 1, at.newest),))
            newest.append((before, _last(states, before, opener.id), _last(notes, before, opener.id)))
            before = opener.id
        known = {event.id: event for event in self._recorded.events}
        unknown = [id for _, *ids in newest for id in ids if id and id not in known]
        changed = {**known, **{event.id: event for event in self._moment.events(unknown)}}
        found = dict[int, list[Part]]()
        for opener, picked, (before, state, note) in zip(openers, self._then.picked(openers), newest, strict=True):
            memos = set() if opener.id == again else memos
            news = self._then.news(picked, changed.get(state), changed.get(note), memos)
            memos.update(layer.memo for layer in news if layer.memo is not None)
            summary = self._then.summary(first, opener.id, before)
            found[opener.id] = [*news, *filter(None, [summary])]
        self._found = key, found
        return found

    def _children(self, events: Sequence[Event], settled: int) -> dict[int, list[Part]]:
        """Return the reports about children and mail since the boundary, by the message before which each is sent."""
        openers = _openers(events, settled)
        newest = openers[-1].id if openers else 0
        self.families = families_at(self._moment, self._at, settled, newest, self._forked) if self._answers else {}
        content = self._then.text(self.families.values())
        return {at: children_layer(each, content, self._tools, self._config) for at, each in self.families.items()}


def _openers(events: Sequence[Event], settled: int) -> list[Event]:
    """Return the messages that opened a turn since an event."""
    return [each for each in events if each.id == each.turn_id and each.kind in OPENING_KINDS and each.id > settled]


def _last(ids: Sequence[int], after: int, before: int) -> int:
    """Return the newest of these events between two others, or 0 if there is none."""
    place = bisect_left(ids, before)
    return ids[place - 1] if place and ids[place - 1] > after else 0
