"""The naive model checked against SPEC 3: the golden examples and the rules that are easy to get wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from naive_model import NaiveAgent, Operation, RefusedError


class Script:
    """Writes to naive agents and numbers their events as one log would."""

    def __init__(self) -> None:
        self.newest = 0

    def next(self) -> int:
        self.newest += 1
        return self.newest

    def say(self, agent: NaiveAgent, *kinds: str) -> list[int]:
        """Append messages. `call:c1` and `result:c1` stand for a tool call and its result; `end` ends the turn."""
        ids = []
        for kind in kinds:
            if kind == "end":
                agent.end_turn()
                continue
            word, _, call = kind.partition(":")
            name = {"call": "tool_call", "result": agent.result_kind(call)}.get(word, word)
            ids.append(self.next())
            agent.append(name, ids[-1], call or None)
        return ids

    def turns(self, agent: NaiveAgent, count: int) -> list[int]:
        """Append whole turns of one user message each."""
        return [i for _ in range(count) for i in self.say(agent, "user", "end")]

    def do(self, agent: NaiveAgent, operation: Operation) -> int:
        agent.record(operation, self.next())
        return self.newest


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def agent() -> NaiveAgent:
    return NaiveAgent()


def without(ids: Iterable[int], *gone: Iterable[int]) -> list[int]:
    return [i for i in ids if not any(i in g for g in gone)]


def test_golden_1(script: Script, agent: NaiveAgent) -> None:
    ab = script.turns(agent, 2)
    script.do(agent, agent.mark("M"))
    cde = script.turns(agent, 3)
    fork = agent.fork("M")
    script.do(agent, fork)
    assert agent.child(fork).visible() == cde
    assert agent.visible() == ab + cde
    script.do(agent, agent.rewind("M"))
    assert agent.visible() == ab


def test_golden_2(script: Script, agent: NaiveAgent) -> None:
    m = [0, *script.turns(agent, 100)]
    script.do(agent, agent.mark())
    m += script.turns(agent, 50)
    script.do(agent, agent.forget(m[50:76], (m[140], m[145])))
    m += script.turns(agent, 50)
    rewind = script.do(agent, agent.rewind())
    assert agent.visible() == m[1:50] + m[76:101]
    script.do(agent, agent.restore(rewind))
    assert agent.visible() == m[1:50] + m[76:140] + m[146:201]


@pytest.mark.parametrize(("first", "second"), [("PHASE_2", "PHASE_1"), ("PHASE_1", "PHASE_2")])
def test_golden_3(script: Script, agent: NaiveAgent, first: str, second: str) -> None:
    for name in ("PHASE_1", "PHASE_2"):
        script.do(agent, agent.mark(name))
        script.turns(agent, 1)
    script.do(agent, agent.rewind(first))
    if first == "PHASE_1":
        with pytest.raises(RefusedError):
            agent.rewind(second)
    else:
        script.do(agent, agent.rewind(second))
        assert agent.visible() == []


def test_golden_4(script: Script, agent: NaiveAgent) -> None:
    a = script.turns(agent, 1)
    script.do(agent, agent.mark("M"))
    b = script.turns(agent, 1)
    script.do(agent, agent.mark("M"))
    script.turns(agent, 1)
    script.do(agent, agent.rewind("M"))
    assert agent.visible() == a + b


def test_golden_5(script: Script, agent: NaiveAgent) -> None:
    script.turns(agent, 2)
    script.do(agent, agent.mark("M"))
    goal = script.turns(agent, 1)
    fork = agent.fork("M")
    script.do(agent, fork)
    child = agent.child(fork)
    script.do(agent, agent.clear())
    own = script.turns(child, 1)
    assert child.marks() == {}
    assert child.visible() == goal + own
    grandchild = child.child(child.fork())
    script.do(child, child.clear())
    assert (agent.visible(), child.visible(), grandchild.visible()) == ([], [], goal + own)


def test_a_moved_mark_does_not_fall_back(script: Script, agent: NaiveAgent) -> None:
    script.do(agent, agent.mark("M"))
    keep = script.do(agent, agent.mark("KEEP"))
    moved = script.do(agent, agent.mark("M"))
    rewind = script.do(agent, agent.rewind("KEEP"))
    assert agent.marks() == {"KEEP": keep}
    script.do(agent, agent.restore(rewind))
    assert agent.marks() == {"M": moved, "KEEP": keep}


def test_unnamed_marks_take_the_smallest_free_number(script: Script, agent: NaiveAgent) -> None:
    first = script.do(agent, agent.mark())
    script.do(agent, agent.mark("mark-3"))
    script.do(agent, agent.mark())
    assert list(agent.marks()) == ["mark-1", "mark-3", "mark-2"]
    script.do(agent, agent.restore(first))
    assert agent.mark().name == "mark-1"


def test_named_messages_are_widened_to_whole_exchanges(script: Script, agent: NaiveAgent) -> None:
    ids = script.say(agent, "user", "assistant", "call:a", "call:b", "result:b", "result:a", "call:a", "result:a")
    assert agent.forget([ids[4]]).messages == frozenset(ids[2:6])
    assert agent.remember([ids[7]]).messages == frozenset(ids[:6])
    assert agent.forget([], (ids[0], ids[2])).messages == frozenset(ids[:6])


def test_a_late_result_belongs_to_its_call_and_not_to_its_turn(script: Script, agent: NaiveAgent) -> None:
    first = script.say(agent, "user", "call:a", "end")
    second = script.say(agent, "user", "result:a", "end")
    assert agent.drop(first[0]).messages == frozenset([*first, second[1]])
    assert agent.undo().messages == frozenset([*second, first[1]])


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (["user", "assistant", "call:a"], ["call:b"], 1),  # open: before the first call and its text
        (["user", "call:a"], [], 1),  # open, nothing after it yet
        (["user", "assistant", "call:a"], ["call:b", "end"], 4),  # the turn has ended: after its last event
        (["user", "assistant", "call:a"], ["result:a", "assistant"], 4),  # closed: after the last result
        (["user", "assistant"], ["call:a"], 2),  # between the text and the call: not inside
        (["user", "assistant", "call:a", "result:a"], ["assistant"], 4),  # after the exchange
    ],
)
def test_a_cut_moves_to_the_edge_of_an_exchange(
    script: Script, agent: NaiveAgent, before: list[str], after: list[str], kept: int
) -> None:
    ids = script.say(agent, *before)
    script.do(agent, agent.mark("M"))
    ids += script.say(agent, *after)
    script.do(agent, agent.rewind("M"))
    assert agent.visible() == ids[:kept]


def test_a_call_that_left_the_context_holds_no_position(script: Script, agent: NaiveAgent) -> None:
    start = script.do(agent, agent.mark("START"))
    script.say(agent, "user", "assistant", "call:a")
    script.do(agent, agent.rewind("START"))
    notice = script.say(agent, "result:a")
    assert agent.own[-1].kind == "user"
    step = script.do(agent, agent.mark("STEP"))
    script.say(agent, "assistant")
    script.do(agent, agent.rewind("STEP"))
    assert (agent.visible(), agent.marks()) == (notice, {"START": start, "STEP": step})


def test_fork_leaves_out_the_open_exchange_and_its_text(script: Script, agent: NaiveAgent) -> None:
    ids = script.say(agent, "user", "call:a", "result:a", "assistant", "call:b", "call:c", "result:c")
    assert agent.fork().messages == frozenset(ids[:3])
    script.say(agent, "end")
    assert agent.fork().messages == frozenset(ids)


def test_operations_keep_their_recorded_meaning(script: Script, agent: NaiveAgent) -> None:
    a, b = script.turns(agent, 2)
    forget = script.do(agent, agent.forget([a]))
    script.do(agent, agent.remember([b]))
    assert agent.visible() == [b]
    script.do(agent, agent.restore(forget))
    assert agent.visible() == [a, b]
    forget = script.do(agent, agent.forget([a]))
    script.do(agent, agent.forget([a, b]))
    script.do(agent, agent.restore(forget))
    assert agent.visible() == []


def test_remember_never_takes_system_messages(script: Script, agent: NaiveAgent) -> None:
    ids = script.say(agent, "system", "user", "system", "end")
    assert agent.remember([]).messages == {ids[1]}
    assert agent.forget(ids).messages == frozenset(ids)


def test_restores_can_be_restored(script: Script, agent: NaiveAgent) -> None:
    ids = script.turns(agent, 1)
    clear = script.do(agent, agent.clear())
    back = script.do(agent, agent.restore(clear))
    assert agent.visible() == ids
    with pytest.raises(RefusedError):
        agent.restore(clear)
    again = script.do(agent, agent.restore(back))
    assert agent.visible() == []
    script.do(agent, agent.restore(clear))
    script.do(agent, agent.restore(again))
    assert agent.visible() == ids
    with pytest.raises(RefusedError):
        agent.restore(clear)


def test_inherited_turns_can_be_dropped_and_undone(script: Script, agent: NaiveAgent) -> None:
    first = script.say(agent, "user", "assistant", "end")
    second = script.say(agent, "user")
    fork = agent.fork()
    script.do(agent, fork)
    child = agent.child(fork)
    script.say(agent, "assistant", "end")
    assert child.undo().messages == frozenset(second)
    script.do(child, child.drop(first[0]))
    assert child.visible() == second
    assert agent.visible()[:2] == first


def say_state(script: Script, agent: NaiveAgent, text: str) -> int:
    agent.record_state(script.next(), text)
    return script.newest


def test_a_state_leaves_with_its_message(script: Script, agent: NaiveAgent) -> None:
    first, second = script.say(agent, "user", "assistant")
    say_state(script, agent, "one")
    mark = script.do(agent, agent.mark("M"))
    third, _ = script.say(agent, "assistant", "user")
    say_state(script, agent, "two")
    forget = script.do(agent, agent.forget([second]))
    assert agent.state() == "two"
    script.do(agent, agent.rewind("M"))
    assert agent.state() is None
    script.do(agent, agent.restore(forget))
    assert (agent.state(), agent.marks(), agent.visible()) == ("one", {"M": mark}, [first, second])
    assert third not in agent.visible()


def test_a_state_after_a_mark_is_cut_although_its_message_stays(script: Script, agent: NaiveAgent) -> None:
    ids = script.say(agent, "user", "assistant")
    script.do(agent, agent.mark("M"))
    say_state(script, agent, "cut")
    script.do(agent, agent.rewind("M"))
    assert (agent.visible(), agent.state()) == (ids, None)


def test_a_summary_takes_the_place_of_what_it_subtracts(script: Script, agent: NaiveAgent) -> None:
    before = script.say(agent, "user", "assistant")
    say_state(script, agent, "one")
    script.say(agent, "end")
    script.do(agent, agent.mark("M"))
    behind = script.say(agent, "user", "assistant", "call:a")
    summary = script.do(agent, agent.summarize("M"))
    assert agent.visible() == [*before, *behind[1:], summary]
    whole = script.do(agent, agent.summarize())
    assert (agent.visible(), agent.state()) == ([*behind[1:], whole], "one")
    # The summary stands before the open call, so the turn of that call is the newest.
    undone = agent.undo().messages
    assert {*behind[1:]} <= undone
    assert whole not in undone
    script.do(agent, agent.restore(whole))
    script.do(agent, agent.restore(summary))
    assert (agent.visible(), agent.state()) == (before + behind, "one")


def test_a_summary_after_a_mark_keeps_inherited_messages(script: Script, agent: NaiveAgent) -> None:
    inherited = script.turns(agent, 2)
    child = agent.child(agent.fork())
    script.do(child, child.mark("M"))
    with pytest.raises(RefusedError):
        child.summarize("M")
    script.turns(child, 1)
    assert child.visible()[:2] == inherited
    summary = script.do(child, child.summarize("M"))
    assert child.visible() == [*inherited, summary]
    assert child.summarize().messages == {*inherited, summary}


def test_pins_outlive_clear_and_go_to_a_child_that_sees_their_turn(script: Script, agent: NaiveAgent) -> None:
    first, second = script.turns(agent, 2)
    pins = [script.do(agent, agent.pin(gid)) for gid in (first, second)]
    with pytest.raises(RefusedError):
        agent.pin(first)
    script.do(agent, agent.drop(second))
    assert agent.child(agent.fork()).folded().pins == {first}
    script.do(agent, agent.clear())
    assert agent.folded().pins == {first, second}
    script.do(agent, agent.unpin(second))
    script.do(agent, agent.restore(pins[0]))
    assert agent.folded().pins == set()
    with pytest.raises(RefusedError):
        agent.unpin(second)


def open_planning(script: Script, agent: NaiveAgent) -> list[int]:
    ids = script.say(agent, "user", "assistant")
    agent.planning = ids[0]
    return ids


def test_a_planning_conversation_lasts_to_the_end_of_its_turn(script: Script, agent: NaiveAgent) -> None:
    a, b, c = script.turns(agent, 3)
    planned = open_planning(script, agent)
    with pytest.raises(RefusedError):
        agent.fork()
    planned += script.say(agent, "end", "user")
    applied = script.do(agent, agent.apply("forget", [a]))
    assert agent.settling()
    planned += script.say(agent, "assistant")
    assert agent.visible() == [b, c]
    planned += script.say(agent, "assistant", "end")
    d = script.turns(agent, 1)
    assert (agent.visible(), agent.planning, agent.settling()) == ([b, c, *d], None, False)
    restore = script.do(agent, agent.restore(applied))
    assert agent.visible() == [a, b, c, *planned, *d]
    script.do(agent, agent.restore(restore))
    assert agent.visible() == [b, c, *d]


def test_remember_keeps_the_named_messages_and_cancel_keeps_everything(script: Script, agent: NaiveAgent) -> None:
    a, b = script.turns(agent, 2)
    open_planning(script, agent)
    agent.end_turn()
    script.do(agent, agent.cancel())
    assert (agent.visible(), agent.settling()) == ([a, b], False)
    open_planning(script, agent)
    script.do(agent, agent.apply("remember", [b]))
    assert agent.visible() == [b]


@pytest.mark.parametrize("operation", ["clear", "rewind", "undo", "drop"])
def test_clear_and_other_operations_cancel_planning(script: Script, agent: NaiveAgent, operation: str) -> None:
    script.do(agent, agent.mark("BEFORE"))
    first, _ = open_planning(script, agent)
    script.do(agent, agent.mark("AFTER"))
    script.do(agent, agent.rewind("AFTER"))
    assert agent.planning == first
    operations: dict[str, Callable[[], Any]] = {
        "clear": agent.clear,
        "rewind": lambda: agent.rewind("BEFORE"),
        "undo": agent.undo,
        "drop": lambda: agent.drop(first),
    }
    script.do(agent, operations[operation]())
    assert agent.planning is None


def test_a_removed_turn_is_gone_everywhere(script: Script, agent: NaiveAgent) -> None:
    first = script.say(agent, "user", "assistant")
    say_state(script, agent, "secret")
    child = agent.child(agent.fork())
    assert child.state() == "secret"
    with pytest.raises(RefusedError):
        child.redact(first[0], [first[0]])
    script.do(agent, agent.mark("M"))
    agent.erase(agent.redact(first[0]), script.next())
    assert (agent.visible(), child.visible(), agent.state(), child.state()) == ([], [], None, None)
    assert (agent.turn, list(agent.marks())) == (None, ["M"])
    for naive in (agent, child):
        with pytest.raises(RefusedError):
            naive.redact(first[0])
        assert naive.reasons(naive.lineage()[0]) == {script.newest}
    with pytest.raises(RefusedError):
        agent.restore(script.newest)


def test_explanations_name_operations_in_force(script: Script, agent: NaiveAgent) -> None:
    (gid,) = script.turns(agent, 1)
    forget = script.do(agent, agent.forget([gid]))
    clear = script.do(agent, agent.clear())
    summarized = script.turns(agent, 1)
    summary = script.do(agent, agent.summarize())
    assert agent.reasons(agent.own[0]) == {forget, clear}
    assert agent.reasons(agent.own[1]) == {summary}
    restore = script.do(agent, agent.restore(summary))
    assert (agent.visible(), agent.reasons(agent.own[2])) == (summarized, {restore})


def test_a_full_fork_inherits_the_scratchpad(script: Script, agent: NaiveAgent) -> None:
    script.do(agent, agent.mark("M"))
    script.turns(agent, 1)
    agent.scratchpad = "notes"
    assert agent.child(agent.fork()).scratchpad == "notes"
    assert agent.child(agent.fork("M")).scratchpad is None


REFUSED: dict[str, Callable[[NaiveAgent], Operation]] = {
    "rewind without marks": lambda agent: agent.rewind(),
    "an unknown mark": lambda agent: agent.rewind("NOPE"),
    "a fork from an unknown mark": lambda agent: agent.fork("NOPE"),
    "an unknown turn": lambda agent: agent.drop(99),
    "an event that opened no turn": lambda agent: agent.drop(2),
    "an undo with nothing visible": lambda agent: agent.child(Operation("fork")).undo(),
    "a restore of a message": lambda agent: agent.restore(1),
    "a restore of a fork": lambda agent: agent.restore(3),
    "a restore of something unknown": lambda agent: agent.restore(99),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_operations_are_refused(script: Script, agent: NaiveAgent, case: str) -> None:
    script.say(agent, "user", "assistant")
    script.do(agent, agent.fork())
    with pytest.raises(RefusedError):
        REFUSED[case](agent)


def test_a_dropped_turn_cannot_be_dropped_again(script: Script, agent: NaiveAgent) -> None:
    (gid,) = script.turns(agent, 1)
    script.do(agent, agent.drop(gid))
    with pytest.raises(RefusedError):
        agent.drop(gid)
