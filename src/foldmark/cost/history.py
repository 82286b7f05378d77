"""A recorded conversation for the simulator: the requests to its model, the messages visible at each, and the pieces of
requests, each of which is built once for all requests that contain it [SPEC 5.3]. Nothing is written."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from foldmark.core import selections
from foldmark.core.assembly import prompt as prompts
from foldmark.core.assembly.caching import Block
from foldmark.core.assembly.eviction import begins, in_place
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.view import Age, AnsweredCall, CallGroup, Calls, Step, ViewMessage, pair, view
from foldmark.core.codec import stored_time
from foldmark.core.config import Config
from foldmark.core.events import ANSWER_KINDS, Drop, Event, Restore
from foldmark.core.ports import Snapshot
from foldmark.core.replay import recorded
from foldmark.core.request import Part
from foldmark.core.segments import Segment, Segments, since, subtract
from foldmark.log.log import Agent
from foldmark.request.exchanges import read_as, read_by
from foldmark.request.planned import Target
from foldmark.request.standing import Standing, once, showing
from foldmark.tokens.counting import BytesRuler, ruler, uncalibrated

CLEARED = "[Old tool result content cleared]"
"""The approximate text with which a provider replaces tool results that it clears."""


class PastRequest(NamedTuple):
    """One request to the model: the standing of the agent, the time (seconds), the turn, and the first event of the
    answer."""

    at: Standing
    when: float
    turn: int | None
    answer: int


def past_requests(moment: Snapshot, agent: Agent) -> list[PastRequest]:
    """Return every request to the agent's own model: one before each answer, and one before each step in a turn that
    calls tools.

    Answers that are no longer visible count, because they were requested. Turns that were dropped after the last
    message are left out: they are the abandoned branches of an imported session. Times never decrease, even if recorded
    times do. Raises StoreError.
    """
    at = agent.standing_in(moment)
    gone = _dropped_at_the_end(moment, at)
    earliest = max(1, at.record.fork_event)
    found: list[PastRequest] = []
    when = 0.0
    before: Event | None = None
    for event in own_messages(moment, at):
        if begins_answer(before, event) and event.id > earliest:
            found.append(
                PastRequest(_without(moment, agent.stood(moment, event.id - 1), gone), when, event.turn_id, event.id)
            )
        when, before = max(when, stored_time(event.created_at).timestamp()), event
    return found


def own_messages(moment: Snapshot, at: Standing) -> Iterator[Event]:
    """Yield the agent's own messages, without turns that were dropped after the last message."""
    return moment.select(subtract((Segment(at.record.id, 1, at.newest),), _dropped_at_the_end(moment, at)))


class Group(Struct, eq=False):
    """Messages that are sent together: one message, or calls with their results and the text before them."""

    first: Event
    events: tuple[Event, ...]
    results: tuple[int, ...]


class ReplayedContext(Struct):
    """The visible messages at the moment of a request, in the order of the log, and their groups.

    The first `old` groups belong to the previous request; `opened` is True if a turn was opened since, `hour` if the
    request is cached for an hour. One object is updated, so the cost of a request grows only with its new messages.
    """

    at: Standing
    turn: int | None = None
    events: list[Event] = []
    groups: list[Group] = []
    old: int = 0
    opened: bool = True
    hour: bool = False

    def follow(self, new: list[Event], *, goes_on: bool) -> None:
        """Append new messages if the conversation `goes_on`; otherwise replace the existing ones with them."""
        calls = {event.id for event in new if event.kind == "tool_call"}
        late = any((e.kind == "tool_result" and e.answers not in calls) or begins(e) < e.id for e in new)
        if not goes_on:
            self.events = []
        self.events += new
        self.old = len(self.groups) if goes_on and not late else 0
        if not self.old:
            self.groups = []
        self.groups += groups_of(new if self.old else self.events)


def visible(
    moment: Snapshot, at: Standing, found: Sequence[PastRequest], reader: str
) -> Iterator[tuple[PastRequest, ReplayedContext]]:
    """Yield each request to the model with the messages that were visible, for a provider that reads summaries as
    `reader`."""
    if not found:
        return
    now, newest = ReplayedContext(found[0].at), 0
    for each in found:
        at = read_by(moment, each.at, read_as(reader))
        goes_on = bool(newest) and at.fold.segments == now.at.fold.segments
        shown = since(at.visible, newest + 1) if goes_on else at.visible
        now.opened = each.turn != now.turn
        now.at, now.turn, newest = at, each.turn, at.newest
        now.follow([event for event in moment.select(shown) if event.kind != "system"], goes_on=goes_on)
        yield each, now


def groups_of(events: Iterable[Event]) -> list[Group]:
    """Return groups of messages that are sent together, in the order of the log."""
    return [_group(each) for each in pair(in_place(events))[0]]


def _group(found: Event | CallGroup) -> Group:
    if isinstance(found, Event):
        return Group(found, (found,), ())
    text = [found.text] if found.text is not None else []
    results = [result for _, result in found.calls if result is not None]
    events = (*text, *(call for call, _ in found.calls), *results)
    return Group(events[0], events, tuple(sorted(each.id for each in results)))


class CostItem(Struct, eq=False):
    """A piece of requests: its blocks, the bytes that it adds, its group, if any, and the roles with which it begins
    and ends. `event` and `turn` are those of the first event of the group, 0 and None without one. `form` is the form
    of the group."""

    blocks: tuple[Block, ...]
    size: int
    group: Group | None = None
    roles: tuple[str, str] = ("", "")
    event: int = 0
    turn: int | None = None
    form: "Form | None" = None

    def __post_init__(self) -> None:
        if self.group is not None:
            self.event, self.turn = self.group.first.id, self.group.first.turn_id


class Form(NamedTuple):
    """The form in which a group is sent: as a part of the active turn or not, how many characters are kept of each
    result, the results that are evicted, each with the operation, those that the provider has cleared, and whether
    thinking is sent after its turn is over."""

    active: bool = True
    kept: tuple[tuple[int, int], ...] = ()
    evicted: tuple[tuple[int, int], ...] = ()
    cleared: tuple[int, ...] = ()
    thoughts: bool = False


class Pieces:
    """Builds pieces of requests under the settings of one policy, each only once. Policies share the `known` pieces."""

    def __init__(self, target: Target, config: Config, known: dict[Any, CostItem]) -> None:
        self.target, self.config, self._known = target, config, known
        found = ruler(target.provider, target.model, config)
        plain = BytesRuler(uncalibrated(target.provider, target.model))
        self.ruler = found if isinstance(found, BytesRuler) else plain
        self._settings = (
            config.truncation,
            config.truncate_shape,
            config.truncate_recent,
            config.truncate_active,
            config.truncate_inactive,
        )

    def head(self, layers: Sequence[Part], *, anchors: bool, alone: bool = False) -> CostItem:
        """Return the part before the messages: tools and the system field, with or without its `anchors`. With
        `alone`, include the message that a request without messages contains."""
        key = (*layers, anchors, alone)
        if key not in self._known:
            prompt = prompts.assemble(layers, view((), self.target.dialect, self.config))
            prompt = prompt._replace(steps=prompt.steps if alone else (), anchors=prompt.anchors if anchors else "")
            body, size = self._encoded(prompt, tools=True)
            self._known[key] = CostItem(tuple(self.target.dialect.blocks(body)), size)
        return self._known[key]

    @once
    def mark(self) -> int:
        """Return the bytes of a breakpoint among the messages."""
        prompt = Prompt("", (ViewMessage("user", "."), *_ANSWERED))
        return self._encoded(prompt._replace(settled=1))[1] - self._encoded(prompt)[1]

    @once
    def hourly(self) -> int:
        """Return the bytes that a lifetime of one hour adds to a breakpoint."""
        prompt = Prompt("", (ViewMessage("user", "."), *_ANSWERED))._replace(settled=1)
        once, both = (
            len(msgspec.json.encode(self.target.dialect.encode(self.target.model, prompt, (), options)))
            - len(
                msgspec.json.encode(
                    self.target.dialect.encode(self.target.model, prompt._replace(settled=0), (), options)
                )
            )
            for options in (self.target.options, structs.replace(self.target.options, cache_ttl="1h"))
        )
        return both - once

    def seam(self, before: CostItem, after: CostItem) -> int:
        """Return the bytes that joining two adjacent pieces adds: consecutive messages of one role may be merged."""
        role = after.roles[0]
        return self._seams.get(role, 0) if before.roles[1] == role else 0

    @once
    def _seams(self) -> dict[str, int]:
        found = {}
        for role, front in (("user", _ANSWERED), ("assistant", _ASKED)):
            none, one, two = (self._encoded(Prompt("", (*front, *[ViewMessage(role, ".")] * n)))[1] for n in range(3))
            found[role] = two - one - (one - none)
        return found

    def size(self, items: Sequence[CostItem], *, hour: bool) -> int:
        """Return the bytes of a request; the first item is its head. `hour` is True if it is cached for an hour."""
        turns = {item.turn for item in items if item.group is not None}
        return self.added(items) + self.around(items, max(1, min(3, len(turns))), hour=hour)

    def around(self, items: Sequence[CostItem], marks: int, *, hour: bool) -> int:
        """Return the bytes that a request has beside its items, with this number of breakpoints among its messages."""
        marked = marks + sum(block.marked for block in items[0].blocks)
        return marks * self.mark + (marked * self.hourly if hour else 0) - (len(items) > 1)

    def added(self, items: Sequence[CostItem]) -> int:
        """Return the bytes that adjacent items add to a request."""
        sent = [item for item in items if item.blocks]  # thinking that is left out leaves no item
        return sum(item.size for item in sent) + sum(map(self.seam, sent, sent[1:]))

    def framed(self, items: Sequence[CostItem]) -> list[CostItem]:
        """Return the items with the frame that `prompt.assemble` puts around them for providers."""
        head, *rest = items
        if not rest:
            return [head, self.note(prompts.EMPTY)]
        front = [self.note(prompts.OMITTED)] if rest[0].roles[0] == "assistant" else []
        end = [self.note(prompts.GO_ON)] if rest[-1].roles[1] == "assistant" else []
        return [head, *front, *rest, *end]

    def note(self, text: str) -> CostItem:
        """Return a text among the messages."""
        if text not in self._known:
            self._known[text] = self._item((ViewMessage("user", text),), None)
        return self._known[text]

    def sent(self, group: Group, form: Form) -> CostItem:
        """Return a group in the form in which it is sent."""
        key = (group.first.id, group.events[-1].id, len(group.events), self._settings, form)
        if key not in self._known:
            evicted, kept = dict(form.evicted), dict(form.kept)
            events = [_cleared(event) if event.id in form.cleared else event for event in group.events]
            age = Age(active=(group.first.turn_id or 0) + (not form.active))
            shown = view(events, self.target.dialect, self.config, 0, age, None, evicted, kept, thoughts=form.thoughts)
            self._known[key] = self._item(shown.steps, group)
            self._known[key].form = form
        return self._known[key]

    def _item(self, steps: Sequence[Step], group: Group | None) -> CostItem:
        if not steps:
            return CostItem((), 0, group)
        begins = "assistant" if isinstance(steps[0], Calls) else steps[0].role
        ends = "user" if isinstance(steps[-1], Calls) else steps[-1].role
        before = _ASKED if begins == "assistant" else _ANSWERED
        if before[-1] not in self._known:
            self._known[before[-1]] = CostItem(*self._measured(before))
        front, (blocks, size) = self._known[before[-1]], self._measured((*before, *steps))
        return CostItem(blocks[len(front.blocks) :], size - front.size, group, (begins, ends))

    def _measured(self, steps: Sequence[Step]) -> tuple[tuple[Block, ...], int]:
        body, size = self._encoded(Prompt("", tuple(steps)))
        return tuple(self.target.dialect.blocks(body)), size

    def _encoded(self, prompt: Prompt, *, tools: bool = False) -> tuple[dict[str, Any], int]:
        to = self.target
        body = to.dialect.encode(to.model, prompt, to.tools if tools else (), to.options)
        return body, self.ruler.size(body, msgspec.json.encode(body), prompt.media)


_ASKED = (Calls("", (AnsweredCall("c", "n", "{}", "", False, None),)),)
_ANSWERED = (*_ASKED, ViewMessage("assistant", "."))
"""Steps before a piece that is measured, so that the piece adds as many bytes as in a whole request."""


def _cleared(event: Event) -> Event:
    return structs.replace(event, content=CLEARED, data={**(event.data or {}), "blocks": []})


def begins_answer(before: Event | None, event: Event) -> bool:
    """Return True for the first event of an answer, given the message before it."""
    goes_on = before is not None and before.kind in ANSWER_KINDS and before.turn_id == event.turn_id
    return event.kind in ANSWER_KINDS and not goes_on


def _dropped_at_the_end(moment: Snapshot, at: Standing) -> Segments:
    own = at.record.id
    newest = next(moment.select((Segment(own, 1, at.newest),), newest_first=True), None)
    last = recorded(selections.operations(moment, own, after=newest.id if newest else 0))
    restored = {operation.target for _, operation in last if isinstance(operation, Restore)}
    drops = [each for id, each in last if isinstance(each, Drop) and id not in restored]
    return tuple(segment for drop in drops for segment in drop.ranges)


def _without(moment: Snapshot, at: Standing, gone: Segments) -> Standing:
    return showing(moment, at, subtract(at.fold.segments, gone)) if gone else at
