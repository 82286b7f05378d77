"""The ledger of a live session: what its requests and its edits cost, by the provider's own usage [SPEC 5.7].

Each operation has a share in what the edits save and cost: the tokens by which the next request shrinks with it, and
the part of the cached prompt that it breaks, both beyond the operations before it. So the shares add up to the sums.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.codec import stored_time
from foldmark.core.events import Event
from foldmark.core.request import Usage
from foldmark.cost.spending import price, tariff_of
from foldmark.log import Agent
from foldmark.request.client_requests import LEFT, NextRequest
from foldmark.request.usage import usage_of
from foldmark.tokens.models import Model


class EditCost(NamedTuple):
    """What new edits change for the next request, as computed before it: its tokens with and without them, those of the
    newest answered request, and True if that has `expired` in the cache. `broken` are the tokens of the cached prompt
    that each operation breaks beyond the ones before it."""

    before: int
    after: int
    cached: int
    expired: bool
    broken: Mapping[int, int] = {}

    @classmethod
    def of(cls, request: NextRequest, new: Sequence[Event], now: float) -> Self:
        """Return what the `new` operations change; `now` in seconds."""
        newest = request.answered
        folds = [request.fold_at(each.id) for each in new]
        held = [newest.counted, *map(request.held, folds)]
        broken = {each.id: max(0, was - now) for each, (was, now) in zip(new, pairwise(held), strict=True)}
        before, after = request.tokens(request.fold_of(newest)), request.tokens(folds[-1])
        return cls(before, after, newest.counted, now - newest.time > newest.lives, broken)

    def of_each(self, again: int) -> dict[int, int]:
        """Divide tokens that were written again among the operations."""
        total, found = sum(self.broken.values()), dict[int, int]()
        left = again
        for id, broken in self.broken.items():
            found[id] = min(left, round(again * broken / total)) if total else 0
            left -= found[id]
        if left:
            found[max(found, key=self.broken.__getitem__)] += left
        return found

    def again(self, usage: Usage) -> int:
        """Return the tokens that were written again because of the edits; 0 if the cache had expired anyway."""
        if self.expired and usage.cache_read < self.cached // 2:
            return 0
        return max(0, (self.after - usage.cache_read) - (self.before - self.cached))


class EditShare(Struct, frozen=True, array_like=True):
    """What one operation saves and costs: the tokens that it keeps `out` of every request now, and its part of the sums
    in a `Ledger` of the same names. An operation that was restored keeps nothing out, but for thinking that can no
    longer be sent. `size` are the bytes of `out`."""

    out: int = 0
    saved: int = 0
    again: int = 0
    saved_dollars: float = 0.0
    again_dollars: float = 0.0
    size: int = 0


class Ledger(Struct, frozen=True, omit_defaults=True):
    """Sums over the requests of a session: `answers`, the requests that the provider `refused`, and those passed on
    unedited since an edit failed (`prevented`); tokens by price class; dollars of the answers whose price is known.

    `saved` are the tokens that edits kept out of requests, each request counted; `again` those that had been cached and
    were sent at full price because of an edit. `worth` are the dollars that one token would have saved that was kept
    out of all requests, and `shares` is the event that has the newest `EditShares`. `questions` are those that Foldmark
    asked the session's own model for an operation, with the sum of their tokens and dollars; no other sum has them.
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
    worth: float = 0.0
    shares: int = 0
    questions: int = 0
    question_tokens: int = 0
    question_dollars: float = 0.0

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

    def answered(self, usage: Usage, known: Model, out: int = 0, again: int = 0) -> "Ledger":
        """Return the ledger after an answer. `out` are the tokens that edits kept out of the request, `again` those
        that were written again because of new edits."""
        tariff, each = tariff_of(known), (known.input_price or 0.0) / 1e6
        kept = (tariff.read if usage.cache_read else tariff.write) * each
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
            saved_dollars=self.saved_dollars + out * kept,
            again_dollars=self.again_dollars + again * _again_price(known),
            worth=self.worth + kept,
        )

    def asked(self, usage: Usage, known: Model) -> "Ledger":
        """Return the ledger after a question of Foldmark's own."""
        return replace(
            self,
            questions=self.questions + 1,
            question_tokens=self.question_tokens + usage.input + usage.output,
            question_dollars=self.question_dollars + (price(usage, known) or 0.0),
        )


class EditShares(Struct, frozen=True):
    """The shares of operations, by their ids, as of a ledger with this number of `answers` and this `worth`. Later ones
    follow from a later ledger (`at`), so they are only recorded when operations change."""

    answers: int = 0
    worth: float = 0.0
    of: tuple[tuple[int, EditShare], ...] = ()

    @property
    def out(self) -> int:
        """The tokens that all operations keep out of a request."""
        return sum(share.out for _, share in self.of)

    def at(self, ledger: Ledger) -> dict[int, EditShare]:
        """Return the shares as of a later ledger."""
        answers, worth = ledger.answers - self.answers, ledger.worth - self.worth
        return {
            id: replace(
                share,
                saved=share.saved + answers * share.out,
                saved_dollars=share.saved_dollars + worth * share.out,
            )
            for id, share in self.of
        }

    def changed(
        self, ledger: Ledger, request: NextRequest, until: int, after: int, again: Mapping[int, int], known: Model
    ) -> "EditShares":
        """Return the shares for the request that is about to be added to a ledger, which knows the operations up to
        event `until`. Those up to event `after` keep out what they did; the others are measured. `again` are the tokens
        that were written again because of each."""
        found = {id: share if after else replace(share, size=0) for id, share in self.at(ledger).items()}
        for id, size in request.kept_out(after, until):
            share = found.get(id, EditShare())
            found[id] = replace(share, size=share.size + size)
        for id, tokens in again.items():
            share = found.get(id, EditShare())
            dollars = share.again_dollars + tokens * _again_price(known)
            found[id] = replace(share, again=share.again + tokens, again_dollars=dollars)
        made = {id: replace(share, out=request.tokens_of(share.size)) for id, share in sorted(found.items())}
        return EditShares(ledger.answers, ledger.worth, tuple(made.items()))


def answered(
    agent: Agent, ledger: Ledger, shares: EditShares, usage: Usage, known: Model, after: int, until: int, own: int
) -> tuple[Ledger, EditShares]:
    """Return the ledger and the shares of operations after an answer that is about to be recorded, to a request that
    the event `own` records. Its edit knew the operations up to event `until`, the one before it those up to `after`, so
    that only newer ones have to be measured; 0 if that is not known, or if there was no edit: then it saves nothing."""
    again = dict[int, int]()
    if not until:
        ledger, before = ledger.answered(usage, known), shares.at(ledger)
        return ledger, EditShares(ledger.answers, ledger.worth, tuple(before.items())) if before else shares
    with agent.reading() as (moment, at):
        new = selections.operations(moment, agent.id, after=after)
        replaced = any(event.reason == LEFT or event.kind == "restore" for event in new)
        new = [event for event in new if event.actor != "system" and event.id <= until]
        if (new or replaced) and (request := NextRequest.of(moment, at, own)) is not None:
            since = request.answered.known
            if new := [event for event in new if event.id > since]:
                cost = EditCost.of(request, new, stored_time(agent.log.clock()).timestamp())
                again = cost.of_each(cost.again(usage))
            since = 0 if replaced else since  # whatever left by itself is kept out by nothing else
            shares = shares.changed(ledger, request, until, since, again, known)
    return ledger.answered(usage, known, shares.out, sum(again.values())), shares


def _again_price(known: Model) -> float:
    """Return the dollars that it costs more to write a token again than to read it from the cache."""
    tariff = tariff_of(known)
    return max(0.0, tariff.write - tariff.read) * (known.input_price or 0.0) / 1e6


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


def shares_in(about: Mapping[str, Any] | None) -> EditShares | None:
    """Return the shares of operations in a gateway's record; None if it has none."""
    found = (about or {}).get("shares")
    return convert(found, EditShares) if isinstance(found, dict) else None
