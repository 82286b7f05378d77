"""The plan of an agent's next request, from the last one that was sent and the log [SPEC 5.3, 5.7].

`core.assembly.plan` decides; here are the facts that it decides by. Everything is computed from the log and the last
recorded request: making a request writes nothing, so the same log gives the same request in every process.
"""

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import structs

from foldmark.core.assembly import plan as plans
from foldmark.core.assembly.eviction import begins, blocks_of
from foldmark.core.assembly.plan import Room, Turns, sent_weight
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.view import active_from
from foldmark.core.assembly.window import Units
from foldmark.core.codec import operation_of
from foldmark.core.config import Config
from foldmark.core.events import Event, Summary, shapes
from foldmark.core.ports import Snapshot
from foldmark.core.request import Edge, Family, Options, Plan, ToolSpec
from foldmark.core.segments import END, since
from foldmark.dialects.dialect import Dialect
from foldmark.request.layers import family_of, present_family
from foldmark.request.material import Material, opener_of
from foldmark.request.recorded import SentPlan, newest_plan
from foldmark.request.standing import Standing, as_of, once
from foldmark.tokens.counting import BytesRuler, ruler, uncalibrated, usable


class Target(NamedTuple):
    """The recipient of a request: its provider by name and by dialect, the model, its tools, and the options of the
    answer."""

    provider: str
    dialect: Dialect
    model: str
    tools: tuple[ToolSpec, ...]
    options: Options

    def encoded(self, prompt: Prompt) -> tuple[dict[str, Any], bytes]:
        """Return the body of a request, and its serialized form."""
        body = self.dialect.encode(self.model, prompt, self.tools, self.options)
        return body, msgspec.json.encode(body)


UNSHAPING = (
    *("calibration", "cache_ttl", "model", "tools", "tool_approval", "turn_steps", "provider_compaction"),
    *("warn_threshold", "recommend_threshold", "urgent_threshold", "check_interval_seconds", "model_commands"),
)
"""The settings that change nothing that is sent, or only what is compared by itself: the model, its tools, and the
guidelines about commands."""


def thinking_stays(config: Config, options: Options) -> bool:
    """Return True if thinking is still sent after its turn is over: under `steady`, if the model binds thinking."""
    return config.steady and bool(options.binds)


Before: TypeAlias = Callable[[Snapshot, Standing], SentPlan | None]
"""Returns the request that the next one goes on with."""


class Made(NamedTuple):
    """The prompt of a plan, its body and its serialized body."""

    prompt: Prompt
    body: dict[str, Any]
    data: bytes


T = TypeVar("T")


class Requests(Generic[T]):
    """The requests of plans at one standing, whose newest event is `newest`: `make` makes each of them once."""

    def __init__(self, newest: int, make: Callable[[Plan, int], T]) -> None:
        self._newest, self._make = newest, make
        self._known: list[tuple[Plan, int, T]] = []

    def __call__(self, plan: Plan, until: int = END) -> T:
        """Return the request of a plan, with the messages up to an event."""
        until = END if until >= self._newest else until
        for known, upto, request in self._known:
            if upto == until and known == plan:
                return request
        request = self._make(plan, until)
        self._known.append((plan, until, request))
        return request


class Planner:
    """Finds the plan of the next request. `instruction` is a final user message that is not in the log. Children are
    reported only if the request `answers`, that is, continues the conversation; `before` returns the request that it
    goes on with, and `lifetime` how long it is cached, given the first message of its newest turn."""

    def __init__(
        self,
        material: Material,
        target: Target,
        instruction: str | None = None,
        *,
        answers: bool = True,
        before: Before = newest_plan,
        lifetime: Callable[[Event | None], str] | None = None,
    ) -> None:
        self._before_it, self._lifetime, self.target = before, lifetime, target
        self._material, self._instruction, self._answers = material, instruction, answers
        self._moment, self._at, self._config = material.moment, material.at, material.config
        self._settled = self._at.newest
        self.made = Requests(self._at.newest, self._encoded)
        self._lowered = False
        self.ruler = ruler(target.provider, target.model, self._config)

    def _encoded(self, plan: Plan, until: int) -> Made:
        prompt = self._material.prompt(plan, self._instruction, until)
        if self._lifetime is not None:  # all requests of a turn have the same one
            units = Units(reversed(self._material.window(plan.first)))
            ttl = self._lifetime(units[0].events[0] if units.reach(1) else None)
            self.target = self.target._replace(options=structs.replace(self.target.options, cache_ttl=ttl))
            self._lifetime = None
        return Made(prompt, *self.target.encoded(prompt))

    def planning(self) -> tuple[Plan, Edge]:
        """Return the plan of a request with every message of its material, whatever its size, and without layers that
        change; and its edge."""
        first = min((event.id for event in self._material.messages), default=0)
        plan = Plan(first, head=self.head)
        return plan, Edge(first or None, "planning", self._material.before(first) if first else 0)

    def next(self, limit: int | None) -> Plan:
        """Return the plan of the next request; `limit` is the maximum number of tokens that the model accepts."""
        if not self._config.steady:
            return self._afresh(limit)
        sent = self._before_it(self._moment, self._at)
        previous, grown = None, None
        if sent is not None:
            self._material.hashes = sent.hashes
            sent = sent._replace(plan=self._material.known(sent.plan))
            found = self._before(sent)
            previous, grown = found or sent.plan, partial(self._grown, sent) if found is not None else None
        room = self._room(limit)
        if grown is not None:
            self._settled = self._at.newest  # a new plan is a step here
        most = self._config.context_size
        return plans.steady(previous, grown, lambda: self._turns, room, self._anew, most)

    @once
    def head(self) -> str:
        """Return the hash of everything that precedes the messages of a request, and of the settings that shape it."""
        to = self.target
        shaping = {key: value for key, value in msgspec.to_builtins(self._config).items() if key not in UNSHAPING}
        stable = [part.text for part in self._material.stable]
        whole = [to.provider, to.model, to.tools, to.options.binds, shaping, stable]
        return sha256(msgspec.json.encode(whole)).hexdigest()[:16]

    # From the last request

    def _before(self, sent: SentPlan) -> Plan | None:
        """Return the plan that the next request goes on with; None if there was a boundary since."""
        if self._at.fold.at > self._at.newest:  # a hypothetical operation
            return None
        shaping = [event for event in sent.since(self._moment, self._at) if shapes(event)]
        changes = [event.id for kind in ("config", "system") if (event := self._at.newest_of.get(kind)) is not None]
        # Results are as old as they were then, so that a receipt says what the next request will be.
        newest = max([*(event.id for event in shaping), *changes], default=0)
        self._settled = newest if newest > sent.event else self._at.newest
        if sent.plan.head != self.head:
            return None
        if not shaping:
            return sent.plan
        return self._behind(sent.plan, shaping[0]) if len(shaping) == 1 else None

    def _behind(self, plan: Plan, event: Event) -> Plan | None:
        """Return the plan after a summary in the provider's own form: the turns that it keeps stay as they were sent.
        None for any other operation, or if calls that stay would be separated from calls that leave."""
        summary = operation_of(event) if event.kind == "summary" else None
        if not isinstance(summary, Summary) or not summary.kept or event.agent_id != self._at.record.id:
            return None
        if not blocks_of(event, self.target.dialect.reads):
            return None
        window, first = self._material.window(begins(event)), summary.kept
        gone = [e for e in self._moment.select(since(summary.ranges, plan.first)) if begins(e) >= plan.first]
        kept = [e for e in window if e.id >= first and e.id != event.id]
        if not any(e.id == first for e in kept) or first < plan.first:
            return None
        ids = {e.call_id for e in gone if e.kind == "tool_call"}
        if any(e.call_id in ids for e in kept if e.kind == "tool_call"):
            return None
        active = active_from(e for e in (*gone, *kept) if e.id <= plan.settled)
        return structs.replace(
            plan,
            first=begins(event),
            layers=plan.layers if active >= first else {},
            later={at: layers for at, layers in plan.later.items() if at >= first},
            told={at: told for at, told in plan.told.items() if at >= first or (at == 0 and active >= first)},
        )

    def _grown(self, sent: SentPlan, plan: Plan) -> Plan:
        """Return the plan with the layers in front of the newest turn, if it was opened since the last request."""
        opener = self._material.opened_after(plan.first, max(plan.settled, sent.event))
        if opener is None:
            return plan
        layers = self._material.news(plan, opener)
        told = self._family
        return structs.replace(
            plan,
            later={**plan.later, opener.id: layers} if layers else plan.later,
            told={**plan.told, opener.id: told[0]} if told else plan.told,
        )

    # Anew

    def _anew(self, first: int, results: int, bare: int) -> Plan:
        """Return the plan of a boundary: at the newest operation or change of a setting, or here for a step."""
        material, settled = self._material, self._settled
        opener = opener_of(event for event in material.window(first) if event.id <= settled)
        layers, family = material.anchors(self._at, opener, first), self._family
        plan = Plan(first, settled, results, bare, self._pins, layers, told=family, **self._kept)
        newer = material.opened_after(first, settled)
        later = {} if newer is None else material.news(plan, newer)
        return structs.replace(plan, later={newer.id: later}) if newer is not None and later else plan

    @property
    def _kept(self) -> dict[str, Any]:
        return {"ratio": self.ruler.ratio, "head": self.head}

    @once
    def _family(self) -> dict[int, Family]:
        """The report about children and mail at its default place, if there is anything to report."""
        if not self._answers:
            return {}
        found = (present_family if self._config.steady else family_of)(self._moment, self._at)
        return {} if found == Family() else {0: found}

    @once
    def _turns(self) -> Turns:
        material, config, fixed = self._material, self._config, self._fixed + sum(self._pinned.values())
        return Turns(
            material.units,
            config.context_size,
            fixed,
            config,
            material.dialect,
            thoughts=material.thoughts,
            weights=material.weights,
            pinned=material.pinned,
            unknown={*material.evicted, material.uncut},
        )

    @once
    def _fixed(self) -> int:
        """The estimated bytes of everything but the messages of turns."""
        parts = [*self._material.stable, *self._material.parts(self._material.anchors(self._at, None, 0), None)]
        said = [part.text for part in parts] + ([self._instruction] if self._instruction else [])
        return len(msgspec.json.encode(self.target.tools)) + sum(
            len(text.encode("utf-8", "replace")) + 64 for text in said
        )

    @once
    def _pinned(self) -> dict[int, int]:
        """The estimated bytes of each pinned turn."""
        config, dialect = self._config, self._material.dialect
        return {
            turn: sum(sent_weight(e, config, dialect, config.truncate_inactive, False, thoughts=False) for e in events)
            for turn, events in self._material.pinned.items()
        }

    @once
    def _pins(self) -> tuple[int, ...]:
        """The pinned turns that fit together with the newest turn; the oldest are left out first [SPEC 5.3]."""
        pins, turns, scale = [*self._pinned], self._turns, self._scale
        if not pins or not turns.units.reach(1):
            return tuple(pins)
        size = turns.bytes(1)
        while pins and size * scale > 1:
            size -= self._pinned[pins.pop(0)]
        return tuple(pins)

    def _room(self, limit: int | None) -> Room:
        """Return the room of a request: the budget, by the calibration of the plan, and the limit of the model, by the
        newest one, because the provider would refuse a longer request."""
        limits = (self._config.sliding_context_tokens, limit)
        self._scale = max((self._byte_of(most) for most in limits if most), default=0.0)
        low = self._config.sliding_context_low_water
        return Room(partial(self._fill, limit), partial(self._is_refused, limit), self._scale, low)

    def _byte_of(self, most: int) -> float:
        """Return the share of so many tokens that one byte fills, as far as is known before anything is measured."""
        is_in_bytes, to = isinstance(self.ruler, BytesRuler), self.target
        return 1 / (self.ruler.ratio * most * (1 if is_in_bytes else uncalibrated(to.provider, to.model)))

    def _size(self, plan: Plan, until: int = END) -> int:
        """Return the size of the request of a plan, as the ruler measures it."""
        made = self.made(plan, until)
        return self.ruler.size(made.body, made.data, made.prompt.media)

    def _is_refused(self, limit: int | None, plan: Plan) -> bool:
        return limit is not None and self.ruler.tokens(self._size(plan)) > limit

    def _fill(self, limit: int | None, plan: Plan, until: int = END) -> float:
        size, budget = self._size(plan, until), self._config.sliding_context_tokens
        planned = structs.replace(self.ruler, ratio=plan.ratio) if usable(plan.ratio) else self.ruler
        filled = [planned.tokens(size) / budget] if budget else []
        return max([*filled, *([self.ruler.tokens(size) / limit] if limit else [])], default=0.0)

    def edge(self, plan: Plan, limit: int | None) -> Edge:
        """Return the edge of a plan, with the reason why the window does not begin earlier."""
        window, budget = self._material.window(plan.first), self._config.sliding_context_tokens
        first, before = min((event.id for event in window), default=None), self._material.count - len(window)
        edge = Edge(first, None, before)
        if not before:
            return edge
        if (most := self._config.context_size) and self._turns.count(plan.first) >= most:
            return structs.replace(edge, why="turns", limit=most)
        if self._config.steady:
            return structs.replace(edge, why="budget", limit=min(each for each in (budget, limit) if each))
        turns = self._turns
        count = turns.count(plan.first)
        most = budget if limit is None or not self._lowered else limit
        return structs.replace(edge, why="budget", limit=most, turn=turns.units[count].turns[-1] or 0)

    # Afresh

    def _afresh(self, limit: int | None) -> Plan:
        """Return the plan of the policy `eager`: as many whole turns, newest first, as fit when the newest one is
        opened [S3]. The window stays for that turn."""
        material, units, budget = self._material, self._material.units, self._config.sliding_context_tokens
        family, room = self._family, self._room(None)
        if not units.reach(1):
            return Plan(0, layers=material.anchors(self._at, None, 0), told=family, **self._kept)
        opener, settled, newest = opener_of(units[0].events), units[0].settled, begins(units[0].events[0])
        then = as_of(self._moment, self._at, settled)
        summed = 0  # a summary of what precedes the window, if it was recorded up to this event

        def plan(at: Standing, first: int) -> Plan:
            layers = material.anchors(at, opener, first, summed)
            return Plan(first, END, 0, 0, tuple(pins), layers, told=family, **self._kept)

        def fill(count: int) -> float:
            return self._fill(None, plan(then, self._turns.first(count)), settled)

        def share(first: int) -> float:
            return self.ruler.tokens(self._size(plan(self._at, first))) / (limit or 1)

        pins = [*material.pinned]
        if (same := self._same_turn(settled)) is not None:
            first, pins = same.plan.first, [*same.plan.pins]
            summed = settled if "window_summary" in same.plan.layers else 0
            self._lowered = same.edge is not None and same.edge.why == "budget" and same.edge.limit != budget
        else:
            turns = self._turns
            while budget and pins and fill(1) > 1:
                pins = pins[1:]
            late = sum(turns.weigh(event) for event in units[0].events if room.scale and begins(event) > settled)
            sure = isinstance(self.ruler, BytesRuler)
            alone = fill(1) if sure and budget and pins else None
            count = plans.widest(turns, fill, room.scale, late, sure=sure, alone=alone)
            summed = settled if material.summary(turns.first(count), settled) else 0
            if summed and fill(1) > 1:  # a summary displaces no pinned turn
                summed = 0
            count = plans.widest(turns, fill, room.scale, late) if summed else count
            first = turns.first(count)
        if limit is not None and first < newest and share(first) > 1:
            turns = self._turns
            self._lowered, scale, most = True, self._byte_of(limit), turns.count(first) - 1
            first = turns.first(plans.widest(turns, lambda count: share(turns.first(count)), scale, most=most))
        return plan(self._at, first)

    def _same_turn(self, settled: int) -> SentPlan | None:
        """Return the newest request if it was made in the turn that was opened at event `settled`, and nothing has
        changed its window since."""
        sent = self._before_it(self._moment, self._at)
        return sent if sent is not None and sent.event >= settled and self._before(sent) is sent.plan else None
