"""What a recorded conversation would have cost under another policy: its requests again, billed by a cache that is
modelled (`foldmark.core.caching`) [SPEC 5.3]. Nothing is sent, and nothing is written."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, structs

from foldmark.conversation.agent import Agent
from foldmark.conversation.decide import recorded
from foldmark.conversation.request import prepare
from foldmark.conversation.standing import Standing
from foldmark.core.caching import Bill, Cache, Rules, explicit, managed, stepped
from foldmark.core.codec import stored_time
from foldmark.core.config import Config
from foldmark.core.events import ANSWER_KINDS, Drop, Event, Restore
from foldmark.core.lifetime import LIFETIMES
from foldmark.core.ports import Progress
from foldmark.core.request import Request, ToolSpec
from foldmark.core.segments import Segment, Segments, subtract, until
from foldmark.tokens.counting import BYTES_PER_TOKEN, count
from foldmark.tokens.models import Model

CAUSES = ("first", "pause", "cut", "turn", "step")
"""What a request comes after: nothing; a pause that the cache did not outlive; a move of the window's beginning; a
person's message; a result of its own turn."""


class Policy(Struct, frozen=True):
    """How requests are made: `changes` to the agent's settings, and whether state, scratchpad and memos stand behind
    the history (None: as the settings have it)."""

    name: str
    changes: dict[str, float | int | bool | str] = {}
    anchors_last: bool | None = None

    def applied(self, config: Config) -> Config:
        """The settings with the changes. Calls count as made by whichever model is asked."""
        return structs.replace(config, isolation=False, **self.changes)


class Tariff(NamedTuple):
    """What cached tokens cost: `read` and `write` as shares of the price of a fresh one, which is `input` dollars a
    million, None where nobody knows."""

    read: float
    write: float
    input: float | None = None

    def cost(self, bill: Bill) -> float:
        """What a bill is worth in fresh tokens."""
        return bill.fresh + bill.written * self.write + bill.read * self.read

    def shown(self, cost: float) -> str:
        """So many fresh tokens' worth as a person reads it: in dollars where the price is known."""
        return f"{cost:,.0f}" if self.input is None else f"${cost * self.input / 1e6:,.2f}"


class Billed(NamedTuple):
    """One request: its bill, one of `CAUSES`, and how many tokens of it the request before it held as well but the
    cache did not."""

    bill: Bill
    cause: str
    again: int


class Replayed(Struct, frozen=True):
    """A conversation under one policy. `moves` counts how often the window's beginning moved."""

    policy: Policy
    billed: tuple[Billed, ...]
    moves: int

    @property
    def total(self) -> Bill:
        """All requests together."""
        bills = [each.bill for each in self.billed]
        return Bill(*map(sum, zip(*bills, strict=True))) if bills else Bill(0, 0, 0)

    @property
    def largest(self) -> int:
        """The tokens of the largest request."""
        return max((each.bill.tokens for each in self.billed), default=0)

    @property
    def mean(self) -> int:
        """The tokens of a request on the average."""
        return self.total.tokens // max(1, len(self.billed))

    def again(self, cause: str) -> int:
        """The tokens that were not new and yet not read from the cache, in requests of this cause."""
        return sum(each.again for each in self.billed if each.cause == cause)


class Asked(NamedTuple):
    """A moment at which the model was asked: where the agent stood, when (seconds), and the turn."""

    at: Standing
    moment: float
    turn: int | None


def asked(agent: Agent) -> list[Asked]:
    """Every moment of the agent's own history at which its model was asked: before each answer, and in a turn that
    calls tools before each of its steps.

    What is no longer visible counts: it was asked. But turns that were dropped behind the last message are left out
    from the beginning: they are the abandoned branches of an imported session. Time never runs backwards here,
    whatever the records say. Raises StoreError.
    """
    gone = _dropped_at_the_end(agent)
    earliest = max(1, agent.standing().record.fork_event)
    found: list[Asked] = []
    moment = 0.0
    before: Event | None = None
    for event in _own(agent, gone):
        if event.kind in ANSWER_KINDS and _begins(before, event) and event.id > earliest:
            found.append(Asked(_without(agent.stood(event.id - 1), gone), moment, event.turn_id))
        moment, before = max(moment, stored_time(event.created_at).timestamp()), event
    return found


def answered(agent: Agent, provider: str, model: str) -> int:
    """The tokens of all that the model answered, thinking excepted: the text and the calls that are recorded."""
    answers = (event for event in _own(agent, _dropped_at_the_end(agent)) if event.kind in ANSWER_KINDS)
    return sum(count(provider, model, event.content.encode()) for event in answers)


def tariff_of(known: Model) -> Tariff:
    """What cached tokens of a model cost; where nothing is known of that, as much as others."""
    read, write = known.cache_read, known.cache_write
    return Tariff(1.0 if read is None else read, 1.0 if write is None else write, known.input_price)


def rules_of(known: Model) -> Rules | None:
    """How the cache of a model works; None if it has none.

    Where writing costs, whoever keeps beginnings without being told keeps few of them: OpenAI since GPT-5.6.
    """
    if known.caching == "none":
        return None
    if known.caching == "explicit":
        return explicit(known.cache_least)
    if known.cache_write is not None and known.cache_write > 1:
        return managed(known.cache_least)
    return stepped(known.cache_least, known.cache_step)


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
    """The conversation's requests to a model once more under each policy, and what its cache makes of them.

    `limit` is the tokens that the model takes; without `pauses` every request follows on the one before it at once.
    `progress` is told of requests made, out of all. Raises CommandError for an unknown provider, StoreError.
    """
    moments, config = asked(agent), agent.standing().config
    ledgers = [_Ledger(policy, Cache(rules, BYTES_PER_TOKEN.get(provider, 4.0))) for policy in policies]
    for number, moment in enumerate(moments):
        now = moment.moment if pauses else float(number)
        for place, ledger in enumerate(ledgers):
            policy = ledger.policy
            request = prepare(moment.at, policy.applied(config), provider, model, tools=tools, limit=limit)
            lives = max(rules.lifetime, LIFETIMES[request.cache_ttl]) if rules and pauses else None
            ledger.add(request, moment.turn, now, lives)
            if progress:
                progress(number * len(ledgers) + place + 1, len(moments) * len(ledgers))
    return [ledger.closed() for ledger in ledgers]


class _Ledger:
    """Bills of one policy as its requests come."""

    def __init__(self, policy: Policy, cache: Cache) -> None:
        self.policy, self._cache = policy, cache
        self._billed: list[Billed] = []
        self._moves = 0
        self._before: tuple[int | None, int | None, float, int] | None = None

    def add(self, request: Request, turn: int | None, now: float, lifetime: float | None) -> None:
        bill = self._cache.bill(request.dialect, request.body, request.tokens, now)
        first, cause, held = request.manifest.edge.first, "first", 0
        if self._before is not None:
            began, in_turn, at, held = self._before
            moved = began is not None and first != began
            self._moves += moved
            late = lifetime is not None and now - at > lifetime
            cause = "pause" if late else "cut" if moved else "turn" if turn != in_turn else "step"
        self._billed.append(Billed(bill, cause, max(0, min(held, bill.tokens) - bill.read)))
        self._before = first, turn, now, bill.tokens

    def closed(self) -> Replayed:
        return Replayed(self.policy, tuple(self._billed), self._moves)


def _own(agent: Agent, gone: Segments) -> Iterator[Event]:
    now = agent.standing()
    return now.store.messages(subtract((Segment(agent.id, 1, now.newest),), gone))


def _begins(before: Event | None, event: Event) -> bool:
    return before is None or before.kind not in ANSWER_KINDS or before.turn_id != event.turn_id


def _dropped_at_the_end(agent: Agent) -> Segments:
    now = agent.standing()
    newest = next(now.store.messages((Segment(agent.id, 1, now.newest),), newest_first=True), None)
    last = recorded(now.store.operations(agent.id, after=newest.id if newest else 0))
    restored = {operation.target for _, operation in last if isinstance(operation, Restore)}
    drops = [each for id, each in last if isinstance(each, Drop) and id not in restored]
    return tuple(segment for drop in drops for segment in drop.ranges)


def _without(at: Standing, gone: Segments) -> Standing:
    if not gone:
        return at
    fold = structs.replace(at.fold, segments=subtract(at.fold.segments, gone))
    return structs.replace(at, fold=fold, size=at.store.size(until(fold.segments, at.newest)))
