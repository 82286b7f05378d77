"""Every operation of SPEC 3 and 4 in random histories of a tree of agents, compared with the naive model.

`FOLDMARK_DEEP=1` runs 10,000 histories; `FOLDMARK_PART=1/2` and `2/2` split them between two processes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from naive_model import NaiveAgent, Operation, RefusedError
from side_by_side import MODELS, TOPICS, Pair, SideBySide

from foldmark.operations.effects import AskModel
from foldmark.sending.status import is_unanswered
from planning_talk import IN_CHAT

NAMES = ["A", "B", "a", "mark-1", "mark-2"]
MOST_AGENTS = 5
WHO = st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3, 4])  # some depth for the first agents rather than breadth for all
NAME = st.sampled_from(NAMES)
MAYBE_NAME = st.one_of(st.none(), NAME)
PICK = st.integers(0, 10**6)
MOSTLY = st.sampled_from([True, True, True, False])
MODE = st.sampled_from(["forget", "remember"])
CALL_IDS = ["c1", "c2", "c3"]
UNKNOWN_ID = 10**9
SLASH = st.tuples(st.sampled_from(["mark", "mark", "clear", "fork"]), st.one_of(st.none(), st.sampled_from(NAMES[:2])))


class Histories(SideBySide, RuleBasedStateMachine):
    """Each rule applies one step to the product and to the model."""

    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        SideBySide.__init__(self)

    def teardown(self) -> None:
        try:
            self.check_doctor()
        finally:
            self.close()

    @invariant()
    def same_as_the_model(self) -> None:
        self.check()

    def some_turn(self, pair: Pair, known: bool, pick: int) -> int:
        """Return a turn of the lineage, or any id: another agent's turn, a message, an operation, or no event."""
        turns = sorted({m.turn for m in pair.model.lineage() if m.turn is not None})
        choice = turns if known and turns else [*self.ids, UNKNOWN_ID]
        return choice[pick % len(choice)]

    def with_name(self, word: str, name: str | None) -> str:
        return f"{word} {name}" if name else word

    # -- messages ---------------------------------------------------------------------------------

    @initialize(turns=st.integers(0, 3))
    def conversation(self, turns: int) -> None:
        self.add(self.log.agent("default"), NaiveAgent())
        for calls in range(turns):
            self.whole_turn(0, calls, calls == 1)

    @precondition(lambda self: len(self.pairs) == 1)
    @rule()
    def another_conversation(self) -> None:
        self.add(self.log.agent("another"), NaiveAgent())

    @rule(who=WHO, kind=st.sampled_from(["user", "user", "client", "assistant", "assistant", "system", "tool"]))
    def message(self, who: int, kind: str) -> None:
        self.say(self.pair(who), kind)

    @rule(who=WHO, marks=st.integers(0, 1))
    def answer_with_state(self, who: int, marks: int) -> None:
        """A state block follows its message; a mark may lie between the two."""
        pair = self.pair(who)
        event_id = self.say(pair, "assistant")
        for _ in range(marks):
            self.mark(who, None)
        if event_id in pair.model.visible():
            self.state(pair)

    @rule(who=WHO)
    def write_scratchpad(self, who: int) -> None:
        self.scratchpad(self.pair(who))

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
            if pair.model.result_kind(call_id) == "user" or (
                not pair.model.settling() and (not opened or call in opened[-1])
            ):
                self.result(pair, call_id)

    @rule(who=WHO, name=NAME)
    def mark_between_calls_and_results(self, who: int, name: str) -> None:
        """Set a mark inside an exchange and leave it open; `tool_result` may close it."""
        self.tool_calls(who, True, CALL_IDS[:1])
        self.mark(who, name)

    @rule(who=WHO)
    def end_turn(self, who: int) -> None:
        self.end(self.pair(who))

    @rule(who=WHO, calls=st.integers(0, 2), state=st.booleans())
    def whole_turn(self, who: int, calls: int, state: bool) -> None:
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
        if state:
            self.state(pair)
        self.end(pair)

    # -- operations -------------------------------------------------------------------------------

    @rule(who=WHO, name=MAYBE_NAME, actor=st.sampled_from(["human", "model"]))
    def mark(self, who: int, name: str | None, actor: str = "human") -> None:
        pair = self.pair(who)
        self.operate(pair, self.with_name("/mark", name), lambda: pair.model.mark(name), actor)

    @rule(who=WHO, actor=st.sampled_from(["human", "model"]))
    def clear(self, who: int, actor: str = "human") -> None:
        pair = self.pair(who)
        if not pair.model.settling():
            self.operate(pair, "/clear", pair.model.clear, actor)

    @rule(who=WHO, word=st.sampled_from(["clear", "rewind"]), name=MAYBE_NAME, known=MOSTLY, pick=PICK)
    def rewind(self, who: int, word: str, name: str | None, known: bool, pick: int) -> None:
        """Rewind to an existing mark, to any name, or to the newest mark."""
        pair = self.pair(who)
        if pair.model.settling():
            return
        if known and not pair.model.marks():
            self.mark(who, name)
            self.whole_turn(who, 1, True)
        marks = sorted(pair.model.marks())
        target = marks[pick % len(marks)] if known else name
        word = "clear" if target and word == "clear" else "rewind"
        self.operate(pair, self.with_name(f"/{word}", target), lambda: pair.model.rewind(target))

    @rule(who=WHO, known=MOSTLY, pick=PICK)
    def rewind_to_a_turn(self, who: int, known: bool, pick: int) -> None:
        pair = self.pair(who)
        gid = self.some_turn(pair, known, pick)
        if not pair.model.settling() and gid not in map(int, filter(str.isdigit, pair.model.marks())):
            self.operate(pair, f"/rewind {gid}", lambda: pair.model.rewind_to(gid))

    @rule(who=WHO, name=MAYBE_NAME, actor=st.sampled_from(["human", "model"]))
    def fork(self, who: int, name: str | None, actor: str) -> None:
        pair = self.pair(who)
        if pair.model.settling() or (len(self.pairs) >= MOST_AGENTS and not pair.model.planning):
            return
        result = self.operate(pair, self.with_name("/fork", name), lambda: pair.model.fork(name), actor)
        if result:
            self.born(pair, result.data["child"])

    @rule(who=WHO, known=MOSTLY, pick=PICK)
    def fork_from_a_turn(self, who: int, known: bool, pick: int) -> None:
        pair = self.pair(who)
        gid = self.some_turn(pair, known, pick)
        named = gid in map(int, filter(str.isdigit, pair.model.marks()))
        if pair.model.settling() or named or (len(self.pairs) >= MOST_AGENTS and not pair.model.planning):
            return
        result = self.operate(pair, f"/fork {gid}", lambda: pair.model.fork_from(gid))
        if result:
            self.born(pair, result.data["child"])

    @rule(who=WHO, answered=MOSTLY, calls=st.integers(0, 2))
    def retry(self, who: int, answered: bool, calls: int) -> None:
        """Only an answered question is asked again; an unanswered one is still to be answered."""
        pair = self.pair(who)
        if answered and not pair.model.planning and not pair.model.settling():
            self.whole_turn(who, calls, False)
        with pair.real.reading() as (moment, at):
            unanswered = is_unanswered(moment, at)
        if unanswered:
            assert isinstance(pair.real.do("/retry").effect, AskModel)
        elif not pair.model.settling():
            self.operate(pair, "/retry", lambda: pair.model.retry(self.quotes))

    def born(self, pair: Pair, uuid: str) -> None:
        fork = pair.model.events[-1]
        assert isinstance(fork, Operation)
        self.add(self.log.agent(uuid), pair.model.child(fork))

    @rule(who=WHO)
    def undo(self, who: int) -> None:
        pair = self.pair(who)
        if not pair.model.settling():
            self.operate(pair, "/undo", pair.model.undo)

    @rule(who=WHO, known=MOSTLY, pick=PICK)
    def drop(self, who: int, known: bool, pick: int) -> None:
        pair = self.pair(who)
        gid = self.some_turn(pair, known, pick)
        if not pair.model.settling():
            self.operate(pair, f"/context drop {gid}", lambda: pair.model.drop(gid))

    @rule(who=WHO, known=MOSTLY, pick=PICK)
    def restore(self, who: int, known: bool, pick: int) -> None:
        """Restore an operation of this agent, or any id."""
        pair = self.pair(who)
        own = [*(e.id for e in pair.model.events if isinstance(e, Operation)), *pair.changes]
        choice = own if known and own else [*self.ids, UNKNOWN_ID]
        target = choice[pick % len(choice)]
        if target in pair.changes:
            self.take_back(pair, target)
            return
        self.operate(pair, f"/restore {target}", lambda: pair.model.restore(target))

    @rule(who=WHO, data=st.data(), mode=MODE)
    def apply_filter(self, who: int, data: st.DataObject, mode: str) -> None:
        """Filter messages of the lineage, visible or not, sometimes with a run of own ones as planning conversation.

        SPEC does not say whether a planning conversation stays open when another filter subtracts its first message.
        """
        pair = self.pair(who)
        lineage = [m.id for m in pair.model.lineage() if m.turn not in self.erased]
        ids = data.draw(st.lists(st.sampled_from(lineage), unique=True, max_size=6)) if lineage else []
        planning, own = None, [m.id for m in pair.model.own]
        if own and bool(data.draw(st.booleans())):
            first = data.draw(st.integers(0, len(own) - 1))
            planning = own[first], own[min(first + data.draw(st.integers(0, 3)), len(own) - 1)]
        operation = (pair.model.forget if mode == "forget" else pair.model.remember)(ids, planning)
        if pair.model.planning in operation.messages:
            return
        event_id = self.seen(pair.real.apply_filter(mode, ids, planning=planning, criteria="random"))
        self.record(pair, operation, event_id)

    @rule(
        who=WHO,
        first=st.sampled_from(["mark", "clear", "rewind", "undo", "drop", "forget", "remember"]),
        second=st.sampled_from(["mark", "clear", "rewind", "undo", "drop", "forget", "remember"]),
        pick=PICK,
        data=st.data(),
    )
    def restore_the_one_before(self, who: int, first: str, second: str, pick: int, data: st.DataObject) -> None:
        """Resolved when recorded: the second operation keeps its meaning when the first is undone."""
        pair = self.pair(who)
        operate: dict[str, Callable[[], None]] = {
            "mark": lambda: self.mark(who, None),
            "clear": lambda: self.clear(who),
            "rewind": lambda: self.rewind(who, "rewind", None, True, pick),
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

    # -- operations that models issue during a turn -------------------------------------------------

    @rule(who=WHO, text=st.booleans(), probes=st.integers(0, 2), commands=st.lists(SLASH, min_size=1, max_size=2))
    def model_batch(self, who: int, text: bool, probes: int, commands: list[tuple[str, str | None]]) -> None:
        """SPEC 3: operations take effect at once, and in a batch of calls they run last, in order."""
        pair = self.pair(who)
        if pair.model.open_exchanges() or pair.model.settling():
            return
        if text:
            self.say(pair, "assistant")
        for n in range(probes):
            self.call(pair, f"probe-{n}")
        slashes = [{"command": word, "args": name or ""} for word, name in commands]
        for n, args in enumerate(slashes):
            self.call(pair, f"slash-{n}", "slash", args)
        for n in reversed(range(probes)):
            self.result(pair, f"probe-{n}")
        for n, (word, name) in enumerate(commands):
            done = self.slash(pair, word, name, slashes[n])
            rewound = done and word == "clear" and name
            # No full stop: from the second rewind in one turn on, the notice continues with the count.
            self.result(pair, f"slash-{n}", f"Rewound to '{name}' at your request" if rewound else "")

    def slash(self, pair: Pair, word: str, name: str | None, args: dict[str, Any]) -> bool:
        """Run a command by the tool. It returns only text, so the ids of the operation and of a child are read from the
        database."""
        plans: dict[str, Callable[[], Operation]] = {
            "mark": lambda: pair.model.mark(name),
            "clear": lambda: pair.model.rewind(name) if name else pair.model.clear(),
            "fork": lambda: pair.model.fork(name),
        }
        if word == "fork" and len(self.pairs) >= MOST_AGENTS and not pair.model.planning:
            return False
        try:
            operation = plans[word]()
        except RefusedError as reason:
            self.refuse_tool(pair, "slash", args, str(reason))
            return False
        before = {child.id for child in pair.real.children}
        pair.real.call_tool("slash", args)
        self.record(pair, operation, self.seen(pair.real.standing().newest))
        if word == "fork":
            (child,) = {child.id for child in pair.real.children} - before
            self.born(pair, child)
        return True

    # -- forget and remember (SPEC 4.2) -------------------------------------------------------------

    @rule(who=WHO, mode=MODE, topic=st.sampled_from(TOPICS))
    def plan(self, who: int, mode: str, topic: str) -> None:
        """Start planning in a new turn. It replaces an open planning conversation; here `/cancel` ends that first."""
        pair = self.pair(who)
        if pair.model.settling() or pair.model.open_exchanges():
            return
        self.end(pair)
        if pair.model.planning:
            if self.said(pair, pair.model.planning):
                return
            self.operate(pair, "/cancel", pair.model.cancel)
        result = pair.real.do(f"/{mode} {topic}", asking=IN_CHAT)
        first = self.seen(result.data["planning"])
        (message,) = [m for m in pair.real.context().messages if m.id == first]
        if message.turn_id == first:
            pair.model.end_turn()
        pair.model.append("user", first)
        pair.model.planning, pair.mode, pair.criteria, pair.preview, pair.yes = first, mode, topic, None, None

    @rule(who=WHO, as_call=st.booleans())
    def preview(self, who: int, as_call: bool) -> None:
        """A preview changes nothing. Its matches are visible, and neither of kind `system` nor planning messages."""
        pair = self.pair(who)
        if not pair.model.planning or (as_call and pair.model.open_exchanges()):
            return
        args = {"action": "preview", "criteria": pair.criteria, "mode": pair.mode}
        if as_call:
            self.call(pair, "preview", "filter_context", args)
        told = json.loads(pair.real.call_tool("filter_context", args))
        matches = {m["id"]: m for m in told["matching_messages"]}
        kinds = {m.id: m.kind for m in pair.model.lineage()}
        assert told["message_count"] == len(matches) == len(told["matching_messages"])
        assert matches.keys() <= {i for i in pair.model.visible() if kinds[i] != "system"}
        assert not matches.keys() & {m.id for m in pair.model.own if m.id >= pair.model.planning}
        self.look(pair)
        assert told["token_estimate"] == sum(self.tokens[i] for i in matches)
        pair.preview, pair.yes = set(matches), None
        if as_call:
            self.result(pair, "preview")
        pair.preview_at = self.newest()

    @rule(who=WHO, text=st.sampled_from(["Yes", "yes, proceed", "No, not yet."]))
    def reply(self, who: int, text: str) -> None:
        """A person answers the preview, in the turn of the planning conversation or in the next one."""
        pair = self.pair(who)
        if pair.model.planning and pair.preview is not None:
            event_id = self.say(pair, "user", text)
            pair.yes = event_id if text.lower().startswith("yes") else None

    @rule(who=WHO, data=st.data(), wrong=st.sampled_from([False] * 5 + [True]), as_call=st.booleans())
    def apply(self, who: int, data: st.DataObject, wrong: bool, as_call: bool) -> None:
        """Apply needs a preview, a yes after it, and ids of the preview. It also removes the planning conversation."""
        pair = self.pair(who)
        model = pair.model
        if model.settling() or model.turn is None or (as_call and model.open_exchanges()):
            return
        visible = set(model.visible())
        choice = sorted((pair.preview or set()) & visible)
        ids = data.draw(st.lists(st.sampled_from(choice), unique=True, min_size=1)) if choice else []
        if pair.mode == "remember":  # to keep fewer would forget messages without a person's agreement
            ids = sorted(pair.preview or ())
        planning = [m.id for m in model.own if model.planning and m.id >= model.planning and m.id in visible]
        others = sorted(visible - model.whole(choice) - set(planning))
        refused = pair.preview is None or pair.yes is None
        newest = [m.id for m in model.own if m.kind == "user"][-1:]
        if not refused and (not ids or [pair.yes] != newest or pair.yes not in visible):
            return
        if not refused and self.said(pair, pair.preview_at) != [pair.yes]:  # a yes must be the very next user message
            return
        if wrong and others:
            refused, ids = True, [*ids, others[0]]
        args = {"action": "apply", "mode": pair.mode, "message_ids": ids, "planning_conversation_ids": planning}
        if as_call:
            self.call(pair, "apply", "filter_context", args)
        if refused:
            self.refuse_tool(pair, "filter_context", args, "no preview, no yes, or ids that were not shown")
        else:
            self.apply_planned(pair, ids, args)
        if as_call:
            self.result(pair, "apply")

    def apply_planned(self, pair: Pair, ids: list[int], args: dict[str, Any]) -> None:
        operation = pair.model.apply(pair.mode, ids)
        before = set(pair.model.visible())
        planned = {m.id for m in pair.model.own if m.id >= (pair.model.planning or 0)}
        told = json.loads(pair.real.call_tool("filter_context", args))
        self.record(pair, operation, self.seen(told["filter_event_id"]))
        after = set(pair.model.visible())
        if pair.model.whole(planned) == planned:
            assert told["context_before"] == len(before - planned)
            assert told["context_after"] == len(after - planned)
            assert told["messages_filtered"] == len(before - planned - after)

    @rule(who=WHO, mode=MODE, topic=st.sampled_from(TOPICS), known=MOSTLY)
    def cancel(self, who: int, mode: str, topic: str, known: bool) -> None:
        pair = self.pair(who)
        if known and not pair.model.planning:
            self.plan(who, mode, topic)
        if pair.model.planning and self.said(pair, pair.model.planning):
            self.end(pair)  # a person's message about something else is no part of it
            if pair.model.planning:
                return
        if not pair.model.settling():
            self.operate(pair, "/cancel", pair.model.cancel)

    @rule(who=WHO, mode=MODE, topic=st.sampled_from(TOPICS), data=st.data(), turns=st.integers(0, 3), done=MOSTLY)
    def whole_dialogue(self, who: int, mode: str, topic: str, data: st.DataObject, turns: int, done: bool) -> None:
        """Play the flow of [S1], in one turn or in several."""
        pair = self.pair(who)
        if pair.model.planning or pair.model.settling() or pair.model.open_exchanges():
            return
        self.plan(who, mode, topic)
        self.say(pair, "assistant")
        if turns & 1:
            self.end(pair)
            self.say(pair, "user", "Show me first.")
        self.preview(who, True)
        self.say(pair, "assistant")
        if turns & 2:
            self.end(pair)
        self.reply(who, "Yes, proceed")
        self.apply(who, data, False, True)
        if done:
            self.say(pair, "assistant", "Done.")
            self.end(pair)

    # -- summaries, pins, notes, erasing ------------------------------------------------------------

    @rule(who=WHO, name=MAYBE_NAME, known=MOSTLY, pick=PICK)
    def summarize(self, who: int, name: str | None, known: bool, pick: int) -> None:
        pair = self.pair(who)
        marks = sorted(pair.model.marks())
        target = [*marks, None][pick % (len(marks) + 1)] if known else name
        if not pair.model.planning and not pair.model.settling():
            self.operate(pair, self.with_name("/summarize", target), lambda: pair.model.summarize(target))

    @rule(who=WHO, known=MOSTLY, pick=PICK, length=st.integers(0, 6))
    def summarize_span(self, who: int, known: bool, pick: int, length: int) -> None:
        """Summarize from one visible message to another, or between any two ids."""
        pair = self.pair(who)
        model = pair.model
        choice = model.visible() if known and model.visible() else [*self.ids, UNKNOWN_ID]
        first = choice[pick % len(choice)]
        last = choice[min(pick % len(choice) + length, len(choice) - 1)]
        if not model.planning and not model.settling():
            self.operate(pair, f"/summarize {first}..{last}", lambda: model.summarize_span(first, last))

    @rule(who=WHO, known=MOSTLY, pick=PICK, off=st.booleans())
    def pin_or_unpin(self, who: int, known: bool, pick: int, off: bool) -> None:
        """Erased turns are left out, because SPEC does not say whether their pins remain."""
        pair = self.pair(who)
        pinned = sorted(pair.model.folded().pins)
        gid = pinned[pick % len(pinned)] if known and off and pinned else self.some_turn(pair, known, pick)
        if off and (pinned or not known) and gid not in self.erased:
            self.operate(pair, f"/unpin {gid}", lambda: pair.model.unpin(gid))
        elif gid not in self.erased:
            self.operate(pair, f"/pin {gid}", lambda: pair.model.pin(gid))

    @rule(who=WHO, known=MOSTLY, pick=PICK, most=st.integers(1, 3), tool=st.booleans())
    def evict(self, who: int, known: bool, pick: int, most: int, tool: bool) -> None:
        """Evict results of the context, or any ids, as a person or with the model's tool."""
        pair = self.pair(who)
        kinds = {m.id: m.kind for m in pair.model.lineage()}
        results = [
            i for i in pair.model.visible() if kinds[i] == "tool_result" and i not in pair.model.folded().evicted
        ]
        choice = results if known and results else [*self.ids, UNKNOWN_ID]
        ids = sorted({choice[(pick + n) % len(choice)] for n in range(most)})
        if not tool:
            self.operate(pair, f"/context evict {' '.join(map(str, ids))}", lambda: pair.model.evict(ids))
            return
        try:
            operation = pair.model.evict(ids)
        except RefusedError as reason:
            self.refuse_tool(pair, "evict", {"ids": ids}, str(reason))
            return
        pair.real.call_tool("evict", {"ids": ids})
        self.record(pair, operation, self.seen(pair.real.standing().newest))

    @rule(who=WHO)
    def note(self, who: int) -> None:
        """A note joins the open turn, or is a separate turn."""
        pair, text = self.pair(who), self.text()
        own_turn = pair.model.turn is None
        event_id = self.seen(pair.real.do(f"/note {text}").data["message"])
        pair.model.append("user", event_id)
        self.stored[event_id] = ("user", text)
        if own_turn:
            self.talked_past(pair, event_id)
            pair.model.end_turn()

    @rule(who=WHO, known=MOSTLY, pick=PICK)
    def remove(self, who: int, known: bool, pick: int) -> None:
        """Erase a turn everywhere. SPEC does not say what happens to a planning conversation that began in it."""
        pair = self.pair(who)
        if pair.model.planning:
            self.end(pair)
        gid = self.some_turn(pair, known, pick)
        planned = {m.turn for p in self.pairs for m in p.model.own if m.id == p.model.planning}
        if gid not in planned:
            elsewhere = self.open_elsewhere(pair)
            self.operate(pair, f"/message remove {gid} --yes", lambda: pair.model.redact(gid, elsewhere))

    # -- refusals and displays ------------------------------------------------------------------------

    @rule(
        who=WHO,
        command=st.sampled_from(
            [
                "/nope",
                "/mark A B",
                "/clear A B",
                "/fork A B",
                "/undo 1",
                "/restore x",
                "/context drop",
                "/context evict",
            ]
        ),
    )
    def malformed_command(self, who: int, command: str) -> None:
        self.refuse(self.pair(who), command, "it is malformed")

    @rule(who=WHO, command=st.sampled_from(["/undo", "/rewind", "/restore 1", "/context drop 1"]))
    def not_for_models(self, who: int, command: str) -> None:
        pair = self.pair(who)
        self.must_fail(lambda: pair.real.do(command, actor="model"), f"{command} is not for a model (SPEC 4)")

    @rule(who=WHO, pick=PICK)
    def explain(self, who: int, pick: int) -> None:
        pair = self.pair(who)
        lineage = pair.model.lineage()
        if lineage:
            self.check_explained(pair, lineage[pick % len(lineage)].id)

    @rule(who=WHO, pick=PICK)
    def look_back(self, who: int, pick: int) -> None:
        pair = self.pair(who)
        past = sorted(pair.past)
        if past:
            self.check_past(pair, past[pick % len(past)])

    @rule(who=WHO, provider=st.sampled_from(sorted(MODELS)))
    def request(self, who: int, provider: str) -> None:
        pair = self.pair(who)
        if pair.model.visible():
            self.check_request(pair, provider)

    @rule()
    def reopen_the_database(self) -> None:
        """L1: everything is the same after a restart."""
        self.check_doctor()
        self.reopen()


def _settings() -> settings:
    if os.environ.get("FOLDMARK_DEEP") != "1":
        return settings(max_examples=6, stateful_step_count=30)
    parts = int(os.environ.get("FOLDMARK_PART", "1/1").split("/")[1])
    return settings(
        max_examples=10_000 // parts,
        stateful_step_count=30,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


Histories.TestCase.settings = settings(_settings(), deadline=None)
if part := os.environ.get("FOLDMARK_PART"):
    seed(int(part.split("/")[0]))(Histories)
TestAllOperations = Histories.TestCase
