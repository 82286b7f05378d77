"""Explain cache misses: why a provider's cache lacked what the request before held [SPEC 5.7]. Pure functions.

A request is compared with the answered request before it. The log records what went into each (`core.sent`); the
provider reports the tokens read from the cache and written to it. A deliberate change in between explains a miss:
another model, an operation, a setting. Without one, policy may have changed something.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from foldmark.core.answer import Usage
from foldmark.core.caching import Rules
from foldmark.core.sent import RequestRecord, SentRequest
from foldmark.core.wording import count, listing

NEGLIGIBLE = 256
"""Tokens that may be missing without a reason: caches keep beginnings in steps, and counts are slightly off."""

NAMED = 3
"""Maximum number of operations that are named; earlier ones are only counted."""


class Answered(Struct, frozen=True):
    """A request that was answered: when it was sent (seconds), and its cost."""

    sent: SentRequest
    moment: float
    usage: Usage


class Between(Struct, frozen=True):
    """What lies between two requests.

    `operations` are those that change what is sent: their events, and their descriptions. The other two are called only
    when needed: `settings` returns the names of changed settings, `begins` returns True if the later request begins
    with the whole earlier one (None if one of them cannot be rebuilt).
    """

    operations: Sequence[tuple[int, str]]
    settings: Callable[[], Sequence[str]]
    begins: Callable[[], bool | None]


class Reason(Struct, frozen=True):
    """Why something was not read.

    `why` is `first`, `pause`, `model`, `operation`, `settings`, `system`, `tools`, `planning`, `window`, `results`,
    `layers`, `older`, `provider` or `unknown`; `event` is the operation's.
    """

    why: str
    text: str
    event: int | None = None


class Missed(Struct, frozen=True):
    """The number of `held` tokens missing from the cache, with reasons; no reasons if none is missing."""

    held: int
    tokens: int
    reasons: tuple[Reason, ...] = ()


def missed(before: Answered | None, now: Answered, between: Between, rules: Rules, lifetime: float) -> Missed:
    """Return what the cache missed of `now`, and why. `before` is the request before it, None if there is none.

    `rules` are the cache's, `lifetime` the seconds that it keeps a request.
    """
    if before is None:
        return Missed(0, 0, (Reason("first", "the first request"),))
    held = min(_held(before.usage, rules), now.usage.input)
    tokens = held - now.usage.cache_read
    if tokens <= max(NEGLIGIBLE, held // 20):
        return Missed(held, 0)
    pause = now.moment - before.moment
    found = [] if pause <= lifetime else [Reason("pause", _pause(pause, lifetime))]
    found += _chosen(before.sent, now.sent, between)
    found = found or list(_policy(before.sent, now.sent)) or [_AT_LAST[between.begins()]]
    return Missed(held, tokens, tuple(found))


_AT_LAST = {
    True: Reason("provider", "nothing changed; the provider did not keep it"),
    False: Reason("older", "older messages were sent otherwise than before"),
    None: Reason("unknown", "not known: what was sent then cannot be made again as it was"),
}


def _held(usage: Usage, rules: Rules) -> int:
    """Return the tokens of a request that the cache had once it was answered."""
    if rules.step:
        return usage.input if usage.input >= rules.least else 0
    return usage.cache_read + usage.cache_write


def _pause(seconds: float, lifetime: float) -> str:
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    long = f"{minutes} min" if minutes < 120 else f"{hours} h" if hours < 48 else f"{round(hours / 24)} days"
    return f"a pause of {long}, longer than the {round(lifetime / 60)} min that it is kept"


def _chosen(before: SentRequest, now: SentRequest, between: Between) -> Iterator[Reason]:
    """Yield deliberate changes."""
    was, then, operations = before.record, now.record, between.operations
    if (before.provider, before.model) != (now.provider, now.model):
        yield Reason("model", f"another model: the request before went to {before.provider}/{before.model}")
    if (more := len(operations) - NAMED) > 0:
        span = f"events {operations[0][0]} to {operations[more - 1][0]}"
        yield Reason("operation", f"{count(more, 'operation')} ({span})")
    for event, words in operations[-NAMED:]:
        yield Reason("operation", f"{words} (event {event})", event)
    if was.planning != then.planning:
        yield Reason("planning", f"{'only' if then.planning else 'no longer only'} a planning conversation is sent")
    if _hash(was, "config") != _hash(then, "config") and (changed := between.settings()):
        yield Reason("settings", f"changed settings: {listing(changed)}")
    if _names(was, "system") != _names(then, "system") or _hash(was, "guidelines") != _hash(then, "guidelines"):
        yield Reason("system", "another system prompt or other guidelines")
    if _hash(was, "tools") != _hash(then, "tools"):
        yield Reason("tools", "other tools")


def _policy(before: SentRequest, now: SentRequest) -> Iterator[Reason]:
    """Yield changes made by policy."""
    was, then = before.record, now.record
    if then.edge.first != was.edge.first:
        yield Reason("window", f"a step of the window: it begins at event {then.edge.first}, not {was.edge.first}")
    elif then.edge.settled != was.edge.settled:
        yield Reason("window", f"a step of the window as of event {then.edge.settled}")
    if then.edge.settled != was.edge.settled:
        return  # the rest is part of the step
    old = [each for each in {*was.truncated, *then.truncated} if each <= before.event]
    if cut := [each for each in old if was.truncated.get(each) != then.truncated.get(each)]:
        yield Reason("results", f"{count(len(cut), 'older tool result')} cut to another length")
    if other := [name for name in _LAYERS if _names(was, name) != _names(then, name)]:
        yield Reason("layers", f"a new {listing(_LAYERS[name] for name in other)}")


_LAYERS = {
    "state": "state block",
    "scratchpad": "scratchpad",
    "memos": "choice of memos",
    "window_summary": "summary of what the window passed",
}


def _names(record: RequestRecord, layer: str) -> Sequence[int]:
    return record.layers.get(layer, ())


def _hash(record: RequestRecord, name: str) -> str | None:
    return record.hashes.get(name)
