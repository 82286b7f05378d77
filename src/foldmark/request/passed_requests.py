"""The requests of a coding agent that a gateway has passed on, as the log holds them [SPEC 5.7].

A request is recorded with the sizes of its parts (`client_sizes.py`) when it is passed on, in a record of the gateway,
and again with its answer, in the usage event. A provider also keeps a request in its cache whose answer the client has
aborted, or that is being answered. Only one that the provider refused, or never got, is in no cache.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from foldmark.core import selections
from foldmark.core.assembly.caching import LIFETIMES, common_length
from foldmark.core.codec import stored_time
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import Usage
from foldmark.core.segments import END
from foldmark.request.client_sizes import INSTALLS, LIVES, REFUSED, SENT, UNANSWERED, SizedMessage
from foldmark.request.standing import Standing
from foldmark.request.usage import usage_of

_PAGE, _RECENT = 256, 1000
"""Number of usage events that are read at once, and maximum number of events after the newest one."""

_BEGINNING = 3
"""Number of first events among which the agent of a live session has the gateway's record."""


def gateway_record(event: Event) -> dict[str, Any] | None:
    """Return the gateway's data about the client's transcript in an event; None for any other event."""
    about = (event.data or {}).get("live") if event.kind == "record" else None
    return about if isinstance(about, dict) else None


def client_record(moment: Snapshot, agent_id: str) -> dict[str, Any] | None:
    """Return the gateway's data about the client of an agent; None for an agent without a client."""
    return next(filter(None, map(gateway_record, selections.events_after(moment, agent_id, 0, _BEGINNING))), None)


class Recorded(NamedTuple):
    """A request as recorded: the data about its sizes, the event that has it, and the provider's count, None without an
    answer."""

    about: Mapping[str, Any]
    event: Event
    usage: Usage | None = None


class PassedRequest(NamedTuple):
    """A request that was passed on: the newest event that its edit knew (0 if it was not edited), the number of the
    client's messages in it, its bytes besides the messages, the provider's count (None without an answer), and the
    event that has its sizes. `lives` are the seconds for which the provider keeps it in its cache."""

    known: int
    messages: int
    rest: int
    usage: Usage | None
    event: Event
    lives: float

    @property
    def counted(self) -> int:
        """The provider's count of its input; 0 without an answer."""
        return 0 if self.usage is None else self.usage.input

    @property
    def time(self) -> float:
        """The time of the answer, or of the request if there is none, in seconds."""
        return stored_time(self.event.created_at).timestamp()


class PassedRequests:
    """The client's messages, and the requests that were passed on: the newest of each state of the operations, oldest
    first. `answers` has the state in which each answer was made, by the place of its message. `newest_answered` is the
    newest request with an answer."""

    def __init__(self, binds: bool = False) -> None:
        self.messages: list[SizedMessage] = []
        self.passed: list[PassedRequest] = []
        self.answers: dict[int, int] = {}
        self.newest_answered: PassedRequest | None = None
        self.binds, self.installs = binds, False
        self._answered: list[SizedMessage] = self.messages  # as of the newest answer

    def follow(self, request: Recorded, states: Sequence[int]) -> None:
        """Add a request. Its sizes refer to the messages as of the newest answer before it. `states` are the ids of all
        operations, in ascending order."""
        about, event, usage = request
        if about.get(INSTALLS):
            self.binds = self.installs = True
        kept, base = about["kept"], self._answered
        whole = kept[0][1] + 1 if kept and kept[0][0] == 0 else 0
        new = [base[at] for first, last in kept[whole > 0 :] for at in range(first, last + 1)]
        new += [SizedMessage(tuple(ids), tuple(sizes), *system) for ids, sizes, *system in about["added"]]
        begin = whole if self.messages is base else 0  # both begin with the same messages
        # The answer before is measured again.
        before, now = self.messages[begin:], [*base[begin:whole], *new]
        same = begin + common_length([each.ids for each in before], [each.ids for each in now])
        if same < len(self.messages):
            self.passed = [each._replace(messages=min(each.messages, same)) for each in self.passed]
            self.answers = {at: state for at, state in self.answers.items() if at < same}
        if usage is None:
            self.messages = [*base[:whole], *new]
        else:
            base[whole:] = new
            self.messages = base
        messages = len(self.messages) - (usage is not None)
        lives = about.get(LIVES) or LIFETIMES["5m"]
        made = PassedRequest(about["known"], messages, about["rest"], usage, event, lives)
        newest = self.passed[-1] if self.passed else None
        between = newest is not None and bisect_right(states, newest.known) != bisect_right(states, made.known)
        if newest is None or between or newest.messages > messages:
            self.passed.append(made)
        else:
            self.passed[-1] = made
        if usage is not None:
            self.newest_answered = made
            self.answers[messages] = len(self.passed) - 1


def recorded_requests(moment: Snapshot, at: Standing, before: int = END) -> tuple[list[Recorded], list[Recorded]]:
    """Return the recorded requests that the client's current messages need, oldest first: those up to the newest
    answer, and those passed on since then, up to event `before` (exclusive)."""
    answered = _answered(moment, at)
    if not answered:
        return [], []
    newest = answered[-1].event.id
    later = [each for each in selections.events_after(moment, at.record.id, newest, _RECENT) if each.id < before]
    refused = {about[REFUSED] for each in later if (about := gateway_record(each)) and REFUSED in about}
    since = [each for each in _unanswered(later) if each.event.id not in refused]
    ids = [id for each in answered for id in each.about.get(UNANSWERED, ())]
    between = {each.event.id: each for each in _unanswered(moment.events(ids))} if ids else {}
    found = list[Recorded]()
    for each in answered:
        own = [between[id] for id in each.about.get(UNANSWERED, ()) if id in between]
        # Before the first of these answers, the client had another transcript.
        found += own if found else (one for one in own if not one.about["kept"])
        found.append(each)
    return found, since


def _answered(moment: Snapshot, at: Standing) -> list[Recorded]:
    found: list[Recorded] = []
    page, until = 1, at.last
    while True:
        events = selections.recent(moment, "usage", at.record.id, until, page)
        for event in events:
            about, usage = (event.data or {}).get(SENT), usage_of(event.data)
            if about is None:
                continue  # somebody else recorded it
            if not isinstance(about, dict) or usage is None:
                return found[::-1] if found and not found[-1].about["kept"] else []
            found.append(Recorded(about, event, usage))
            if not about["kept"]:
                return found[::-1]
        if len(events) < page:
            return []
        page, until = max(_PAGE, page * 4), events[-1].id - 1


def _unanswered(events: Sequence[Event]) -> Iterator[Recorded]:
    """Yield the requests that records hold."""
    for event in events:
        about = (gateway_record(event) or {}).get(SENT)
        if isinstance(about, dict):
            yield Recorded(about, event)
