"""Replay a recorded conversation under another policy: rebuild its requests, bill them with a model of the cache
(`foldmark.core.assembly.caching`), and count the thinking that could still be sent [SPEC 5.3, 5.7]. Nothing is sent or
written.

The policies are Foldmark's own, the whole history, the newest messages, and the whole history from which the provider
clears tool results.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate, islice, pairwise
from typing import Any

from msgspec import Struct, structs

from foldmark.core.assembly.caching import Beginnings, Bill, Bound, Cache, Rules, Thoughts, common_length
from foldmark.core.assembly.media import is_thought
from foldmark.core.assembly.window import Units
from foldmark.core.config import Config
from foldmark.core.events import ANSWER_KINDS, Event
from foldmark.core.ports import Progress
from foldmark.core.request import ANSWER, PLAIN, ToolSpec
from foldmark.cost.history import (
    CostItem,
    PastRequest,
    Pieces,
    ReplayedContext,
    begins_answer,
    groups_of,
    own_messages,
    past_requests,
    visible,
)
from foldmark.cost.policies import ClearedResults, NewestMessages, Replay, WholeHistory
from foldmark.log.log import Agent
from foldmark.providers.registry import canonical, dialect_of
from foldmark.request.planned import Target
from foldmark.request.prepare import kept_for, on_the_wire, options
from foldmark.tokens.counting import count, uncalibrated

WHOLE: dict[str, Any] = {"sliding_context_tokens": 0, "context_size": 0, "truncation": False}

SENDERS: dict[str, type[Replay]] = {
    "steady": Replay,
    "eager": Replay,
    "full": WholeHistory,
    "messages": NewestMessages,
    "clearing": ClearedResults,
}
"""What builds the requests of each kind of policy: Foldmark's two, the whole history, the newest messages, and the
whole history with tool results cleared by the provider."""


_NAMES = {"full": "full history", "messages": "newest messages", "clearing": "provider clearing"}


class Policy(Struct, frozen=True):
    """A policy: a kind of `SENDERS`, the `budget` in tokens, and for `steady` the low water. `changes` are further
    changes to the agent's settings."""

    kind: str
    budget: int
    low_water: float | None = None
    changes: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """The name to display."""
        if self.kind == "steady" and self.low_water is not None:
            return f"steady {self.low_water:g}"
        return _NAMES.get(self.kind, self.kind)

    def applied(self, config: Config) -> Config:
        """Return the settings under this policy. Calls count as calls of the model that is asked."""
        changes: dict[str, Any] = {"context_policy": "eager" if self.kind == "eager" else "steady"}
        if self.kind in ("eager", "steady"):
            changes |= {"sliding_context_tokens": self.budget}
            changes |= {"sliding_context_low_water": self.low_water} if self.low_water is not None else {}
        else:
            changes |= WHOLE
        # A recorded summary covers only the turns that the window had passed at that time.
        return structs.replace(config, isolation=False, window_summary=False, **changes, **self.changes)


class Replayed(Struct, frozen=True):
    """A conversation under one policy: the bill of each request, the number of tokens that had been sent before but
    were not read from the cache, how often the beginning of the window moved, and the counts of thinking."""

    policy: Policy
    billed: tuple[Bill, ...]
    rewritten: int
    moves: int
    thoughts: Thoughts

    @property
    def total(self) -> Bill:
        """The sum of all requests."""
        return Bill(*map(sum, zip(*self.billed, strict=True))) if self.billed else Bill(0, 0, 0)

    @property
    def largest(self) -> int:
        """The tokens of the largest request."""
        return max((each.tokens for each in self.billed), default=0)

    @property
    def mean(self) -> int:
        """The mean tokens of a request."""
        return self.total.tokens // max(1, len(self.billed))


def answered(agent: Agent, provider: str, model: str) -> int:
    """Return the tokens of all the model's answers without thinking: the recorded texts and calls."""
    with agent.reading() as (moment, at):
        answers = (event for event in own_messages(moment, at) if event.kind in ANSWER_KINDS)
        return sum(count(provider, model, event.content.encode()) for event in answers)


def thought_about(agent: Agent) -> frozenset[int]:
    """Return the answers with recorded thinking, each by its first event."""
    found, answer = set[int](), 0
    before: Event | None = None
    with agent.reading() as (moment, at):
        for event in own_messages(moment, at):
            answer, before = event.id if begins_answer(before, event) else answer, event
            if event.kind in ANSWER_KINDS and any(map(is_thought, (event.data or {}).get("blocks") or ())):
                found.add(answer)
    return frozenset(found)


def replay(
    agent: Agent,
    policies: Sequence[Policy],
    provider: str,
    model: str,
    *,
    rules: Rules | None,
    tools: Sequence[ToolSpec] = (),
    limit: int | None = None,
    pauses: bool = True,
    progress: Progress | None = None,
) -> list[Replayed]:
    """Replay the conversation's requests to a model under each policy, and return the bills of its cache.

    `limit` is the maximum number of tokens that the model accepts. Without `pauses`, every request immediately follows
    the previous one. If thinking was recorded, the answers with thinking count; otherwise every answer counts as if it
    had begun with a block. Thinking has no weight. `progress` receives the number of requests made and the total.
    Raises CommandError for an unknown provider, StoreError.
    """
    name = canonical(provider)
    with agent.reading() as (moment, at):
        config, dialect = at.config, dialect_of(name, at.given.dialects)
        asks = options(dialect, model, config, PLAIN.output, ANSWER)
        target = Target(name, dialect, model, tuple(on_the_wire(tools).values()), asks)
        known: dict[Any, CostItem] = {}
        found = past_requests(moment, agent)
        every = {each.answer for each in found}
        thought = thought_about(agent) & every or every
        ledgers = []
        for policy in policies:
            sender = SENDERS[policy.kind](moment, Pieces(target, policy.applied(config), known), limit)
            if isinstance(sender, NewestMessages):
                sender.fit(policy.budget, groups_of(own_messages(moment, at)))
            ledgers.append(_Ledger(policy, sender, Cache(rules, uncalibrated(provider, model))))
        for number, (each, now) in enumerate(visible(moment, at, found, dialect.reads)):
            if rules is not None and (now.opened or not now.old):
                units = Units(reversed(now.events))
                opener = units[0].events[0] if units.reach(1) else None
                now.hour = kept_for(moment, now.at, config, name, dialect, opener) == "1h"
            for place, ledger in enumerate(ledgers):
                ledger.add(each, now, each.when if pauses else float(number), thought)
                if progress:
                    progress(number * len(ledgers) + place + 1, len(found) * len(ledgers))
    return [ledger.closed() for ledger in ledgers]


class _Ledger:
    """Bills the requests of one policy as they come."""

    def __init__(self, policy: Policy, sender: Replay, cache: Cache) -> None:
        self._policy, self._sender, self._pieces, self._cache = policy, sender, sender.pieces, cache
        self._request, self._bound = Beginnings(), Bound()
        self._items: list[CostItem] = []
        # For the newest request: the blocks and bytes up to the end of each item, and the items that are answers which
        # began with thinking.
        self._blocks: list[int] = []
        self._sizes: list[int] = []
        self._answers: list[tuple[int, int]] = []
        self._seen: set[object] = set()
        self._billed: list[Bill] = []
        self._rewritten = self._moves = 0

    def add(self, past: PastRequest, now: ReplayedContext, at: float, thought: Collection[int]) -> None:
        """Count one request, sent at `at` (seconds)."""
        items = self._sender.request(now)
        same = common_length(self._items, items)
        self._moves += bool(self._items) and _oldest(self._items) != _oldest(items)
        shared, answers = self._go_on(items, same, thought)
        marks = self._marks(now.turn)
        among = sum(each >= len(items[0].blocks) for each in marks)
        tokens = self._pieces.ruler.tokens(self._sizes[-1] + self._pieces.around(items, among, hour=now.hour))
        bill = self._cache.bill(self._request, marks, tokens, at, hour=now.hour)
        self._billed.append(bill)
        self._count(bill, same)
        self._bound.add(self._request, shared, answers, past.answer if past.answer in thought else None)

    def closed(self) -> Replayed:
        """Return the result."""
        return Replayed(self._policy, tuple(self._billed), self._rewritten, self._moves, self._bound.thoughts)

    def _go_on(self, items: Sequence[CostItem], same: int, thought: Collection[int]) -> tuple[int, list[int]]:
        """Advance to the request of these items. Return the number of answers with thinking that it shares with the
        previous one, and its other answers with thinking."""
        # This runs for every item of every request, so as little as possible is done in Python.
        for each in (self._items, self._blocks, self._sizes):
            del each[same:]
        shared = bisect_left(self._answers, (same, 0))
        del self._answers[shared:]
        new = items[same:]
        self._request.follow(self._blocks[-1] if same else 0, [block for item in new for block in item.blocks])
        sizes = [item.size for item in new]
        sent = [(place, item) for place, item in enumerate(new) if item.blocks]
        last = next((item for item in reversed(self._items) if item.blocks), items[0])
        for (_, before), (place, item) in pairwise([(0, last), *sent]):
            if before.roles[1] == item.roles[0]:
                sizes[place] += self._pieces.seam(before, item)
        self._sizes += islice(accumulate(sizes, initial=self._sizes[-1] if same else 0), 1, None)
        self._blocks += islice(
            accumulate([len(i.blocks) for i in new], initial=self._blocks[-1] if same else 0), 1, None
        )
        self._answers += [(place, item.event) for place, item in enumerate(new, same) if item.event in thought]
        self._items += new
        return shared, [event for _, event in self._answers[shared:]]

    def _count(self, bill: Bill, same: int) -> None:
        """Count the tokens that were sent before and are not read from the cache."""
        ends = self._request.upto
        read = (bill.read + 1) * ends[-1] // max(1, bill.tokens)
        blocks = bisect_right(ends, read)
        first = bisect_right(self._blocks, blocks)
        again = sum(item.size for item in self._items[first:] if (item.event or item) in self._seen)
        self._rewritten += self._pieces.ruler.tokens(again)
        self._seen.update(item.event or item for item in self._items[same:])

    def _marks(self, turn: int | None) -> list[int]:
        """Return the positions of the breakpoints that the dialect sets: after the system prompt, after the part that
        was settled a turn ago, after the settled part, and at the end."""
        marks = [index for index, block in enumerate(self._items[0].blocks) if block.marked]
        settled = self._before(len(self._items), turn)
        turns = [] if settled == 1 else [self._before(settled, self._items[settled - 1].turn), settled]
        for end in (*turns, len(self._items)):
            if end > 1 and (block := self._blocks[end - 1] - 1) not in marks:
                marks.append(block)
        return marks

    def _before(self, end: int, turn: int | None) -> int:
        """Return the number of items before the turn at the end of the first `end` items, including the head."""
        while end > 1 and (self._items[end - 1].group is None or self._items[end - 1].turn == turn):
            end -= 1
        return end


def _oldest(items: Sequence[CostItem]) -> int | None:
    return next((item.event for item in items if item.event), None)
