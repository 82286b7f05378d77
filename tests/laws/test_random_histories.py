"""Random histories of the public library compared with the naive model, and laws that need no model (SPEC 3)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elsewhere import Elsewhere
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from naive_model import NaiveAgent, Operation, RefusedError

import foldmark

NAMES = ["A", "B", "a", "mark-1", "mark-2"]
MOST_AGENTS = 5
WHO = st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3, 4])  # some depth for the first agents rather than breadth for all
NAME = st.sampled_from(NAMES)
MAYBE_NAME = st.one_of(st.none(), NAME)
PICK = st.integers(0, 10**6)
CALL_IDS = ["c1", "c2", "c3"]
OPERATION = st.sampled_from(["mark", "clear", "rewind", "undo", "drop", "forget", "remember"])
UNKNOWN_ID = 10**9
# Durability is tested elsewhere. Here an in-memory file system, if there is one, avoids waiting for the disk.
FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def triple(segment: Any) -> tuple[str, int, int]:
    """Return a segment as (agent, first id, last id), from a tuple or from an object with these three fields."""
    agent, first, last = segment if isinstance(segment, tuple) else vars(segment).values()
    return agent, first, last


@dataclass
class Pair:
    """An agent of the database and its model."""

    uuid: str
    real: Any
    model: NaiveAgent


class Histories(RuleBasedStateMachine):
    """One database and the models of its agents, which must be equal after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=FOLDER)
        self.path = str(Path(self.folder.name) / "chat.db")
        self.log = foldmark.open(self.path)
        self.elsewhere = Elsewhere(self.log, self.path)
        self.pairs: list[Pair] = []
        self.ids: list[int] = []
        self.stored: dict[int, tuple[str, str]] = {}
        self.quotes: dict[int, str] = {}

    def teardown(self) -> None:
        self.elsewhere.close()
        self.log.close()
        self.folder.cleanup()

    # -- steps applied to both --------------------------------------------------------------------

    def pair(self, who: int) -> Pair:
        return self.pairs[who % len(self.pairs)]

    def seen(self, event_id: int) -> int:
        """Check and note an id. SPEC 1: ids are integers, unique in the database and increasing in commit order."""
        assert isinstance(event_id, int)
        assert not self.ids or event_id > self.ids[-1]
        self.ids.append(event_id)
        return event_id

    def text(self) -> str:
        """Return a short, unique text."""
        return f"text-{len(self.ids)}."

    def say(self, pair: Pair, kind: str) -> None:
        text = self.text()
        event_id = self.seen(pair.real.append(kind, text))
        pair.model.append(kind, event_id)
        self.stored[event_id] = (kind, text)

    def call(self, pair: Pair, call_id: str) -> None:
        args = {"n": len(self.ids)}
        event_id = self.seen(pair.real.append_tool_call("probe", args, call_id=call_id, dialect="openai"))
        pair.model.append("tool_call", event_id, call_id)

    def result(self, pair: Pair, call_id: str) -> None:
        text, kind = self.text(), pair.model.result_kind(call_id)
        event_id = self.seen(pair.real.append_tool_result(call_id, text, dialect="openai"))
        pair.model.append(kind, event_id, call_id)
        if kind == "user":
            self.quotes[event_id] = text
        else:
            self.stored[event_id] = (kind, text)

    def end(self, pair: Pair) -> None:
        if pair.model.turn is not None:
            pair.real.end_turn()
            pair.model.end_turn()

    def operate(self, pair: Pair, command: str, plan: Callable[[], Operation]) -> Any:
        """Run a command, which must raise CommandError exactly when the model refuses it."""
        try:
            operation = plan()
        except RefusedError as reason:
            self.refuse(pair, command, str(reason))
            return None
        result = pair.real.do(command)
        pair.model.record(operation, self.seen(result.event_id))
        return result

    def refuse(self, pair: Pair, command: str, reason: str) -> None:
        try:
            result = pair.real.do(command)
        except foldmark.CommandError:
            return
        raise AssertionError(f"{command!r} should be an error ({reason}) but gave {result!r}")

    def ids_of(self, pair: Pair, data: st.DataObject) -> list[int]:
        """Draw some messages of the lineage, visible or not, inherited or own."""
        lineage = [m.id for m in pair.model.lineage()]
        return data.draw(st.lists(st.sampled_from(lineage), unique=True, max_size=6)) if lineage else []

    def planning_of(self, pair: Pair, data: st.DataObject) -> tuple[int, int] | None:
        """Draw a planning conversation, a run of the agent's own messages, or None."""
        own = [m.id for m in pair.model.own]
        if not own or data.draw(st.booleans()):
            return None
        first = data.draw(st.integers(0, len(own) - 1))
        return own[first], own[min(first + data.draw(st.integers(0, 3)), len(own) - 1)]

    # -- messages ---------------------------------------------------------------------------------

    @initialize()
    def conversation(self) -> None:
        real = self.log.agent("default")
        self.pairs.append(Pair(real.id, real, NaiveAgent()))

    @precondition(lambda self: len(self.pairs) == 1)
    @rule()
    def another_conversation(self) -> None:
        real = self.log.agent("another")
        self.pairs.append(Pair(real.id, real, NaiveAgent()))

    @rule(who=WHO, kind=st.sampled_from(["user", "user", "client", "assistant", "assistant", "system"]))
    def message(self, who: int, kind: str) -> None:
        self.say(self.pair(who), kind)

    @rule(who=WHO, text=st.booleans(), calls=st.lists(st.sampled_from(CALL_IDS), min_size=1, max_size=2))
    def tool_calls(self, who: int, text: bool, calls: list[str]) -> None:
        """A model makes further calls only when all earlier results have arrived, except for parallel calls."""
        pair = self.pair(who)
        if pair.model.open_exchanges():
            if pair.model.own[-1].kind != "tool_call":
                return
        elif text:
            self.say(pair, "assistant")
        for call_id in calls:
            self.call(pair, call_id)

    @rule(who=WHO, pick=PICK, unknown=st.sampled_from([False] * 7 + [True]))
    def tool_result(self, who: int, pick: int, unknown: bool) -> None:
        """Append a result, possibly late, for a call that has none, or for a call that was never made."""
        pair = self.pair(who)
        waiting = sorted({m.call_id or "" for m in pair.model.unanswered()})
        if unknown:
            self.result(pair, "never")
        elif waiting:
            call_id = waiting[pick % len(waiting)]
            call = pair.model.awaiting(call_id)
            opened = pair.model.open_exchanges()
            if not opened or call in opened[-1] or pair.model.result_kind(call_id) == "user":
                self.result(pair, call_id)

    @rule(who=WHO, name=NAME)
    def mark_between_calls_and_results(self, who: int, name: str) -> None:
        """Set a mark inside an exchange and leave it open; `tool_result` may close it."""
        self.tool_calls(who, True, CALL_IDS[:1])
        self.mark(who, name)

    @rule(who=WHO)
    def end_turn(self, who: int) -> None:
        self.end(self.pair(who))

    @rule(who=WHO, calls=st.integers(0, 2))
    def whole_turn(self, who: int, calls: int) -> None:
        pair = self.pair(who)
        self.end(pair)
        self.say(pair, "user")
        self.say(pair, "assistant")
        for call_id in CALL_IDS[:calls]:
            self.call(pair, call_id)
        for call_id in reversed(CALL_IDS[:calls]):
            self.result(pair, call_id)
        if calls:
            self.say(pair, "assistant")
        self.end(pair)

    # -- operations -------------------------------------------------------------------------------

    @rule(who=WHO, name=MAYBE_NAME)
    def mark(self, who: int, name: str | None) -> None:
        pair = self.pair(who)
        self.operate(pair, f"/mark {name or ''}".strip(), lambda: pair.model.mark(name))

    @rule(who=WHO)
    def clear(self, who: int) -> None:
        pair = self.pair(who)
        self.operate(pair, "/clear", pair.model.clear)

    @rule(who=WHO, word=st.sampled_from(["clear", "rewind"]), name=NAME, known=st.booleans(), pick=PICK)
    def rewind_to(self, who: int, word: str, name: str, known: bool, pick: int) -> None:
        pair = self.pair(who)
        marks = sorted(pair.model.marks())
        target = marks[pick % len(marks)] if known and marks else name
        self.operate(pair, f"/{word} {target}", lambda: pair.model.rewind(target))

    @rule(who=WHO)
    def rewind(self, who: int) -> None:
        pair = self.pair(who)
        self.operate(pair, "/rewind", pair.model.rewind)

    @precondition(lambda self: len(self.pairs) < MOST_AGENTS)
    @rule(who=WHO, name=MAYBE_NAME)
    def fork(self, who: int, name: str | None) -> None:
        pair = self.pair(who)
        result = self.operate(pair, f"/fork {name or ''}".strip(), lambda: pair.model.fork(name))
        if result:
            uuid, fork = result.data["child"], pair.model.events[-1]
            assert isinstance(fork, Operation)
            self.pairs.append(Pair(uuid, self.log.agent(uuid), pair.model.child(fork)))

    @rule(who=WHO)
    def undo(self, who: int) -> None:
        pair = self.pair(who)
        self.operate(pair, "/undo", pair.model.undo)

    @rule(who=WHO, known=st.sampled_from([True, True, True, False]), pick=PICK)
    def drop(self, who: int, known: bool, pick: int) -> None:
        """Drop a turn of the lineage, or any id: another agent's turn, a message, an operation, or no event."""
        pair = self.pair(who)
        turns = sorted({m.turn for m in pair.model.lineage() if m.turn is not None})
        choice = turns if known and turns else [*self.ids, UNKNOWN_ID]
        gid = choice[pick % len(choice)]
        self.operate(pair, f"/context drop {gid}", lambda: pair.model.drop(gid))

    @rule(who=WHO, known=st.sampled_from([True, True, True, False]), pick=PICK)
    def restore(self, who: int, known: bool, pick: int) -> None:
        """Restore an operation of this agent, or any id."""
        pair = self.pair(who)
        own = [e.id for e in pair.model.events if isinstance(e, Operation)]
        choice = own if known and own else [*self.ids, UNKNOWN_ID]
        target = choice[pick % len(choice)]
        self.operate(pair, f"/restore {target}", lambda: pair.model.restore(target))

    @rule(who=WHO, data=st.data(), mode=st.sampled_from(["forget", "remember"]))
    def apply_filter(self, who: int, data: st.DataObject, mode: str) -> None:
        pair = self.pair(who)
        ids, planning = self.ids_of(pair, data), self.planning_of(pair, data)
        operation = (pair.model.forget if mode == "forget" else pair.model.remember)(ids, planning)
        event_id = self.seen(pair.real.apply_filter(mode, ids, planning=planning, criteria="random"))
        pair.model.record(operation, event_id)

    @rule(who=WHO, first=OPERATION, second=OPERATION, pick=PICK, data=st.data())
    def restore_the_one_before(self, who: int, first: str, second: str, pick: int, data: st.DataObject) -> None:
        """Resolved when recorded: the second operation keeps its meaning when the first is undone."""
        pair = self.pair(who)
        operate: dict[str, Callable[[], None]] = {
            "mark": lambda: self.mark(who, None),
            "clear": lambda: self.clear(who),
            "rewind": lambda: self.rewind(who),
            "undo": lambda: self.undo(who),
            "drop": lambda: self.drop(who, True, pick),
            "forget": lambda: self.apply_filter(who, data, "forget"),
            "remember": lambda: self.apply_filter(who, data, "remember"),
        }
        recorded = len(pair.model.events)
        operate[first]()
        operate[second]()
        if len(pair.model.events) > recorded:
            target = pair.model.events[recorded].id
            self.operate(pair, f"/restore {target}", lambda: pair.model.restore(target))

    @rule(
        who=WHO,
        command=st.sampled_from(
            ["/nope", "/mark A B", "/clear A B", "/fork A B", "/undo 1", "/restore x", "/context drop"]
        ),
    )
    def malformed_command(self, who: int, command: str) -> None:
        self.refuse(self.pair(who), command, "it is malformed")

    @rule()
    def reopen(self) -> None:
        """L1: everything is the same after a restart."""
        before = [self.view(pair) for pair in self.pairs]
        self.elsewhere.close()
        self.log.close()
        self.log = foldmark.open(self.path)
        self.elsewhere = Elsewhere(self.log, self.path)
        for pair in self.pairs:
            pair.real = self.log.agent(pair.uuid)
        assert [self.view(pair) for pair in self.pairs] == before

    # -- checks after every step ------------------------------------------------------------------

    @staticmethod
    def view(pair: Pair) -> object:
        context = pair.real.context()
        messages = [(m.id, m.kind, m.role, m.content) for m in context.messages]
        return messages, [triple(s) for s in context.segments], dict(context.marks)

    @invariant()
    def same_as_the_model(self) -> None:
        """Contexts equal the naive fold. Because every agent is compared, this also covers L5 and L6.

        L2: stored texts never change, and a notice quotes the result it replaces.
        """
        for pair in self.pairs:
            context = pair.real.context()
            visible, marks = pair.model.fold()
            kinds = {m.id: m.kind for m in pair.model.lineage()}
            assert [(m.id, m.kind) for m in context.messages] == [(i, kinds[i]) for i in visible]
            assert dict(context.marks) == marks
            self.check_segments([triple(s) for s in context.segments], visible)
            for m in context.messages:
                assert self.stored.setdefault(m.id, (m.kind, m.content)) == (m.kind, m.content)
                assert self.quotes.get(m.id, "") in m.content

    def check_segments(self, segments: list[tuple[str, int, int]], visible: list[int]) -> None:
        """Segments are sorted, disjoint and not empty, and contain exactly the visible messages."""
        models = {pair.uuid: pair.model for pair in self.pairs}
        bounds = [bound for _, first, last in segments for bound in (first, last + 1)]
        assert bounds == sorted(bounds)
        covered = []
        for agent, first, last in segments:
            part = [m.id for m in models[agent].own if first <= m.id <= last]
            assert part
            covered += part
        assert covered == visible


TestHistories = Histories.TestCase


# -- laws without a model -----------------------------------------------------------------------------

STEPS = ["user", "assistant", "exchange", "end", "forget", "remember", "/clear", "/undo", "/rewind", "/mark"]
STEPS += ["/mark M", "/clear M", "restore"]
STEP = st.tuples(st.sampled_from(STEPS), PICK)
SCRIPT = st.lists(STEP, max_size=15)


@contextmanager
def database() -> Iterator[tuple[Any, str]]:
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        path = str(Path(folder) / "chat.db")
        log = foldmark.open(path)
        try:
            yield log, path
        finally:
            log.close()


def view(agent: Any) -> tuple[list[tuple[int, str]], dict[str, int]]:
    context = agent.context()
    return [(m.id, m.content) for m in context.messages], dict(context.marks)


class Player:
    """Plays scripts and remembers the operations, so that `restore` has targets."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.operations: list[int] = []
        self.count = 0

    def play(self, step: str, pick: int) -> int | None:
        """Return the id of the operation, or None for a message or a refused command."""
        self.count += 1
        agent, text = self.agent, f"{step} {self.count}"
        if step in ("user", "assistant"):
            agent.append(step, text)
            return None
        if step == "exchange":
            agent.append_tool_call("probe", {"n": self.count}, call_id=text, dialect="openai")
            agent.append_tool_result(text, text, dialect="openai")
            return None
        if step == "end":
            agent.append("user", text)
            agent.end_turn()
            return None
        try:
            event_id = self.operate(step, pick)
        except foldmark.CommandError:
            return None
        self.operations.append(event_id)
        return event_id

    def operate(self, step: str, pick: int) -> int:
        if step in ("forget", "remember"):
            visible = [m.id for m in self.agent.context().messages]
            return int(self.agent.apply_filter(step, [i for n, i in enumerate(visible) if pick >> n & 1]))
        if step == "restore":
            step = f"/restore {self.operations[pick % len(self.operations)] if self.operations else UNKNOWN_ID}"
        return int(self.agent.do(step).event_id)

    def play_all(self, script: list[tuple[str, int]]) -> None:
        for step, pick in script:
            self.play(step, pick)


@given(script=SCRIPT, last=STEP, more=st.integers(0, 2))
def test_l5_restore_takes_back_an_operation_and_can_be_taken_back(
    script: list[tuple[str, int]], last: tuple[str, int], more: int
) -> None:
    with database() as (log, _):
        player = Player(log.agent("default"))
        player.play_all(script)
        before = view(player.agent)
        operation = player.play(*last)
        assume(operation)
        after = view(player.agent)
        extra = [(player.agent.append("user", f"more {n}"), f"more {n}") for n in range(more)]
        restore = player.agent.do(f"/restore {operation}").event_id
        assert view(player.agent) == (before[0] + extra, before[1])
        player.agent.do(f"/restore {restore}")
        assert view(player.agent) == (after[0] + extra, after[1])


@given(script=SCRIPT, parents=SCRIPT, childs=SCRIPT)
def test_l6_parent_and_child_are_independent(
    script: list[tuple[str, int]], parents: list[tuple[str, int]], childs: list[tuple[str, int]]
) -> None:
    with database() as (log, _):
        parent = Player(log.agent("default"))
        parent.play_all(script)
        child = Player(log.agent(parent.agent.do("/fork").data["child"]))
        born = view(child.agent)
        assert born == (view(parent.agent)[0], {})
        parent.play_all(parents)
        assert view(child.agent) == born
        there = view(parent.agent)
        child.play_all(childs)
        assert view(parent.agent) == there


@given(script=SCRIPT)
def test_l1_the_same_history_gives_the_same_context(script: list[tuple[str, int]]) -> None:
    with database() as (log, path), database() as (other, _):
        first, second = Player(log.agent("default")), Player(other.agent("default"))
        first.play_all(script)
        second.play_all(script)
        assert [text for _, text in view(first.agent)[0]] == [text for _, text in view(second.agent)[0]]
        assert view(first.agent)[1].keys() == view(second.agent)[1].keys()
        again = foldmark.open(path)
        assert view(again.agent("default")) == view(first.agent)
        again.close()
