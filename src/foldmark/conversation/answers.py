"""A model's answer as events: what it said, the blocks that go back to its provider, its calls [SPEC 2, 5.2]."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from foldmark.core.answer import Compacted, behind
from foldmark.core.native import OPAQUE
from foldmark.core.request import ToolCall

if TYPE_CHECKING:
    from foldmark.conversation.agent import Agent


def append_answer(
    agent: "Agent",
    text: str,
    kept: Sequence[dict[str, Any]],
    calls: Sequence[ToolCall],
    dialect: str | None,
    *,
    interrupted: bool = False,
    compacted: Sequence[Compacted] = (),
    reader: str = "",
) -> list[int]:
    """Record an answer and return its messages' ids; nothing for an answer of nothing.

    A state block at the end of the text goes behind what it said. No dialect repeats text in the blocks it wants back.
    A block with a provider's key in it is left out: without the key it is not the one that was signed. Each of
    `compacted` becomes a summary of everything in front of it, in the form of `reader` (`core.native`).
    """
    found, done, before = [], 0, 0
    with agent.batch():
        for each in compacted:
            found += _said(agent, text[done : each.after], behind(kept[before : each.kept], done), dialect)
            done, before = each.after, each.kept
            found.append(_summed_up(agent, each, reader))
        found += _said(agent, text[done:], behind(kept[before:], done), dialect, interrupted=interrupted)
        for call in calls:
            signed = {"thought_signature": call.signature} if call.signature else None
            event_id = agent.append_tool_call(call.name, call.args, call_id=call.call_id, dialect=dialect, data=signed)
            found.append(event_id)
    return found


def _said(
    agent: "Agent", text: str, kept: Sequence[dict[str, Any]], dialect: str | None, *, interrupted: bool = False
) -> list[int]:
    secrets = agent.log.secrets
    kept = [block for block in kept if not secrets or secrets.hidden_in(block) == block]
    if not (text or kept):
        return []
    data, own = ({"blocks": kept}, dialect) if kept else (None, None)
    return [agent.append("assistant", text, interrupted=interrupted, data=data, dialect=own)]


def _summed_up(agent: "Agent", made: Compacted, reader: str) -> int:
    from foldmark.conversation.natives import standing_for  # few answers hold one

    items, secrets = list(made.items), agent.log.secrets
    form = {reader: items} if reader and (not secrets or secrets.hidden_in(items) == items) else None
    receipt = agent.operate(lambda at: standing_for(at, form), actor="system", content=made.text or OPAQUE)
    return receipt.event_id
