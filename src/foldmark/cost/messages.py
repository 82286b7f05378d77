"""The messages of an agent toward its next request: their places and their tokens.

Every interface asks here, so that a message has one size and one place wherever it is shown. The size of a message is
that in the next request: calibrated for the model, and with shortened results as they are sent. A message that is not
sent has the size that it would have unshortened.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import structs

from foldmark.core.agents import Size
from foldmark.core.errors import CommandError, DamagedError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import Edge, Request
from foldmark.core.segments import Segment, Segments, contains, normal, subtract, until
from foldmark.core.wording import count
from foldmark.cost.filling import filling, portions_in
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
    `request` is None if none can be made; everything in the context then counts as sent."""

    def __init__(self, moment: Snapshot, at: Standing, request: Request | None) -> None:
        self.request, self._moment, self._at = request, moment, at
        self._client = NextRequest.of(moment, at)
        # Of a live session's requests, the sizes of the messages include it.
        self._form = filling(request).form if request is not None and self._client is None else 0.0
        self._left_out: frozenset[int] = frozenset()
        self._sent: dict[int, int] = {}
        self._beyond: list[tuple[str, int, float]] | None = None  # tokens beyond the recorded ones, by agent and id
        if self._client is not None:
            self._sent = self._client.by_event()  # also what is out: the client sends it to the gateway
        if request is not None:
            own: dict[int, int] = {}
            for each in portions_in(moment, at, request):
                if each.part is not None and each.part.event is not None:
                    own[each.part.event] = own.get(each.part.event, 0) + each.tokens
            self._sent |= own
            self._left_out = frozenset(each.event for each in request.manifest.left_out)

    @property
    def edge(self) -> Edge:
        """The beginning of the window; an empty edge without a request."""
        return Edge(None, None, 0) if self.request is None else self.request.manifest.edge

    def tokens(self, message: "Event | Candidate") -> int:
        """Return the tokens of a message."""
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
        """Return the size of the messages in segments, whose `recorded` size may be known. Cost grows with the number
        of messages that are sent."""
        if self._beyond is None:
            sent = moment.events(list(self._sent))
            self._beyond = [(e.agent_id, e.id, self._sent[e.id] - self._estimate(e.tokens, 1)) for e in sent]
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
        place = self.place_of(agent_id, event_id)
        by = self.out_by(agent_id, event_id) if place == OUT else None
        return place if by is None or by.back is None else f"{place} · {by.back}"

    def places(self, messages: Sequence[tuple[str, int]]) -> str:
        """Return the places of messages, each given by its agent and its id, in words: `sent`, `out · /restore 17`, or
        `3 of 4 sent, 1 out`."""
        words = [self.where(*each) for each in messages]
        counts = Counter(words)
        if len(counts) < 2:
            return "".join(counts)
        (first, number), *rest = sorted(counts.items(), key=lambda each: PLACES.index(each[0].partition(" · ")[0]))
        return ", ".join([f"{number} of {len(words)} {first}", *(f"{number} {place}" for place, number in rest)])

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


def next_messages(agent: Agent, moment: Snapshot, at: Standing) -> NextMessages:
    """Return the messages of an agent toward its next request. The cost is that of the request."""
    try:
        request = agent.request(at=at)
    except CommandError:  # the provider is no longer configured
        request = None
    return NextMessages(moment, at, request)
