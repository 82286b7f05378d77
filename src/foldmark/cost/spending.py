"""What an agent's requests have cost so far, by its providers' own count."""

from typing import NamedTuple

from foldmark.core.ports import Snapshot
from foldmark.core.request import Usage
from foldmark.core.segments import END, Segment
from foldmark.log import Agent
from foldmark.request.usage import usage_of
from foldmark.tokens.models import Model


class Spending(NamedTuple):
    """The input tokens of an agent's requests, and how many of them were `read` from the cache; the price in `dollars`
    of those whose price is known, None if there are none. `unknown` counts the others, `upto` is the newest event that
    counts."""

    input: int = 0
    read: int = 0
    dollars: float | None = None
    unknown: int = 0
    upto: int = 0

    @property
    def cached(self) -> int | None:
        """The share of the input that was read from the cache, in percent; None without input."""
        return 100 * self.read // self.input if self.input else None


def spent(moment: Snapshot, agent: Agent, before: Spending | None = None) -> Spending:
    """Return what the agent's own requests have cost; only events since `before` are read."""
    found = before or Spending()
    for event in moment.events(moment.of_kind("usage", (Segment(agent.id, found.upto + 1, END),))):
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
    """Return what a request has cost in dollars; None if a price is not known."""
    if known.input_price is None or known.output_price is None:
        return None
    read = 1.0 if known.cache_read is None else known.cache_read
    write = 1.0 if known.cache_write is None else known.cache_write
    fresh = usage.fresh + usage.cache_read * read + usage.cache_write * write
    return (fresh * known.input_price + usage.output * known.output_price) / 1e6
