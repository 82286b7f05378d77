"""The messages of an agent toward its next request: their places and their tokens.

Every interface takes the size and the place of a message from here, so that they are the same wherever they are shown.
The size of a message is its tokens in the next request, calibrated for the model; a shortened result has the size with
which it is sent. A message that is not sent has the size that it would have unshortened.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import structs

from foldmark.core.agents import Size
from foldmark.core.errors import CommandError, DamagedError
from foldmark.core.events import MESSAGE_KINDS, Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import Edge, Request
from foldmark.core.segments import Segment, Segments, contains, normal, subtract, until
from foldmark.core.wording import count
from foldmark.cost.filling import Filling, Portion, filling
from foldmark.log.log import Agent
from foldmark.operations.history import OperationEntry, kept_out, operations
from foldmark.request.client_requests import NextRequest
from foldmark.request.standing import Standing

if TYPE_CHECKING:
    from foldmark.text.selection import Candidate, MatchRange

Place: TypeAlias = Literal["sent", "before the window", "not sent", "out"]
"""Where a message is: in the next request, before its window, inside the window but left out of the request (a tool
call of another dialect, for example), or out of the context because of an operation."""

SENT: Place = "sent"
BEFORE: Place = "before the window"
NOT_SENT: Place = "not sent"
OUT: Place = "out"
PLACES = (SENT, BEFORE, NOT_SENT, OUT)
"""All places, in the order in which they are named."""


class NextMessages:
    """The messages of a moment toward the next request. In a live session that is the request of its own agent.
    `request` is None if none can be made; everything in the context then counts as sent.

    `portions` are the tokens of each part of the request, in order. In a live session, the messages have the tokens of
    the agent's own next request, and what Foldmark itself would add is left out.
    """

    def __init__(self, moment: Snapshot, at: Standing, request: Request | None) -> None:
        self.request, self._moment, self._at = request, moment, at
        self._client = NextRequest.of(moment, at)
        self.portions, self._form = Filling([], 0.0) if request is None else filling(request)
        self._sent: dict[int, int] = {}
        self._beyond: list[tuple[str, int, float]] | None = None  # tokens beyond the recorded ones, by agent and id
        if self._client is not None:
            self._form = 0.0  # the sizes of the messages include it
            self._sent = self._client.by_event()  # also what is out: the client sends it to the gateway
            self.portions = [*_client_portions(self.portions, self._sent, at)] if request is not None else []
        own = Counter[int]()
        for each in self.portions:
            if each.part is not None and each.part.event is not None:
                own[each.part.event] += each.tokens
        self._sent |= own
        self._left_out = frozenset(each.event for each in (request.manifest.left_out if request is not None else ()))

    @property
    def edge(self) -> Edge:
        """The beginning of the window; an empty edge without a request."""
        return Edge(None, None, 0) if self.request is None else self.request.manifest.edge

    def tokens(self, message: "Event | Candidate") -> int:
        """Return the tokens of a message in the next request; if it is not sent, those that it would have."""
        if (own := self._sent.get(message.id)) is not None:
            return own
        if self._client is not None and message.kind == "client":
            return 0  # what the client itself wrote is always sent, so it leaves no request
        return self._counted(message.tokens, 1)

    def total(self, messages: "Iterable[Event | Candidate]") -> int:
        """Return the tokens of these messages."""
        return sum(map(self.tokens, messages))

    def in_range(self, messages: "Iterable[Candidate]", each: "MatchRange") -> "MatchRange":
        """Return a range with the tokens of those of these messages that are in it."""
        return structs.replace(each, tokens=self.total(row for row in messages if each.first <= row.id <= each.last))

    def whole(self, size: Size) -> Size:
        """Return a stored size with the tokens that so many messages have unshortened."""
        return size._replace(tokens=self._counted(*reversed(size)))

    def of(self, then: Standing) -> Size:
        """Return the size of the context at a standing: in a live session that of the request, otherwise that of its
        messages."""
        if self._client is not None:
            return then.size._replace(tokens=self._client.tokens(structs.replace(then.fold, segments=then.visible)))
        return self.inside(self._moment, then.visible, then.size)

    def inside(self, moment: Snapshot, segments: Segments, recorded: Size | None = None) -> Size:
        """Return the size of the messages in segments. Their stored size is read unless it is given as `recorded`. Cost
        grows with the number of messages that are sent."""
        if self._beyond is None:
            sent = moment.events(list(self._sent))
            own = (e for e in sent if e.kind in MESSAGE_KINDS)  # a state block is no message of the context
            self._beyond = [(e.agent_id, e.id, self._sent[e.id] - self._estimate(e.tokens, 1)) for e in own]
        size = moment.size(segments) if recorded is None else recorded
        beyond = sum(more for agent, id, more in self._beyond if contains(segments, agent, id))
        return size._replace(tokens=max(0, round(self._estimate(*reversed(size)) + beyond)))

    def place(self, event: Event) -> Place:
        """Return the place of a message of the agent's lineage."""
        return self.place_of(event.agent_id, event.id)

    def place_of(self, agent_id: str, event_id: int) -> Place:
        """Return the place of a message of the agent's lineage, given its agent and its id."""
        if not contains(self._at.visible, agent_id, event_id):
            return OUT
        if event_id in self._sent:
            return SENT
        if event_id in self._left_out:
            return NOT_SENT
        first = self.edge.first
        return BEFORE if first is not None and event_id < first else SENT

    def out_by(self, agent_id: str, event_id: int) -> OperationEntry | None:
        """Return the newest operation in force that keeps a message out of the context; None if the log of this agent
        does not record it."""
        found = (entry for each, entry in self._out if contains((each,), agent_id, event_id))
        return next(found, None)

    def where(self, agent_id: str, event_id: int) -> str:
        """Return the place of a message in words, with the way back of one that is out: `out · /restore 17`."""
        return _words(*self._way_back(agent_id, event_id))

    def places(self, messages: Sequence[tuple[str, int]]) -> str:
        """Return the places of messages, each given by its agent and its id, in words: `sent`, `out · /restore 17`, or
        `3 of 4 sent, 1 out`."""
        counts = Counter(self._way_back(*each) for each in messages)
        words = [(counts[each], _words(*each)) for each in sorted(counts, key=lambda each: PLACES.index(each[0]))]
        if len(words) < 2:
            return "".join(text for _, text in words)
        (number, first), *rest = words
        return ", ".join([f"{number} of {len(messages)} {first}", *(f"{number} {text}" for number, text in rest)])

    def _way_back(self, agent_id: str, event_id: int) -> tuple[Place, str | None]:
        """Return the place of a message, and the command that brings it back if it is out."""
        place = self.place_of(agent_id, event_id)
        by = self.out_by(agent_id, event_id) if place == OUT else None
        return place, None if by is None else by.back

    def before(self, moment: Snapshot) -> Segments:
        """Return the messages before the window, without pinned ones that are sent."""
        first = self.edge.first
        if first is None or not self.edge.before:
            return ()
        pinned = moment.lookup(id for id in self._sent if id < first)
        return subtract(
            until(self._at.visible, first - 1), normal(Segment(each.agent_id, each.id, each.id) for each in pinned)
        )

    def counts(self) -> str:
        """Return how many messages are in each place: `24 messages sent, 48 before the window, 4 out`."""
        shown, before = self._at.size.messages, self._moment.size(self.before(self._moment)).messages
        out = self._moment.size(until(self._at.lineage, self._at.newest)).messages - shown
        if not shown + out:
            return "no messages yet"
        first = f"{count(shown - before, 'message') if shown else 'no messages'} {SENT}"
        others = ((before, BEFORE), (out, OUT))
        return ", ".join([first, *(f"{number:,} {place}" for number, place in others if number)])

    @cached_property
    def _out(self) -> list[tuple[Segment, OperationEntry | None]]:
        gone = subtract(until(self._at.lineage, self._at.newest), self._at.visible)
        try:
            return list(kept_out(gone, operations(self._moment, self._at))) if gone else []
        except DamagedError:  # an operation cannot be read; the doctor names it
            return [(segment, None) for segment in gone]

    @cached_property
    def _ratio(self) -> float:
        from foldmark.request.prepare import per_stored  # takes 20 ms

        return per_stored(self._at, *self._at.model)

    def _estimate(self, tokens: int, messages: int) -> float:
        """Return the tokens of so many messages with these recorded tokens, unshortened."""
        return tokens * self._ratio + messages * self._form

    def _counted(self, tokens: int, messages: int) -> int:
        return ceil(self._estimate(tokens, messages))


def _client_portions(portions: Iterable[Portion], sent: Mapping[int, int], at: Standing) -> Iterator[Portion]:
    """Yield the portions of a live session's request, given the tokens of each event that its client sends."""
    rest = dict(sent)
    for each in portions:
        if each.part is not None and each.part.event is not None:
            # What the client itself wrote is always sent: no turn takes it along.
            own = rest.pop(each.part.event, 0 if each.part.kind == "client" else each.tokens)
            yield each if each.part.how == "evicted" else each._replace(tokens=own)
    # Events without text hold the thinking.
    thought = sum(own for id, own in rest.items() if contains(at.visible, at.record.id, id))
    yield Portion("thinking", "thinking", thought)


def _words(place: Place, back: str | None) -> str:
    return place if back is None else f"{place} · {back}"


def next_messages(agent: Agent, moment: Snapshot, at: Standing) -> NextMessages:
    """Return the messages of an agent toward its next request. The cost is that of the request."""
    try:
        request = agent.next_request(at=at)
    except CommandError:  # the provider is no longer configured
        request = None
    return NextMessages(moment, at, request)
