"""The checker of histories accepts exactly the answers that one agent could have given."""

from __future__ import annotations

from itertools import permutations
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from linearizability import Call, State, check, explain, settled, step


def call(begin: float, end: float, what: str, answer: str = "done", **more: Any) -> Call:
    return Call(0, begin, end, what, answer, **more)


def append(begin: float, end: float, expected: int, *ids: int, **more: Any) -> Call:
    return call(begin, end, "append", expected=expected, ids=ids, **more)


def conflict(begin: float, end: float, expected: int, found: int) -> Call:
    return call(begin, end, "append", "conflict", expected=expected, found=found)


def read(begin: float, end: float, *ids: int, visible: tuple[int, ...] | None = None) -> Call:
    return call(begin, end, "read", ids=ids, visible=visible if visible is not None else ids[:-1])


GOOD = {
    "nothing": [],
    "one after the other": [append(0, 1, 0, 1, 2), append(2, 3, 2, 3, 4), read(4, 5, 1, 2, 3, 4, visible=(1, 3))],
    "a read beside an append may see it": [append(0, 9, 0, 1, 2), read(1, 2, 1, 2)],
    "or not": [append(0, 9, 0, 1, 2), read(1, 2), read(3, 4, 1, 2)],
    "two on one head, one of them refused": [append(0, 5, 0, 1, 2), conflict(1, 4, 0, 2)],
    "an answer that came later than another's": [
        append(0, 10, 2, 3, 4),
        append(1, 2, 0, 1, 2),
        read(11, 12, 1, 2, 3, 4, visible=(1, 3)),
    ],
    "a turn undone": [append(0, 1, 0, 1, 2), call(2, 3, "undo", expected=2, ids=(3,)), read(4, 5, 1, 2, 3, visible=())],
    "nothing to undo": [call(0, 1, "undo", "refused")],
    "rewound to a mark": [
        append(0, 1, 0, 1, 2),
        call(2, 3, "mark", argument="M", expected=2, ids=(3,)),
        append(4, 5, 3, 4, 5),
        call(6, 7, "rewind", argument="M", expected=5, ids=(6,)),
        read(8, 9, 1, 2, 3, 4, 5, 6, visible=(1,)),
    ],
    "a mark that a clear has forgotten": [
        call(0, 1, "mark", argument="M", ids=(1,)),
        call(2, 3, "clear", expected=1, ids=(2,)),
        call(4, 5, "rewind", "refused", argument="M", expected=2),
    ],
    "a turn dropped once": [
        append(0, 1, 0, 1, 2),
        call(2, 9, "drop", argument="1", expected=2, ids=(3,)),
        call(4, 5, "drop", "refused", argument="1", expected=3),
    ],
}

BAD = {
    "a lost update": [append(0, 1, 0, 1, 2), append(2, 3, 2, 3, 4), read(4, 5, 3, 4)],
    "a stale read": [append(0, 1, 0, 1, 2), read(2, 3)],
    "a read that goes back": [append(0, 9, 0, 1, 2), read(1, 2, 1, 2), read(3, 4)],
    "two successes on one head": [append(0, 5, 0, 1, 2), append(1, 4, 0, 3, 4)],
    "an append behind a head that never was": [append(0, 1, 0, 1, 2), append(2, 3, 7, 8, 9)],
    "an event twice": [append(0, 1, 0, 1, 2), read(2, 3, 1, 2, 1, 2)],
    "ids that do not increase": [append(0, 1, 0, 5, 6), append(2, 3, 6, 3, 4)],
    "a conflict without a writer": [conflict(0, 1, 0, 2)],
    "a conflict although the head was the expected one": [append(0, 1, 0, 1, 2), conflict(2, 3, 2, 2)],
    "a conflict with a head from before": [append(0, 1, 0, 1, 2), append(2, 3, 2, 3, 4), conflict(4, 5, 0, 2)],
    "an undo that undid nothing": [
        append(0, 1, 0, 1, 2),
        call(2, 3, "undo", expected=2, ids=(3,)),
        read(4, 5, 1, 2, 3, visible=(1,)),
    ],
    "an undo refused for nothing": [append(0, 1, 0, 1, 2), call(2, 3, "undo", "refused", expected=2)],
    "an event that nobody appended": [append(0, 1, 0, 1, 2), read(2, 3, 1, 2, 3, visible=(1,))],
    "torn": [append(0, 9, 0, 1, 2, 3), read(1, 2, 1, 2, visible=(1,))],
    "a turn dropped twice": [
        append(0, 1, 0, 1, 2),
        call(2, 3, "drop", argument="1", expected=2, ids=(3,)),
        call(4, 5, "drop", argument="1", expected=3, ids=(4,)),
    ],
}


@pytest.mark.parametrize("name", GOOD)
def test_accepts(name: str) -> None:
    verdict = check(GOOD[name])
    assert verdict.linearizable
    assert sorted(verdict.order) == list(range(len(GOOD[name])))


@pytest.mark.parametrize("name", BAD)
def test_rejects(name: str) -> None:
    verdict = check(BAD[name])
    assert not verdict.linearizable
    assert "none of these fits" in explain(BAD[name], verdict)


def test_a_call_without_an_answer_was_carried_out_or_not() -> None:
    """The client was killed. The events found at the end decide, and the call may take effect late."""
    lost = call(0, 1, "append", "unknown")
    late, early = read(2, 3), read(4, 5, 1, 2)
    assert check(settled([lost, late, early], {0: (1, 2)})).linearizable
    assert not check(settled([lost, early, read(6, 7)], {0: (1, 2)})).linearizable
    assert check(settled([lost, late], {})).linearizable
    assert settled([lost], {0: (1, 2)})[0].end == inf
    assert not check(settled([lost, late, early], {})).linearizable


def possible(calls: list[Call]) -> bool:
    """Decide by brute force: return True if any permutation respects real time and the model."""
    for order in permutations(calls):
        if any(later.end < earlier.begin for at, earlier in enumerate(order) for later in order[at + 1 :]):
            continue
        state: State | None = State()
        for each in order:
            state = step(state, each) if state is not None else None
        if state is not None:
            return True
    return False


@st.composite
def histories(draw: st.DrawFn) -> list[Call]:
    """Draw short histories: sequential calls to the model, stretched in time, with some answers changed."""
    state, calls, next_id = State(), [], 1
    for at in range(draw(st.integers(1, 6))):
        begin, end = at - draw(st.integers(0, 3)), at + draw(st.integers(0, 3))
        what = draw(st.sampled_from(("append", "append", "read", "undo", "mark", "rewind", "clear", "conflict")))
        if what == "read":
            seen = tuple(message for turn in state.visible for message in turn.messages)
            found = read(begin, end, *state.events, visible=seen)
        elif what == "conflict":
            found = conflict(begin, end, draw(st.integers(0, 6)), state.head)
        else:
            ids = (next_id, next_id + 1) if what == "append" else (next_id,)
            found = call(begin, end, what, argument="M", expected=state.head, ids=ids)
            if step(state, found) is None:
                found = found._replace(answer="refused", ids=())
            next_id += 2
        state = step(state, found) or state
        if draw(st.integers(0, 4)) == 0:
            found = found._replace(expected=draw(st.integers(0, 4)), ids=draw(st.sampled_from((found.ids, (), (1, 2)))))
        calls.append(found)
    return draw(st.permutations(calls))


@given(histories())
def test_decides_as_brute_force(calls: list[Call]) -> None:
    assert check(calls).linearizable == possible(calls)


def test_long_histories_are_decided_at_once() -> None:
    """With eight clients that always overlap, the memo keeps the search from trying every order."""
    calls, head = list[Call](), 0
    for at in range(0, 160, 8):
        heads = [head]
        for client in range(8):
            calls.append(append(at, at + 7.5, head, head + 1, head + 2)._replace(client=client))
            heads.append(head := head + 2)
        calls += [conflict(at, at + 7.5, heads[0], each) for each in heads[1:]]
    verdict = check(calls[::-1])
    assert verdict.linearizable
    assert verdict.looked < 100 * len(calls)
    assert not check([*calls, append(161, 162, 0, head + 1, head + 2)]).linearizable
