"""Choose the content of a request: the window and the pinned turns that fit the budget [SPEC 5.3]."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from foldmark.core.assembly import prompt as prompts
from foldmark.core.assembly import window
from foldmark.core.assembly.eviction import begins
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.view import AnsweredCall, Calls, ViewMessage, active_from, view
from foldmark.core.assembly.window import Cut, Steps, Unit
from foldmark.core.assembly.wire import weigh
from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.request import Edge, LeftOut, Options, Part, ToolSpec
from foldmark.core.segments import Segments
from foldmark.dialects.dialect import Dialect
from foldmark.request.sources import Pinned, Sources
from foldmark.request.standing import once
from foldmark.tokens.counting import BytesRuler, ruler, uncalibrated

RESERVE = 8192
"""Tokens that a stepped window reserves for state, scratchpad, memos and the newest message; at most a quarter of the
budget."""


class Target(NamedTuple):
    """The recipient of a request: its provider by name and by dialect, the model, its tools, and the options of the
    answer."""

    provider: str
    dialect: Dialect
    model: str
    tools: tuple[ToolSpec, ...]
    options: Options


class Encoded(NamedTuple):
    """The body of a request, its serialized form, and its size as the ruler measures it."""

    body: dict[str, Any]
    data: bytes
    size: int


class Windowing:
    """Builds prompts of one context for one model, with as many turns as fit.

    `instruction` is a final user message that is not in the log. `summary` is the window summary, if there is one.
    """

    def __init__(
        self,
        sources: Sources,
        config: Config,
        target: Target,
        instruction: str | None,
        *,
        summary: Part | None = None,
    ) -> None:
        self._sources, self._config, self._target = sources, config, target
        self._instruction, self._summary = instruction, summary
        self._newest: tuple[Prompt, Encoded] | None = None
        self._made: tuple[int, Prompt, list[Event]] | None = None
        self.ruler = ruler(target.provider, target.model, config)

    def planning(self, only: Segments) -> tuple[Prompt, Edge]:
        """Return the prompt of the visible messages inside `only`, without a size limit."""
        events = self._sources.inside(only)
        prompt = self._prompt(self._sources.without_anchors, events, first_of(events))
        return prompt, self._edge(events, "planning")

    def windowed(self, limit: int | None) -> tuple[Prompt, Edge]:
        """Return the prompt of the window, with the pinned turns before it, and with fewer turns if it exceeds `limit`.

        A window summary needs space as well. So the window is first chosen without it and then, if a summary is in
        force for that window, once more with it. If the second window overlaps the summary, because pins had to be left
        out, the summary is left out.
        """
        prompt, edge = self._windowed(limit)
        if edge.first is None or edge.why is None:
            return prompt, edge
        summary = self._sources.summary(edge.first)
        if summary is None:
            return prompt, edge
        # A window with the summary is never larger: it can only begin later, unless a pinned turn had to be left out.
        again = Windowing(self._sources, self._config, self._target, self._instruction, summary=summary)
        shown, beside = again._windowed(limit)
        return (prompt, edge) if (beside.first or 0) < edge.first else (shown, beside)

    def _windowed(self, limit: int | None) -> tuple[Prompt, Edge]:
        budget = self._config.sliding_context_tokens
        count, why = self.cut()
        prompt, events = self._final(count)
        if limit is not None and count > 1 and self.tokens(prompt) > limit:
            count, why, budget = self._within(limit, count), "budget", limit
            prompt, events = self._final(count)
        return prompt, self._edge(events, why, *self._numbers(why, count, budget))

    def opened(self) -> int:
        """Return the event that opened the turn at which the beginning of the window last moved, by the weights of
        turns; 0 if it never moved [SPEC 5.3]. With a limit on turns it moves with each turn."""
        units = self._sources.units
        if not units.reach(1):
            return 0
        if self._config.context_size:
            return units[0].opener
        if not self._config.sliding_context_tokens:
            return 0
        room, step, total = self._steps.room, self._steps.step, self._upto_opener(1)
        if total <= room:
            return 0
        least = room + (total - room - 1) // step * step
        count = 1
        while units.reach(count + 1) and self._upto_opener(count + 1) > least:
            count += 1
        return units[count - 1].opener

    def encoded(self, prompt: Prompt, *, bare: bool = False) -> Encoded:
        """Return the request of a prompt, without tools if `bare`."""
        if self._newest is None or self._newest[0] is not prompt:  # the same prompt is often encoded again
            to = self._target
            body = to.dialect.encode(to.model, prompt, () if bare else to.tools, to.options)
            data = msgspec.json.encode(body)
            self._newest = prompt, Encoded(body, data, self.ruler.size(body, data, prompt.media))
        return self._newest[1]

    # The beginning of the window

    def cut(self) -> Cut:
        """Return the number of units in the window, and the reason why there are not more."""
        units, turns = self._sources.units, self._config.context_size
        if not self._config.sliding_context_tokens or not units.reach(1):
            return window.choose(units, turns, None, self._measured, self._rough)
        if self._config.steady:
            return self._stepped(lambda count: self._fits(self._measured(count)))
        return window.choose(units, turns, self._fits, self._measured, self._rough)

    def _stepped(self, fits: Callable[[int], bool]) -> Cut:
        return window.in_steps(self._sources.units, self._config.context_size, self._steps, self._before, fits)

    @once
    def _steps(self) -> Steps:
        budget = self._config.sliding_context_tokens
        step = max(1, round((1 - self._config.sliding_context_low_water) * budget))
        return Steps(step, budget - self._reserved, self.plain.tokens(self._sources.weight))

    @property
    def _reserved(self) -> int:
        """The tokens of system, tools and guidelines as of the opening of the newest turn, plus the reserve."""
        return self.plain.tokens(self.fixed()) + min(RESERVE, self._config.sliding_context_tokens // 4)

    def fixed(self) -> int:
        """Return the bytes of a request with system, tools and guidelines only."""
        stable = [layer for layer in self._sources.stable if layer.layer not in prompts.ANCHORS]
        return len(self.encoded(prompts.assemble(stable, view((), self._target.dialect, self._config))).data)

    def _before(self, count: int) -> int:
        return self.plain.tokens(self._sources.weight_before(count))

    def _upto_opener(self, count: int) -> int:
        """Return the tokens of all turns up to the message that opened the oldest of the newest `count` units."""
        opener = self._sources.units[count - 1].events[0]
        return self.plain.tokens(self._sources.weight_before(count) + weigh(opener))

    @property
    def plain(self) -> BytesRuler:
        """The ruler that weighs turns: bytes, uncalibrated."""
        # Uncalibrated: a new calibration or a different way of counting must not move a window that fits.
        return BytesRuler(uncalibrated(self._target.provider, self._target.model))

    def _within(self, limit: int, count: int) -> int:
        """Return the largest number of units, below `count`, whose request stays within `limit`; at least 1."""

        def fits(number: int) -> bool:
            return number < count and self.tokens(self._final(number)[0]) <= limit

        if self._config.steady and self._config.sliding_context_tokens:
            return self._stepped(fits).units
        low, high = 1, count
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    # The current request

    @once
    def kept(self) -> list[Pinned]:
        """Return the pinned turns that fit together with the newest turn; the oldest are left out first [SPEC 5.3]."""
        pins = self._sources.pins
        if not self._config.sliding_context_tokens:
            return pins
        # A request shrinks as pins leave it, so bisection finds how many must go; testing one by one is quadratic.
        low, high = 0, len(pins)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(self.measured(1, pins[middle:])) else (middle + 1, high)
        return pins[low:]

    def pinned(self, turns: Iterable[int | None]) -> tuple[list[Event], list[LeftOut]]:
        """Return the messages of pinned turns before a window of `turns`, and those that did not fit."""
        inside, kept = set(turns), {pin.turn for pin in self.kept}
        gone = [
            LeftOut(event.id, event.turn_id, "pins", f"no room for pinned turn {pin.turn}")
            for pin in self._sources.pins
            if pin.turn not in kept and pin.turn not in inside
            for event in pin.events
        ]
        return _in_front(self.kept, inside), gone

    def _final(self, count: int) -> tuple[Prompt, list[Event]]:
        if self._made is None or self._made[0] != count:
            self._made = count, *self._newly(count)
        return self._made[1:]

    def _newly(self, count: int) -> tuple[Prompt, list[Event]]:
        events = self._sources.units.newest(count)
        pins, gone = self.pinned(self._turns(count))
        prompt = self._prompt(self._sources.now, [*pins, *events], first_of(events))
        return prompt._replace(left_out=(*gone, *prompt.left_out)), events

    def _turns(self, count: int) -> set[int | None]:
        return {turn for index in range(count) for turn in self._sources.units[index].turns}

    def _prompt(self, layers: Sequence[Part], events: Sequence[Event], first: int, active: int | None = None) -> Prompt:
        to, sources, kept = self._target.dialect, self._sources, self.thoughts
        uncut, evicted = sources.preview, sources.evicted
        shown = view(events, to, self._config, first, active, uncut, evicted, thoughts=kept)
        layers = layers if self._summary is None else [*layers, self._summary]
        return prompts.assemble(layers, shown, self._instruction, anchors_last=self._config.steady)

    # The request as of the opening of the newest turn, by which the window is measured

    def _measured(self, count: int) -> int:
        # Under `steady` the window is measured by the current state, so the request itself can be used.
        return self._size(self._final(count)[0]) if self._config.steady else self.measured(count, self.kept)

    def measured(self, count: int, pins: Sequence[Pinned]) -> int:
        """Return the size of a request with the newest `count` units and these pins before them."""
        events = self._sources.units.newest(count)
        then = [event for event in events if begins(event) <= self._sources.settled]
        in_front = _in_front(pins, self._turns(count) if pins else set())
        return self._size(self._prompt(self._sources.then, [*in_front, *then], first_of(events), active_from(events)))

    def _rough(self, unit: Unit) -> int:
        """Return the approximate number of bytes that a finished unit adds to a request."""
        to, behind, evicted = self._target.dialect, unit.events[-1].id + 1, self._sources.evicted
        shown = view(unit.events, to, self._config, 0, behind, evicted=evicted, thoughts=self.thoughts)
        steps = shown.steps
        return self.encoded(Prompt("", (*_IN_FRONT, *steps)), bare=True).size - self._bare if steps else 0

    @once
    def _bare(self) -> int:
        return self.encoded(Prompt("", _IN_FRONT), bare=True).size

    @property
    def thoughts(self) -> bool:
        """True if thinking is sent after its turn is over."""
        return thinking_stays(self._config, self._target.options)

    def _size(self, prompt: Prompt) -> int:
        return self.encoded(prompt).size

    def _fits(self, size: int) -> bool:
        return self.ruler.tokens(size) <= self._config.sliding_context_tokens

    def tokens(self, prompt: Prompt) -> int:
        """Return the estimated tokens of a prompt."""
        return self.ruler.tokens(self._size(prompt))

    # The edge

    def _numbers(self, why: str | None, count: int, budget: int) -> tuple[int, int, int | None]:
        """Return limit, step and turn of the edge."""
        if why != "budget":
            return (self._config.context_size if why == "turns" else 0), 0, None
        if self._config.steady:
            return budget, self._steps.step, None
        return budget, 0, self._sources.units[count].turns[-1] or 0

    def _edge(
        self, events: Sequence[Event], why: str | None, limit: int = 0, step: int = 0, turn: int | None = None
    ) -> Edge:
        if not events:
            return Edge(None, why, 0, limit=limit, step=step, turn=turn)
        first = first_of(events)
        # A summary before the window may be newer than the window's messages.
        before = self._sources.before(first) if why == "planning" else self._sources.count - len(events)
        return Edge(first, why, before, limit=limit, step=step, turn=turn)


def thinking_stays(config: Config, options: Options) -> bool:
    """Return True if thinking is still sent after its turn is over: under `steady`, if the model binds thinking."""
    return config.steady and bool(options.binds)


def first_of(events: Sequence[Event]) -> int:
    """Return the id of the oldest message, or 0 without messages. The first message need not have the lowest id: it may
    be a summary."""
    return min((event.id for event in events), default=0)


def _in_front(pins: Iterable[Pinned], turns: set[int | None]) -> list[Event]:
    """Return the messages of the pinned turns that are not in `turns`."""
    return [event for pin in pins if pin.turn not in turns for event in pin.events]


_IN_FRONT = (Calls("", (AnsweredCall("c", "n", "{}", "", False, None),)), ViewMessage("assistant", "."))
"""Steps before a unit that is measured alone, so that it adds as many bytes as in a whole request."""
