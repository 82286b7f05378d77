"""Receipts: the effect of an operation on the context and on the model's thinking, in every interface [SPEC 4, 5.7]."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.agents import Size
from foldmark.core.codec import operation_kind
from foldmark.core.errors import CommandError
from foldmark.core.events import IDLE, Event, Operation, Summary
from foldmark.core.ports import Snapshot
from foldmark.core.replay import Fold
from foldmark.core.request import Request
from foldmark.core.segments import Segment, Segments, intersect, normal, subtract
from foldmark.core.wording import count
from foldmark.operations.effects import Effect
from foldmark.request.client_requests import Compared
from foldmark.request.standing import Standing, state_in, state_of


class ContextChange(Struct, frozen=True):
    """The size of the context before and after an operation, and of the messages that left and came back."""

    before: Size
    after: Size
    left: Size
    returned: Size

    def data(self) -> dict[str, Any]:
        """Return the sizes as JSON."""
        return {name: getattr(self, name)._asdict() for name in ("left", "returned", "before", "after")}


class CachedPrefix(Struct, frozen=True):
    """The number of tokens at the beginning of the request that stay as they were last sent, `of` a total."""

    kept: int
    of: int

    @property
    def percent(self) -> int:
        """The kept share in percent."""
        return 100 * self.kept // self.of if self.of else 100

    def data(self) -> dict[str, int]:
        """Return the numbers as JSON."""
        return {"kept": self.kept, "of": self.of, "percent": self.percent}


class ThinkingChange(Struct, frozen=True):
    """The thinking blocks that leave the next request, or return to it, because of an operation or a setting."""

    lost: int = 0
    returned: int = 0

    def data(self) -> dict[str, Any]:
        """Return the change as JSON, under its name; nothing if nothing changes."""
        return {"thinking": {"lost": self.lost, "returned": self.returned}} if self.lost or self.returned else {}

    def lines(self, *, would: bool = False) -> list[str]:
        """Return the lines of a receipt or, with `would`, of a preview, for a person; empty if nothing changes."""
        can = "could" if would else "can"
        both = ((self.lost, "no longer be sent"), (self.returned, "be sent again"))
        return [f"{count(blocks, 'thinking block')} {can} {word}" for blocks, word in both if blocks]


class RequestChange(NamedTuple):
    """The next request before and after an operation or a change of a setting: the part of it that stays as it was, the
    change of its thinking, and the results that are sent shortened from then on although they stay in the context, with
    their tokens less."""

    before: Request
    after: Request
    prefix: CachedPrefix
    thoughts: ThinkingChange
    shortened: Size


class DeliveredMail(Effect, frozen=True):
    """Mail came into the context with an event, which is not an operation."""

    change: ContextChange
    actor: str

    def data(self) -> dict[str, Any]:
        """Return the effect as JSON, for `Result.data`."""
        return {"operation": "check-mail", "actor": self.actor, **self.change.data()}


class ChangedSettings(Effect, frozen=True):
    """The receipt of a change of settings or of the scratchpad, which event `event_id` of this `kind` records.
    `requests` is the change of the next request, None if none can be made or a live session's client makes it."""

    event_id: int
    kind: str
    actor: str
    requests: RequestChange | None
    reason: str | None = None

    @property
    def back(self) -> str:
        """The command that undoes the change."""
        return f"/restore {self.event_id}"

    def parts(self) -> list[str]:
        """Return what the change does to the next request, for a person."""
        if self.requests is None:
            return []
        before, after, _, thoughts, shortened = self.requests
        change = "" if before.tokens == after.tokens else f"~{before.tokens:,} → "
        return [f"next request {change}~{count(after.tokens, 'token')}", *thoughts.lines(), *beside(shortened)]

    def data(self) -> dict[str, Any]:
        """Return the receipt as JSON, for `Result.data`."""
        own = {"operation": self.kind, "actor": self.actor, "reason": self.reason, "back": self.back}
        if self.requests is None:
            return {**own, "request": {"before": None, "after": None}}
        before, after, _, thoughts, shortened = self.requests
        more = {"shortened": results(shortened)} if shortened.messages else {}
        return {**own, "request": {"before": before.tokens, "after": after.tokens}, **thoughts.data(), **more}


def results(size: Size) -> dict[str, int]:
    """Return a number of results and their tokens as JSON."""
    return {"results": size.messages, "tokens": size.tokens}


def beside(shortened: Size, *, would: bool = False) -> list[str]:
    """Return a line about older results that are sent shortened from then on, for a person; `would` is for a preview.
    Empty if there are none."""
    if not shortened.messages:
        return []
    verb, back = ("would be", "would not send") if would else ("are", "does not send")
    older, less = count(shortened.messages, "older result"), count(shortened.tokens, "token")
    return [f"{older} {verb} sent shortened, ~{less} less; /restore {back} them as before"]


class Outcome(Struct, frozen=True):
    """The effect of an operation on a context: the operation, the fold with it, and how the context changes.

    `context` is the size of the context afterwards, as the store counts it. For a live session, all other tokens are
    those of the agent's own next request, as its provider counts them. `evicted` are visible tool results that become
    placeholders, `whole_again` those that are sent again; `thoughts` is the change of the model's thinking.
    """

    operation: Operation
    fold: Fold
    context: Size
    change: ContextChange
    cached_prefix: CachedPrefix | None
    evicted: Size = Size(0, 0)
    whole_again: Size = Size(0, 0)
    thoughts: ThinkingChange = ThinkingChange()
    compared: Compared | None = None
    idle: bool = False
    """True if the operation could have changed the context, and does not: it changes no byte of the next request."""

    shortened: Size = Size(0, 0)
    """The results that stay in the context and are sent shortened from then on, with their tokens less: a restore does
    not send them as before."""

    requests: RequestChange | None = None
    """The next request before and after, None if that is not known."""

    @property
    def recorded(self) -> bool:
        """True if the tokens are those that were counted when the messages were recorded."""
        return self.compared is None

    def data(self) -> dict[str, Any]:
        """Return the change as JSON."""
        data: dict[str, Any] = {**self.change.data(), **self.thoughts.data(), **(IDLE if self.idle else {})}
        both = (("evicted", self.evicted), ("whole_again", self.whole_again), ("shortened", self.shortened))
        data |= {name: results(size) for name, size in both if size.messages}
        return data if self.cached_prefix is None else {**data, "cached_prefix": self.cached_prefix.data()}


class Receipt(Effect, frozen=True):
    """The record of an operation, and how the context changed."""

    event_id: int
    outcome: Outcome
    actor: str
    reason: str | None = None

    @property
    def operation(self) -> Operation:
        """The operation that was recorded."""
        return self.outcome.operation

    @property
    def change(self) -> ContextChange:
        """How the context changed."""
        return self.outcome.change

    @property
    def back(self) -> str | None:
        """The command that undoes the operation; None for a fork and for a redaction."""
        return f"/restore {self.event_id}" if self.operation.restorable else None

    def notes(self) -> list[str]:
        """Return the further effects on the next request, each in a few words for a person."""
        outcome, widened = self.outcome, getattr(self.operation, "widened", ())
        parts = [f"{len(widened)} of them for whole exchanges"] if widened else []
        parts += outcome.thoughts.lines()
        if outcome.cached_prefix is not None:
            parts.append(f"{outcome.cached_prefix.percent}% of the cached prompt holds")
        return parts + beside(outcome.shortened)

    def data(self) -> dict[str, Any]:
        """Return the receipt as JSON, for `Result.data`."""
        kind = operation_kind(self.operation)
        own = {"operation": kind, "actor": self.actor, "reason": self.reason, "back": self.back}
        return {**own, **self.outcome.data()}

    def after(self, size: Size) -> "Receipt":
        """Return the receipt with the size of the context after everything was recorded."""
        if self.outcome.compared is not None:
            size = size._replace(tokens=self.change.after.tokens)
        return replace(self, outcome=replace(self.outcome, change=replace(self.change, after=size)))


class Retried(Receipt, frozen=True):
    """The receipt of a retry: an answer has left the context, and the model is asked for another one. With a `text`,
    the question has left as well, and the text is sent in its place."""

    text: str | None = None

    def data(self) -> dict[str, Any]:
        """Return the receipt as JSON, for `Result.data`."""
        return {**super().data(), "answer": True}


def in_requests_of(compared: Compared, outcome: Outcome) -> Outcome:
    """Return an outcome with the tokens of the requests of a live session's agent."""
    change, results = outcome.change, (outcome.evicted, outcome.whole_again)
    tokens = compared.before, compared.after, compared.left, compared.returned
    sizes = (change.before, change.after, change.left, change.returned)
    shown = [size._replace(tokens=each) for size, each in zip(sizes, tokens, strict=True)]
    evicted, whole = (
        size._replace(tokens=each) for size, each in zip(results, (compared.evicted, compared.whole), strict=True)
    )
    return replace(
        outcome,
        change=ContextChange(*shown),
        cached_prefix=CachedPrefix(min(compared.held, compared.cached), compared.cached),
        evicted=evicted,
        whole_again=whole,
        thoughts=ThinkingChange(compared.lost, compared.regained),
        compared=compared,
    )


def changes_nothing(moment: Snapshot, at: Standing, fold: Fold, visible: Segments, change: ContextChange) -> bool:
    """Return True if a request of `at` is the same with another `fold`, of which these segments are `visible`: the
    same messages, state, pins and placeholders, and the next message is as visible as before."""
    same = (fold.pins, fold.evicted.keys(), fold.grows) == (at.fold.pins, at.fold.evicted.keys(), at.fold.grows)
    if not same or change.left.messages or change.returned.messages:
        return False
    return visible == at.visible or state_in(moment, at, visible) == state_of(moment, at)


def changed_results(moment: Snapshot, at: Standing, fold: Fold, visible: Segments) -> tuple[list[Event], list[Event]]:
    """Return the `visible` tool results that `fold` evicts in addition, and those that it no longer evicts. Cost grows
    with the number of results."""
    if fold.evicted.keys() == at.fold.evicted.keys():
        return [], []

    def shown(ids: Iterable[int]) -> list[Event]:
        spans = normal(Segment(each.agent_id, each.id, each.id) for each in moment.lookup(ids))
        return list(moment.select(intersect(visible, spans)))

    now, then = at.fold.evicted.keys(), fold.evicted.keys()
    return shown(then - now), shown(now - then)


def request_change(
    moment: Snapshot,
    request: Callable[[Standing], Request],
    at: Standing,
    after: Standing,
    operation: Operation | None = None,
) -> RequestChange | None:
    """Return how the agent's next request changes when its standing is `after` instead of `at`, because of `operation`
    if one is given; None if no request can be made. `request` returns the request of a standing. It is called for both,
    so the cost grows with the window."""
    from foldmark.providers.registry import dialect_of
    from foldmark.request.prepare import binding

    try:
        now = request(at)
        then = request(after)
        dialect = dialect_of(now.provider, at.given.dialects)
    except CommandError:  # the provider is no longer configured
        return None
    thoughts = ThinkingChange()
    if (binding(at) or binding(after)) and selections.newest(
        moment, "usage", at.lineage
    ) is not None:  # a model has answered
        left, returned = now.thinking - then.thinking, then.thinking - now.thinking
        if isinstance(operation, Summary) and operation.kept and operation.native:  # its source is not recorded yet
            (items,) = operation.native.values()
            left, returned = now.thinking - dialect.thinking.staying(now.body, items[-1]), frozenset()
        thoughts = ThinkingChange(len(left), len(returned))
    same = now.dialect == then.dialect and now.model == then.model
    held = int(now.tokens * dialect.shared(now.body, then.body)) if same else 0
    return RequestChange(now, then, CachedPrefix(min(held, then.tokens), now.tokens), thoughts, _shortened(now, then))


def _shortened(now: Request, then: Request) -> Size:
    """Return the results that both requests have and the second has shorter, and their tokens less."""
    before = {part.event: part for part in now.manifest.parts if part.kind == "tool_result" and part.how != "evicted"}
    less = [
        len(before[part.event].text.encode()) - len(part.text.encode())
        for part in then.manifest.parts
        if part.event in before and part.how == "truncated" and len(part.text) < len(before[part.event].text)
    ]
    return Size(len(less), round(sum(less) * now.tokens / max(1, now.size)))


def context_change(before: Segments, after: Segments, total: Size, size: Callable[[Segments], Size]) -> ContextChange:
    """Compare two contexts. `total` is the size of the first; `size` returns that of other segments."""
    if before == after:
        return ContextChange(total, total, Size(0, 0), Size(0, 0))
    gone = subtract(before, after)
    left = total if gone == before else size(gone)
    returned = size(subtract(after, before))
    return ContextChange(total, total.less(left).plus(returned), left, returned)
