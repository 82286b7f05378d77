"""Usage: the cost of answers as counted by the provider, and the values derived from it [SPEC 5.4]."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from foldmark.core import selections
from foldmark.core.agents import Size
from foldmark.core.assembly.caching import RECENT, Use, lifetime
from foldmark.core.codec import stored_time
from foldmark.core.events import ANSWER_KINDS, Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import Stopped, Usage
from foldmark.core.segments import END, Segment, Segments, contains, intersect, until
from foldmark.request.exchanges import until_next
from foldmark.request.recorded import costs_until
from foldmark.request.standing import Standing

_COUNTS = ("fresh", "cache_read", "cache_write", "output")


def usage_of(data: dict[str, Any] | None) -> Usage | None:
    """Return the cost of a request from the data of a usage event; None if the data has no cost."""
    counts: dict[str, Any] = {name: (data or {}).get(name) for name in _COUNTS}
    if data is None or not all(isinstance(each, int) for each in counts.values()):
        return None
    last = data.get("last_input", 0)
    known = data.get("cache_known") is not False
    return Usage(**counts, cache_known=known, last_input=last if isinstance(last, int) else 0)


def usage_data(provider: str, model: str, usage: Usage, stopped: Stopped | None) -> dict[str, Any]:
    """Return the data of a usage event: the reported cost of an answer, and the provider's alterations of the
    request."""
    counts = {name: getattr(usage, name) for name in _COUNTS}
    more: dict[str, Any] = {"altered": list(usage.altered)} if usage.altered else {}
    if usage.last_input:
        more["last_input"] = usage.last_input
    if not usage.cache_known:
        more["cache_known"] = False
    return {"provider": provider, "model": model, **counts, "stopped": stopped.said if stopped else "", **more}


def left_out(altered: Sequence[dict[str, Any]]) -> str:
    """Describe the content that the provider left out of a request because of the setting `provider_editing`; empty if
    it left out nothing."""
    counts: dict[str, int] = {}
    for entry in altered:
        for name, number in entry.items():
            if name.startswith("cleared_") and isinstance(number, int):
                counts[name] = counts.get(name, 0) + number
    parts = [f"{number:,} {name.removeprefix('cleared_').replace('_', ' ')}" for name, number in sorted(counts.items())]
    return f"the provider left out of the request: {', '.join(reversed(parts))}" if parts else ""


def cache_ttl(moment: Snapshot, at: Standing, opener: Event) -> str:
    """Return the cache lifetime for the requests of a turn, `5m` or `1h`, from the cost and the times of the agent's
    own earlier requests. `opener` is the turn's first message.

    All requests of a turn get the same lifetime. The costs of an imported session do not count, because its contexts
    had different sizes.
    """
    uses: list[Use] = []
    for event in reversed(selections.recent(moment, "usage", at.record.id, opener.id, RECENT)):
        usage = usage_of(event.data)
        if usage is not None:
            made_at = stored_time(event.created_at).timestamp()
            uses.append(Use(made_at, usage.input, usage.input - usage.cache_read))
    if uses:  # the pause before this turn
        uses.append(Use(stored_time(opener.created_at).timestamp(), uses[-1].tokens, 0))
    return lifetime(uses)


class Weighed(Struct, frozen=True):
    """The snapshot of a message: the tokens of the first request that contained it, plus those of the answer. If the
    provider did not count them (`counted` is False), it is an estimate: the size of the context up to the message."""

    tokens: int
    counted: bool

    def __str__(self) -> str:
        return f"· {'' if self.counted else '~'}{self.tokens:,} tokens"


class Cost(NamedTuple):
    """A recorded usage with its agent, its event, and the request that it names, if it names one."""

    usage: Usage
    agent: str
    event: int
    request: int | None

    @property
    def place(self) -> int:
        """The event that says which turn the cost belongs to."""
        return self.event if self.request is None else self.request

    def belongs(self, first: int, last: int, until_id: int) -> bool:
        """Return True if this is the cost of the answer that ends with message `last`, to input from message `first`
        on. Without the name of a request, it must follow the answer before event `until_id`."""
        return last < self.event < until_id if self.request is None else first < self.request < last


def costs(moment: Snapshot, segments: Segments) -> list[Cost]:
    """Return the costs recorded inside segments, oldest first, without usages that have no counts."""
    found = []
    for event in moment.select(segments, "usage", expected=END):
        usage, request = usage_of(event.data), (event.data or {}).get("request")
        if usage is not None:
            found.append(Cost(usage, event.agent_id, event.id, request if isinstance(request, int) else None))
    return found


def snapshots(
    moment: Snapshot, at: Standing, messages: Sequence[Event], size: Callable[[Segments], Size]
) -> dict[int, Weighed]:
    """Return the snapshots of one turn's messages by their ids, the same for all of one interaction [SPEC 5.4, S2].
    `size` returns the size of the messages in segments, for interactions that no provider has counted.

    An interaction is the input since the model's previous answer, and the next answer with all its calls. An
    interaction that was not counted and has left the context has no snapshot.
    """
    found: dict[int, Weighed] = {}
    if not messages:
        return found
    interactions: list[list[Event]] = [[]]
    for message in messages:
        before = interactions[-1]
        if before and before[-1].kind in ANSWER_KINDS and message.kind not in ANSWER_KINDS:
            interactions.append([])
        interactions[-1].append(message)
    owner = messages[0].agent_id
    end = until_next(moment, at, [(owner, messages[-1].id)])[0].last
    if owner == at.record.id and end == at.record.head:
        end = at.last  # no message follows, but metadata may
    recorded = Segment(owner, messages[0].id, max(end, costs_until(moment, owner, end)))
    found_costs = costs(moment, intersect(until(at.lineage, at.last), (recorded,)))
    ends = [following[0].id for following in interactions[1:]]
    for interaction, until_id in zip(interactions, [*ends, end + 1], strict=True):
        first, last = interaction[0], interaction[-1]
        usage = next((cost.usage for cost in found_costs if cost.belongs(first.id, last.id, until_id)), None)
        if usage is not None:
            weighed = Weighed(usage.size + usage.output, True)
        elif contains(at.visible, last.agent_id, last.id):
            weighed = Weighed(size(until(at.visible, last.id)).tokens, False)
        else:
            continue
        found |= {message.id: weighed for message in interaction}
    return found
