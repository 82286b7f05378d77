"""Turn visible messages into items for the SDK: its own items as they were added, Foldmark's messages as new items.

Items that the API would refuse are left out: a result whose call has left the context, and tools of another dialect
[SPEC 5.2]. With the id of an item, the API looks for the thinking of the same answer; an item loses its id once an
operation has removed that thinking. A call without a result is included, as in the SDK's own sessions: the runner
leaves it out automatically, and a pending approval needs it.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.assembly import wire
from foldmark.core.assembly.eviction import as_sent, placeholder
from foldmark.core.assembly.media import media_of
from foldmark.core.assembly.wire import INTERRUPTED, TOOL_MESSAGE
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.segments import END, Segment, Segments, intersect, normal
from foldmark.core.turns import Message
from foldmark.integrations.openai_agents.items import DIALECT, items_of, link
from foldmark.request.prepare import prepare
from foldmark.request.recorded import SentPlan
from foldmark.request.standing import Standing
from foldmark.tokens.counting import TOKENIZED
from foldmark.wires import responses

WINDOW = ("sliding_context_tokens", "context_size")
"""Settings that give an agent a window here if they were set for it: `/context budget` and `/context window`."""

_MODEL = "openai_responses", "gpt-5"
"""The model whose token counts measure a window if the conversation's own model has none."""


class Given(NamedTuple):
    """An event, its items, and the ids of all events that these items are made of."""

    event: Event
    items: list[Any]
    events: tuple[int, ...]


def newest_items(moment: Snapshot, at: Standing, limit: int | None, window: "GivenWindow") -> list[Any]:
    """Return the newest `limit` items of the context in the order of the log; all for None. Read no more than
    needed."""
    given = newest_first(moment, at, window.segments(moment, at))
    return list(islice((item for each in given for item in reversed(each.items)), limit))[::-1]


def newest_first(moment: Snapshot, at: Standing, segments: Segments) -> Iterator[Given]:
    """Yield the visible events inside `segments` that have items, newest first."""
    beside: list[int] = []
    for event in moment.select(segments, newest_first=True):
        if event.kind == "tool_result" and not _called(moment, at, event):
            continue
        items = _evicted(event, items_of(event), at.fold.evicted)
        if items == []:  # the result of a provider's own tool is part of the call's item
            beside.append(event.id)
            continue
        items = _own(event) if items is None else _complete(moment, at, event, items)
        if items:
            yield Given(event, items, (event.id, *beside))
        beside.clear()


class GivenWindow:
    """The window of a session, which stays from one run to the next until it is full [SPEC 5.3]. The SDK makes the
    requests, so their plans are not recorded: another process begins with a window of its own."""

    def __init__(self) -> None:
        self._given: SentPlan | None = None

    def segments(self, moment: Snapshot, at: Standing) -> Segments:
        """Return the visible segments, restricted to the window of this agent if it has one."""
        own = at.settings
        if not any(own.get(key) for key in WINDOW):
            return at.visible
        budget = own.get("sliding_context_tokens") or 0
        # Items are given whole, so the window measures whole messages.
        config = replace(at.config, sliding_context_tokens=budget, truncation=False, memos_injected=0)
        provider, _, model = at.config.model.partition("/")
        known = (provider, model) if provider in TOKENIZED else _MODEL
        request = prepare(moment, at, config, *known, before=lambda *_: self._given)
        manifest, self._given = request.manifest, SentPlan.of(request, at)
        first = manifest.edge.first
        if first is None:
            return at.visible
        kept = [part.event for part in manifest.parts if part.layer == "pinned" and part.event is not None]
        kept += selections.ids(moment, "system", at.visible)
        shown = [Segment(each.agent, first, END) for each in at.visible]
        shown += [Segment(each.agent_id, each.id, each.id) for each in moment.lookup(kept)]
        return intersect(at.visible, normal(shown))


def _evicted(event: Event, items: list[Any] | None, evicted: Mapping[int, int]) -> list[Any] | None:
    """Return the items of a result, with its placeholder if it was evicted. The result of a provider's own tool has no
    item to replace."""
    if event.id not in evicted or items == []:
        return items
    if items is None:
        return _own(as_sent(event, evicted))
    text = placeholder(event, evicted[event.id])
    return [{**each, "output": text} if each.get("type") in responses.WORDED else each for each in items]


def _complete(moment: Snapshot, at: Standing, event: Event, items: list[Any]) -> list[Any]:
    """Return the items of an answer: none if the event that they were popped from is visible again, and without ids if
    the model's thinking before them has left the context."""
    if _visible(moment, at, link(event, "left")):
        return []
    carrier = link(event, "with")
    if carrier is None or _visible(moment, at, carrier):
        return items
    return [{key: each[key] for key in each if key != "id"} if isinstance(each, dict) else each for each in items]


def _visible(moment: Snapshot, at: Standing, event_id: Any) -> bool:
    return isinstance(event_id, int) and any(_seen(moment, at, each) for each in moment.lookup([event_id]))


def _called(moment: Snapshot, at: Standing, result: Event) -> bool:
    """Return True if the call that a result answers is visible, or if there is no call."""
    if result.answers is not None:
        return _visible(moment, at, result.answers)
    calls = moment.calls(result.agent_id, result.call_id or "")
    return not calls or any(_seen(moment, at, call) for call in calls)


def _seen(moment: Snapshot, at: Standing, message: Message) -> bool:
    there = intersect(at.visible, (Segment(message.agent_id, message.id, message.id),))
    return moment.size(there).messages > 0


def _own(event: Event) -> list[Any]:
    """Return a message that did not come from the SDK as an item; none for an empty message."""
    text, data = event.content, event.data or {}
    match event.kind:
        case "tool_call" | "tool_result" if (event.dialect or DIALECT) != DIALECT:
            return []
        case "tool_call":
            name, args = wire.tool_name(str(data.get("name", ""))), wire.arguments(text)
            return [responses.called(event.call_id, name, args)]
        case "tool_result":
            return [responses.result(event.call_id, text)]
        case "user" | "client" if media := media_of(data)[0]:
            return [{"role": "user", "content": responses.content(text, media)}]
        case _ if not text.strip():
            return []
        case "tool":
            return [{"role": "user", "content": TOOL_MESSAGE + text}]
        case "assistant" | "summary":
            return [{"role": "assistant", "content": text + INTERRUPTED * event.interrupted}]
    return [{"role": event.role, "content": text}]
