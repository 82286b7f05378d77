"""The view: a context after dialect isolation, pairing repair and truncation [S2, SPEC 5.2].

A log may hold messages that no single provider would accept: calls written for another provider, calls that were
interrupted, results that came late or are too long. The view turns them into a valid sequence of steps, without
changing the log, and records how each message was treated.

Isolation: text is sent in every dialect. `tool_call`, `tool_result` and `tool` messages are sent only in the dialect
that they were written in; `gemini` and `gemini_gca` count as one. A message without a dialect is sent in all:
Foldmark keeps calls in its own form, and a caller that names no dialect expects to see the call again.

Pairing: consecutive calls are sent together, with the text that the model wrote before them, and each call is followed
by its result, wherever that is in the log. A call without a result gets a synthetic one; a result without a call is
left out. A `tool` message answers no call, so its text is sent as a user's.

`media` handles images, documents and blocks, `wire` names, ids and the length of results.
"""

from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from foldmark.core.assembly import wire
from foldmark.core.assembly.eviction import begins, evicted_as_sent, in_place
from foldmark.core.assembly.media import NOTHING, Accepts, Attached, Medium, attached
from foldmark.core.assembly.wire import HINT, INTERRUPTED, NO_OUTPUT, NO_RESULT, TOOL_MESSAGE, Shortened, shorten
from foldmark.core.config import Config
from foldmark.core.events import ANSWER_KINDS, OPENING_KINDS, Event
from foldmark.core.request import LeftOut, Part
from foldmark.core.segments import END

HIDDEN_RESULT = "[The result of this call was written in another format and is not shown.]"
DAMAGED = "damaged on the disk, see `foldmark doctor`"
_TOOLS = ("tool_call", "tool_result", "tool")


class ViewMessage(NamedTuple):
    """A message on its way to a provider; `role` is `user` or `assistant`, `media` are a user's, `kept` are the blocks
    of an answer in the dialect's form. At least one of text, media and blocks is not empty. `native` marks blocks that
    are a whole summary in the provider's own form, which may be the first message."""

    role: str
    text: str
    media: tuple[Medium, ...] = ()
    kept: tuple[dict[str, Any], ...] = ()
    native: bool = False


class AnsweredCall(NamedTuple):
    """A tool call and its result; `arguments` is the JSON text of an object, `signature` is Gemini's, as received."""

    call_id: str
    name: str
    arguments: str
    result: str
    failed: bool
    signature: str | None
    media: tuple[Medium, ...] = ()


class Calls(NamedTuple):
    """The calls of one answer, the text before them, empty for none, and the blocks before that."""

    text: str
    calls: tuple[AnsweredCall, ...]
    kept: tuple[dict[str, Any], ...] = ()


Step: TypeAlias = ViewMessage | Calls


class CallGroup(NamedTuple):
    """Events that are sent together: calls, each with its result if there is one, and the text before them."""

    text: Event | None
    calls: tuple[tuple[Event, Event | None], ...]


class View(Struct, frozen=True):
    """The view of some messages: the steps in order, the origin of each, and the messages left out.

    The first `settled` steps belong to turns before the newest one and no longer change. The first `earlier` of these
    belong to turns before the newest finished turn, so they were already settled while that turn was active. Step
    `asked` is the newest message of a person in the newest turn, or the beginning of that turn; from step `active` on,
    nothing is shortened as in a finished turn. `openers` maps each event that opened a turn to its step; if nothing of
    the event is sent, to the next step.
    """

    steps: tuple[Step, ...]
    parts: tuple[Part, ...]
    left_out: tuple[LeftOut, ...]
    settled: int = 0
    earlier: int = 0
    asked: int = 0
    active: int = 0
    openers: dict[int, int] = {}


class Age(NamedTuple):
    """The age by which results are shortened: that as of event `settled`, the boundary, or END if every request is made
    afresh; later results, and those that the model had not answered then, count as new from then on [SPEC 5.7]. The
    results of the active turn up to event `over` are cut as if the turn were over, and nothing is kept of those up to
    event `bare`. `active` is the first turn whose results belong to the active turn (`active_from`), by default
    computed from the messages."""

    settled: int = END
    over: int = 0
    bare: int = 0
    active: int | None = None

    def since(self, events: Iterable[Event]) -> int:
        """Return the first active turn of messages."""
        return active_from(e for e in events if e.id <= self.settled) if self.active is None else self.active

    def kept(self, events: Iterable[Event], results: Iterable[Event], since: int, config: Config) -> dict[int, int]:
        """Return the number of characters to keep of each of these results among messages that is not cut as in a
        finished turn, by its id."""
        answered = max((e.id for e in events if e.kind in ANSWER_KINDS and e.id <= self.settled), default=0)
        unseen = {each.id for each in results if answered < each.id <= self.settled < END}
        lengths = {e.id: len(e.content) for e in results if e.turn_id is not None and e.turn_id >= since}
        active = sorted(lengths.keys() - unseen)
        kept = tiers(active, config, self.settled)
        kept |= {each: config.truncate_inactive for each in active if each <= self.over}
        kept |= {each: bare(lengths[each]) for each in active if each <= self.bare}
        return kept | dict.fromkeys(unseen, config.truncate_recent)


def bare(length: int) -> int:
    """Return the number of characters to keep of a result of this length of which only its place is sent: all if they
    are no more than that takes."""
    return length if length <= len(HINT) else 0


NOW = Age()
"""The age of results in a request that is made afresh."""


def view(
    events: Sequence[Event],
    dialect: Accepts,
    config: Config,
    window: int = 0,
    age: Age = NOW,
    uncut: int | None = None,
    evicted: Mapping[int, int] = MappingProxyType({}),
    kept: Mapping[int, int] | None = None,
    *,
    thoughts: bool = False,
) -> View:
    """Return the view of messages in the order of the log, none of them a `system` message.

    Messages before event `window` are pinned. Results are shortened by their `age`, or to as many characters as are
    `kept` of them. Result `uncut` is not truncated. A placeholder is sent for each result in `evicted`, which maps
    results to operations. With `thoughts`, a model's thinking is also sent after its turn is over.
    """
    events = in_place(events)
    events, notes = evicted_as_sent(events, evicted, config, age.settled, uncut)
    since = age.since(events)
    more = attached(events, dialect, config, since, window, thoughts)
    sent, isolated = isolate(events, dialect, foreign=not config.isolation, beside=more)
    groups, unpaired = pair(sent)
    results = [r for group in groups if isinstance(group, CallGroup) for _, r in group.calls if r is not None]
    if kept is None:
        kept = age.kept(events, [each for each in results if each.id >= window], since, config)
    texts = _texts(results, config, kept, {uncut, *notes})
    builder = _Builder(window, since, texts, more, {e.event for e in isolated}, events, notes)
    return builder.build(groups, (*isolated, *unpaired))


def active_from(events: Iterable[Event]) -> int:
    """Return the newest turn that a message of the user's side opened, which is active together with everything after
    it; 0 if there is none.

    A turn whose opening message is not among the events counts as opened by a user.
    """
    turns, others = {0}, set()
    for event in events:
        if event.turn_id is not None:
            turns.add(event.turn_id)
            if event.id == event.turn_id and event.kind not in OPENING_KINDS:
                others.add(event.id)
    return max(turns - others)


def is_foreign(event: Event, dialect: Accepts) -> bool:
    """Return True for a message that is sent only in another dialect."""
    return event.kind in _TOOLS and not dialect.owns(event.dialect)


def isolate(
    events: Iterable[Event],
    dialect: Accepts,
    *,
    foreign: bool = False,
    beside: Mapping[int, Attached] = MappingProxyType({}),
) -> tuple[list[Event], list[LeftOut]]:
    """Split events into those that are sent in a dialect and those that are left out, because of their dialect or
    because they are empty. With `foreign`, messages of every dialect are sent."""
    kept, left = [], []
    for event in events:
        if not foreign and is_foreign(event, dialect):
            left.append(_left(event, "isolation", f"written for {event.dialect}, this request is {dialect.recorded}"))
        elif event.kind not in ("tool_call", "tool_result") and not event.content.strip():
            more = beside.get(event.id, NOTHING)
            if more.media or more.kept:
                kept.append(event)
            else:
                left.append(_left(event, "empty", more.detail or "it has no text"))
        else:
            kept.append(event)
    return kept, left


def pair(events: Sequence[Event]) -> tuple[list[Event | CallGroup], list[LeftOut]]:
    """Group calls with their results and the text before them. Return the events with these groups, and the results
    that are left out: those whose call is not among the events, and second results of a call."""
    calls = {event.id for event in events if event.kind == "tool_call"}
    results: dict[int, Event] = {}
    left = []
    for event in events:
        if event.kind != "tool_result":
            continue
        if event.answers is None or event.answers not in calls:
            left.append(_left(event, "pairing", "the call that it answers is not in the request"))
        elif event.answers in results:
            left.append(_left(event, "pairing", f"result {results[event.answers].id} answers the same call"))
        else:
            results[event.answers] = event
    orphans = {each.event for each in left}
    groups: list[Event | CallGroup] = []
    before: Event | None = None
    for event in events:
        if event.id in orphans:
            continue
        if event.kind == "tool_call":
            call = (event, results.get(event.id))
            open_group = groups[-1] if groups else None
            same_turn = before is not None and before.turn_id == event.turn_id
            if isinstance(open_group, CallGroup) and same_turn and before and before.kind == "tool_call":
                groups[-1] = CallGroup(open_group.text, (*open_group.calls, call))
            elif isinstance(open_group, Event) and open_group is before and same_turn and before.kind == "assistant":
                groups[-1] = CallGroup(open_group, (call,))
            else:
                groups.append(CallGroup(None, (call,)))
        elif event.kind != "tool_result":
            groups.append(event)
        before = event
    return groups, left


def _left(event: Event, why: str, detail: str) -> LeftOut:
    return LeftOut(event.id, event.turn_id, why, detail)


def _texts(
    results: Iterable[Event], config: Config, kept: Mapping[int, int], uncut: Container[int | None]
) -> dict[int, Shortened]:
    """Return the text to send of each result, by the id of its event."""
    if not config.truncation:
        return {result.id: Shortened(result.content, len(result.content)) for result in results}
    limits = {**kept, **{r.id: len(r.content) for r in results if r.id in uncut}}
    return {
        r.id: shorten(r.content, limits.get(r.id, config.truncate_inactive), config.truncate_shape, r.id)
        for r in results
    }


def tiers(active: Sequence[int], config: Config, settled: int = END) -> dict[int, int]:
    """Return the number of characters to keep of each of the active turn's results, given in order, by id, as of event
    `settled`."""
    new = bisect_right(active, settled)
    recent = max(0, new - config.truncate_recent_count)
    limits = dict.fromkeys(active, config.truncate_recent)
    limits.update(dict.fromkeys(active[:recent], config.truncate_active))
    return limits


def _first(group: Event | CallGroup) -> Event:
    return group.calls[0][0] if isinstance(group, CallGroup) else group


class _Builder:
    """Builds steps and their parts from groups."""

    def __init__(
        self,
        window: int,
        since: int,
        texts: dict[int, Shortened],
        beside: Mapping[int, Attached],
        isolated: set[int],
        events: Sequence[Event],
        evicted: Mapping[int, str],
    ) -> None:
        self._window, self._since, self._texts, self._beside = window, since, texts, beside
        self._events, self._newest, self._evicted = events, active_from(events), evicted
        self._hidden = {event.answers for event in events if event.id in isolated and event.answers is not None}
        self._parts: list[Part] = []

    def build(self, groups: Sequence[Event | CallGroup], left_out: Sequence[LeftOut]) -> View:
        calls = [call for group in groups if isinstance(group, CallGroup) for call, _ in group.calls]
        self._ids = dict(zip((c.id for c in calls), wire.call_ids(c.call_id or "" for c in calls), strict=True))
        steps = tuple(self._calls(group) if isinstance(group, CallGroup) else self._message(group) for group in groups)
        active = next((index for index, group in enumerate(groups) if self._is_active(group, self._since)), len(groups))
        settled = next((i for i, group in enumerate(groups) if self._is_active(group, self._newest)), len(groups))
        turns = [_first(group).turn_id for group in groups[:settled]]
        earlier = settled
        while earlier and turns[earlier - 1] == turns[-1]:
            earlier -= 1
        from_person = (
            i for i, g in enumerate(groups) if isinstance(g, Event) and (g.kind, g.actor) == ("user", "human")
        )
        newest = max(from_person, default=0)
        left = tuple(sorted(left_out, key=lambda each: each.event))
        openers = self._openers(groups)
        return View(steps, tuple(self._parts), left, settled, earlier, max(settled, newest), active, openers)

    def _openers(self, groups: Sequence[Event | CallGroup]) -> dict[int, int]:
        """Return the step of each message that opened a turn; for a message that is not sent, the step after it."""
        places, place, openers = {_first(group).id: i for i, group in enumerate(groups)}, len(groups), dict[int, int]()
        for event in reversed(self._events):
            place = places.get(event.id, place)
            if event.kind in OPENING_KINDS and event.id == event.turn_id:
                openers[event.id] = place
        return openers

    def _is_active(self, group: Event | CallGroup, since: int) -> bool:
        event = _first(group)
        if begins(event) < event.id:  # a summary: the turns of its messages are over
            return False
        return event.turn_id is not None and event.turn_id >= since and event.id >= self._window

    def _part(self, event: Event, text: str, how: str = "whole", detail: str = "", **more: Any) -> None:
        layer = "window" if event.id >= self._window else "pinned"
        if event.damaged:
            detail = "; ".join(filter(None, (detail, DAMAGED)))
        self._parts.append(Part(layer, event.id, event.turn_id, event.kind, how, detail, text, **more))

    def _message(self, event: Event) -> ViewMessage:
        text, how, detail = event.content, "whole", ""
        if event.kind == "assistant" and event.interrupted:
            text, how = text + INTERRUPTED, "interrupted"
        elif event.kind == "tool":
            text, detail = TOOL_MESSAGE + text, "sent as a user's text"
        more = self._beside.get(event.id, NOTHING)
        native = event.kind == "summary" and bool(more.kept)
        text = text if text.strip() else ""  # providers refuse texts of only white space
        self._part(event, text, how, "; ".join(each for each in (detail, more.detail) if each))
        text = "" if native else text
        role = "user" if event.kind == "tool" or (event.role == "user" and not native) else "assistant"
        return ViewMessage(role, text, more.media, more.kept, native)

    def _calls(self, exchange: CallGroup) -> Calls:
        message = self._message(exchange.text) if exchange.text else ViewMessage("assistant", "")
        sent = [self._call(call) for call, _ in exchange.calls]
        answered = [self._result(call, result) for call, result in exchange.calls]
        calls = (u._replace(result=r, failed=f, media=i) for u, (r, f, i) in zip(sent, answered, strict=True))
        return Calls(message.text, tuple(calls), message.kept)

    def _call(self, call: Event) -> AnsweredCall:
        data = call.data or {}
        own_id, own_name, signature = call.call_id or "", str(data.get("name", "")), data.get("thought_signature")
        call_id, name, args = self._ids[call.id], wire.tool_name(own_name), wire.arguments(call.content)
        changes = [f"call id sent as {call_id}"] if call_id != own_id else []
        changes += [f"name sent as {name}"] if name != own_name else []
        changes += ["arguments wrapped in an object"] if args != call.content else []
        self._part(call, f"{name}({args})", detail="; ".join(changes))
        return AnsweredCall(call_id, name, args, "", False, signature if isinstance(signature, str) else None)

    def _result(self, call: Event, result: Event | None) -> tuple[str, bool, tuple[Medium, ...]]:
        if result is None:
            hidden = call.id in self._hidden
            text, why = (HIDDEN_RESULT, "is of another dialect") if hidden else (NO_RESULT, "never came")
            layer, detail = "window" if call.id >= self._window else "pinned", f"the result of call {call.id} {why}"
            synthetic = Part(layer, None, call.turn_id, "tool_result", "synthetic", detail, text, failed=not hidden)
            self._parts.append(synthetic)
            return text, not hidden, ()
        failed = (result.data or {}).get("is_error") is True
        if result.id in self._evicted:
            self._part(result, result.content, "evicted", self._evicted[result.id], failed=failed)
            return result.content, failed, ()
        text, kept = self._texts[result.id]
        beside = self._beside.get(result.id, NOTHING)
        more = beside.detail
        if not text.strip():
            text, more = f"[{more[0].upper()}{more[1:]}.]" if more else NO_OUTPUT, more or "empty"
        if kept < len(result.content):
            self._part(result, text, "truncated", more, kept=kept, of=len(result.content), failed=failed)
        else:
            self._part(result, text, detail=more, failed=failed)
        return text, failed, beside.media
