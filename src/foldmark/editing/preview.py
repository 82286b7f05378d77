"""Preview an operation: what would leave, and what the next request would cost [SPEC 4, 5.7].

It uses the same decision and fold as the operation itself, and writes nothing.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.caching import Bill
from foldmark.core.codec import operation_kind
from foldmark.core.events import Operation
from foldmark.core.ports import Snapshot
from foldmark.core.request import Request
from foldmark.core.wording import count
from foldmark.cost.cost import rules_of, tariff_of
from foldmark.dialects.registry import dialect_named
from foldmark.log.log import Agent
from foldmark.operations.history import sized
from foldmark.operations.receipts import Outcome
from foldmark.request.standing import Standing
from foldmark.tokens.models import Model


class Next(Struct, frozen=True):
    """The next request with an operation, beside the one without it.

    `tokens` and `without` are their estimates, `held` the tokens that a cache of the whole one without would still
    serve; `more` is the extra cost of the one with, in tokens at the full price of input (below zero: less), and
    `dollars` the same, None where the price is not known.
    """

    tokens: int
    without: int
    held: int
    more: int
    dollars: float | None

    def data(self) -> dict[str, Any]:
        """Return the estimate as JSON."""
        return {name: getattr(self, name) for name in ("tokens", "without", "held", "again", "more", "dollars")}

    @property
    def again(self) -> int:
        """The tokens that would not come from the cache."""
        return self.tokens - self.held


class Preview(Struct, frozen=True):
    """The effect of an operation that is not made."""

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
        """Return lines for a person about the loss and the cost of the next request."""
        prefix, cost, lines = self.outcome.cached_prefix, self.next, self.outcome.thoughts.told(would=True)
        request = f"next request ~{count(cost.tokens, 'token')} instead of ~{cost.without:,}"
        if prefix is None:
            return [*lines, request + self._more()]
        lines.append(f"{prefix.percent}% of the cached prompt would hold, {100 - prefix.percent}% would break")
        return [*lines, f"{request}, ~{cost.again:,} of them not in the cache{self._more()}"]

    def _more(self) -> str:
        """Return the difference in cost of the next request, if there is one."""
        more, dollars = self.next.more, self.next.dollars
        if not more or dollars == 0:
            return ""
        money = "" if dollars is None else f" (${abs(dollars):,.4f})" if abs(dollars) >= 0.0001 else " (under $0.0001)"
        return f"; it would cost ~{count(abs(more), 'input token')}{money} {'more' if more > 0 else 'less'}"

    def data(self) -> dict[str, Any]:
        """Return the preview as JSON, for `Result.data`."""
        own = {"preview": True, "operation": operation_kind(self.outcome.operation), "actor": self.actor}
        return {**own, **self.outcome.data(), "next": self.next.data()}


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
    """Return where the agent would stand after the operation."""
    return replace(at, fold=outcome.fold, size=outcome.change.after)


def priced(without: Request, request: Request, known: Model) -> Next:
    """Compare two requests to a model whose cache holds the first."""
    rules, tariff = rules_of(known), tariff_of(known)
    held = 0
    bills = (Bill(without.tokens, 0, 0), Bill(request.tokens, 0, 0))
    if rules is not None and without.tokens >= rules.least:
        shared = dialect_named(without.dialect).shared(without.body, request.body)
        held = min(int(without.tokens * shared), request.tokens)
        held = held if held >= rules.least else 0
        again = request.tokens - held
        bills = (Bill(0, 0, without.tokens), Bill(again, 0, held) if rules.step else Bill(0, again, held))
    more = round(tariff.cost(bills[1]) - tariff.cost(bills[0]))
    dollars = None if tariff.input is None else more * tariff.input / 1e6
    return Next(request.tokens, without.tokens, held, more, dollars)
