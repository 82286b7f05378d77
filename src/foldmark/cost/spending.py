"""Prices: the cost of input tokens with a model's cache, and the cost of an agent's requests so far, as counted by the
providers."""

from typing import NamedTuple

from foldmark.core.assembly.caching import Bill, Rules, explicit, managed, stepped
from foldmark.core.ports import Snapshot
from foldmark.core.request import Usage
from foldmark.core.segments import END, Segment
from foldmark.log import Agent
from foldmark.request.usage import usage_of
from foldmark.tokens.models import Model


class Tariff(NamedTuple):
    """The prices of input tokens: `read` and `write` are the prices of a token read from the cache and written to it,
    as shares of the price of a fresh token. `input` is that price in dollars per million, None if unknown."""

    read: float
    write: float
    input: float | None = None

    def cost(self, bill: Bill) -> float:
        """Return the number of fresh tokens that would cost as much as this bill."""
        return bill.fresh + bill.written * self.write + bill.read * self.read

    def shown(self, cost: float) -> str:
        """Return the cost of this many fresh tokens for a person: in dollars if the price is known."""
        return f"{cost:,.0f}" if self.input is None else f"${cost * self.input / 1e6:,.2f}"


def tariff_of(known: Model) -> Tariff:
    """Return the prices of a model's input; without a known price, a cached token costs as much as a fresh one."""
    read, write = known.cache_read, known.cache_write
    return Tariff(1.0 if read is None else read, 1.0 if write is None else write, known.input_price)


def rules_of(known: Model) -> Rules | None:
    """Return the rules of a model's cache; None if it has none.

    If writing costs extra, a cache without explicit breakpoints keeps few beginnings: OpenAI since GPT-5.6.
    """
    if known.caching == "none":
        return None
    if known.caching == "explicit":
        return explicit(known.cache_least)
    if known.cache_write is not None and known.cache_write > 1:
        return managed(known.cache_least)
    return stepped(known.cache_least, known.cache_step)


def lifetime_of(known: Model, asked: float = 0.0) -> float | None:
    """Return the seconds for which a provider keeps a request to a model in its cache, if the request asks for `asked`;
    None if the model's cache is not known."""
    rules = rules_of(known)
    return None if rules is None else max(rules.lifetime, asked)


class Spending(NamedTuple):
    """The cost of an agent's requests so far: their input tokens, how many of these were `read` from the cache, and the
    cost in `dollars` of the requests whose price is known, None if there are none. `unknown` is the number of the other
    requests, `upto` the newest event that is included."""

    input: int = 0
    read: int = 0
    dollars: float | None = None
    unknown: int = 0
    upto: int = 0

    @property
    def cached(self) -> int | None:
        """The percentage of the input that was read from the cache; None without input."""
        return 100 * self.read // self.input if self.input else None

    @property
    def price(self) -> str:
        """`$0.84`, or `$0.84+` if the price of some requests is unknown; empty if that of all is."""
        return "" if self.dollars is None else f"${self.dollars:,.2f}{'+' if self.unknown else ''}"


def spent(moment: Snapshot, agent: Agent, before: Spending | None = None) -> Spending:
    """Return the cost of the agent's own requests. Only events after those included in `before` are read."""
    found = before or Spending()
    for event in moment.select((Segment(agent.id, found.upto + 1, END),), "usage", expected=END):
        usage, data = usage_of(event.data), event.data or {}
        found = found._replace(upto=event.id)
        if usage is not None:
            dollars = price(usage, agent.log.model_named(f"{data.get('provider')}/{data.get('model')}"))
            found = found._replace(
                input=found.input + usage.input,
                read=found.read + usage.cache_read,
                dollars=found.dollars if dollars is None else (found.dollars or 0.0) + dollars,
                unknown=found.unknown + (dollars is None),
            )
    return found


def price(usage: Usage, known: Model) -> float | None:
    """Return the cost of a request in dollars; None if a price is unknown."""
    if known.input_price is None or known.output_price is None:
        return None
    input_cost = tariff_of(known).cost(Bill(usage.fresh, usage.cache_write, usage.cache_read)) * known.input_price
    return (input_cost + usage.output * known.output_price) / 1e6


def next_input(tokens: int, known: Model) -> tuple[float | None, float | None]:
    """Return the cost in dollars of the input of a request with this many tokens: at the full price, and if all of it
    is read from the cache. Both are None if the price is unknown; the second also for a model without a cache."""
    tariff = tariff_of(known)
    if tariff.input is None:
        return None, None
    full = tokens * tariff.input / 1e6
    return full, None if rules_of(known) is None else full * tariff.read
