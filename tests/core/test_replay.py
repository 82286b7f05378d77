"""Replay (SPEC 3): laws L1, L3 and L5 over random lists of resolved operations.

The naive fold below works on single message ids. Messages have odd ids and operations even ones, so that one of the
agent's own messages lies between any two operations. The ids of messages inherited from "parent" are below `BORN`.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldmark.core import replay as replay_module
from foldmark.core.events import (
    Clear,
    Drop,
    Evict,
    Filter,
    Fork,
    Mark,
    Pin,
    Redact,
    Restore,
    Rewind,
    Summary,
    Undo,
    Unpin,
)
from foldmark.core.replay import Fold, History, Recorded, advance, birth, replay, taken_back
from foldmark.core.segments import END, Segment, contains, normal, subtract
from sampled import DEEP
from steps import work

MANY = settings(max_examples=settings().max_examples * 2)

BORN = 20
"""The fork event that created the agent: its own messages have odd ids above this one."""
INHERITED = tuple(("parent", id) for id in (1, 3, 5, 9, 11, 13))
BEGIN = birth("me", BORN, normal(Segment("parent", id, id + 1) for _, id in INHERITED), pins=(3,), evicted=(9,))

Visible = set[tuple[str, int]]


def own_messages(until: int) -> list[int]:
    return list(range(BORN + 1, until + 2, 2))


@st.composite
def histories(draw: st.DrawFn) -> list[Recorded]:
    """Draw operations as they may have been recorded: each refers to ids below its own."""
    recorded: list[Recorded] = []
    kinds = "mark clear rewind fork filter drop undo summary restore restore pin unpin redact filter mark rewind evict"
    for number, kind in enumerate(draw(st.lists(st.sampled_from(kinds.split()), max_size=14))):
        at = BORN + 2 + 2 * number
        ids = st.integers(0, at - 1)
        ranges = st.lists(
            st.one_of(st.builds(Segment, st.just("me"), ids, ids), st.builds(Segment, st.just("parent"), ids, ids)),
            max_size=3,
        ).map(normal)
        turn = st.sampled_from((1, 3, 5, at - 1))
        marks = [id for id, op in recorded if isinstance(op, Mark)]
        operation: Any
        match kind:
            case "mark":
                operation = Mark(draw(st.sampled_from("ABC")))
            case "rewind" if marks:
                mark_id = draw(st.sampled_from(marks))
                operation = Rewind("any", mark_id, draw(st.integers(mark_id - 3, min(mark_id + 4, at - 1))))
            case "filter":
                operation = Filter(draw(st.sampled_from(("forget", "remember"))), draw(ranges))
            case "drop":
                operation = Drop(1, draw(ranges))
            case "undo":
                operation = Undo(1, draw(ranges))
            case "summary":
                operation = Summary(draw(ranges))
            case "restore" if targets := open_targets(recorded):
                operation = Restore(draw(st.sampled_from(targets)))
            case "pin":
                operation = Pin(draw(turn))
            case "unpin":
                operation = Unpin(draw(turn))
            case "evict":
                operation = Evict(tuple(draw(st.lists(turn, min_size=1, max_size=3, unique=True))))
            case "fork":
                operation = Fork("child", draw(ranges))
            case "redact":
                operation = Redact(draw(turn))
            case _:
                operation = Clear()
        recorded.append((at, operation))
    return recorded


def open_targets(recorded: Sequence[Recorded]) -> list[int]:
    """Return the operations that a restore may name: those in force that are neither forks nor redactions."""
    back = naive_taken_back(recorded)
    return [id for id, op in recorded if id not in back and not isinstance(op, Fork | Redact)]


def naive_taken_back(recorded: Sequence[Recorded]) -> set[int]:
    """Return the undone operations by definition, not newest first: a restore counts unless another one that counts
    names it."""

    def counts(id: int) -> bool:
        return not any(isinstance(op, Restore) and op.target == id and counts(other) for other, op in recorded)

    return {id for id, _ in recorded if not counts(id)}


def naive(recorded: Sequence[Recorded]) -> tuple[Visible, dict[str, int], list[int], dict[int, int]]:
    """Fold single ids by SPEC 3's table. Return visible ids, marks, pins, and evicted result -> operation."""
    back = naive_taken_back(recorded)
    visible, marks, pins, evicted = set(INHERITED), dict[str, int](), [3], {9: 0}
    visible.add(("me", BORN + 1))
    for id, op in recorded:
        if isinstance(op, Summary) and id not in back:
            visible.add(("me", id))
        if id not in back:
            match op:
                case Mark(name=name):
                    marks[name] = id
                case Clear():
                    visible, marks = set(), {}
                case Rewind(mark_id=mark_id, position=position):
                    visible = {(agent, m) for agent, m in visible if agent != "me" or m <= position}
                    marks = {name: m for name, m in marks.items() if m <= mark_id}
                case Filter() | Drop() | Undo() | Summary():
                    visible = {(agent, m) for agent, m in visible if not contains(op.ranges, agent, m)}
                case Pin(turn=turn):
                    pins = [*(p for p in pins if p != turn), turn]
                case Unpin(turn=turn):
                    pins = [p for p in pins if p != turn]
                case Evict(results=results):
                    evicted |= dict.fromkeys(results, id)
        visible.add(("me", id + 1))
    return visible, marks, pins, evicted


def shown(fold: Fold, recorded: Sequence[Recorded]) -> Visible:
    """Return the existing messages that the fold shows."""
    newest = recorded[-1][0] if recorded else BORN
    summaries = [id for id, op in recorded if isinstance(op, Summary)]
    there_are = [*INHERITED, *(("me", id) for id in (*own_messages(newest), *summaries))]
    return {(agent, id) for agent, id in there_are if contains(fold.segments, agent, id)}


def parts(fold: Fold) -> tuple[Any, ...]:
    """Return a fold without the id of its newest operation, with the marks in order."""
    return fold.segments, list(fold.marks.items()), fold.pins, fold.evicted


@given(histories())
@MANY
def test_replay_equals_a_fold_over_single_messages(recorded: list[Recorded]) -> None:
    fold = replay(BEGIN, recorded)
    visible, marks, pins, evicted = naive(recorded)
    assert shown(fold, recorded) == visible
    assert fold.marks == marks
    assert list(fold.pins) == pins
    assert fold.evicted == evicted
    assert fold.agent == "me"
    assert fold.at == (recorded[-1][0] if recorded else 0)
    assert taken_back(recorded) == naive_taken_back(recorded)


@given(histories(), st.lists(st.integers(0, 14), max_size=4))
@MANY
def test_l1_replay_equals_advancing_in_any_number_of_steps(recorded: list[Recorded], cuts: list[int]) -> None:
    """A restore folds everything again; any other operation advances the present fold."""
    fold, done = BEGIN, 0
    for cut in sorted({*cuts, len(recorded)}):
        step = recorded[done:cut]
        refold = any(isinstance(op, Restore) for _, op in step)
        fold = replay(BEGIN, recorded[:cut]) if refold else advance(fold, step)
        done = max(done, min(cut, len(recorded)))
        assert fold == replay(BEGIN, recorded[:cut])


@given(histories())
def test_l1_resumed_at_every_prefix(recorded: list[Recorded]) -> None:
    """One operation at a time, as in a running agent."""
    fold = BEGIN
    for n, (id, operation) in enumerate(recorded):
        fold = replay(BEGIN, recorded[: n + 1]) if isinstance(operation, Restore) else advance(fold, [(id, operation)])
    assert fold == replay(BEGIN, recorded)


@MANY
@given(histories(), st.lists(st.booleans(), min_size=1, max_size=5))
def test_l1_history_equals_replay_at_every_step(recorded: list[Recorded], folded: list[bool]) -> None:
    """This holds whether or not folds were kept on the way. The step between them is so small here that restores fall
    before, between and after them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_module, "STEP", 1)
        history = History(BEGIN)
        for count, (id, operation) in enumerate(recorded):
            if folded[count % len(folded)]:
                assert history.followed_by(id, operation) == replay(BEGIN, recorded[: count + 1])
            history.add(id, operation)
            assert {each for each, _ in recorded if history.is_back(each)} == taken_back(recorded[: count + 1])
        assert history.fold() == replay(BEGIN, recorded)


@MANY
@given(histories())
def test_l1_the_same_operations_give_the_same_fold_and_change_nothing(recorded: list[Recorded]) -> None:
    before = list(recorded)
    assert replay(BEGIN, tuple(recorded)) == replay(BEGIN, recorded)
    assert recorded == before
    assert birth("me", BORN, BEGIN.segments, pins=(3,), evicted=(9,)) == BEGIN


@given(histories(), st.data())
@MANY
def test_l5_a_restore_gives_the_fold_without_the_operation(recorded: list[Recorded], data: st.DataObject) -> None:
    """A restore of the restore gives the former fold. A summary's own text leaves with the summary."""
    targets = open_targets(recorded)
    if not targets:
        return
    target = data.draw(st.sampled_from(targets))
    at = recorded[-1][0] + 2
    without = [(id, op) for id, op in recorded if id != target]
    restored = [*recorded, (at, Restore(target))]
    expected = replay(BEGIN, without)
    text = [Segment("me", target, target)] if isinstance(dict(recorded)[target], Summary) else []
    assert parts(replay(BEGIN, restored)) == (subtract(expected.segments, text), *parts(expected)[1:])
    again = [*restored, (at + 2, Restore(at))]
    assert parts(replay(BEGIN, again)) == parts(replay(BEGIN, recorded))
    # Once the restore is restored, its target can be restored again.
    third = [*again, (at + 4, Restore(target))]
    assert parts(replay(BEGIN, third)) == parts(replay(BEGIN, restored))


def at_work(*operations: Any) -> list[Recorded]:
    """Return the operations with the ids 22, 24, ..."""
    return [(BORN + 2 + 2 * n, operation) for n, operation in enumerate(operations)]


@pytest.mark.parametrize(
    ("operations", "back"),
    [
        ([], []),
        ([Clear()], []),
        ([Clear(), Restore(22)], [22]),
        ([Clear(), Restore(22), Restore(24)], [24]),
        ([Clear(), Restore(22), Restore(24), Restore(22)], [22, 24]),
        ([Clear(), Restore(22), Restore(24), Restore(26)], [22, 26]),
        ([Clear(), Clear(), Restore(24)], [24]),
    ],
)
def test_taken_back_operations_are_targets_of_restores_in_force(operations: list[Any], back: list[int]) -> None:
    """Each is the target of a restore that itself counts (SPEC 3, restore)."""
    assert taken_back(at_work(*operations)) == frozenset(back)


@pytest.mark.parametrize(
    ("operations", "marks"),
    [
        ([Mark("A"), Mark("B")], {"A": 22, "B": 24}),
        ([Mark("A"), Mark("B"), Mark("A")], {"B": 24, "A": 26}),
        ([Mark("A"), Mark("B"), Rewind("A", 22, 22)], {"A": 22}),
        ([Mark("A"), Mark("B"), Rewind("B", 24, 24)], {"A": 22, "B": 24}),
        # A mark that moved does not return to its earlier position, even when a rewind passes the new one.
        ([Mark("A"), Mark("B"), Mark("A"), Rewind("B", 24, 24)], {"B": 24}),
        ([Mark("A"), Clear(), Mark("B")], {"B": 26}),
        ([Mark("A"), Clear(), Restore(24)], {"A": 22}),
        ([Mark("A"), Mark("A"), Restore(24)], {"A": 22}),
        ([Mark("A"), Restore(22)], {}),
        ([Mark("A"), Mark("B"), Rewind("A", 22, 22), Restore(26)], {"A": 22, "B": 24}),
    ],
)
def test_marks_are_set_moved_and_lost(operations: list[Any], marks: dict[str, int]) -> None:
    """SPEC 3, mark, clear, rewind; marks are in the order in which they were set."""
    assert list(replay(BEGIN, at_work(*operations)).marks.items()) == list(marks.items())


def test_a_rewind_keeps_inherited_events() -> None:
    fold = replay(BEGIN, at_work(Mark("A"), Rewind("A", 22, BORN)))
    assert fold.segments == normal((*until_birth(), Segment("me", 25, END)))


def until_birth() -> list[Segment]:
    return [s for s in BEGIN.segments if s.agent == "parent"]


def test_clear_empties_the_context_and_later_messages_are_visible() -> None:
    """Pins survive clear and rewind (SPEC 3)."""
    fold = replay(BEGIN, at_work(Mark("A"), Pin(5), Rewind("A", 22, 22), Clear()))
    assert fold.segments == (Segment("me", 29, END),)
    assert fold.pins == (3, 5)
    assert fold.marks == {}


def test_a_rewind_keeps_a_filter_recorded_after_the_mark() -> None:
    """SPEC 3, golden example 2: rewind is truncation, not a snapshot."""
    operations = at_work(Mark("A"), Filter("forget", (Segment("parent", 3, 4),)), Rewind("A", 22, 22))
    fold = replay(BEGIN, operations)
    assert not contains(fold.segments, "parent", 3)
    assert contains(fold.segments, "me", 21)


def test_restoring_a_summary_removes_its_own_text() -> None:
    """SPEC 3, summary: a restore returns the originals and removes the summary; a further restore returns it."""
    cut = (Segment("me", 21, 21),)
    operations = at_work(Summary(cut), Clear(), Restore(24))
    assert contains(replay(BEGIN, operations).segments, "me", 22)
    operations += [(28, Restore(22))]
    fold = replay(BEGIN, operations)
    assert contains(fold.segments, "me", 21)
    assert not contains(fold.segments, "me", 22)
    assert contains(replay(BEGIN, [*operations, (30, Restore(28))]).segments, "me", 22)


def test_an_agent_without_ancestors_begins_empty() -> None:
    assert birth("me").segments == (Segment("me", 1, END),)
    assert replay(birth("me"), []) == birth("me")


def filters(count: int) -> list[Recorded]:
    """Return filters of three ranges each, all of them separate holes."""
    return [
        (100 * n + 99, Filter("forget", tuple(Segment("me", 100 * n + at, 100 * n + at + 5) for at in (10, 30, 50))))
        for n in range(count)
    ]


def test_l3_the_cost_of_replay_grows_with_ranges_and_not_with_messages() -> None:
    """Five times the filters of 3 ranges take five times the work, for any number of messages in between."""
    count = 1000 if DEEP else 300
    few, many = filters(count), filters(5 * count)
    fold = replay(birth("me"), many)
    assert len(fold.segments) == 15 * count + 1
    small, large = work(lambda: replay(birth("me"), few)), work(lambda: replay(birth("me"), many))
    assert large < 5.5 * small
    assert large < 60 * 15 * count
    apart = [(id * 1_000_000, Filter("forget", tuple(far(s) for s in op.ranges))) for id, op in few]  # type: ignore[union-attr]
    assert work(lambda: replay(birth("me"), apart)) <= 1.01 * small


def far(segment: Segment) -> Segment:
    return Segment(segment.agent, segment.first * 1_000_000, segment.last * 1_000_000)
