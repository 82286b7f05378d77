"""The ledger of a live session: what its requests and its edits cost, by the provider's own usage [SPEC 5.7]."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from foldmark.core.assembly.caching import LIFETIMES
from foldmark.core.events import Event
from foldmark.core.request import Usage
from foldmark.cost.spending import price, tariff_of
from foldmark.request.usage import usage_of
from foldmark.tokens.models import Model


class EditCost(NamedTuple):
    """What new edits change for the next request, as computed before it: its tokens with and without them, the newest
    request that the cache holds, and the number of seconds since then."""

    before: int
    after: int
    cached: int
    pause: float

    def again(self, usage: Usage) -> int:
        """Return the tokens that were written again because of the edits; 0 if the cache had expired anyway."""
        if self.pause > LIFETIMES["5m"] and usage.cache_read < self.cached // 2:
            return 0
        return max(0, (self.after - usage.cache_read) - (self.before - self.cached))


class Ledger(Struct, frozen=True, omit_defaults=True):
    """Sums over the requests of a session: `answers`, the requests that the provider `refused`, and those passed on
    unedited since an edit failed (`prevented`); tokens by price class; dollars of the answers whose price is known.

    `saved` are the tokens that edits kept out of requests, each request counted; `again` those that had been cached and
    were sent at full price because of an edit.
    """

    answers: int = 0
    refused: int = 0
    prevented: int = 0
    fresh: int = 0
    read: int = 0
    written: int = 0
    output: int = 0
    dollars: float = 0.0
    saved: int = 0
    again: int = 0
    saved_dollars: float = 0.0
    again_dollars: float = 0.0

    @property
    def requests(self) -> int:
        """The requests that the provider answered or refused."""
        return self.answers + self.refused

    @property
    def input(self) -> int:
        """The input tokens of all answers."""
        return self.fresh + self.read + self.written

    def data(self) -> dict[str, Any]:
        """Return the sums as JSON for the log, without zeros."""
        return dict(to_builtins(self))

    def answered(self, usage: Usage, known: Model, out: int = 0, edit: EditCost | None = None) -> "Ledger":
        """Return the ledger after an answer. `out` are the tokens that edits kept out of the request; `edit` is given
        if edits were made since the request before."""
        tariff, again = tariff_of(known), 0 if edit is None else edit.again(usage)
        each = (known.input_price or 0.0) / 1e6
        kept = tariff.read if usage.cache_read else tariff.write
        return replace(
            self,
            answers=self.answers + 1,
            fresh=self.fresh + usage.fresh,
            read=self.read + usage.cache_read,
            written=self.written + usage.cache_write,
            output=self.output + usage.output,
            dollars=self.dollars + (price(usage, known) or 0.0),
            saved=self.saved + out,
            again=self.again + again,
            saved_dollars=self.saved_dollars + out * kept * each,
            again_dollars=self.again_dollars + again * max(0.0, tariff.write - tariff.read) * each,
        )


def ledger_in(about: Mapping[str, Any] | None) -> Ledger | None:
    """Return the ledger in a gateway's record; None if it has none. A record of an older version has the number of
    `prevented` requests only."""
    sums = (about or {}).get("sums")
    return convert(sums, Ledger) if isinstance(sums, dict) else None


def counted(before: Ledger, event: Event, model_named: Callable[[str], Model]) -> Ledger:
    """Return the ledger with the answer of a usage event; what edits saved and cost is not known."""
    usage, data = usage_of(event.data), event.data or {}
    if usage is None:
        return before
    return before.answered(usage, model_named(f"{data.get('provider')}/{data.get('model')}"))
