"""Decides whether the answers that clients got from one agent are possible if the agent does one thing at a time.

Each call took effect at one moment between its begin and its end if some order of all calls respects real time (a call
that ended before another began comes first) and the model of an agent gives every answer in that order. The search is
the one by Wing and Gong with Lowe's memo: it tries each call that may come next, backtracks if none fits, and never
visits the same set of finished calls with the same state twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

# The model


class Turn(NamedTuple):
    """A turn in a context, with its id and the ids of its messages."""

    id: int
    messages: tuple[int, ...]


class State(NamedTuple):
    """An agent between two calls: all its events, the turns of its context and the positions of its marks."""

    events: tuple[int, ...] = ()
    visible: tuple[Turn, ...] = ()
    marks: tuple[tuple[str, int], ...] = ()

    @property
    def head(self) -> int:
        """The id of the newest event, or 0 if there is none."""
        return self.events[-1] if self.events else 0


class Call(NamedTuple):
    """A client's call to an agent and its answer. All times come from one clock.

    `what` is `append` (a turn: its messages and its end), `read` or one of `OPERATIONS` with its `argument`; `expected`
    is the head that the client believed to be the newest. `answer` is `done` with the `ids` of the new events,
    `conflict` with the head that was `found`, or `refused`. For a read, `answer` is `done` with the ids of all events
    and of the `visible` messages.
    """

    client: int
    begin: float
    end: float
    what: str
    answer: str
    argument: str = ""
    expected: int = 0
    ids: tuple[int, ...] = ()
    visible: tuple[int, ...] = ()
    found: int = 0


OPERATIONS = ("mark", "rewind", "clear", "undo", "drop")


def step(state: State, call: Call) -> State | None:
    """Return the state after a call, or None if the call could not get its answer in this state."""
    if call.what == "read":
        seen = tuple(message for turn in state.visible for message in turn.messages)
        return state if (call.ids, call.visible) == (state.events, seen) else None
    if call.answer == "conflict":
        return state if call.found == state.head != call.expected else None
    if call.expected != state.head:
        return None
    if call.answer == "refused":
        return state if operated(state, call, 0) is None else None
    if not call.ids or call.ids[0] <= state.head or list(call.ids) != sorted(set(call.ids)):
        return None
    if call.what == "append":
        added = Turn(call.ids[0], call.ids[:-1])  # the last id is the turn's end
        return State(state.events + call.ids, (*state.visible, added), state.marks)
    changed = operated(state, call, call.ids[0])
    return None if changed is None else changed._replace(events=state.events + call.ids)


def operated(state: State, call: Call, event: int) -> State | None:
    """Return the state after an operation recorded as `event`, without that event, or None if it must be refused."""
    marks = dict(state.marks)
    match call.what:
        case "mark":
            marks.pop(call.argument, None)
            return state._replace(marks=(*marks.items(), (call.argument, event)))
        case "rewind":
            position = marks.get(call.argument)
            if position is None:
                return None
            kept = tuple(turn for turn in state.visible if turn.id <= position)
            return state._replace(visible=kept, marks=tuple(each for each in state.marks if each[1] <= position))
        case "clear":
            return state._replace(visible=(), marks=())
        case "undo":
            return state._replace(visible=state.visible[:-1]) if state.visible else None
        case "drop":
            kept = tuple(turn for turn in state.visible if str(turn.id) != call.argument)
            return None if kept == state.visible else state._replace(visible=kept)
    raise ValueError(f"the model knows no operation {call.what!r}; it knows {', '.join(OPERATIONS)}")


# The search


class _Entry:
    """The begin of a call (with `end`, the entry of its end) or its end, in a linked list ordered by time."""

    __slots__ = ("after", "before", "end", "number")

    def __init__(self, number: int, end: _Entry | None) -> None:
        self.number, self.end = number, end
        self.before: _Entry | None = None
        self.after: _Entry | None = None


class Verdict(NamedTuple):
    """Whether an order exists, and the longest order found, as call numbers. `looked` is the number of visited pairs of
    finished calls and state."""

    linearizable: bool
    order: tuple[int, ...]
    looked: int


def check(calls: Sequence[Call], start: State = State()) -> Verdict:  # noqa: B008 - it does not change
    """Search for an order of the calls, all to one agent, that real time and the model allow."""
    first = _timeline(calls)
    state, done = start, 0
    taken: list[tuple[_Entry, State]] = []
    known: set[tuple[int, State]] = set()
    longest: tuple[int, ...] = ()
    entry = first.after
    while first.after is not None:
        assert entry is not None
        if entry.end is None:
            # This call has ended but is not in the order: backtrack.
            if not taken:
                return Verdict(False, longest, len(known))
            entry, state = taken.pop()
            done &= ~(1 << entry.number)
            _put_back(entry)
            entry = entry.after
            continue
        following = step(state, calls[entry.number])
        if following is not None and (key := (done | 1 << entry.number, following)) not in known:
            known.add(key)
            taken.append((entry, state))
            state, done = following, key[0]
            _take_out(entry)
            if len(taken) > len(longest):
                longest = tuple(each.number for each, _ in taken)
            entry = first.after
        else:
            entry = entry.after
    return Verdict(True, longest, len(known))


def _timeline(calls: Sequence[Call]) -> _Entry:
    """Return a sentinel followed by all begins and ends in order of time. At equal times, begins come first."""
    timed: list[tuple[float, int, int, _Entry]] = []
    for number, call in enumerate(calls):
        end = _Entry(number, None)
        timed += [(call.begin, 0, number, _Entry(number, end)), (call.end, 1, number, end)]
    first = last = _Entry(-1, None)
    for *_, entry in sorted(timed, key=lambda each: each[:3]):
        last.after, entry.before = entry, last
        last = entry
    return first


def _take_out(entry: _Entry) -> None:
    """Remove both entries of a call from the list. The entries keep their links to their neighbours."""
    for each in (entry, entry.end):
        assert each is not None
        assert each.before is not None
        each.before.after = each.after
        if each.after is not None:
            each.after.before = each.before


def _put_back(entry: _Entry) -> None:
    """Put back the entries of the call that was removed last."""
    for each in (entry.end, entry):
        assert each is not None
        assert each.before is not None
        each.before.after = each
        if each.after is not None:
            each.after.before = each


def settled(calls: Sequence[Call], recorded: dict[int, tuple[int, ...]]) -> list[Call]:
    """Return the calls with every `unknown` answer decided.

    `recorded` maps the number of such a call to the ids of its events that were found at the end. If there are any, the
    call was carried out at some time after its begin. Otherwise it was never carried out, and is left out.
    """
    found = []
    for number, call in enumerate(calls):
        if call.answer != "unknown":
            found.append(call)
        elif number in recorded:
            found.append(call._replace(answer="done", ids=recorded[number], end=inf))
    return found


def explain(calls: Sequence[Call], verdict: Verdict) -> str:
    """Describe a history that has no order: the last calls that could be ordered, and the remaining ones."""
    ordered = set(verdict.order)
    left = sorted((call for number, call in enumerate(calls) if number not in ordered), key=lambda call: call.end)
    lines = [f"ordered: {len(ordered)} of {len(calls)} calls, the last ones:"]
    lines += [f"  {calls[number]}" for number in verdict.order[-4:]]
    return "\n".join([*lines, "none of these fits behind them:", *(f"  {call}" for call in left[:8])])
