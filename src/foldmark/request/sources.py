"""The material of an agent's request: its turns, its pinned turns and the layers before them. Each is read once,
and only if needed [SPEC 5]."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Generic, NamedTuple, TypeVar

from foldmark.core.assembly import prompt as prompts
from foldmark.core.assembly.layers import describe_commands, identity
from foldmark.core.assembly.layers import guidelines as guidelines_for
from foldmark.core.assembly.window import Units, opened_by
from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import Family, Part
from foldmark.core.segments import Segment, Segments, intersect, until
from foldmark.request.layers import Picked, children_layer, family_of, picked, summary_in_force
from foldmark.request.planning import planning, result_of
from foldmark.request.standing import Standing, as_of, of_kind, once, state_of

T = TypeVar("T")

AROUND = 24
"""Approximate tokens of the frame of a message in a request."""


class VisibleMessages:
    """The visible messages of a standing, read newest first, and only once for all earlier events."""

    def __init__(self, moment: Snapshot, at: Standing, config: Config) -> None:
        self._moment, self._at, self._segments = moment, at, at.fold.segments
        # The first read fetches about as many messages as the window holds.
        size, budget = at.size, config.sliding_context_tokens
        whole = size.tokens + AROUND * size.messages
        share = min(1.0, budget / whole) if budget and whole else 1.0
        self._expected = 8 if config.context_size else min(8 + int(size.messages * share), 4096)

    def holds(self, at: Standing) -> bool:
        """Return True if these messages include everything that is visible in another standing."""
        return at.fold.segments == self._segments and at.newest <= self._at.newest

    def messages(self, until: int) -> Iterator[Event]:
        """Yield the messages up to an event, newest first."""
        return (event for event in self._messages if event.id <= until)

    def units(self, until: int) -> Units:
        """Return the turns of the messages up to an event, read as needed."""
        return Units(event for event in self.messages(until) if event.kind != "system")

    def weights(self, until: int) -> Iterator[tuple[int, int]]:
        """Yield the id and the weight of each message up to an event, newest first."""
        return (each for each in self._weights if each[0] <= until)

    def weight(self, until: int) -> int:
        """Return the total weight in bytes of the messages up to an event."""
        later = takewhile(lambda each: each[0] > until, self._weights)
        return self._weight - sum(weight for _, weight in later)

    def since(self, event_id: int) -> list[Event]:
        """Return the messages after an event, in the order of the log."""
        return list(takewhile(lambda event: event.id > event_id, self._messages))[::-1]

    @once
    def _messages(self) -> "ReadOnce[Event]":
        return ReadOnce(self._moment.messages(self._at.visible, newest_first=True, expected=self._expected))

    @once
    def _weights(self) -> "ReadOnce[tuple[int, int]]":
        return ReadOnce(self._moment.weights(self._at.visible, expected=max(256, self._expected)))

    @once
    def _weight(self) -> int:
        return self._moment.weight(self._at.visible)


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


class Pinned(NamedTuple):
    """A pinned turn and its visible messages."""

    turn: int
    events: tuple[Event, ...]


class Sources:
    """Reads the material of a standing on demand. `tools` are the names of the offered tools. Children are reported
    only if the request `answers`, that is, continues the conversation. Visible messages that `read` already holds are
    not read again."""

    def __init__(
        self,
        moment: Snapshot,
        at: Standing,
        config: Config,
        *,
        tools: Collection[str],
        answers: bool = True,
        read: VisibleMessages | None = None,
    ) -> None:
        self._read = VisibleMessages(moment, at, config) if read is None else read
        self._at, self._config, self._tools, self._answers = at, config, tools, answers
        self._moment, self.visible = moment, at.visible
        self._before: list[int] = []

    @once
    def units(self) -> Units:
        """Return the visible turns, read as needed."""
        return self._read.units(self._at.newest)

    def inside(self, segments: Segments) -> list[Event]:
        """Return the visible messages in `segments`, in the order of the log."""
        return [e for e in self._moment.messages(intersect(self.visible, segments)) if e.kind != "system"]

    @once
    def preview(self) -> int | None:
        """Return the tool result with the preview of the open planning conversation; it is sent whole [SPEC 4.2]."""
        open_one = planning(self._moment, self._at)
        preview = None if open_one is None else open_one.preview
        return None if preview is None else result_of(self._moment, self._at, preview)

    @property
    def evicted(self) -> Mapping[int, int]:
        """The tool results that are sent as placeholders, each with the operation that evicted it."""
        return self._at.fold.evicted

    @once
    def pins(self) -> list[Pinned]:
        """Return the pinned turns that are visible, in the order of the log."""
        pinned = sorted(set(self._at.fold.pins))
        turns = [messages for messages in self._moment.turns(pinned).values() if messages] if pinned else []
        # All are read together: one by one, each read would search all segments.
        spans = tuple(Segment(messages[0].agent_id, messages[0].id, messages[-1].id) for messages in turns)
        shown: dict[int | None, list[Event]] = {turn: [] for turn in pinned}
        for event in self.inside(spans) if spans else ():
            if event.turn_id in shown:
                shown[event.turn_id].append(event)
        return [Pinned(turn, tuple(shown[turn])) for turn in pinned if shown[turn]]

    @once
    def now(self) -> list[Part]:
        """Return the layers before the messages."""
        return self._layers(self._at)

    @property
    def settled(self) -> int:
        """The event as of which the window is measured: under `steady` the newest event, otherwise the opener of the
        newest turn, or the newest summary in it."""
        return self._at.newest if self._config.steady else self.units[0].settled

    @once
    def then(self) -> list[Part]:
        """Return the layers as they were at event `settled`."""
        if self._config.steady:
            return self.now
        return self._layers(as_of(self._moment, self._at, self.settled))

    def picked(self, openers: Iterable[Event]) -> list[Picked]:
        """Return the memos that each of these turns picks; a turn is given by its first message."""
        openers = list(openers)
        if not self._has_memos:
            return [Picked() for _ in openers]
        return picked(self._moment, [opened_by(opener) for opener in openers], self._config.memos_injected)

    def news(
        self, picks: Picked, state: Event | None, scratchpad: Event | None, known: Collection[int | None]
    ) -> list[Part]:
        """Return the new layers before a message that opened a turn: a state, a scratchpad, and the memos that the
        message picks, except those whose ids are `known`."""
        memos = picks.layers(known)
        found = prompts.layers(
            self._config, (), guidelines=None, state=state, scratchpad=scratchpad, memos=memos, later=True
        )
        return found[1:]  # without the system prompt

    @property
    def stable(self) -> list[Part]:
        """The layers of `then`, or only the stable ones if `then` is now, so that memos are not looked up."""
        return self.without_anchors if self._config.steady else self.then

    @property
    def without_anchors(self) -> list[Part]:
        """The stable layers."""
        return self._layers(self._at, anchors=False)

    def summary(self, before: int, recorded: int | None = None, since: int = 0) -> Part | None:
        """Return the summary of the messages before event `before`; None unless the settings ask for summaries.

        The summary is the one in force at event `recorded` (by default `settled`), if it was recorded after event
        `since`.
        """
        if not self._config.window_summary:
            return None
        found = summary_in_force(self._moment, self._at, before, since, self.settled if recorded is None else recorded)
        return None if found is None else prompts.summed_up(found.event)

    @property
    def count(self) -> int:
        """The number of visible messages, without `system` messages."""
        return self._at.size.messages - len(of_kind(self._moment, self._at, "system", self.visible))

    def before(self, event_id: int) -> int:
        """Return the number of visible messages before an event, without `system` messages."""
        earlier = until(self.visible, event_id - 1)
        return self._moment.size(earlier).messages - len(of_kind(self._moment, self._at, "system", earlier))

    def _layers(self, at: Standing, *, anchors: bool = True) -> list[Part]:
        system = of_kind(self._moment, at, "system", at.visible)
        events = self._moment.events(system)
        state = state_of(self._moment, at) if anchors else None
        notes = (at.newest_of.get("scratchpad") or at.scratchpad) if anchors else None
        child = None if at.record.parent is None else identity(at.record.id, at.record.parent)
        guidelines = guidelines_for(self._tools, child, describe_commands(self._config.model_commands))
        memos = self._memos if anchors else ()
        found = prompts.layers(self._config, events, guidelines=guidelines, state=state, scratchpad=notes, memos=memos)
        return [*found, *self._children] if anchors else found

    @once
    def family(self) -> Family:
        """Return the children and the mail that the request reports."""
        return family_of(self._moment, self._at) if self._answers else Family()

    @property
    def families(self) -> dict[int, Family]:
        """Families by the message before which each is reported; 0 is the default place (`Manifest.told`)."""
        return {0: self.family}

    @once
    def _children(self) -> list[Part]:
        return children_layer(self.family, self.text([self.family]), self._tools, self._config)

    def text(self, families: Iterable[Family]) -> Callable[[int], str]:
        """Return a function that returns the texts of the events that families quote."""
        ids = sorted({child.goal for family in families for child in family.children if child.goal})
        found = {event.id: event.content for event in self._moment.events(ids)}
        return lambda event_id: found.get(event_id, "")

    @once
    def _memos(self) -> list[Part]:
        if not self._has_memos or not self.units.reach(1):  # without memos there is no need to read the turn
            return []
        (picks,) = picked(self._moment, [self.units[0]], self._config.memos_injected)
        return picks.layers()

    @once
    def _has_memos(self) -> bool:
        return bool(self._config.memos_injected and "memos" in self._at.beside)

    # The weights of the turns, as of the opening of the newest one

    @once
    def weight(self) -> int:
        """Return the weight in bytes of all visible turns."""
        return self._read.weight(self.settled)

    def weight_before(self, count: int) -> int:
        """Return the weight in bytes of the turns before the newest `count` units, which must have been read."""
        while len(self._before) < count:
            left, oldest = self._before[-1] if self._before else self.weight, self.units[len(self._before)].events[0].id
            while self._heavy and self._heavy[0] >= oldest:
                left -= self._heavy[1]
                self._heavy = next(self._weights, None)
            self._before.append(left)
        return self._before[count - 1]

    @once
    def _weights(self) -> Iterator[tuple[int, int]]:
        return self._read.weights(self.settled)

    @once
    def _heavy(self) -> tuple[int, int] | None:
        return next(self._weights, None)
