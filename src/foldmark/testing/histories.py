"""Random histories of a few agents, with expected answers computed by brute force from all their events."""

from collections.abc import Sequence
from itertools import dropwhile
from typing import Any

from hypothesis import strategies as st

from foldmark.core.agents import Size
from foldmark.core.codec import count_tokens, decode_data, encode_data, without_content
from foldmark.core.events import MESSAGE_KINDS, OPERATION_KINDS, Draft, Event
from foldmark.core.ports import Store
from foldmark.core.segments import END, Segment, Segments, contains, normal
from foldmark.core.turns import Message, place
from foldmark.testing.suite import add_fork, add_root, append, draft, hashed, request, usage

KINDS = (
    *("user", "user", "client", "assistant", "tool_call", "tool_call", "tool_result", "summary", "system"),
    *("state", "scratchpad", "mark", "clear", "turn_ended", "request", "usage", "erase"),
)
Step = tuple[int, str, int]
"""A step: the number of an agent, an action, and a number that selects its object."""

STEPS = st.tuples(st.integers(0, 2), st.sampled_from(KINDS), st.integers(0, 5))
KEPT = ("turn_ended", "agent_killed", "scratchpad", "config", "request")
"""Kinds of events that the erasure of a turn does not change."""


class RecordedHistory:
    """The history of a root, a fork of it and an agent of another tree; `events` is the log, `gone` maps erased events
    to the operations that erased them."""

    def __init__(self, store: Store) -> None:
        with store.write() as writing:
            root = add_root(writing)
            self.agents = (root, add_fork(writing, root), add_root(writing))
            heads = [writing.head(agent).record.head for agent in self.agents]
            self.events: list[Event] = writing.events(heads)
        self.apart: set[int] = set()
        self.gone: dict[int, int] = {}
        self.texts: dict[str, tuple[str, set[int | None]]] = {}
        """Each text of a request by its hash, with the turns that own it, None for the agent that sent it."""
        self._open: dict[str, int | None] = {}
        self._unanswered: dict[str, list[int]] = {agent: [] for agent in self.agents}

    @property
    def tree(self) -> tuple[str, str]:
        """The root and its fork. Only ids within one tree can be compared."""
        return self.agents[:2]

    def play(self, store: Store, steps: Sequence[Step], elsewhere: Store | None = None) -> None:
        """Carry out the steps, each in a separate transaction. Every third time, metadata is appended `elsewhere`,
        another connection to the same database, after the step was decided and before it is recorded."""
        for number, (who, kind, pick) in enumerate(steps):
            agent = self.agents[who]
            if kind == "erase":
                self._erase(store, agent, pick)
            else:
                self._append(store, agent, kind, pick, number, elsewhere if pick % 3 == 0 else None)

    def _append(
        self, store: Store, agent: str, kind: str, pick: int, number: int, elsewhere: Store | None = None
    ) -> None:
        data: dict[str, Any] | None = {"call_id": f"c{pick % 2}", "name": "probe"} if kind == "tool_call" else None
        answers = None
        if kind == "tool_result":
            data = {"call_id": f"c{pick % 2}"}
            if self._unanswered[agent]:
                answers = self._unanswered[agent].pop(pick % len(self._unanswered[agent]))
        if kind in ("state", "summary", "turn_ended") and pick % 2:
            data = {"state": f"Goal: {number}"} if kind != "turn_ended" else {"closes": number}
        apart = answers is not None and self._stands_apart(agent, answers)
        given = draft(kind, "é" * pick + str(number), data=data, answers=answers)
        texts = dict[str, str]()
        if kind == "request":
            texts = hashed(f"settings {pick}", f"question {pick}")
            given = request(dict(zip(("config", "question"), texts, strict=True)), number=number + 1)
            for (hash, text), owner in zip(texts.items(), (None, self._open.get(agent)), strict=True):
                self.texts.setdefault(hash, (text, set()))[1].add(owner)
        with store.read() as moment:
            expected = moment.head(agent).record.head
        if elsewhere is not None:
            other = usage(elsewhere=number)
            (beside,) = append(elsewhere, agent, other)
            self.events.append(self._recorded(agent, beside, other))
        with store.write() as writing:
            writing.keep_texts(texts)
            (id,) = writing.append(agent, expected, [given])
        if kind == "tool_call":
            self._unanswered[agent].append(id)
        if apart:
            self.apart.add(id)
        self.events.append(self._recorded(agent, id, given))

    def _stands_apart(self, agent: str, call: int) -> bool:
        """Return True if a call is followed by anything other than further calls and then results."""
        counted = (*MESSAGE_KINDS, "turn_ended")
        following = [event.kind for event in self.of(agent) if event.id > call and event.kind in counted]
        return any(kind != "tool_result" for kind in dropwhile(lambda kind: kind == "tool_call", following))

    def _recorded(self, agent: str, id: int, draft: Draft) -> Event:
        turn, self._open[agent] = place(draft.kind, id, self._open.get(agent))
        return Event(
            *(id, agent, turn, draft.kind, draft.content, draft.data, draft.dialect, draft.actor),
            count_tokens(draft.content, encode_data(draft.kind, draft.data)),
            *(draft.created_at, draft.interrupted, draft.answers),
        )

    def _erase(self, store: Store, agent: str, pick: int) -> None:
        """Erase a whole turn at the request of the agent itself or of another agent in its tree. First end an open
        turn, as the library does."""
        turns = sorted({event.turn_id for event in self.events if event.agent_id == agent and event.turn_id})
        if not turns:
            return
        turn = turns[pick % len(turns)]
        by = self.tree[pick % 2] if agent in self.tree else agent
        if self._open.get(agent) == turn:
            self._append(store, agent, "turn_ended", 0, 0)
        given = draft("redact", "", data={"turn": turn})
        with store.write() as writing:
            last = writing.head(agent).record.head
            (redact,) = writing.append(by, None, [given])
            writing.erase(agent, turn, last, redact)
        self.events.append(self._recorded(by, redact, given))
        for _, owners in self.texts.values():
            owners.discard(turn)
        for at, event in enumerate(self.events):
            mine = event.agent_id == agent and event.turn_id == turn and event.id <= last
            if mine and event.kind not in KEPT and event.id not in self.gone:
                self.gone[event.id] = redact
                text = without_content(event.kind, encode_data(event.kind, event.data), handed_down=True)
                self.events[at] = tombstone(event, text)
                if event.id in self._unanswered[agent]:
                    self._unanswered[agent].remove(event.id)

    # Answers by brute force

    def of(self, agent: str) -> list[Event]:
        """Return the events of an agent, in order."""
        return sorted((event for event in self.events if event.agent_id == agent), key=lambda event: event.id)

    @property
    def kept(self) -> dict[str, str]:
        """The texts of requests that something still owns, hash -> text."""
        return {hash: text for hash, (text, owners) in self.texts.items() if owners}

    def open_turn(self, agent: str) -> int | None:
        """Return the open turn of an agent."""
        return self._open.get(agent)

    @property
    def messages(self) -> list[Event]:
        """The messages of all agents by id, without erased ones."""
        found = (event for event in self.events if event.kind in MESSAGE_KINDS and event.id not in self.gone)
        return sorted(found, key=lambda event: event.id)

    def messages_of(self, agent: str) -> list[Message]:
        """Return the messages of an agent, without erased ones."""
        return [bare(event) for event in self.messages if event.agent_id == agent]

    def inside(self, segments: Segments) -> list[Event]:
        """Return the messages inside segments, in the order of the log."""
        return [e for s in segments for e in self.messages if e.agent_id == s.agent and s.first <= e.id <= s.last]

    def operations(self, agent: str) -> list[Event]:
        """Return the events that the replay of an agent reads."""
        return [
            event
            for event in self.of(agent)
            if event.kind in OPERATION_KINDS or (event.kind == "turn_ended" and event.data is not None)
        ]

    def of_kind(self, kind: str, segments: Segments) -> list[Event]:
        """Return the events of a kind inside segments by id, without erased ones."""
        return [
            event
            for event in sorted(self.events, key=lambda event: event.id)
            if event.kind == kind and event.id not in self.gone and contains(segments, event.agent_id, event.id)
        ]

    def tombstones(self, segments: Segments) -> list[Event]:
        """Return the tombstones of erased messages inside segments, by id."""
        erased = [event for event in self.events if event.id in self.gone and event.kind in MESSAGE_KINDS]
        return sorted(
            (event for event in erased if contains(segments, event.agent_id, event.id)), key=lambda event: event.id
        )

    def waiting(self, agent: str) -> list[Message]:
        """Return the calls of the open turn that have no result yet."""
        answered = {event.answers for event in self.events}
        turn = self.open_turn(agent)
        calls = (m for m in self.messages_of(agent) if m.kind == "tool_call" and turn is not None and m.turn_id == turn)
        return [call for call in calls if call.id not in answered]


def tombstone(event: Event, data: str | None) -> Event:
    """Return the tombstone of an event; `data` is the part of its data that a replay needs."""
    return Event(
        *(event.id, event.agent_id, event.turn_id, event.kind, "", decode_data(event.kind, data), event.dialect),
        *(event.actor, 0, event.created_at, event.interrupted, event.answers),
    )


def bare(event: Event) -> Message:
    """Return the message of an event, without its text."""
    return Message(event.id, event.agent_id, event.turn_id, event.kind, event.answers)


def size_of(events: Sequence[Event]) -> Size:
    """Return the size of these messages."""
    return Size(len(events), sum(event.tokens for event in events))


def ids_of(history: RecordedHistory) -> st.SearchStrategy[int]:
    """Draw ids of events and unknown ids."""
    return st.sampled_from([0, 10**12, *(event.id for event in history.events)])


def places_in(history: RecordedHistory) -> st.SearchStrategy[int]:
    """Draw ids of events and adjacent ids, which may belong to other histories."""
    return st.sampled_from([0, *(event.id + beside for event in history.events for beside in (-1, 0, 1))])


def segments_of(history: RecordedHistory) -> st.SearchStrategy[Segments]:
    """Draw segments of the agents of the tree."""
    places = places_in(history)
    each = st.builds(Segment, st.sampled_from(history.tree), places, places | st.just(END))
    return st.lists(each, max_size=5).map(normal)
