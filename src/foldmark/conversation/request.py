"""From where an agent stands to the request that would go out [SPEC 5]: pure, and without any provider's SDK."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from foldmark.conversation.standing import Standing
from foldmark.core import prompt as prompts
from foldmark.core import window
from foldmark.core.config import Config
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.prompt import Layer, Prompt
from foldmark.core.request import Edge, LeftOut, Manifest, Options, Request, ToolSpec
from foldmark.core.segments import Segment, Segments, intersect, until
from foldmark.core.view import active_from, view
from foldmark.core.window import Unit, Units
from foldmark.core.wire import tool_name
from foldmark.core.wording import listing
from foldmark.providers.wires import WIRES
from foldmark.tokens.counting import ruler


def prepare(
    at: Standing,
    config: Config,
    provider: str,
    model: str,
    *,
    tools: Sequence[ToolSpec] = (),
    only: Segments | None = None,
    purpose: str = "answer",
    instruction: str | None = None,
    limit: int | None = None,
) -> Request:
    """The request to `model` of `provider` for the context of `at`, with its manifest. Reads, and writes nothing.

    `only` restricts the messages to these segments and leaves out state, scratchpad, pins and budget, for planning
    [SPEC 4.2]. `instruction` is a last user message that the log does not hold. `limit` is the tokens that the model
    takes: where the budget's window would pass it because the newest turn grew, older turns go [SPEC 5.3]. Guidelines
    are sent with `tools` only. Raises CommandError for an unknown provider, StoreError.
    """
    name = "gemini" if provider == "google" else provider
    if name not in WIRES:
        raise CommandError(f"there is no provider '{provider[:40]}'; there is: {listing(WIRES)}")
    unique: dict[str, ToolSpec] = {}
    for tool in tools:
        unique.setdefault(tool_name(tool.name), tool)
    maker = _Maker(at, config, name, model, tuple(unique.values()), instruction)
    prompt, edge = maker.planning(only) if only is not None else maker.windowed(limit)
    body, data, size = maker.encoded(prompt)
    return Request(
        provider=name,
        model=model,
        dialect=WIRES[name].dialect,
        body=body,
        bytes=data,
        tokens=maker.ruler.tokens(size),
        manifest=Manifest(prompt.parts, prompt.left_out, edge),
        purpose=purpose,
    )


class _Pinned(NamedTuple):
    """A pinned turn and what of it is visible."""

    turn: int
    events: tuple[Event, ...]


class _Maker:
    """Makes prompts of one context for one model, of as many turns as somebody asks for."""

    def __init__(
        self,
        at: Standing,
        config: Config,
        provider: str,
        model: str,
        tools: tuple[ToolSpec, ...],
        instruction: str | None,
    ) -> None:
        self._at, self._store, self._visible = at, at.store, at.visible
        # The built-in model reads calls in Foldmark's own form, whoever's they were.
        self._config = msgspec.structs.replace(config, isolation=False) if provider == "offline" else config
        self._provider, self._model = provider, model
        self._tools, self._instruction, self._wire = tools, instruction, WIRES[provider]
        self.ruler = ruler(provider, model, config)

    def planning(self, only: Segments) -> tuple[Prompt, Edge]:
        """The prompt of the visible messages inside `only`, whatever their size."""
        segments = intersect(self._visible, only)
        events = [event for event in self._store.messages(segments) if event.kind != "system"]
        prompt = self._prompt(self._layers(self._at, anchors=False), events, events[0].id if events else 0)
        return prompt, self._edge(events, "planning", "only what is being matched")

    def windowed(self, limit: int | None) -> tuple[Prompt, Edge]:
        """The prompt of the window, with the pinned turns in front of it."""
        units, budget = self._units, self._config.sliding_context_tokens
        fits = self._fits if budget else None
        cut = window.choose(units, self._config.context_size, fits, self._measured, self._rough)
        count, why = cut
        prompt, events = self._final(count)
        if limit is not None and count > 1 and self._tokens(prompt) > limit:
            count, why, budget = self._within(limit, count), "budget", limit
            prompt, events = self._final(count)
        return prompt, self._edge(events, why, self._reason(why, count, budget))

    def encoded(self, prompt: Prompt) -> tuple[dict[str, Any], bytes, int]:
        """The body of a request, the same serialized, and its size."""
        body = self._wire.encode(self._model, prompt, self._tools, Options(thinking=self._config.thinking))
        data = msgspec.json.encode(body)
        return body, data, self.ruler.size(body, data, prompt.images)

    # What there is

    @cached_property
    def _units(self) -> Units:
        newest_first = self._store.messages(self._visible, newest_first=True)
        return Units(event for event in newest_first if event.kind != "system")

    @cached_property
    def _pins(self) -> list[_Pinned]:
        """The pinned turns that are visible, in the order of the log."""
        found = []
        for turn in sorted(set(self._at.fold.pins)):
            messages = self._store.turn(turn)
            if messages:
                span = [Segment(messages[0].agent_id, messages[0].id, messages[-1].id)]
                events = self._store.messages(intersect(self._visible, span))
                shown = tuple(event for event in events if event.turn_id == turn and event.kind != "system")
                found += [_Pinned(turn, shown)] if shown else []
        return found

    @cached_property
    def _kept(self) -> list[_Pinned]:
        """The pinned turns for which there is room beside the newest turn; the oldest go first [SPEC 5.3]."""
        kept = list(self._pins)
        if self._config.sliding_context_tokens:
            while kept and not self._fits(self._size(self._measure(1, kept))):
                del kept[0]
        return kept

    def _layers(self, at: Standing, *, anchors: bool = True) -> list[Layer]:
        """The layers in front of the messages as they were at `at`."""
        system = self._store.of_kind("system", at.visible)
        events = [event for event in map(self._store.event, system) if event is not None]
        state = at.state if anchors else None
        notes: Event | str | None = None
        if anchors:
            notes = self._store.newest("scratchpad", (Segment(at.record.id, 1, at.newest),)) or at.scratchpad
        return prompts.layers(self._config, events, tools=bool(self._tools), state=state, scratchpad=notes)

    # As it is

    def _final(self, count: int) -> tuple[Prompt, list[Event]]:
        events = self._units.newest(count)
        first = events[0].id if events else 0
        pinned = self._before(self._kept, count)
        prompt = self._prompt(self._now, [*pinned, *events], first)
        here = {turn for index in range(count) for turn in self._units[index].turns}
        kept = {pin.turn for pin in self._kept}
        gone = [
            LeftOut(event.id, event.turn_id, "pins", f"no room for pinned turn {pin.turn}")
            for pin in self._pins
            if pin.turn not in kept and pin.turn not in here
            for event in pin.events
        ]
        return prompt._replace(left_out=(*gone, *prompt.left_out)), events

    @cached_property
    def _now(self) -> list[Layer]:
        return self._layers(self._at)

    def _before(self, pins: Sequence[_Pinned], count: int) -> list[Event]:
        """The messages of pinned turns that the newest `count` units do not hold."""
        here = {turn for index in range(count) for turn in self._units[index].turns}
        return [event for pin in pins if pin.turn not in here for event in pin.events]

    def _prompt(
        self, layers: Sequence[Layer], events: Sequence[Event], first: int, active: int | None = None
    ) -> Prompt:
        shown = view(events, self._wire.dialect, self._config, first, active)
        return prompts.assemble(layers, shown, self._instruction)

    # As it was when the newest turn was opened: this is what the window is measured by

    @cached_property
    def _then(self) -> list[Layer]:
        record = msgspec.structs.replace(self._at.record, head=self._units[0].opener)
        return self._layers(msgspec.structs.replace(self._at, record=record))

    def _measured(self, count: int) -> int:
        return self._size(self._measure(count, self._kept))

    def _measure(self, count: int, pins: Sequence[_Pinned]) -> Prompt:
        events = self._units.newest(count)
        opener = self._units[0].opener
        then = [event for event in events if event.id <= opener]
        first = events[0].id
        return self._prompt(self._then, [*self._before(pins, count), *then], first, active_from(events))

    def _rough(self, unit: Unit) -> int:
        steps = view(unit.events, self._wire.dialect, self._config, 0, unit.events[-1].id + 1).steps
        return self._size(Prompt("", steps)) - self._size(Prompt("", ())) if steps else 0

    def _size(self, prompt: Prompt) -> int:
        return self.encoded(prompt)[2]

    def _fits(self, size: int) -> bool:
        return self.ruler.tokens(size) <= self._config.sliding_context_tokens

    def _tokens(self, prompt: Prompt) -> int:
        return self.ruler.tokens(self._size(prompt))

    def _within(self, limit: int, count: int) -> int:
        """The most units, fewer than `count`, whose request stays within `limit`; the newest one in any case."""
        low, high = 1, count
        while high - low > 1:
            middle = (low + high) // 2
            prompt, _ = self._final(middle)
            low, high = (low, middle) if self._tokens(prompt) > limit else (middle, high)
        return low

    # The edge

    def _reason(self, why: str | None, count: int, budget: int) -> str:
        if why == "turns":
            return f"context_size is {self._config.context_size}"
        if why == "budget":
            return f"with turn {self._units[count].turns[-1]} in front the request would pass {budget:,} tokens"
        return ""

    def _edge(self, events: Sequence[Event], why: str | None, detail: str) -> Edge:
        if not events:
            return Edge(None, why, 0, detail)
        earlier = until(self._visible, events[0].id - 1)
        before = self._store.size(earlier).messages - len(self._store.of_kind("system", earlier))
        return Edge(events[0].id, why, before, detail)
