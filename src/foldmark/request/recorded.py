"""The recorded requests of an agent: what was sent to models, newest first [SPEC 5.6].

A record that cannot be read, which another version may have made, stops nothing: it is left out, and `foldmark doctor`
names it.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.assembly.sent import SentRequest, sent_request
from foldmark.core.codec import operation_of
from foldmark.core.errors import DamagedError
from foldmark.core.events import Event, Fork
from foldmark.core.ports import Snapshot
from foldmark.core.request import ANSWER, Edge, Family, Layers, Plan, Request
from foldmark.core.segments import END
from foldmark.request.standing import Standing


def newest_requests(moment: Snapshot, agent_id: str, limit: int, until: int = END) -> list[SentRequest]:
    """Return the newest readable requests that an agent sent, up to event `until`, newest first, at most `limit`."""
    found: list[SentRequest] = []
    for event in _newest_first(moment, agent_id, limit, until):
        with suppress(DamagedError):
            found.append(sent_request(event))
        if len(found) == limit:
            break
    return found


def newest_asked(moment: Snapshot, agent_id: str, until: int = END) -> SentRequest | None:
    """Return the newest request that an agent sent for an answer up to event `until`, not for a summary or a filter."""
    for event in _newest_first(moment, agent_id, 1, until):
        with suppress(DamagedError):
            if (sent := sent_request(event)).purpose == ANSWER and not sent.planning:
                return sent
    return None


class SentPlan(NamedTuple):
    """The request that the next one of an agent goes on with: its whole plan, the newest event of its agent when it was
    sent, that agent, its edge, the hashes of its texts, and its record if it is recorded. The first request of a child
    that was forked with the whole context goes on with its parent's."""

    plan: Plan
    event: int
    agent: str
    edge: Edge | None = None
    hashes: Mapping[str, str] = {}
    request: SentRequest | None = None

    @classmethod
    def of(cls, request: Request, at: Standing) -> "SentPlan":
        """Return the plan of a request that was made at a standing and is sent by other means."""
        return cls(request.manifest.plan, at.newest, at.record.id, request.manifest.edge)

    def since(self, moment: Snapshot, at: Standing) -> list[Event]:
        """Return the operations since the request."""
        own = selections.operations(moment, at.record.id, after=self.event, until=at.newest)
        if self.agent == at.record.id:
            return own
        return [*selections.operations(moment, self.agent, after=self.event, until=at.record.fork_event), *own]


def newest_plan(moment: Snapshot, at: Standing) -> SentPlan | None:
    """Return the plan that the next request goes on with; None if no request was sent yet."""
    sent = newest_asked(moment, at.record.id, at.last) if at.record.asked else None
    if sent is None and at.record.parent is not None and _is_full(moment, at.record.fork_event):
        sent = newest_asked(moment, at.record.parent, at.record.fork_event)
    return None if sent is None else sent_plan(moment, sent)


def _is_full(moment: Snapshot, fork_event: int) -> bool:
    event = selections.event(moment, fork_event)
    fork = operation_of(event) if event is not None else None
    return isinstance(fork, Fork) and fork.is_full


def sent_plan(moment: Snapshot, sent: SentRequest) -> SentPlan:
    """Return a request with its whole plan: with the layers that earlier requests have placed since the boundary."""
    later, told = dict[int, Layers](), dict[int, Family]()
    for event in moment.events(sent.after) if sent.after else ():
        with suppress(DamagedError):
            earlier = sent_request(event).plan
            later, told = {**later, **earlier.later}, {**told, **earlier.told}
    plan = replace(sent.plan, later={**later, **sent.plan.later}, told={**told, **sent.plan.told})
    return SentPlan(plan, sent.event, sent.agent, sent.edge, sent.hashes, sent)


def numbered_request(moment: Snapshot, agent_id: str, number: int) -> SentRequest | None:
    """Return an agent's request with this number, or None. Cost grows with the logarithm of the number of requests.
    Raises DamagedError."""
    event = _numbered(moment, agent_id, number)
    return None if event is None else sent_request(event)


LATE = 10
"""Number of requests that an agent may have sent before the cost of an earlier one is recorded."""


def costs_until(moment: Snapshot, agent_id: str, event_id: int) -> int:
    """Return the event up to which the costs of an agent's requests up to event `event_id` are recorded."""
    newest = next(_newest_first(moment, agent_id, 1, event_id), None)
    if newest is None:
        return event_id
    later = _numbered(moment, agent_id, number_of(newest) + LATE)
    return END if later is None else later.id


def request_at(moment: Snapshot, agent_id: str, event_id: int) -> SentRequest | None:
    """Return the newest request that an agent had sent before anything followed event `event_id` in its timeline, or
    None. Cost grows with the logarithm of the number of requests."""
    found, newest = None, newest_requests(moment, agent_id, 1)
    if not newest or newest[0].event <= event_id:
        return newest[0] if newest else None
    low, high = 0, newest[0].id - 1
    while low < high:  # requests up to event `low` are early enough, those after `high` are not
        middle = (low + high + 1) // 2
        newest = newest_requests(moment, agent_id, 1, middle)
        if not newest or newest[0].event <= event_id:
            low, found = middle, newest[0] if newest else None
        else:
            high = newest[0].id - 1
    return found


def number_of(event: Event) -> int:
    """Return the number of a `request` event, 0 if its record has none."""
    number = (event.data or {}).get("number")
    return number if isinstance(number, int) else 0


def _numbered(moment: Snapshot, agent_id: str, number: int) -> Event | None:
    found, low = next(_newest_first(moment, agent_id, 1), None), 0
    while found is not None and number_of(found) > number and found.id > low + 1:
        # The requests up to event `low` have lower numbers.
        middle = (low + found.id) // 2
        older = next(_newest_first(moment, agent_id, 1, middle), None)
        if older is not None and number_of(older) >= number:
            found = older
        else:
            low = middle
    return found if found is not None and number_of(found) == number else None


def _newest_first(moment: Snapshot, agent_id: str, page: int, until: int = END) -> Iterator[Event]:
    """Yield the `request` events of an agent up to event `until`, read as they are consumed: first `page` of them."""
    while events := selections.recent(moment, "request", agent_id, until, page):
        yield from events
        if len(events) < page:
            return
        page, until = page * 4, events[-1].id - 1
