"""The prompt: the layers of a request in order, and the view framed so that every provider takes it [SPEC 5.1, 5.2].

System prompt, guidelines, state and scratchpad go into the provider's system field, joined by empty lines; pinned turns
and the window are the messages. The first message is a user's and the last one a user's or a tool's result.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.request import LeftOut, Part
from foldmark.core.view import Calls, Said, Step, View

OMITTED = "[Earlier conversation omitted.]"
GO_ON = "[Go on.]"
EMPTY = "[The conversation is empty.]"

GUIDELINES = """\
### HISTORY
Parts of this conversation may be missing or shortened. A tool result that ends in "[TRUNCATED. ...]" is whole in the \
database; the query named there shows it. Look for older messages with query_db: ORDER BY id DESC, and only rows with \
status != 'dropped'.
Before you assume something, look into the memos. Save decisions and their reasons as memos, not what the code itself \
shows.
End every answer with a block of this form, and keep in it what must survive a change of model or a shortened history:
### STATE
Goal: what is being done
Context: files and parts being worked on
Resolved: what is finished
Technical Anchors: names, addresses, numbers that must not be lost"""
"""How the model reads its history, and what it owes to it [S2]; sent when the model has tools."""

_STATE, _SCRATCHPAD = "### STATE", "### SCRATCHPAD"


class Layer(NamedTuple):
    """One text of the system field: where it belongs, what it is, and the event it came from if there is one."""

    layer: str
    kind: str
    text: str
    event: int | None = None
    turn: int | None = None


class Prompt(NamedTuple):
    """What an encoder puts into a provider's form, and what the manifest says of it."""

    system: str
    steps: tuple[Step, ...]
    parts: tuple[Part, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def layers(
    config: Config, system: Iterable[Event], *, tools: bool, state: Event | None, scratchpad: Event | str | None
) -> list[Layer]:
    """The layers in front of the messages, in order; `system` are the visible `system` messages.

    `scratchpad` is its event, or its text where it was handed down.
    """
    found = [Layer("system", "system", config.system)]
    found += [Layer("system", "system", event.content, event.id, event.turn_id) for event in system]
    if tools:
        found.append(Layer("guidelines", "guidelines", GUIDELINES))
    if state is not None and state.content.strip():
        found.append(Layer("state", "state", _headed(_STATE, state.content), state.id, state.turn_id))
    if isinstance(scratchpad, Event) and scratchpad.content.strip():
        text = _headed(_SCRATCHPAD, scratchpad.content)
        found.append(Layer("scratchpad", "scratchpad", text, scratchpad.id, scratchpad.turn_id))
    elif isinstance(scratchpad, str) and scratchpad.strip():
        found.append(Layer("scratchpad", "scratchpad", _headed(_SCRATCHPAD, scratchpad)))
    return found


def assemble(layers: Sequence[Layer], view: View, instruction: str | None = None) -> Prompt:
    """The prompt of these layers and messages; `instruction` is what a person did not write but the request asks."""
    shown = [layer for layer in layers if layer.text.strip()]
    blank = [layer for layer in layers if not layer.text.strip() and layer.event is not None]
    steps, parts = list(view.steps), list(view.parts)
    if steps and not _of_user(steps[0]):
        steps.insert(0, Said("user", OMITTED))
        parts.insert(0, _synthetic("omitted", OMITTED, "the first message must be a user's", parts[0].layer))
    if instruction is not None:
        steps.append(Said("user", instruction))
        parts.append(_synthetic("instruction", instruction, "what the request is for"))
    elif not steps:
        steps.append(Said("user", EMPTY))
        parts.append(_synthetic("empty", EMPTY, "a request needs a message"))
    elif isinstance(steps[-1], Said) and steps[-1].role == "assistant":
        steps.append(Said("user", GO_ON))
        parts.append(_synthetic("go_on", GO_ON, "the last message must be a user's"))
    return Prompt(
        "\n\n".join(layer.text for layer in shown),
        tuple(steps),
        (*(Part(each.layer, each.event, each.turn, each.kind, text=each.text) for each in shown), *parts),
        (*(LeftOut(e.event, e.turn, "empty", "it has no text") for e in blank if e.event is not None), *view.left_out),
    )


def _of_user(step: Step) -> bool:
    return not isinstance(step, Calls) and step.role == "user"


def _headed(head: str, text: str) -> str:
    return text if text.lstrip().startswith(head) else f"{head}\n{text}"


def _synthetic(kind: str, text: str, detail: str, layer: str = "window") -> Part:
    return Part(layer, None, None, kind, "synthetic", detail, text)
