"""`manage_scratchpad`: the model's scratchpad [S2, SPEC 4.1, 7]."""

from typing import Literal

from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.core.request import ToolSpec
from foldmark.core.wording import count
from foldmark.log import Agent
from foldmark.operations.effects import Asking
from foldmark.tools.tool import Tool

LONGEST = 20_000
"""Maximum number of characters of a scratchpad that a model writes: all of it goes into every request."""


class ScratchpadArguments(Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["read", "update", "append"]
    content: str | None = None


def _run(agent: Agent, arguments: ScratchpadArguments, asking: Asking) -> str:
    if arguments.action == "read":
        return agent.standing().scratchpad or "The scratchpad is empty."
    with agent.log.store.write():
        pad = agent.standing().scratchpad or ""
        if arguments.content is None:
            raise CommandError(f"content is missing: the text to {arguments.action} the scratchpad with")
        appends = arguments.action == "append" and pad
        text = f"{pad}\n{arguments.content}" if appends else arguments.content
        if len(text) > LONGEST:
            raise CommandError(
                f"the scratchpad would have {len(text):,} characters, and has at most {LONGEST:,}: update it with a "
                "shorter one, and save what is to last as memos"
            )
        agent.record("scratchpad", text, actor="model")
    done = "extended" if appends else "written"
    return f"Scratchpad {done}: {count(len(text), 'character')}." if text else "Scratchpad cleared."


MANAGE_SCRATCHPAD = Tool(
    ToolSpec(
        "manage_scratchpad",
        "Your notebook of this conversation: plans, checklists, findings. It goes into every request, also when older "
        "messages do not. read shows it, update puts content in its place, append adds content as further lines.",
        {
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["read", "update", "append"]},
                "content": {"type": "string", "description": "The text, for update and append"},
            },
            "required": ["action"],
        },
    ),
    ScratchpadArguments,
    _run,
)
