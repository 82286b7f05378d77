"""A database of the product with its naive models: applies each step to both and compares them (SPEC 3, 4, 9)."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from elsewhere import Elsewhere
from naive_model import NaiveAgent, Operation, RefusedError

import foldmark
from foldmark.core import selections
from foldmark.log.doctor import examine
from stored import stored

sys.path.append(str(Path(__file__).parents[1] / "wire"))
VALIDATORS: dict[str, Callable[[dict[str, Any]], list[str]]] = import_module("request_validators").VALIDATORS
MODELS = {"openai": "gpt-5", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-pro"}
# Durability is tested elsewhere. Here an in-memory file system, if there is one, avoids waiting for the disk.
FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
TOPICS = ["apples", "bread", "cedars"]


@dataclass(frozen=True)
class Past:
    """A context as it was."""

    visible: list[tuple[int, str]]
    marks: dict[str, int]
    pins: set[int]
    state: str | None
    evicted: set[int] = field(default_factory=set)


@dataclass
class Pair:
    """An agent of the database, its model, and the test's notes about it."""

    uuid: str
    real: Any
    model: NaiveAgent
    mode: str = "forget"  # of the open planning conversation
    criteria: str = ""
    preview: set[int] | None = None  # the ids that it matched; None without a valid preview
    preview_at: int = 0  # the newest event when it was made
    yes: int | None = None  # the person's message that agreed to the preview
    past: dict[int, Past] = field(default_factory=dict)  # event id -> the context after it
    changes: dict[int, tuple[str, Any] | int] = field(default_factory=dict)  # event id -> the setting, or its restore

    def taken_back(self) -> set[int]:
        """Return the changes of settings that a restore takes back."""
        back: set[int] = set()
        for event_id, what in reversed(self.changes.items()):
            if isinstance(what, int) and event_id not in back:
                back.add(what)
        return back


class SideBySide:
    """One database and the models of its agents, which must be equal after every step."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(dir=FOLDER)
        self.path = str(Path(self.folder.name) / "chat.db")
        self.log: Any = foldmark.open(self.path)
        self.elsewhere = Elsewhere(self.log, self.path)
        self.pairs: list[Pair] = []
        self.ids: list[int] = []
        self.erased: dict[int, int] = {}
        self.stored: dict[int, tuple[str, str]] = {}
        self.tokens: dict[int, int] = {}
        self.quotes: dict[int, list[str]] = {}

    def close(self) -> None:
        self.elsewhere.close()
        self.log.close()
        self.folder.cleanup()

    def reopen(self) -> None:
        self.elsewhere.close()
        self.log.close()
        self.log = foldmark.open(self.path)
        self.elsewhere = Elsewhere(self.log, self.path)
        for pair in self.pairs:
            pair.real = self.log.agent(pair.uuid)

    # -- agents and messages ------------------------------------------------------------------------

    def add(self, real: Any, model: NaiveAgent) -> None:
        model.erased = self.erased
        self.pairs.append(Pair(real.id, real, model))

    def pair(self, who: int) -> Pair:
        return self.pairs[who % len(self.pairs)]

    def seen(self, event_id: Any) -> int:
        """Check and note an id. SPEC 1: ids are integers, unique in the database and increasing in commit order."""
        assert isinstance(event_id, int)
        assert event_id > self.newest()
        self.ids.append(event_id)
        return event_id

    def newest(self) -> int:
        return self.ids[-1] if self.ids else 0

    def text(self) -> str:
        """Return a short, unique text about one of a few topics."""
        return f"text-{len(self.ids)} {TOPICS[len(self.ids) % len(TOPICS)]}."

    def say(self, pair: Pair, kind: str, text: str | None = None) -> int:
        text = text or self.text()
        event_id = self.seen(pair.real.append(kind, text))
        pair.model.append(kind, event_id)
        self.stored[event_id] = (kind, text)
        return event_id

    def call(self, pair: Pair, call_id: str, name: str = "probe", args: dict[str, Any] | None = None) -> None:
        args = args or {"n": len(self.ids)}
        event_id = self.seen(pair.real.append_tool_call(name, args, call_id=call_id, dialect="openai"))
        pair.model.append("tool_call", event_id, call_id)

    def result(self, pair: Pair, call_id: str, happened: str = "") -> None:
        """Append the result of a call, or the notice that replaces it if the call has left the context."""
        text, kind = self.text(), pair.model.result_kind(call_id)
        event_id = self.seen(pair.real.append_tool_result(call_id, text, dialect="openai"))
        pair.model.append(kind, event_id, call_id)
        if kind == "user":
            self.quotes[event_id] = [happened, text]
        else:
            self.stored[event_id] = (kind, text)

    def state(self, pair: Pair) -> None:
        text = f"### STATE\nGoal: {self.text()}"
        pair.model.record_state(self.seen(pair.real.record("state", text)), text)

    def scratchpad(self, pair: Pair) -> None:
        pair.model.scratchpad = self.text()
        self.seen(pair.real.record("scratchpad", pair.model.scratchpad))

    def end(self, pair: Pair) -> None:
        if pair.model.turn is not None:
            before = self.newest()
            pair.real.end_turn()
            self.talked_past(pair, before)
            pair.model.end_turn()

    def talked_past(self, pair: Pair, before: int) -> None:
        """SPEC 4.2: if a person's message is about something else, planning ends with that turn, and its range ends
        before that message."""
        for event in selections.operations(stored(pair.real.log), pair.uuid, after=before):
            if event.kind != "filter" or event.actor != "system":
                continue
            assert event.data is not None
            first, last = event.data["planning"]
            following = next(m for m in pair.model.own if m.id > last)
            assert first == pair.model.planning
            assert following.kind == "user"
            assert following.id > first
            assert [m.id for m in pair.model.own if m.id <= last][-1] == last
            operation = replace(pair.model.forget((), (first, last)), planning=first, until=last)
            self.record(pair, operation, self.seen(event.id))

    def said(self, pair: Pair, since: int) -> list[int]:
        """Return the user messages since an event, including notices."""
        return [m.id for m in pair.model.own if m.kind == "user" and m.id > since]

    # -- operations -----------------------------------------------------------------------------------

    def operate(self, pair: Pair, command: str, plan: Callable[[], Operation], actor: str = "human") -> Any:
        """Run a command, which must raise CommandError exactly when the model refuses it, and check the receipt."""
        try:
            operation = plan()
        except RefusedError as reason:
            self.refuse(pair, command, str(reason))
            return None
        before, evicted = self.look(pair), pair.model.folded().evicted
        result = pair.real.do(command) if actor == "human" else pair.real.do(command, actor=actor)
        self.record(pair, operation, self.seen(result.event_id))
        assert result.data["actor"] == actor
        self.check_receipt(result.data, before, self.look(pair))
        self.check_evicted(result.data, evicted, pair.model)
        return result

    def change(self, pair: Pair, key: str, value: str) -> None:
        """Change a setting. The context stays."""
        before = self.look(pair)
        result = pair.real.do(f"/config set {key}={value}")
        if result.event_id is not None:
            assert result.data["back"] == f"/restore {self.seen(result.event_id)}"
            pair.changes[result.event_id] = key, getattr(pair.real.standing().config, key)
        assert self.look(pair) == before

    def take_back(self, pair: Pair, target: int) -> None:
        """Take a change of a setting back, or forth. What counts then is the newest change that was not taken back."""
        if target in pair.taken_back():
            self.refuse(pair, f"/restore {target}", f"{target} was taken back")
            return
        before = self.look(pair)
        pair.changes[self.seen(pair.real.do(f"/restore {target}").event_id)] = target
        assert self.look(pair) == before
        back, settings = pair.taken_back(), pair.real.standing().settings
        made = {what[0]: None for what in pair.changes.values() if not isinstance(what, int)}
        counting = [what for id, what in pair.changes.items() if not isinstance(what, int) and id not in back]
        for key, value in {**made, **dict(counting)}.items():
            assert value is None or settings[key] == value

    def record(self, pair: Pair, operation: Operation, event_id: int) -> None:
        """Record an operation in the model and update the notes about the planning conversation."""
        if operation.kind == "redact":
            pair.model.erase(operation, event_id)
        else:
            pair.model.record(operation, event_id)
        changed = operation.kind not in ("mark", "pin", "unpin", "evict", "fork")
        if not pair.model.planning or changed:  # a change of the segments ends an offer
            pair.preview, pair.yes = None, None

    def refuse(self, pair: Pair, command: str, reason: str) -> None:
        self.must_fail(lambda: pair.real.do(command), f"{command!r} should be an error ({reason})")

    def refuse_tool(self, pair: Pair, tool: str, args: dict[str, Any], reason: str) -> None:
        self.must_fail(lambda: pair.real.call_tool(tool, args), f"{tool} {args} should be an error ({reason})")

    @staticmethod
    def must_fail(run: Callable[[], Any], message: str) -> None:
        try:
            result = run()
        except foldmark.CommandError:
            return
        raise AssertionError(f"{message} but gave {result!r}")

    def open_elsewhere(self, pair: Pair) -> set[int]:
        return {p.model.turn for p in self.pairs if p is not pair and p.model.turn is not None}

    # -- comparing ------------------------------------------------------------------------------------

    def look(self, pair: Pair) -> list[int]:
        """Return the ids in a context, and note their tokens."""
        messages = list(pair.real.context().messages)
        for m in messages:
            assert self.tokens.setdefault(m.id, m.tokens) == m.tokens
        return [m.id for m in messages]

    def check_receipt(self, data: dict[str, Any], before: Iterable[int], after: Iterable[int]) -> None:
        """Check a receipt (SPEC 4): messages and tokens that left or came back, and the context before and after."""
        old, new = set(before), set(after)
        back = {i for i in new - old if i != self.newest()}  # a new summary did not come back
        parts = {"left": old - new, "returned": back, "before": old, "after": new}
        expected = {k: {"messages": len(ids), "tokens": sum(self.tokens[i] for i in ids)} for k, ids in parts.items()}
        assert {k: data[k] for k in parts} == expected

    def check_evicted(self, data: dict[str, Any], before: set[int], model: NaiveAgent) -> None:
        """Check how many results are sent as placeholders from now on, and how many whole again (SPEC 5.7)."""
        visible, after = set(model.visible()), model.folded().evicted
        for name, ids in (("evicted", (after - before) & visible), ("whole_again", (before - after) & visible)):
            expected = {"results": len(ids), "tokens": sum(self.tokens[i] for i in ids)}
            assert data.get(name, {"results": 0, "tokens": 0}) == expected

    def check(self) -> None:
        """Compare all contexts with the naive fold. Because every agent is compared, this also covers L5 and L6."""
        for pair in self.pairs:
            context, model = pair.real.context(), pair.model
            visible, marks = model.fold()
            kinds = {m.id: m.kind for m in model.lineage()}
            messages = list(context.messages)
            assert [(m.id, m.kind) for m in messages] == [(i, kinds[i]) for i in visible]
            assert dict(context.marks) == marks
            assert set(context.pins) - self.erased.keys() == model.folded().pins - self.erased.keys()
            assert set(context.evicted) & set(visible) == model.folded().evicted & set(visible)
            assert context.state == model.state()
            assert context.scratchpad == model.scratchpad
            self.check_contents(messages)
            self.check_segments([(s.agent, s.first, s.last) for s in context.segments], visible)
            if model.events:
                past = Past([(i, kinds[i]) for i in visible], dict(marks), set(model.folded().pins), model.state())
                past = replace(past, evicted=model.folded().evicted & set(visible))
                pair.past[model.events[-1].id] = past

    def check_contents(self, messages: list[Any]) -> None:
        """L2: stored texts never change, and a notice quotes the result it replaces. Tokens: SPEC 2."""
        for m in messages:
            assert self.stored.setdefault(m.id, (m.kind, m.content)) == (m.kind, m.content)
            if m.id in self.quotes:
                assert m.actor == "system"
                assert all(quote in m.content for quote in self.quotes[m.id])
            assert self.tokens.setdefault(m.id, m.tokens) == m.tokens
            if m.data is None:
                assert m.tokens == -(-len(m.content.encode()) // 4)

    def check_segments(self, segments: list[tuple[str, int, int]], visible: list[int]) -> None:
        """Segments are sorted and disjoint and, except for erased turns, contain exactly the visible messages."""
        models = {pair.uuid: pair.model for pair in self.pairs}
        bounds = [bound for _, first, last in segments for bound in (first, last + 1)]
        assert bounds == sorted(bounds)
        own = [m for agent, first, last in segments for m in models[agent].own if first <= m.id <= last]
        assert [m.id for m in own if m.turn not in self.erased] == visible

    def check_past(self, pair: Pair, event_id: int) -> None:
        """`/context at ID` (SPEC 4): the context as it was after an event. Only a redaction changes the past."""
        past, turns = pair.past[event_id], {m.id: m.turn for m in pair.model.lineage()}
        data = pair.real.do(f"/context at {event_id}").data
        told = sorted((m["id"], m["kind"]) for turn in data["turns"] for m in turn["messages"])
        assert told == [(i, kind) for i, kind in past.visible if turns[i] not in self.erased]
        assert data["marks"] == past.marks
        if not self.erased:
            shown = {i for i, _ in past.visible}
            assert set(data["evicted"]) & shown == past.evicted
            assert (set(data["pins"]), data["state"]) == (past.pins, past.state)

    def check_explained(self, pair: Pair, event_id: int) -> None:
        """`/context explain ID` (SPEC 4): whether a message is in the context; if not, the operations in force that
        removed it."""
        message = next(m for m in pair.model.lineage() if m.id == event_id)
        data = pair.real.do(f"/context explain {event_id}").data
        assert data["in_context"] is (event_id in pair.model.visible())
        if not data["in_context"]:
            named = {operation["id"] for operation in data["because"]}
            assert named
            assert named <= pair.model.reasons(message)

    def check_request(self, pair: Pair, provider: str) -> None:
        """L4: whatever the operations, the provider accepts the request."""
        request = pair.real.request(provider=provider, model=MODELS[provider])
        assert VALIDATORS[provider](request.body) == []
        check_placeholders(request, pair.model)

    def check_doctor(self) -> None:
        """L1 and L7: the values stored with the events equal a fold of the events."""
        assert list(examine(self.log)) == []


def check_placeholders(request: Any, model: NaiveAgent) -> None:
    """A placeholder is sent instead of each evicted result and of no other, so that its call still has a result."""
    results = [part for part in request.manifest.parts if part.kind == "tool_result" and part.event is not None]
    evicted = model.folded().evicted
    assert {part.event for part in results if part.how == "evicted"} == evicted & {part.event for part in results}
    assert all(f"WHERE id={part.event}" in part.text for part in results if part.how == "evicted")
