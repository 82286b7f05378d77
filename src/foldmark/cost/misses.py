"""Cache hits and misses of the requests that were sent, and the reasons for the misses [SPEC 4, 5.7].

To explain a miss, a request is compared with the answered request before it, for which the provider has reported the
tokens read from the cache and written to it. A deliberate change in between explains a miss: another model, an
operation, a setting. Otherwise the policy may have changed something.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from foldmark.core import selections
from foldmark.core.assembly.caching import LIFETIMES, Rules
from foldmark.core.assembly.sent import RequestRecord, SentRequest
from foldmark.core.codec import stored_time
from foldmark.core.events import shapes
from foldmark.core.ports import Snapshot
from foldmark.core.replay import recorded
from foldmark.core.request import Usage
from foldmark.core.segments import END, Segment
from foldmark.core.wording import count, listing
from foldmark.cost.spending import rules_of
from foldmark.dialects.dialect import dialect_named
from foldmark.log.log import Agent
from foldmark.operations.history import words
from foldmark.request.recorded import costs_until, newest_requests
from foldmark.request.sent import truncated
from foldmark.request.usage import costs
from foldmark.sending.rebuilding import rebuilt

BEFORE = 10
"""Number of earlier requests among which the previous answered request is looked up."""

SAME = 0.95
"""Minimum share of a request that the next one must begin with. The rest may be Foldmark's own text at its end."""

NEGLIGIBLE = 256
"""Tokens that may be missing without a reason: caches keep beginnings in steps, and counts are slightly inexact."""

NAMED = 3
"""Maximum number of operations that are named; earlier ones are only counted."""


class Reason(Struct, frozen=True):
    """The reason why something was not read from the cache.

    `why` is `first`, `pause`, `model`, `operation`, `settings`, `system`, `tools`, `planning`, `window`, `results`,
    `layers`, `older`, `provider` or `unknown`; `event` is that of the operation.
    """

    why: str
    text: str
    event: int | None = None


class Missed(Struct, frozen=True):
    """The number of tokens that a cache `held` before the request, how many of these the request missed, and the
    reasons; there are no reasons without a miss."""

    held: int
    tokens: int
    reasons: tuple[Reason, ...] = ()


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
        if self.missed is not None and not self.usage.cache_known:
            return f"cache {_UNREPORTED.reasons[0].text}"
        counts = f"read {self.usage.cache_read:,}, wrote {self.usage.cache_write:,}"
        if self.missed is None or not self.missed.reasons:
            return counts
        much = f"missed {self.missed.tokens:,}: " if self.missed.tokens else ""
        return f"{counts}; {much}{'; '.join(reason.text for reason in self.missed.reasons)}"

    def data(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        counts = {"fresh": self.usage.fresh, "read": self.usage.cache_read, "written": self.usage.cache_write}
        if self.missed is None:
            return {**counts, "held": None, "missed": None, "reasons": []}
        reasons = [msgspec.to_builtins(reason) for reason in self.missed.reasons]
        return {**counts, "held": self.missed.held, "missed": self.missed.tokens, "reasons": reasons}


def cached(agent: Agent, sent: SentRequest) -> Cached | None:
    """Return the cache hits of one request of the agent; None if its cost is not known."""
    with agent.reading() as (moment, _):
        found = newest_requests(moment, agent.id, BEFORE + 1, sent.id)
        until = costs_until(moment, agent.id, sent.id)
        return _cached(moment, agent, found, until, complete=len(found) <= BEFORE).get(sent.id)


def newest_cached(agent: Agent, limit: int) -> tuple[list[SentRequest], dict[int, Cached]]:
    """Return the agent's newest requests, newest first, at most `limit`; and, by id, the cache hits of those whose cost
    is known."""
    with agent.log.store.read() as moment:
        found = newest_requests(moment, agent.id, limit + BEFORE)
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
    if not any(one.usage.cache_known for _, one in turn):
        return Newest(f"Cache: {_UNREPORTED.reasons[0].text}.", 0)
    read, wrote = (sum(getattr(one.usage, name) for _, one in turn) for name in ("cache_read", "cache_write"))
    summary = f"Cache: in the newest turn {count(len(turn), 'request')} read {read:,} tokens and wrote {wrote:,}."
    misses = [(each, one.missed) for each, one in turn if one.missed is not None and one.missed.tokens]
    if not misses:
        return Newest(summary, 0)
    worst, why = max(misses, key=lambda miss: miss[1].tokens)
    others = f" {count(len(misses) - 1, 'other request')} missed less; /context sent lists them." if misses[1:] else ""
    reasons = "; ".join(reason.text for reason in why.reasons)
    return Newest(f"{summary} Request {worst.number} missed {why.tokens:,}: {reasons}.{others}", why.tokens)


Done = Sequence[tuple[int, str]]
"""Operations: their events and their descriptions, in order."""


def _cached(
    moment: Snapshot, agent: Agent, sent: Sequence[SentRequest], until: int, *, complete: bool
) -> dict[int, Cached]:
    """Return the cache hits of these requests, which are given newest first. `complete` is True if the agent sent no
    request before them. Their costs were recorded up to event `until`."""
    answers = [each for each in reversed(sent) if each.purpose == "answer"]
    if not answers:
        return {}
    found: dict[int, Cached] = {}
    usages = _usages(moment, agent.id, answers, until)
    changes = _operations(moment, agent.id, answers[0].id, answers[-1].id)
    before: SentRequest | None = None
    for each in answers:
        if each.id not in usages:
            continue
        rules = rules_of(agent.log.model_named(f"{each.provider}/{each.model}"))
        missed = None
        if rules is not None and not usages[each.id].cache_known:
            missed = _UNREPORTED
        elif rules is not None and before is not None:
            missed = _missed(moment, agent, before, each, usages, changes, rules)
        elif rules is not None and complete and each is answers[0]:
            missed = Missed(0, 0, (Reason("first", "the first request"),))
        found[each.id] = Cached(usages[each.id], missed)
        before = each
    return found


def _missed(
    moment: Snapshot,
    agent: Agent,
    before: SentRequest,
    now: SentRequest,
    usages: dict[int, Usage],
    changes: Done,
    rules: Rules,
) -> Missed:
    """Return the misses of request `now` in a cache with these rules, given the answered request `before` it, both
    usages by request id, and the agent's operations."""
    usage = usages[now.id]
    held = min(_tokens_held(usages[before.id], rules), usage.input)
    tokens = held - usage.cache_read
    if tokens <= max(NEGLIGIBLE, held // 20):
        return Missed(held, 0)
    lifetime = max(rules.lifetime, LIFETIMES[before.cache_ttl])
    pause = (stored_time(now.created_at) - stored_time(before.created_at)).total_seconds()
    found = []
    if pause > lifetime:
        minutes, hours = round(pause / 60), round(pause / 3600)
        long = f"{minutes} min" if minutes < 120 else f"{hours} h" if hours < 48 else f"{round(hours / 24)} days"
        found = [Reason("pause", f"a pause of {long}; the cache keeps a request for {round(lifetime / 60)} min")]
    found += _chosen(moment, before, now, [each for each in changes if before.id < each[0] < now.id])
    found = found or list(_policy(before, now)) or [_at_last(agent, before, now)]
    return Missed(held, tokens, tuple(found))


_UNREPORTED = Missed(0, 0, (Reason("unknown", "unknown: the provider reports nothing about its cache"),))


def _tokens_held(usage: Usage, rules: Rules) -> int:
    """Return the tokens of a request that the cache holds after the answer."""
    if rules.step:
        return usage.input if usage.input >= rules.least else 0
    return usage.cache_read + usage.cache_write


def _chosen(moment: Snapshot, before: SentRequest, now: SentRequest, operations: Done) -> Iterator[Reason]:
    """Yield deliberate changes between two requests."""
    if (before.provider, before.model) != (now.provider, now.model):
        yield Reason("model", f"another model; the previous request went to {before.provider}/{before.model}")
    if (more := len(operations) - NAMED) > 0:
        span = f"events {operations[0][0]} to {operations[more - 1][0]}"
        yield Reason("operation", f"{count(more, 'operation')} ({span})")
    for event, done in operations[-NAMED:]:
        yield Reason("operation", f"{done} (event {event})", event)
    if before.planning != now.planning:
        yield Reason("planning", f"{'only' if now.planning else 'no longer only'} a planning conversation is sent")
    changed = _settings(moment, before, now) if _hash(before, "config") != _hash(now, "config") else []
    if changed:
        yield Reason("settings", f"changed settings: {listing(changed)}")
    other = _digest(before, "system") != _digest(now, "system") and "system" not in changed
    if other or _hash(before, "guidelines") != _hash(now, "guidelines"):
        yield Reason("system", "another system prompt or other guidelines")
    if _hash(before, "tools") != _hash(now, "tools"):
        yield Reason("tools", "other tools")


def _policy(before: SentRequest, now: SentRequest) -> Iterator[Reason]:
    """Yield changes that the policy made."""
    if now.edge.first != before.edge.first:
        yield Reason("window", f"a step of the window: it begins at event {now.edge.first}, not {before.edge.first}")
    elif now.plan.settled != before.plan.settled:
        yield Reason("window", f"a step of the window as of event {now.plan.settled}")
    if now.plan.settled != before.plan.settled:
        return  # the rest is part of the step
    if other := [name for name in _LAYERS if now.plan.layers.get(name) != before.plan.layers.get(name)]:
        yield Reason("layers", f"a new {listing(_LAYERS[name] for name in other)}")


_LAYERS = {
    "state": "state block",
    "scratchpad": "scratchpad",
    "memos": "choice of memos",
    "window_summary": "window summary",
}


def _digest(record: RequestRecord, layer: str) -> str | None:
    return record.digests.get(layer)


def _hash(record: RequestRecord, name: str) -> str | None:
    return record.hashes.get(name)


def _usages(moment: Snapshot, agent_id: str, requests: Sequence[SentRequest], until: int) -> dict[int, Usage]:
    """Return the costs of these requests, which are given oldest first, by their ids."""
    wanted = {each.id for each in requests}
    recorded = costs(moment, (Segment(agent_id, requests[0].id, until),))
    return {cost.request: cost.usage for cost in recorded if cost.request is not None and cost.request in wanted}


def _settings(moment: Snapshot, before: SentRequest, now: SentRequest) -> list[str]:
    """Return the names of changed settings, without settings that only one of the two versions of Foldmark knows."""
    hashes = [each.hashes["config"] for each in (before, now)]
    texts = moment.kept_texts(hashes)
    if not texts.keys() >= set(hashes):
        return []  # `rebuilt` reports what is missing
    was, then = (msgspec.json.decode(texts[each]) for each in hashes)
    return sorted(
        key for key in was.keys() & then.keys() - {"calibration", "model", "cache_ttl"} if was[key] != then[key]
    )


def _at_last(agent: Agent, before: SentRequest, now: SentRequest) -> Reason:
    """Return the reason that comparing both requests, rebuilt, shows."""
    first, second = (rebuilt(agent, each.number) for each in (before, now))
    if (first.verdict, second.verdict) != ("identical", "identical"):
        return Reason("unknown", "unknown: the earlier request cannot be rebuilt as it was sent")
    if dialect_named(first.request.dialect).shared(first.request.body, second.request.body) >= SAME:
        return Reason("provider", "nothing changed; the provider did not keep it")
    was, then = (truncated(each.request.manifest.parts) for each in (first, second))
    if cut := [each for each, kept in then.items() if each < before.id and was.get(each) != kept]:
        return Reason("results", f"{count(len(cut), 'older tool result')} cut to another length")
    return Reason("older", "older messages were sent in another form than before")


def _operations(moment: Snapshot, agent_id: str, after: int, until: int) -> list[tuple[int, str]]:
    """Return the agent's operations between two events that change what is sent."""
    done = selections.operations(moment, agent_id, after=after, until=until)
    shaping = recorded(event for event in done if shapes(event))
    return [(event, words(operation)) for event, operation in shaping]
