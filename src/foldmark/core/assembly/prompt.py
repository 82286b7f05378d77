"""The prompt: the layers of a request in order, and the view in a frame that every provider accepts [SPEC 5.1, 5.2].

System prompt and guidelines go into the provider's system field. The anchors (state, scratchpad, memos and the window
summary) follow them there. Under the policy `steady` the anchors precede the message that opened the active turn
instead: they change often, and a change in the system field would invalidate the provider's cache of everything after
it. The layer about children is always among the messages. The messages are the pinned turns, then the window. Providers
require that the first message be a user's and the last one a user's or a tool's result, so synthetic messages are added
where needed.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

from msgspec import structs

from foldmark.core.assembly.media import Medium
from foldmark.core.assembly.view import Calls, Step, View, ViewMessage
from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.request import LeftOut, Part

OMITTED = "[Earlier conversation omitted.]"
GO_ON = "[Go on.]"
EMPTY = "[The conversation is empty.]"
_STATE, _SCRATCHPAD, _EARLIER = "### STATE", "### SCRATCHPAD", "### EARLIER CONVERSATION"
CHILDREN = "children"
"""The layer about children and mail. It is among the messages, before a person's newest message."""

IDENTITY = "identity"
"""The layer that tells a child who it is. It is not in the system prompt, so that a full fork begins as its parent."""

ANCHORS = (IDENTITY, "state", "scratchpad", "memos", "window_summary", CHILDREN)
"""The layers that may change with every turn."""


class Prompt(NamedTuple):
    """The input of an encoder, and its description for the manifest.

    `stable` and `anchors` make up the system field: the part that rarely changes, and the part that may change with
    every turn. The first `settled` steps belong to turns before the active one, the first `earlier` of these to turns
    before the newest finished turn. `turns` maps the events that opened turns to the steps at which the turns begin,
    including the layers before their first messages; 0 maps to the end of all steps. `anchored` is the step of the
    anchors, -1 if they are in the system field.
    """

    stable: str
    steps: tuple[Step, ...]
    parts: tuple[Part, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    anchors: str = ""
    settled: int = 0
    earlier: int = 0
    turns: Mapping[int, int] = MappingProxyType({})
    anchored: int = -1

    @property
    def system(self) -> str:
        """The whole system field, empty for none."""
        return "\n\n".join(text for text in (self.stable, self.anchors) if text)

    @property
    def media(self) -> tuple[Medium, ...]:
        """All images and documents of the messages, in order."""
        found: list[Medium] = []
        for step in self.steps:
            found += [i for call in step.calls for i in call.media] if isinstance(step, Calls) else step.media
        return tuple(found)


def layers(
    config: Config,
    system: Iterable[Event],
    *,
    guidelines: str | None,
    state: Event | None,
    scratchpad: Event | str | None,
    memos: Sequence[Part] = (),
    later: bool = False,
) -> list[Part]:
    """Return the layers before the messages, in order; `system` are the visible `system` messages.

    `scratchpad` is its event, or its text if it was handed down; `memos` are the layers of the picked memos. With
    `later`, an earlier scratchpad may be in the request, so an emptied one is sent as `(empty)`.
    """
    found = [Part("system", None, None, "system", text=config.system)]
    found += [Part("system", event.id, event.turn_id, "system", text=event.content) for event in system]
    if guidelines is not None:
        found.append(Part("guidelines", None, None, "guidelines", text=guidelines))
    if state is not None and state.content.strip():
        found.append(Part("state", state.id, state.turn_id, "state", text=_headed(_STATE, state.content)))
    if isinstance(scratchpad, Event) and (later or scratchpad.content.strip()):
        text = _headed(_SCRATCHPAD, scratchpad.content if scratchpad.content.strip() else "(empty)")
        found.append(Part("scratchpad", scratchpad.id, scratchpad.turn_id, "scratchpad", text=text))
    elif isinstance(scratchpad, str) and scratchpad.strip():
        found.append(Part("scratchpad", None, None, "scratchpad", text=_headed(_SCRATCHPAD, scratchpad)))
    return [*found, *memos]


def summed_up(event: Event) -> Part:
    """Return the last layer: the summary of the turns that the window has passed."""
    turns = (event.data or {}).get("turns")
    which = f" of turns {turns[0]} to {turns[1]}" if isinstance(turns, list) and len(turns) == 2 else ""
    intro = f"A model's summary{which}, which stand in front of the messages here and are not among them:"
    text = f"{_EARLIER}\n{intro}\n{event.content}"
    return Part("window_summary", event.id, event.turn_id, "window_summary", text=text)


def assemble(
    layers: Sequence[Part],
    view: View,
    instruction: str | None = None,
    *,
    anchors_last: bool = False,
    later: Mapping[int, Sequence[Part]] = MappingProxyType({}),
) -> Prompt:
    """Return the prompt of these layers and messages; `instruction` is a request by Foldmark itself, not by a person.

    With `anchors_last`, the anchors are sent before the active turn, not in the system field; `later` maps the event of
    a later message (0: that of the active turn) to the layers before it.
    """
    shown = [layer for layer in layers if layer.text.strip()]
    blank = [layer for layer in layers if not layer.text.strip() and layer.event is not None]
    anchors = [layer for layer in shown if layer.layer in ANCHORS and layer.layer != CHILDREN]
    reports = [layer for layer in shown if layer.layer == CHILDREN]
    stable = [layer for layer in shown if layer.layer not in ANCHORS]
    steps, parts = list(view.steps), list(view.parts)
    if instruction is not None:
        steps.append(ViewMessage("user", instruction))
        parts.append(_synthetic("instruction", instruction, "what the request is for"))
    elif not steps:
        steps.append(ViewMessage("user", EMPTY))
        parts.append(_synthetic("empty", EMPTY, "a request needs a message"))
    elif isinstance(steps[-1], ViewMessage) and steps[-1].role == "assistant":
        steps.append(ViewMessage("user", GO_ON))
        parts.append(_synthetic("go_on", GO_ON, "the last message must be a user's"))
    places = {0: view.active, **view.openers}
    injected: dict[int, list[str]] = defaultdict(list)
    if anchors_last:
        injected[view.active] += _texts(anchors)
    injected[view.asked] += _texts(reports)
    for event in sorted(later):
        if event in places:
            injected[places[event]] += _texts(later[event])
    between = sorted(place for place, texts in injected.items() if texts)
    inserted = [0, *accumulate(len(injected[place]) for place in between)]
    for place in reversed(between):
        steps[place:place] = [ViewMessage("user", text) for text in injected[place]]

    def moved(step: int) -> int:
        """Return the index of a step of the view after layers were inserted among the steps."""
        return step + inserted[bisect_left(between, step)]

    settled, earlier, anchored = moved(view.settled), moved(view.earlier), moved(view.active)
    turns = {event: moved(step) for event, step in {**view.openers, 0: len(view.steps)}.items()}
    if isinstance(steps[0], Calls) or not (steps[0].role == "user" or steps[0].native):
        settled, earlier = settled + 1, earlier + 1
        turns = {event: begin + 1 for event, begin in turns.items()}
        anchored += 1
        steps.insert(0, ViewMessage("user", OMITTED))
        parts.insert(0, _synthetic("omitted", OMITTED, "the first message must be a user's", parts[0].layer))
    news = [structs.replace(layer, before=event) for event in sorted(later) for layer in later[event]]
    return Prompt(
        joined(stable),
        tuple(steps),
        (*stable, *anchors, *reports, *news, *parts),
        # A layer belongs to no turn, although its event may have been recorded in one.
        (*(LeftOut(e.event, None, "empty", "it has no text") for e in blank if e.event is not None), *view.left_out),
        "" if anchors_last else joined(anchors),
        settled,
        earlier,
        turns,
        anchored if anchors_last else -1,
    )


def beginning(prompt: Prompt, opener: int) -> Prompt:
    """Return the beginning of a prompt: everything before the turn that event `opener` opened (0: all messages),
    without the instruction at the end."""
    end = prompt.turns[opener]
    steps = prompt.steps[:end]
    mine = [part.layer in ("window", "pinned") for part in prompt.parts]
    first = _first_of(prompt, opener)
    parts, left = [], []
    for index, part in enumerate(prompt.parts):
        if mine[index] and (index >= first or part.kind in ("go_on", "empty")):
            if part.event is not None:
                left.append(LeftOut(part.event, part.turn, "kept", "it stays unchanged after the summary"))
        elif _among(part, prompt, 0, end):
            parts.append(part)
    return prompt._replace(
        steps=steps,
        parts=tuple(parts),
        left_out=(*prompt.left_out, *left),
        settled=min(prompt.settled, end),
        earlier=min(prompt.earlier, end),
    )


def _first_of(prompt: Prompt, opener: int) -> int:
    """Return the index of the first part from event `opener` on; the opener itself may have no part. Summaries do not
    count, because they are at the beginning of the messages that they replaced."""
    since = (
        i
        for i, part in enumerate(prompt.parts)
        if part.layer in ("window", "pinned") and part.kind != "summary" and 0 < opener <= (part.event or 0)
    )
    return next(since, len(prompt.parts))


def _among(part: Part, prompt: Prompt, begin: int, end: int) -> bool:
    """Return True if a layer is in the system field or in these steps."""
    if part.layer not in ANCHORS:
        return True
    if part.before:
        return begin <= prompt.turns.get(part.before, -1) < end
    if part.layer == CHILDREN and part.before is None:
        return any(isinstance(step, ViewMessage) and part.text in step.text for step in prompt.steps[begin:end])
    return prompt.anchored < 0 or begin <= prompt.anchored < end


def _texts(anchors: Iterable[Part]) -> list[str]:
    """Return the texts of layers among the messages; the layer about children is its own message."""
    anchors = list(anchors)
    notes = joined(layer for layer in anchors if layer.layer != CHILDREN)
    return [*filter(None, [notes]), *(layer.text for layer in anchors if layer.layer == CHILDREN)]


def joined(layers: Iterable[Part]) -> str:
    """Return the texts of layers as one."""
    return "\n\n".join(layer.text for layer in layers)


def _headed(head: str, text: str) -> str:
    return text if text.lstrip().startswith(head) else f"{head}\n{text}"


def _synthetic(kind: str, text: str, detail: str, layer: str = "window") -> Part:
    return Part(layer, None, None, kind, "synthetic", detail, text)
