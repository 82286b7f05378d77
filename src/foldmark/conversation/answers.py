"""A model's answer as events: what it said, the blocks that go back to its provider, its calls [SPEC 2, 5.2]."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
    """Record an answer and return its messages' ids; nothing for an answer of nothing.

    A state block at the end of the text goes behind what it said. No dialect repeats text in the blocks it wants back.
    A block with a provider's key in it is left out: without the key it is not the one that was signed.
    """
    found, secrets = [], agent.log.secrets
    kept = [block for block in kept if not secrets or secrets.hidden_in(block) == block]
    with agent.batch():
        if text or kept:
            data, own = ({"blocks": list(kept)}, dialect) if kept else (None, None)
            found.append(agent.append("assistant", text, interrupted=interrupted, data=data, dialect=own))
        for call in calls:
            signed = {"thought_signature": call.signature} if call.signature else None
            event_id = agent.append_tool_call(call.name, call.args, call_id=call.call_id, dialect=dialect, data=signed)
            found.append(event_id)
    return found
