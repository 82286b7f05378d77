"""What an agent's requests are made from: its turns, its pinned turns and the layers before them, each read once and
only if needed; and `prompt`, the only way from a plan to what is encoded [SPEC 5]."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Generic, TypeVar

from msgspec import structs

from foldmark.core import selections
from foldmark.core.assembly import prompt as prompts
from foldmark.core.assembly.eviction import begins
from foldmark.core.assembly.layers import describe_commands, identity
from foldmark.core.assembly.layers import guidelines as guidelines_for
from foldmark.core.assembly.prompt import IDENTITY, Prompt
from foldmark.core.assembly.sent import memo_named
from foldmark.core.assembly.view import Age, active_from, view
from foldmark.core.assembly.window import Units
from foldmark.core.codec import operation_of
from foldmark.core.config import Config
from foldmark.core.events import OPENING_KINDS, Event, Fork
from foldmark.core.ports import Snapshot
from foldmark.core.request import Family, Layers, LeftOut, Part, Plan
from foldmark.core.segments import END, Segment, Segments, contains, intersect, since, until
from foldmark.dialects.dialect import Dialect
from foldmark.request.layers import children_layer, memo_parts, memo_text, picked, summary_in_force
from foldmark.request.planning import planning, result_of
from foldmark.request.standing import Standing, of_kind, once, state_of

T = TypeVar("T")

AROUND = 24
"""Approximate tokens of the frame of a message in a request."""


class ReadOnce(Generic[T]):
    """Items that are read once and can be iterated several times."""

    def __init__(self, items: Iterator[T]) -> None:
        self._read: list[T] = []
        self._rest = items

    def __iter__(self) -> Iterator[T]:
        place = 0
        while True:
            if place == len(self._read):
                try:
                    self._read.append(next(self._rest))
                except StopIteration:
                    return
            yield self._read[place]
            place += 1


class Material:
    """Reads what the requests of one standing are made from. `tools` are the names of the offered tools, `hashes` those
    of the texts of the request before (`RequestRecord.hashes`), which hold the memos that it sent. A request that has
    `only` the messages in some segments has neither pins nor layers that change."""

    def __init__(
        self,
        moment: Snapshot,
        at: Standing,
        config: Config,
        dialect: Dialect,
        *,
        tools: Collection[str],
        thoughts: bool = False,
        only: Segments | None = None,
    ) -> None:
        self.moment, self.at, self.config, self.dialect = moment, at, config, dialect
        self._tools, self.thoughts, self._only = tools, thoughts, only
        self.hashes: Mapping[str, str] = {}
        self.weights: dict[tuple[int, int, bool], int] = {}
        self._known: dict[int, Event | None] = {}
        self._memos: dict[int, str] = {}
        self._picks: dict[int, tuple[int, ...]] = {}
        self._goals: dict[int, Event | None] = {}
        self._windows: dict[int, list[Event]] = {}

    # Messages

    @once
    def messages(self) -> ReadOnce[Event]:
        """Return the visible messages, newest first, without `system` messages."""
        if self._only is not None:
            return ReadOnce(reversed(self.inside(self._only)))
        read = self.moment.select(self.at.visible, newest_first=True, expected=self._expected)
        return ReadOnce(event for event in read if event.kind != "system")

    @property
    def _expected(self) -> int:
        """About as many messages as the window holds: the first read fetches so many."""
        size, budget = self.at.size, self.config.sliding_context_tokens
        whole = size.tokens + AROUND * size.messages
        share = min(1.0, budget / whole) if budget and whole else 1.0
        return 8 if self.config.context_size else min(8 + int(size.messages * share), 4096)

    @once
    def units(self) -> Units:
        """Return the visible turns, read as needed."""
        return Units(iter(self.messages))

    def window(self, first: int) -> list[Event]:
        """Return the messages of a window that begins at a position, in the order of the log."""
        if first not in self._windows:
            held = self._since(first) if first else []
            summed = any(event.kind == "summary" for event in held)
            self._windows[first] = [event for event in held if begins(event) >= first] if summed else held
        return self._windows[first]

    def opened_after(self, first: int, event_id: int) -> Event | None:
        """Return the newest message of a window that opened a turn after an event."""
        return opened_after(reversed(self.window(first)), event_id)

    def _since(self, first: int) -> list[Event]:
        """Return the messages from an event on, in the order of the log. They are read alone unless turns were read
        before."""
        if self._only is not None or "messages" in self.__dict__:
            return self._held(first)
        read = self.moment.select(since(self.at.visible, first), expected=self._expected)
        return [event for event in read if event.kind != "system"]

    def _held(self, first: int) -> list[Event]:
        return list(takewhile(lambda event: event.id >= first, self.messages))[::-1]

    def inside(self, segments: Segments) -> list[Event]:
        """Return the visible messages in `segments`, in the order of the log, without `system` messages."""
        return [e for e in self.moment.select(intersect(self.at.visible, segments)) if e.kind != "system"]

    @once
    def pinned(self) -> dict[int, list[Event]]:
        """Return the visible messages of the pinned turns, by turn, in the order of the log."""
        pins = sorted(set(self.at.fold.pins)) if self._only is None else []
        turns = [messages for messages in self.moment.turns(pins).values() if messages] if pins else []
        # All are read together: one by one, each read would search all segments.
        spans = tuple(Segment(messages[0].agent_id, messages[0].id, messages[-1].id) for messages in turns)
        shown: dict[int, list[Event]] = {turn: [] for turn in pins}
        for event in self.inside(spans) if spans else ():
            if event.turn_id in shown:
                shown[event.turn_id].append(event)
        return {turn: events for turn, events in shown.items() if events}

    @property
    def count(self) -> int:
        """The number of visible messages, without `system` messages."""
        return self.at.size.messages - len(self.system)

    def before(self, event_id: int) -> int:
        """Return the number of visible messages before an event, without `system` messages."""
        earlier = until(self.at.visible, event_id - 1)
        return self.moment.size(earlier).messages - sum(each < event_id for each in self.system)

    @once
    def uncut(self) -> int | None:
        """Return the tool result with the preview of the open planning conversation; it is sent whole [SPEC 4.2]."""
        open_one = planning(self.moment, self.at)
        preview = None if open_one is None else open_one.preview
        return None if preview is None else result_of(self.moment, self.at, preview)

    # Layers

    @once
    def system(self) -> list[int]:
        """Return the ids of the visible `system` messages."""
        return of_kind(self.moment, self.at, "system", self.at.visible)

    @once
    def guidelines(self) -> str | None:
        """Return the guidelines for the model, None if it has no tools."""
        return guidelines_for(self._tools, describe_commands(self.config.model_commands))

    @once
    def stable(self) -> list[Part]:
        """Return the layers that rarely change."""
        system = map(self.as_known, self.moment.events(self.system))
        return prompts.layers(self.config, system, guidelines=self.guidelines, state=None, scratchpad=None)

    def event(self, event_id: int) -> Event | None:
        """Return an event by its id; None if it is not in this database."""
        if event_id not in self._known:
            self._known[event_id] = selections.event(self.moment, event_id)
        return self._known[event_id]

    def memo(self, memo_id: int) -> str | None:
        """Return a memo as it is sent; None if it was removed."""
        if memo_id not in self._memos:
            self._memos |= self._sent_memos
        if (
            not self.hashes
            and memo_id not in self._memos
            and (memo := selections.memo(self.moment, memo_id)) is not None
        ):
            self._memos[memo_id] = memo_text(memo)
        return self._memos.get(memo_id)

    @once
    def _sent_memos(self) -> dict[int, str]:
        """Return the memos that the previous request sent."""
        names = {sha: memo for name, sha in self.hashes.items() if (memo := memo_named(name)) is not None}
        texts = self.moment.kept_texts(set(names)) if names else {}
        return {names[sha]: text for sha, text in texts.items()}

    def anchors(
        self, at: Standing, opener: Event | None, first: int, recorded: int = END
    ) -> dict[str, tuple[int, ...]]:
        """Return the layers that a standing of the agent places before the turn that `opener` opened. The window begins
        at position `first`; a summary of what precedes it counts if it was recorded up to event `recorded`."""
        own, tells = self.at.record, "slash" in self._tools
        found: dict[str, tuple[int, ...]] = {IDENTITY: (own.fork_event,)} if own.parent is not None and tells else {}
        if (state := state_of(self.moment, at)) is not None:
            if state.kind == "state":
                self._known[state.id] = state
            found["state"] = (state.id,)
        if (notes := at.newest_of.get("scratchpad")) is not None:
            self._known[notes.id] = notes
            found["scratchpad"] = (notes.id,)
        elif at.scratchpad:
            found["scratchpad"] = (0,)
        if opener is not None and (picks := self._picked(opener)):
            found["memos"] = picks
        if (summary := self.summary(first, min(recorded, at.newest))) is not None:
            found["window_summary"] = (summary,)
        return found

    def news(self, plan: Plan, opener: Event) -> dict[str, tuple[int, ...]]:
        """Return the layers in front of a new turn that the request of a plan does not have yet, or has otherwise."""
        found = {}
        for layer, ids in self.anchors(self.at, opener, plan.first).items():
            placed = plan.placed(layer)
            new = tuple(id for id in ids if id not in placed) if layer == "memos" else ids
            if new and (layer == "memos" or placed[-1:] != [*new]) and not self._is_repeated(layer, placed, new):
                found[layer] = new
        return found

    def _is_repeated(self, layer: str, placed: list[int], new: tuple[int, ...]) -> bool:
        """Return True for a scratchpad that says what the one before says, or that is empty as nothing was before."""
        if layer != "scratchpad":
            return False
        before, now = ("" if id is None else self._notes(id) for id in (placed[-1] if placed else None, new[0]))
        return before.strip() == now.strip()

    def _notes(self, event_id: int) -> str:
        event = self.event(event_id) if event_id else None
        handed_down = self.at.handed_down.get("scratchpad")
        if event is None:
            return handed_down if isinstance(handed_down, str) and not event_id else ""
        return event.content

    def known(self, plan: Plan) -> Plan:
        """Return a plan without the memos that have been removed since."""
        memos = {id for id in plan.placed("memos") if self.memo(id) is None}
        if not memos:
            return plan

        def left(layers: Layers) -> Layers:
            return {name: tuple(id for id in ids if name != "memos" or id not in memos) for name, ids in layers.items()}

        later = {at: left(layers) for at, layers in plan.later.items()}
        return structs.replace(plan, layers=left(plan.layers), later=later)

    @once
    def _has_memos(self) -> bool:
        return bool(self.config.memos_injected and "memos" in self.at.beside)

    def _picked(self, opener: Event) -> tuple[int, ...]:
        if opener.id not in self._picks:
            memos = picked(self.moment, opener, self.config.memos_injected) if self._has_memos else {}
            self._memos |= memos
            self._picks[opener.id] = tuple(memos)
        return self._picks[opener.id]

    def summary(self, first: int, recorded: int) -> int | None:
        """Return the summary, in force at event `recorded`, of the messages in front of a window that begins at
        position `first`; None unless the settings ask for summaries."""
        if not self.config.window_summary or not first or not recorded:
            return None
        found = summary_in_force(self.moment, self.at, first, 0, recorded)
        return None if found is None else found.event.id

    def parts(self, layers: Layers, opener: Event | None, *, later: bool = False) -> list[Part]:
        """Return the parts of layers that precede the turn that `opener` opened."""
        state = next(filter(None, map(self._state, layers.get("state", ()))), None)
        notes: Event | str | None = None
        for event_id in layers.get("scratchpad", ()):
            notes = self.event(event_id) if event_id else self._notes(0)
        memos = [(id, text) for id in layers.get("memos", ()) if (text := self.memo(id)) is not None]
        found = prompts.layers(
            self.config,
            (),
            guidelines=None,
            state=state,
            scratchpad=notes,
            memos=memo_parts(opener, memos) if memos else (),
            later=later,
        )[1:]
        for born in map(self.event, layers.get(IDENTITY, ())):
            fork = operation_of(born) if born is not None else None
            if born is not None and isinstance(fork, Fork):
                found.insert(0, Part(IDENTITY, None, None, IDENTITY, text=identity(fork.child, born.agent_id)))
        summaries = filter(None, map(self.event, layers.get("window_summary", ())))
        return [*found, *map(prompts.summed_up, summaries)]

    def _state(self, event_id: int) -> Event | None:
        event = self.event(event_id)
        carried = (event.data or {}).get("state") if event is not None and event.kind == "summary" else None
        return event if event is None or carried is None else structs.replace(event, content=carried)

    def reports(self, told: Mapping[int, Family]) -> dict[int, list[Part]]:
        """Return the layer about children and mail by the message that it precedes."""
        ids = sorted({child.goal for family in told.values() for child in family.children if child.goal})
        # What a child was given is not quoted once it has left the context.
        if unread := [id for id in ids if id not in self._goals]:
            self._goals |= dict.fromkeys(unread) | {event.id: event for event in self.moment.events(unread)}
        known = [event for id in ids if (event := self._goals[id]) is not None]
        visible = [event for event in known if contains(self.at.visible, event.agent_id, event.id)]
        goals = {event.id: self.as_known(event).content for event in visible}
        content = lambda event_id: goals.get(event_id, "")  # noqa: E731
        return {at: children_layer(family, content, self._tools, self.config) for at, family in told.items()}

    def as_known(self, event: Event) -> Event:
        """Return an event as it is still known."""
        return event

    # The prompt

    def prompt(self, plan: Plan, instruction: str | None = None, until: int = END) -> Prompt:
        """Return the prompt of a plan, with the messages up to event `until`; `instruction` is a final message of the
        user's side that is not in the log."""
        window = self.window(plan.first)
        held, first = {event.turn_id for event in window}, min((event.id for event in window), default=0)
        shown = [event for event in window if begins(event) <= until]
        front = [event for turn in plan.pins if turn not in held for event in self.pinned.get(turn, ())]
        age = Age(plan.settled, plan.results, plan.bare, None if until == END else active_from(window))
        seen = view(
            [*front, *shown],
            self.dialect,
            self.config,
            first,
            age,
            self.uncut,
            self.evicted,
            thoughts=self.thoughts,
        )
        layers = [
            *self.stable,
            *self.parts(plan.layers, opener_of(event for event in shown if event.id <= plan.settled)),
        ]
        reports = self.reports(plan.told)
        if not self.config.steady:
            layers += reports.pop(0, [])
        later = {at: self.parts(ids, self.event(at), later=True) for at, ids in plan.later.items()}
        later = {at: [*later.get(at, ()), *reports.get(at, ())] for at in {**later, **reports}}
        made = prompts.assemble(layers, seen, instruction, anchors_last=self.config.steady, later=later)
        gone = [
            LeftOut(event.id, event.turn_id, "pins", f"no room for pinned turn {turn}")
            for turn, events in self.pinned.items()
            if turn not in plan.pins and turn not in held
            for event in events
        ]
        return made._replace(left_out=(*gone, *made.left_out))

    @property
    def evicted(self) -> Mapping[int, int]:
        """The tool results that are sent as placeholders, each with the operation that evicted it."""
        return self.at.fold.evicted


def opener_of(events: Iterable[Event]) -> Event | None:
    """Return the message that opened the newest turn of these messages, which come in the order of the log."""
    units = Units(reversed(list(events)))
    return next((e for e in units[0].events if e.id == units[0].opener), None) if units.reach(1) else None


def opened_after(newest_first: Iterable[Event], event_id: int) -> Event | None:
    """Return the newest of these messages that opened a turn after an event."""
    later = takewhile(lambda event: event.id > event_id, newest_first)
    return next((event for event in later if event.id == event.turn_id and event.kind in OPENING_KINDS), None)
