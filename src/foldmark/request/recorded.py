"""The recorded requests of an agent: what was sent to models, newest first [SPEC 5.6]."""

from foldmark.core.assembly.sent import SentRequest, sent_request
from foldmark.core.ports import Snapshot
from foldmark.core.request import ANSWER
from foldmark.core.segments import END


def newest_requests(moment: Snapshot, agent_id: str, limit: int, until: int = END) -> list[SentRequest]:
    """Return the newest requests that an agent sent, up to event `until`, newest first, at most `limit`. Raises
    DamagedError."""
    return list(map(sent_request, moment.recent("request", agent_id, until, limit)))


def newest_asked(moment: Snapshot, agent_id: str) -> SentRequest | None:
    """Return the newest request that an agent sent for an answer, not for a summary or a filter. Raises
    DamagedError."""
    page, until = 1, END
    while requests := newest_requests(moment, agent_id, page, until):
        for each in requests:
            if each.purpose == ANSWER:
                return each
        page, until = page * 4, requests[-1].id - 1
    return None


def numbered_request(moment: Snapshot, agent_id: str, number: int) -> SentRequest | None:
    """Return an agent's request with this number, or None. Cost grows with the logarithm of the number of requests.
    Raises DamagedError."""
    found, low = next(iter(newest_requests(moment, agent_id, 1)), None), 0
    while found is not None and found.number > number and found.id > low + 1:
        # The requests up to event `low` have lower numbers.
        middle = (low + found.id) // 2
        older = next(iter(newest_requests(moment, agent_id, 1, middle)), None)
        if older is not None and older.number >= number:
            found = older
        else:
            low = middle
    return found if found is not None and found.number == number else None


def request_at(moment: Snapshot, agent_id: str, event_id: int) -> SentRequest | None:
    """Return the newest request that an agent had sent before anything followed event `event_id` in its timeline, or
    None. Raises DamagedError."""
    found = next(iter(newest_requests(moment, agent_id, 1, event_id)), None)
    while True:
        following = numbered_request(moment, agent_id, 1 if found is None else found.number + 1)
        if following is None or following.event > event_id:
            return found
        found = following
