"""The cost of single requests [SPEC 4, 5.7]: the cache hits and misses of requests that were sent, and the cost of the
next request after an operation, for its preview.

A preview uses the same decision and the same fold as the operation itself, and writes nothing.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.assembly.caching import LIFETIMES, Bill, Rules
from foldmark.core.assembly.sent import Answered, Between, Missed, SentRequest, missed
from foldmark.core.codec import operation_kind, stored_time
from foldmark.core.events import ANSWER_KINDS, BESIDE_KINDS, Operation
from foldmark.core.ports import Snapshot
from foldmark.core.replay import recorded
from foldmark.core.request import Request, Usage
from foldmark.core.segments import END, Segment
from foldmark.core.wording import count
from foldmark.cost.spending import rules_of, tariff_of
from foldmark.dialects.dialect import dialect_named
from foldmark.log.log import Agent
from foldmark.operations.history import sized, words
from foldmark.operations.receipts import Outcome
from foldmark.request.exchanges import until_next
from foldmark.request.standing import Standing
from foldmark.request.usage import usage_of
from foldmark.sending.rebuilding import rebuilt
from foldmark.tokens.models import Model

BEFORE = 10
"""Number of earlier requests among which the previous answered request is looked up."""

SAME = 0.95
"""Minimum share of a request that the next one must begin with. The rest may be Foldmark's own text at its end."""


class Cached(Struct, frozen=True):
    """The usage that the provider reported for a request, and its cache misses.

    `missed` is None if the cache's rules or the previous request are unknown.
    """

    usage: Usage
    missed: Missed | None

    @property
    def words(self) -> str:
        """Return `read 41,200, wrote 1,800; missed 20,000: a pause of 12 min, …`; empty for a provider without a
        cache."""
        if self.missed is None and not (self.usage.cache_read or self.usage.cache_write):
            return ""
        told = f"read {self.usage.cache_read:,}, wrote {self.usage.cache_write:,}"
        if self.missed is None or not self.missed.reasons:
            return told
        much = f"missed {self.missed.tokens:,}: " if self.missed.tokens else ""
        return f"{told}; {much}{'; '.join(reason.text for reason in self.missed.reasons)}"

    def data(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        told = {"fresh": self.usage.fresh, "read": self.usage.cache_read, "written": self.usage.cache_write}
        if self.missed is None:
            return {**told, "held": None, "missed": None, "reasons": []}
        reasons = [msgspec.to_builtins(reason) for reason in self.missed.reasons]
        return {**told, "held": self.missed.held, "missed": self.missed.tokens, "reasons": reasons}


def cached(agent: Agent, sent_id: int) -> Cached | None:
    """Return the cache hits of one request of the agent; None if its cost is not known."""
    with agent.reading() as (moment, at):
        found = moment.newest_sent(agent.id, BEFORE + 1, sent_id)
        event = found[0].event if found else 0
        following = moment.message_after(agent.id, event)
        while following is not None and following.kind in ANSWER_KINDS:
            event = following.id
            following = moment.message_after(agent.id, event)
        end = until_next(moment, at, [(agent.id, event)])[0].last
        return _cached(moment, agent, found, end, complete=len(found) <= BEFORE).get(sent_id)


def newest_cached(agent: Agent, limit: int) -> tuple[list[SentRequest], dict[int, Cached]]:
    """Return the agent's newest requests, newest first, at most `limit`; and, by id, the cache hits of those whose cost
    is known."""
    with agent.log.store.read() as moment:
        found = moment.newest_sent(agent.id, limit + BEFORE)
        return found[:limit], _cached(moment, agent, found, END, complete=len(found) < limit + BEFORE)


class Newest(NamedTuple):
    """The requests of an agent's newest answered turn in one line: tokens read and written, and the cause of the
    largest miss. `missed` are the tokens of that miss."""

    text: str
    missed: int


def newest_turn(agent: Agent, most: int = 50) -> Newest | None:
    """Return the cache hits of the newest answered turn's requests, at most `most`; None if they are not known, or the
    provider has no cache."""
    if not agent.standing().config.caches_prompts:
        return None
    sent, found = newest_cached(agent, most)
    known = [(each, found[each.id]) for each in sent if each.id in found]
    turn = [(each, one) for each, one in known if each.turn == known[0][0].turn]
    if not any(one.words for _, one in turn):
        return None
    read, wrote = (sum(getattr(one.usage, name) for _, one in turn) for name in ("cache_read", "cache_write"))
    told = f"Cache: in the newest turn {count(len(turn), 'request')} read {read:,} tokens and wrote {wrote:,}."
    misses = [(each, one.missed) for each, one in turn if one.missed is not None and one.missed.tokens]
    if not misses:
        return Newest(told, 0)
    worst, why = max(misses, key=lambda miss: miss[1].tokens)
    others = f" {count(len(misses) - 1, 'other request')} missed less; /context sent lists them." if misses[1:] else ""
    reasons = "; ".join(reason.text for reason in why.reasons)
    return Newest(f"{told} Request {worst.id} missed {why.tokens:,}: {reasons}.{others}", why.tokens)


def _cached(
    moment: Snapshot, agent: Agent, sent: Sequence[SentRequest], until: int, *, complete: bool
) -> dict[int, Cached]:
    """Return the cache hits of these requests, newest first. `complete` is True if the agent sent no request before
    them. Their cost was recorded up to event `until`."""
    answers = [each for each in reversed(sent) if each.record.purpose == "answer"]
    if not answers:
        return {}
    found: dict[int, Cached] = {}
    usages = _usages(moment, agent.id, answers, until)
    changes = _operations(moment, agent.id, answers[0].event, answers[-1].event)
    before: Answered | None = None
    for each in answers:
        if each.id not in usages:
            continue
        now = Answered(each, stored_time(each.created_at).timestamp(), usages[each.id])
        rules = _rules(agent, each)
        result = None
        if rules is not None and (before is not None or (complete and each is answers[0])):
            first = before.sent if before is not None else each
            between = Between(
                [change for change in changes if first.event < change[0] <= each.event],
                partial(_settings, moment, first, each),
                partial(_begins, agent, first, each),
            )
            result = missed(before, now, between, rules, max(rules.lifetime, LIFETIMES[first.record.cache_ttl]))
        found[each.id] = Cached(now.usage, result)
        before = now
    return found


def _usages(moment: Snapshot, agent_id: str, answers: Sequence[SentRequest], until: int) -> dict[int, Usage]:
    """Return the cost of these requests, oldest first, by their ids. The cost of a request is recorded before the next
    one is sent."""
    found: dict[int, Usage] = {}
    left = list(answers)
    for event_id in moment.of_kind("usage", (Segment(agent_id, answers[0].event + 1, until),)):
        sent = None
        while left and left[0].event < event_id:
            sent = left.pop(0)
        event = moment.event(event_id)
        data = (event.data or {}) if event is not None else {}
        usage = usage_of(data)
        if sent is None or event is None or usage is None or sent.turn not in (None, event.turn_id):
            continue
        if (data.get("provider"), data.get("model"), data.get("estimate")) == (sent.provider, sent.model, sent.tokens):
            found[sent.id] = usage
    return found


def _rules(agent: Agent, sent: SentRequest) -> Rules | None:
    return rules_of(agent.log.model_named(f"{sent.provider}/{sent.model}"))


def _settings(moment: Snapshot, before: SentRequest, now: SentRequest) -> list[str]:
    """Return the names of changed settings, without settings that only one of the two versions of Foldmark knows."""
    texts = (moment.kept_text(each.record.hashes["config"]) for each in (before, now))
    was, then = map(msgspec.json.decode, texts)
    return sorted(
        key for key in was.keys() & then.keys() - {"calibration", "model", "cache_ttl"} if was[key] != then[key]
    )


def _begins(agent: Agent, before: SentRequest, now: SentRequest) -> bool | None:
    """Return True if request `now` begins with the whole of `before`, as far as a cache sees it; None if one of them
    cannot be rebuilt."""
    first, second = (rebuilt(agent, each.id) for each in (before, now))
    if (first.verdict, second.verdict) != ("identical", "identical"):
        return None
    return dialect_named(first.request.dialect).shared(first.request.body, second.request.body) >= SAME


def _operations(moment: Snapshot, agent_id: str, after: int, until: int) -> list[tuple[int, str]]:
    """Return the agent's operations between two events that change what is sent."""
    done = moment.operations(agent_id, after=after, until=until)
    shaping = recorded(event for event in done if event.kind not in BESIDE_KINDS)
    return [(event, words(operation)) for event, operation in shaping]


class Next(Struct, frozen=True):
    """The next request with an operation, compared with the one without it.

    `tokens` and `without` are the estimates of both. `held` is the number of tokens that a cache would still serve if
    it holds the whole request without the operation. `more` is the extra cost with the operation, in tokens at the full
    price of input (negative if it costs less), and `dollars` the same in dollars, None if the price is unknown. `saved`
    and `saved_dollars` are the amounts that each later request costs less, as long as the cache serves everything that
    was sent before.
    """

    tokens: int
    without: int
    held: int
    more: int
    dollars: float | None
    saved: int = 0
    saved_dollars: float | None = None

    def data(self) -> dict[str, Any]:
        """Return the estimate as JSON."""
        names = ("tokens", "without", "held", "again", "more", "dollars", "saved", "saved_dollars", "even")
        return {name: getattr(self, name) for name in names}

    @property
    def even(self) -> int | None:
        """The number of requests after which the operation has paid for itself; None if it never does."""
        return 1 + max(0, ceil(self.more / self.saved)) if self.saved > 0 else None

    @property
    def again(self) -> int:
        """The tokens that would not come from the cache."""
        return self.tokens - self.held


class Preview(Struct, frozen=True):
    """The effect that an operation would have."""

    outcome: Outcome
    actor: str
    next: Next

    def lines(self) -> list[str]:
        """Return the preview as lines for a person."""
        change = self.outcome.change
        both = ((change.left, "leave"), (change.returned, "come back"))
        moved = [f"{sized(size)} would {how}" for size, how in both if size.messages]
        results = ((self.outcome.evicted, "be evicted"), (self.outcome.whole_again, "be sent as they were"))
        moved += [
            f"{count(size.messages, 'result')} (~{count(size.tokens, 'token')}) would {how}"
            for size, how in results
            if size.messages
        ]
        moved = moved or ["nothing would leave"]
        return [f"{', '.join(moved)} · context {change.before.messages:,} → {sized(change.after)}", *self.price()]

    def price(self) -> list[str]:
        """Return lines for a person about lost thinking and the cost of the next request."""
        prefix, cost, lines = self.outcome.cached_prefix, self.next, self.outcome.thoughts.lines(would=True)
        request = f"next request ~{count(cost.tokens, 'token')} instead of ~{cost.without:,}"
        if prefix is None:
            return [*lines, request + self._more()]
        lines.append(f"{prefix.percent}% of the cached prompt would hold, {100 - prefix.percent}% would break")
        return [*lines, f"{request}, ~{cost.again:,} of them not in the cache{self._more()}"]

    def _more(self) -> str:
        """Return the difference in cost of the next request, if there is one."""
        cost = self.next
        if not cost.more or cost.dollars == 0:
            return ""
        told = f"; it would cost {_amount(cost.more, cost.dollars)} {'more' if cost.more > 0 else 'less'}"
        if cost.more < 0 or cost.even is None:
            return told
        return f"{told}, each later one {_amount(cost.saved, cost.saved_dollars)} less: even after {cost.even} requests"

    def data(self) -> dict[str, Any]:
        """Return the preview as JSON, for `Result.data`."""
        own = {"preview": True, "operation": operation_kind(self.outcome.operation), "actor": self.actor}
        return {**own, **self.outcome.data(), "next": self.next.data()}


def _amount(tokens: int, dollars: float | None) -> str:
    money = "" if dollars is None else f" (${abs(dollars):,.4f})" if abs(dollars) >= 0.0001 else " (under $0.0001)"
    return f"~{count(abs(tokens), 'input token')}{money}"


Decision = Callable[[Snapshot, Standing], Operation]


def preview(agent: Agent, decision: Decision, actor: str = "human", *, instead: Decision | None = None) -> Preview:
    """Preview the operation that `decision` makes. Raises as `Agent.operate`; writes nothing.

    The next request is compared with the present one, or with the one after the operation that is made `instead`.
    """
    with agent.reading() as (moment, at):
        outcome = agent.outcome(moment, at, decision(moment, at), at.newest + 1)
        other = agent.outcome(moment, at, instead(moment, at), at.newest + 1) if instead else None
        without = agent.request() if other is None else agent.request(at=_there(at, other))
        request = agent.request(at=_there(at, outcome))
    return Preview(outcome, actor, priced(without, request, agent.log.model_named(at.config.model)))


def _there(at: Standing, outcome: Outcome) -> Standing:
    """Return the standing of the agent after the operation."""
    return replace(at, fold=outcome.fold, size=outcome.change.after)


def priced(without: Request, request: Request, known: Model) -> Next:
    """Compare two requests to a model whose cache holds the first."""
    rules, tariff = rules_of(known), tariff_of(known)
    held = 0
    bills = (Bill(without.tokens, 0, 0), Bill(request.tokens, 0, 0))
    if rules is not None and _kept(without, rules):
        shared = dialect_named(without.dialect).shared(without.body, request.body)
        held = min(int(without.tokens * shared), request.tokens)
        held = held if held >= rules.least else 0
        again = request.tokens - held
        bills = (Bill(0, 0, without.tokens), Bill(again, 0, held) if rules.step else Bill(0, again, held))
    more = round(tariff.cost(bills[1]) - tariff.cost(bills[0]))
    later = [Bill(0, 0, each.tokens) if _kept(each, rules) else Bill(each.tokens, 0, 0) for each in (without, request)]
    saved = round(tariff.cost(later[0]) - tariff.cost(later[1]))
    dollars = [None if tariff.input is None else amount * tariff.input / 1e6 for amount in (more, saved)]
    return Next(request.tokens, without.tokens, held, more, dollars[0], saved, dollars[1])


def _kept(request: Request, rules: Rules | None) -> bool:
    return rules is not None and request.tokens >= rules.least
