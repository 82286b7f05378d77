"""The requests of a coding agent behind a gateway, by the sizes of their parts [SPEC 5.7].

The gateway records the sizes of each request and its answer (`passed_requests.py`). From these, this module computes
the agent's next request under any fold: its tokens, the part that the provider's cache still holds, and the thinking
that can be sent. The tokens of a part are its bytes times the tokens per byte that the provider counted in the newest
answered request.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from foldmark.core import selections
from foldmark.core.assembly.eviction import begins, client_placeholder
from foldmark.core.events import Event, Operation, Restore
from foldmark.core.ports import Snapshot
from foldmark.core.replay import Fold, recorded, replay, taken_back
from foldmark.core.segments import END, Segment, Segments, contains, intersect, normal, subtract
from foldmark.request.client_sizes import (
    ENVELOPE,
    EVICTED,
    LOCAL,
    MOVES,
    RESULT,
    Laid,
    View,
    blocks_of,
    lay,
)
from foldmark.request.passed_requests import PassedRequest, PassedRequests, recorded_requests
from foldmark.request.planning import talk
from foldmark.request.standing import Standing

LEFT = "the client no longer sends it"
"""The reason recorded when messages leave the context because the client left them out."""

_PROMPT = (0,)
"""The key of the prompt that the next request will ask, before the system messages that wait for it."""


class Compared(NamedTuple):
    """The agent's next request under two folds, in tokens: `before` and `after` as a whole, the messages that `left`
    and `returned`, and what became of results that were `evicted` or are sent `whole` again.

    `cached` is the agent's newest request, answered or not; the provider's cache holds `held` of the request `after`.
    `lost` and `regained` are numbers of thinking blocks.
    """

    before: int
    after: int
    left: int
    returned: int
    evicted: int
    whole: int
    cached: int
    held: int
    lost: int
    regained: int


class NextRequest:
    """The next request of a live session's agent in a moment."""

    def __init__(
        self,
        moment: Snapshot,
        at: Standing,
        requests: PassedRequests,
        operations: Sequence[Event],
        ratio: float | None = None,
    ) -> None:
        self._moment, self._at, self.requests = moment, at, requests
        self._operations = list(zip(operations, recorded(operations), strict=True))
        self._places = sorted((id, at) for at, each in enumerate(requests.messages) for id in each.ids if id > 0)
        self._views = [self._view(self.fold_of(each), each.event.id) for each in requests.passed]
        self._thinking = self._thinking_by_state() if requests.binds else []
        self._sent_in: dict[int, Laid] = {}
        self._reach: list[list[int]] = []
        for view in self._views if requests.binds else ():
            self._reach.append(self._reaching(view, len(self._reach)))
        assert requests.newest_answered is not None
        self.newest, self.answered = requests.passed[-1], requests.newest_answered
        sent, counted = self.newest.rest + sum(self._sent(len(self._views) - 1).sizes), self.newest.counted
        self._ratio = (counted / sent if counted else 0.25) if ratio is None else ratio
        self.cached = self.tokens_of(sent) if self.newest.usage is None else counted

    @classmethod
    def of(cls, moment: Snapshot, at: Standing, before: int = END) -> "NextRequest | None":
        """Return the next request of a live session's agent; None for any other agent, and before any answer. Requests
        without an answer count if they were recorded before the event `before`. Cost grows with the messages that the
        client sends, and with the operations."""
        answered, since = recorded_requests(moment, at, before)
        if not answered:
            return None
        from foldmark.request.prepare import binding  # takes 20 ms

        operations = selections.operations(moment, at.record.id)
        ids = [each.id for each in operations]
        requests = PassedRequests(binding(at))
        for each in answered:
            requests.follow(each, ids)
        found = cls(moment, at, requests, operations)
        if since:
            for each in since:
                requests.follow(each, ids)
            found = cls(moment, at, requests, operations, found._ratio)  # the newest answer has counted the tokens
        return found

    def tokens(self, fold: Fold | None = None) -> int:
        """Return the tokens of the next request, under the current fold by default."""
        return self.tokens_of(self._bytes(self._at.fold if fold is None else fold))

    def held(self, fold: Fold) -> int:
        """Return the tokens of the next request under a fold that the provider's cache holds."""
        view = self._view(fold)
        return self.tokens_of(self._held(view, self._laid(view)))

    def tokens_of(self, size: int) -> int:
        """Return the tokens of so many bytes."""
        return round(size * self._ratio)

    def taken_out(self) -> int:
        """Return the tokens that operations take out of the next request: what the client sends, less what goes out."""
        return max(0, self.tokens_of(self._whole() - self._bytes(self._at.fold)))

    def kept_out(self, after: int, until: int) -> Iterator[tuple[int, int]]:
        """Yield each operation by people and models in force between two events (the first exclusive), and the bytes
        that it takes out of the next request beyond the ones before it.

        Without any before them, thinking that can no longer be sent although its operations were restored counts for
        the newest of these.
        """
        back = taken_back([own for _, own in self._operations])
        own = {id: operation for each, (id, operation) in self._operations if each.actor != "system" and id <= until}
        before = self._bytes(self._fold_with(after, back))
        if own and not after:
            yield max((id for id in own if id in back), default=max(own)), self._whole() - before
        for id, operation in own.items():
            restores = isinstance(operation, Restore) and operation.target in own
            if id > after and id not in back and not restores:
                now = self._bytes(self._fold_with(id, back))
                yield id, before - now
                before = now

    def beside(self) -> int:
        """Return the tokens of everything in the next request that the log does not hold: the system prompt, the tools,
        and texts that the client adds to messages by itself."""
        messages = self.requests.messages
        own = sum(size for at, block, size in blocks_of(messages) if messages[at].ids[block] == 0)
        return self.tokens_of(self.newest.rest + own)

    def by_event(self) -> dict[int, int]:
        """Return the tokens of each event that the client sends, as the client sends it."""
        found: dict[int, int] = {}
        for at, block, size in blocks_of(self.requests.messages):
            id = self.requests.messages[at].ids[block]
            found[id] = found.get(id, 0) + size
        return {id: self.tokens_of(size) for id, size in found.items() if id}

    def placeholder_tokens(self, event: Event) -> int:
        """Return the tokens of a result's placeholder."""
        return self.tokens_of(len(client_placeholder(len(event.content))) + RESULT)

    def compared(self, before: Fold, after: Fold) -> Compared:
        """Compare the next request under two folds."""
        view = self._view(after)
        was, now = self._laid(self._view(before)), self._laid(view)
        rests = self._rest(before), self._rest(after)
        mine, theirs = dict(zip(was.keys, was.sizes, strict=True)), dict(zip(now.keys, now.sizes, strict=True))
        gone = {key: size for key, size in mine.items() if key not in theirs and key not in now.unbound}
        came = {key: size for key, size in theirs.items() if key not in mine and key not in was.unbound}
        evicted = whole = 0
        for placeholder in [key for key in came if len(key) == EVICTED and key[:2] in gone]:
            evicted += gone.pop(placeholder[:2]) - came.pop(placeholder)
        for placeholder in [key for key in gone if len(key) == EVICTED and key[:2] in came]:
            whole += came.pop(placeholder[:2]) - gone.pop(placeholder)
        left = sum(gone.values()) + max(0, rests[0] - rests[1])
        returned = sum(came.values()) + max(0, rests[1] - rests[0])
        lost, regained = was.thinking - now.thinking, now.thinking - was.thinking
        return Compared(
            self.tokens_of(rests[0] + sum(was.sizes)),
            self.tokens_of(rests[1] + sum(now.sizes)),
            left=self.tokens_of(left),
            returned=self.tokens_of(returned),
            evicted=self.tokens_of(evicted),
            whole=self.tokens_of(whole),
            cached=self.cached,
            held=self.tokens_of(self._held(view, now)),
            lost=len(lost) if self.requests.binds else 0,
            regained=len(regained) if self.requests.binds else 0,
        )

    def thinking(self) -> tuple[int, int]:
        """Return the thinking blocks of the next request, and those that are left out since what preceded them has
        changed."""
        laid = self._laid(self._view(self._at.fold))
        return len(laid.thinking), len(laid.unbound)

    def _held(self, view: View, now: Laid) -> int:
        """Return the bytes at the beginning of a request that the provider's cache holds: those of the newest request,
        or of an earlier one that it still keeps."""
        newest, passed = self.newest, self.requests.passed
        reach = self._reaching(view, len(passed)) if self.requests.binds else []
        found = []
        for state, each in enumerate(passed):
            if each.rest == newest.rest and newest.time - each.time <= each.lives:
                same = reach[state] if reach else self._first_change(self._views[state], view)
                found.append((min(same, each.messages), state))
        state = max(found)[1]
        return newest.rest + now.common(self._sent(state), passed[state].messages)

    def _bytes(self, fold: Fold) -> int:
        return self._rest(fold) + sum(self._laid(self._view(fold)).sizes)

    def fold_at(self, event_id: int) -> Fold:
        """Return the fold as it was after event `event_id`."""
        return replay(self._at.origin, [own for each, own in self._operations if each.id <= event_id])

    def fold_of(self, request: PassedRequest) -> Fold:
        """Return the fold that a request showed: everything that the client sent if it was not edited. What the client
        left out of it is recorded with it, and not inserted into it."""
        if not request.known:
            return self._fold_with(0, ())
        known, own = request.known, request.event.id
        shown = [pair for each, pair in self._operations if each.id <= (own if each.reason == LEFT else known)]
        return replay(self._at.origin, shown)

    def _fold_with(self, until: int, back: Container[int]) -> Fold:
        """Return the fold of the system's operations and of those by people and models up to an event, apart from the
        operations that are taken `back`."""
        system = {id for each, (id, _) in self._operations if each.actor == "system"}

        def counts(id: int, operation: Operation) -> bool:
            restores = isinstance(operation, Restore) and operation.target not in system
            return id in system or (id <= until and id not in back and not restores)

        return replay(self._at.origin, [own for _, own in self._operations if counts(*own)])

    def _whole(self) -> int:
        """Return the bytes of everything that the client sends."""
        fold = self._fold_with(0, ())
        return self._rest(fold) + sum(self._laid(self._view(fold), []).sizes)

    def _rest(self, fold: Fold) -> int:
        """Return the bytes besides the messages, and those of the messages that none has held yet."""
        recent = (Segment(self._at.record.id, self.newest.event.id + 1, END),)
        own = subtract(intersect(fold.segments, recent), talk(self._moment, self._at))  # no client sends it
        return self.newest.rest + _estimate(self._moment, own)

    def _view(self, fold: Fold, upto: int = END) -> View:
        agent, own = self._at.record.id, fold.segments
        inserted: list[tuple[int, int, int]] = []
        for event in (each for each, _ in self._operations if each.id <= upto):
            if event.kind == "summary" and contains(own, agent, event.id):
                inserted.append((begins(event) - 1, event.id, len(event.content.encode()) + ENVELOPE + RESULT))
            elif event.kind == "filter" and event.reason == LEFT:
                ranges = normal(Segment(*each) for each in (event.data or {}).get("ranges", ()))
                back = intersect(own, ranges)
                if back and not any(map(self._sends, back)):
                    inserted.append((back[0].first, event.id, _estimate(self._moment, back)))
        if self.requests.installs:
            inserted += self._back(own)
        return View(agent, own, fold.evicted, inserted)

    def _back(self, own: Segments) -> list[tuple[int, int, int]]:
        """Return the messages that a client which installs edits does not send now, but a fold shows."""
        agent, newest = self._at.record.id, self.requests.passed[-1].event.id
        sent = normal(Segment(agent, id, id) for id, _ in self._places)
        back = subtract(intersect(own, (Segment(agent, 1, newest),)), sent)
        size = self._moment.size(back).messages
        found = self._moment.select(back, expected=size) if size else ()
        return [
            (each.id, each.id, len(each.content.encode()) + ENVELOPE + RESULT)
            for each in found
            if each.content and each.kind != "client"
        ]

    def _sends(self, segment: Segment) -> bool:
        """Return True if the client's newest messages have one of these events."""
        at = bisect_left(self._places, (segment.first, 0))
        return at < len(self._places) and self._places[at][0] <= segment.last

    def _first_change(self, mine: View, theirs: View) -> int:
        """Return the place of the first message that two views show differently, apart from thinking."""
        first = len(self.requests.messages)
        for begin, end in mine.changes(theirs):
            at = bisect_left(self._places, (begin, 0))
            if at < len(self._places) and self._places[at][0] <= end:
                first = min(first, self._places[at][1])
        return first

    def _thinking_by_state(self) -> list[list[int]]:
        """Return the places of the answers with thinking that were made in each state."""
        found: list[list[int]] = [[] for _ in self.requests.passed]
        for at, message in enumerate(self.requests.messages):
            if any(size < 0 for size in message.sizes):
                found[self.requests.answers.get(at, 0)].append(at)
        return found

    def _reaching(self, view: View, states: int) -> list[int]:
        """Return, for each of the first `states`, the place up to which a request under `view` is the same: thinking
        that was made in that state can be sent up to there."""
        reach: list[int] = []
        for state in range(states):
            same = self._first_change(self._views[state], view)
            for places, then, now in zip(self._thinking, self._reach[state], reach, strict=False):
                at = bisect_right(places, min(then, now))
                if at < len(places) and places[at] <= max(then, now):  # sent in one of them only
                    same = min(same, places[at])
            if self.requests.installs and same < len(self.requests.messages):
                same = -1  # an edit takes out all thinking
            reach.append(same)
        return reach

    def _sent(self, state: int) -> Laid:
        """Return the newest of the requests that were passed on in a state of the operations."""
        if state not in self._sent_in:
            reach = self._reach[state] if self.requests.binds else []
            self._sent_in[state] = self._laid(self._views[state], reach, self.requests.passed[state].messages)
        return self._sent_in[state]

    def _laid(self, view: View, reach: list[int] | None = None, messages: int | None = None) -> Laid:
        if reach is None and self.requests.binds:
            reach = self._reaching(view, len(self._views))
        laid, waiting = Laid(), list(view.inserted)
        lost, spoken = False, 0  # the message before a system message has left; messages with events until there
        asks, systems = False, list[int]()  # system messages wait for the end of a user's, whose is the newest message

        def add(at: int) -> bool:
            state = self.requests.answers.get(at, 0)
            bound = not reach or state >= len(reach) or at <= reach[state]
            return lay(laid, at, self.requests.messages[at], view, bound=bound)

        for at, message in enumerate(self.requests.messages[:messages]):
            first = next((each for each in message.ids if each > 0), 0)
            while waiting and first > waiting[0][0]:
                _, own, size = waiting.pop(0)
                laid.add((own,), size)
            seen = any(each > 0 and view.shows(each) for each in message.ids)
            answers = seen and at in self.requests.answers
            while answers and asks and systems:
                add(systems.pop(0))
            laid.starts.append(len(laid.keys))
            if message.system and not seen and (lost or message.system == MOVES):
                systems += [] if lost else [at]
                continue
            shown = add(at)
            asks = not answers if shown else asks
            if not message.system:
                lost = not shown and spoken > 1 and LOCAL not in message.ids
                spoken += any(message.ids)
        if messages is None:
            laid.add(_PROMPT, 0)
        for place in systems:
            add(place)
        for _, own, size in waiting:
            laid.add((own,), size)
        laid.starts.append(len(laid.keys))
        return laid


def _estimate(moment: Snapshot, segments: Segments) -> int:
    size = moment.size(segments)
    return 4 * size.tokens + (ENVELOPE + RESULT) * size.messages
