"""The cost of the next request after an operation, for its preview [SPEC 4, 5.7].

A preview uses the same decision and the same fold as the operation itself, and writes nothing.
"""

from collections.abc import Callable
from math import ceil
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.assembly.caching import Bill, Rules
from foldmark.core.codec import operation_kind
from foldmark.core.events import Operation
from foldmark.core.ports import Snapshot
from foldmark.core.request import Request
from foldmark.core.wording import count
from foldmark.cost.spending import rules_of, tariff_of
from foldmark.dialects.dialect import dialect_named
from foldmark.log.log import Agent
from foldmark.operations.history import moves, sized
from foldmark.operations.receipts import Outcome, beside
from foldmark.request.standing import Standing
from foldmark.tokens.models import Model


class Next(Struct, frozen=True):
    """The next request with an operation, compared with the one without it.

    `tokens` and `without` are the estimates of both. `held` is the number of tokens that a cache would still serve if
    it holds the whole request without the operation. `more` is the extra cost with the operation, in tokens at the full
    price of input (negative if it costs less), and `dollars` the same in dollars, None if the price is unknown. `saved`
    and `saved_dollars` are the savings on each later request, as long as the cache serves everything that was sent
    before.
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
        results = (self.outcome.evicted, "would be evicted"), (self.outcome.whole_again, "would be sent as they were")
        messages, recorded = ((change.left, "would leave"), (change.returned, "would come back")), self.outcome.recorded
        moved = moves(messages, recorded=recorded) + moves(results, "result", recorded=recorded)
        after = sized(change.after, recorded=recorded)
        moved = moved or ["nothing would leave"]
        return [f"{', '.join(moved)} · context {change.before.messages:,} → {after}", *self.price()]

    def price(self) -> list[str]:
        """Return lines for a person about lost thinking and the cost of the next request."""
        prefix, cost, lines = self.outcome.cached_prefix, self.next, self.outcome.thoughts.lines(would=True)
        request = f"next request ~{count(cost.tokens, 'token')} instead of ~{cost.without:,}"
        lines += beside(self.outcome.shortened, would=True)
        if prefix is None:
            return [*lines, request + self._more()]
        lines.append(f"{prefix.percent}% of the cached prompt would hold, {100 - prefix.percent}% would break")
        return [*lines, f"{request}, ~{cost.again:,} of them not in the cache{self._more()}"]

    def _more(self) -> str:
        """Return the difference in cost of the next request, if there is one."""
        cost = self.next
        if not cost.more or cost.dollars == 0:
            return ""
        text = f"; it would cost {_amount(cost.more, cost.dollars)} {'more' if cost.more > 0 else 'less'}"
        if cost.more < 0 or cost.even is None:
            return text
        return f"{text}, each later one {_amount(cost.saved, cost.saved_dollars)} less: even after {cost.even} requests"

    def data(self) -> dict[str, Any]:
        """Return the preview as JSON, for `Result.data`."""
        own = {"preview": True, "operation": operation_kind(self.outcome.operation), "actor": self.actor}
        return {**own, **self.outcome.data(), "next": self.next.data()}


def _amount(tokens: int, dollars: float | None) -> str:
    money = "" if dollars is None else f" (${abs(dollars):,.4f})" if abs(dollars) >= 0.0001 else " (under $0.0001)"
    return f"~{count(abs(tokens), 'input token')}{money}"


Decision = Callable[[Snapshot, Standing], Operation]


def preview(agent: Agent, decision: Decision, actor: str = "human", *, instead: Decision | None = None) -> Preview:
    """Preview the operation that `decision` makes, and write nothing. Raises the same errors as `Agent.operate`.

    The next request is compared with the current one, or with the one after the operation made `instead`.
    """
    with agent.reading() as (moment, at):
        outcome = agent.outcome(moment, at, decision(moment, at), at.record.next_possible)
        other = agent.outcome(moment, at, instead(moment, at), at.record.next_possible) if instead else None
        model = agent.log.model_named(at.config.model)
        if (client := outcome.compared) is not None:
            before = client.before if other is None or other.compared is None else other.compared.after
            return Preview(outcome, actor, _next(before, client.after, client.cached, client.held, model))
        without, request = (_request_after(agent, at, each) for each in (other, outcome))
    return Preview(outcome, actor, priced(without, request, model))


def _request_after(agent: Agent, at: Standing, outcome: Outcome | None) -> Request:
    """Return the next request after an operation; the current one for None, or if it changes nothing."""
    if outcome is not None and outcome.requests is not None:
        return outcome.requests.after
    changed = outcome is not None and not outcome.idle
    return agent.next_request(at=replace(at, fold=outcome.fold, size=outcome.context) if outcome and changed else None)


def priced(without: Request, request: Request, known: Model) -> Next:
    """Compare two requests to a model whose cache holds the first."""
    held = 0
    if _kept(without.tokens, rules_of(known)):
        shared = dialect_named(without.dialect).shared(without.body, request.body)
        held = min(int(without.tokens * shared), request.tokens)
    return _next(without.tokens, request.tokens, without.tokens, held, known)


def _next(without: int, tokens: int, cached: int, held: int, known: Model) -> Next:
    """Compare two requests, of `without` and of `tokens` tokens, to a model whose cache holds `cached` tokens of the
    first and `held` of the second."""
    rules, tariff = rules_of(known), tariff_of(known)
    held = min(held, tokens) if rules is not None and held >= rules.least else 0

    def bill(tokens: int, held: int) -> Bill:
        new = tokens - held
        return Bill(new, 0, held) if rules is None or rules.step or tokens < rules.least else Bill(0, new, held)

    more = round(tariff.cost(bill(tokens, held)) - tariff.cost(bill(without, _cached(without, cached, rules))))
    later = [Bill(0, 0, each) if _kept(each, rules) else Bill(each, 0, 0) for each in (without, tokens)]
    saved = round(tariff.cost(later[0]) - tariff.cost(later[1]))
    dollars = [None if tariff.input is None else amount * tariff.input / 1e6 for amount in (more, saved)]
    return Next(tokens, without, held, more, dollars[0], saved, dollars[1])


def _cached(tokens: int, cached: int, rules: Rules | None) -> int:
    return min(tokens, cached) if _kept(cached, rules) else 0


def _kept(tokens: int, rules: Rules | None) -> bool:
    return rules is not None and tokens >= rules.least
