"""A model's answer as events: what it said, the blocks that go back to its provider, its calls [SPEC 2, 5.2]."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from foldmark.core.request import ToolCall

if TYPE_CHECKING:
    from foldmark.conversation.timeline import Timeline


def append_answer(
    agent: "Timeline",
    text: str,
    kept: Sequence[dict[str, Any]],
    calls: Sequence[ToolCall],
    dialect: str | None,
    *,
    interrupted: bool = False,
) -> list[int]:
    """Record an answer and return its events' ids; nothing for an answer of nothing."""
    found = []
    with agent.batch():
        if text or kept:
            data, own = ({"blocks": list(kept)}, dialect) if kept else (None, None)
            found.append(agent.append("assistant", text, interrupted=interrupted, data=data, dialect=own))
        for call in calls:
            signed = {"thought_signature": call.signature} if call.signature else None
            event_id = agent.append_tool_call(call.name, call.args, call_id=call.call_id, dialect=dialect, data=signed)
            found.append(event_id)
    return found


def distinct(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls of one answer, none with the id of another: some models give all of them the same, or none."""
    used: set[str] = set()
    found = []
    for call in calls:
        call_id, number = call.call_id, 1
        while call_id in used:
            number += 1
            call_id = f"{call.call_id}-{number}"
        used.add(call_id)
        found.append(replace(call, call_id=call_id))
    return found
